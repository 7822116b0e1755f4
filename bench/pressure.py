"""Policies side by side under pressure: the first pods of a public trace, 20 times as fast, on every 100th node.

Exact: the same code prints the same figures on every machine. The table in docs/benchmarks.md has these figures, and a
test compares the two. The trace is not part of the project: name its folder in ULLAGE_OPENB.
"""

import os
import tempfile
from pathlib import Path

from bench.churn import NODES, PODS
from bench.packing import FOLDER
from bench.record import Figure
from ullage.config.loading import override
from ullage.config.settings import Settings
from ullage.sim.experiment.run import RunOutcome
from ullage.sim.experiment.run_spec import RunSpec
from ullage.sim.experiment.workers import run_all
from ullage.sim.fleet.reading import read_fleet
from ullage.sim.report.run_sheet import ALLOCATION, METRICS, WAITING, ComparedMeasure
from ullage.sim.workload.reading import read_workload

POLICIES = ("fragmentation", "best-fit", "packing", "spread", "random")
JOBS, LOAD, DAYS, EVERY = 250, "20", 7, 100
_NAMES = ("waste while pods waited", "pods placed", "waiting, 90 %", "waiting, 99 %")
MEASURES: tuple[ComparedMeasure, ...] = (ALLOCATION, *(one for one in METRICS if one.name in _NAMES), WAITING)


def run(scale: float) -> list[Figure]:
    """Figures of every policy; nothing where the trace is not there."""
    folder = Path(os.environ.get(FOLDER, ""))
    if not (folder / PODS).is_file():
        print(f"   set {FOLDER} to the folder of the trace: {PODS} is not in {folder}")
        return []
    sheets = [outcome.sheet for outcome in _outcomes(folder, max(1, round(JOBS * scale)))]
    return [
        Figure(f"{measure.name}, {sheet.label}", measure.unit, measure.of(sheet.scores) or 0.0)
        for measure in MEASURES
        for sheet in sheets
    ]


def _outcomes(folder: Path, jobs: int) -> list[RunOutcome]:
    workload = read_workload(str(folder / PODS), most=jobs)
    with tempfile.TemporaryDirectory() as place:
        nodes = Path(place) / "nodes.csv"
        lines = (folder / NODES).read_text().splitlines(keepends=True)
        nodes.write_text("".join(line for number, line in enumerate(lines, 1) if number == 1 or number % EVERY == 0))
        fleet = read_fleet([str(nodes)])
    base = override(Settings(), "simulation.load", LOAD, "bench")
    recipes = [
        RunSpec(
            label=policy,
            workload=workload,
            fleet=fleet,
            settings=override(base, "scheduling.policy", policy, "bench"),
            duration=DAYS * 86_400.0,
        )
        for policy in POLICIES
    ]
    return run_all(recipes, processes=1, keep_steps=False, on_progress=lambda _: None, on_done=lambda *_: None)
