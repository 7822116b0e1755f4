"""The best node by the book: every node is asked, every score is added up, nothing is remembered."""

import numpy as np

from ullage.decide.placement.devices.choice import DeviceChoice
from ullage.decide.placement.devices.fit import DeviceFitTable
from ullage.decide.placement.devices.layout import FreeDevices
from ullage.decide.placement.devices.snapshots import DeviceSnapshots
from ullage.decide.placement.engine import PlacementEngine, device_ask
from ullage.decide.placement.filters.codes import Codes
from ullage.decide.placement.score.gpu_scorer import ScoreColumns
from ullage.decide.placement.score.kube import WEIGHTS, KubeScores
from ullage.decide.placement.score.policies import PolicyMaker
from ullage.decide.placement.score.workload_mix import WorkloadMix
from ullage.decide.placement.score_view import ScoreView
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot

WISHES = ("taints", "nodeAffinity", "spread", "podAffinity")


def place_by_the_book(
    snapshot: ClusterSnapshot, pod: Pod, policy: PolicyMaker, mix: WorkloadMix, now: float, closed: Codes | None
) -> str | None:
    """The name of the node; None if none fits."""
    columns = snapshot.columns
    words = PlacementEngine(snapshot).explain(pod, now=Instant(now))
    rows = {name: columns.rows[name] for name, verdict in words.items() if verdict}
    rows = {name: row for name, row in rows.items() if closed is None or not closed[row]}
    if not rows:
        return None
    view = ScoreView(snapshot, DeviceSnapshots(snapshot), mix.models)
    seen = view.columns()
    demand = view.demand(device_ask(pod), dict(pod.shape.requests).get("cpu", 0))
    fits = np.isin(np.arange(columns.size), list(rows.values()))
    keys = policy(mix.typical(demand), view.capacity()).keys(seen, demand, fits)
    parts = KubeScores(snapshot).parts(pod, fits)

    def rank(name: str) -> tuple[int, ...]:
        row = rows[name]
        points = {part: WEIGHTS[part] * int(found[row]) for part, found in parts.items()}
        wished = sum(points.get(part, 0) for part in WISHES)
        if device_ask(pod) is None:
            return (sum(points.values()) + 3 * _spared(snapshot, seen, row), int(keys[row]))
        satisfied, tightness = _devices(snapshot, pod, row)
        return satisfied, wished, tightness, int(keys[row]), points.get("images", 0)

    return min(sorted(rows), key=lambda name: tuple(-part for part in rank(name)))


def _spared(snapshot: ClusterSnapshot, seen: ScoreColumns, row: int) -> int:
    """For a pod without GPUs: all points where there are none, half of them where all are busy, fewer where not."""
    columns = snapshot.columns
    if not columns.gpus.exists[row] and not columns.allocatable[columns.resource(GPU), row]:
        return 100
    total, idle = int(seen.gpu_total[row]), int(seen.gpu_left[row].sum())
    return 50 * (total - idle) // total if total else 0


def _devices(snapshot: ClusterSnapshot, pod: Pod, row: int) -> tuple[int, int]:
    """Whether the topology a claim prefers holds; and how well its instances fit."""
    ask, table = device_ask(pod), DeviceFitTable(snapshot)
    assert ask is not None
    choice = table.choice(ask, row)
    assert isinstance(choice, DeviceChoice)
    if pod.shape.devices is None:
        return 0, 0
    gpus = table.devices.of(row)
    return int(choice.satisfied), 0 if gpus is None else -_waste(gpus, choice)


def _waste(gpus: FreeDevices, choice: DeviceChoice) -> int:
    """First by the size of the instances, then by how many GPUs would be used that are not used yet."""
    instances = dict(enumerate(gpus.layout.instances))
    taken = [one for one in instances.values() if one.uuid in choice.instances]
    used = {one.device for place, one in instances.items() if not gpus.free_instances >> place & 1}
    return 1000 * sum(one.memory >> 30 for one in taken) + len({one.device for one in taken} - used)
