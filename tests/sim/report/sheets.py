"""Score sheets as a run would have them."""

from typing import Any

from ullage.sim.report.run_sheet import RunSheet


def a_sheet(label: str = "one", **changed: Any) -> RunSheet:
    """A small run; `changed` replaces parts of its scores."""
    times = {"count": 3, "mean": 4.0, "p50": 2.0, "p90": 600.0, "p99": 7200.0, "max": 7200.0, "still": 1}
    scores: dict[str, Any] = {
        "seconds": 240.0,
        "pods": {"submitted": 4, "placed": 3, "finished": 2, "waiting": 1},
        "gpus": {
            "hours": {"capacity": 10.0, "allocated": 7.5, "waste": 2.5, "wasteWhileWaiting": 1.0},
            "allocation": 0.75,
        },
        "cost": {"total": 100.0, "wasted": 25.0},
        "waiting": {"0": times, "8": times, "shared": times, "all": times},
        "disruptions": {"evicted": {"EvictionByEvictionAPI": 2}, "failed": 0},
        "churn": {"bought": 3, "removed": 1},
        "decisions": {"Scheduled": 3, "FailedScheduling": 9},
        "attempts": {"scheduled": {"": 3}},
        "series": {
            "width": 60.0,
            "capacity": [8.0, 8.0, 16.0, 16.0],
            "allocated": [0.0, 8.0, 12.0, 10.5],
            "waiting": [8.0, 0.0, 4.0, 0.0],
            "nodes": [1, 1, 2, 2],
            "costPerHour": [10.0, 10.0, 20.0, 20.0],
        },
    }
    return RunSheet(
        label=label,
        seed=1,
        settings={},
        workload={"pods": 4},
        fleet={"gpus": 16},
        scores=scores | changed,
        decisions={"count": 12, "digest": "x"},
    )
