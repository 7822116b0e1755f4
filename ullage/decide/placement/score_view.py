"""ScoreColumns for GPU scores, repaired where rows changed; and pods as GpuDemands."""

from copy import copy
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.devices.gpu_models import is_model
from ullage.decide.placement.devices.layout import DeviceLayout
from ullage.decide.placement.devices.requirements import capable, share_of
from ullage.decide.placement.devices.snapshots import DeviceSnapshots
from ullage.decide.placement.score.gpu_scorer import GpuDemand, ScoreColumns
from ullage.model.claim import DeviceRequest, Exclusivity
from ullage.model.device import MILLI_GPU, MOST_DEVICES
from ullage.model.resources import GPU, MILLI
from ullage.model.units import Bytes
from ullage.model.verdict import Verdict
from ullage.state.snapshot import ClusterSnapshot

CPU = "cpu"
MOST_DEMANDS = 4096
MOST_LAYOUTS = 8192

_DEFAULT_CPU = 100


def _coarse(amount: int) -> int:
    """Round to three binary digits. Scores weigh typical pods: one core in thirty makes no other kind of pod.

    Filters check exact amounts.
    """
    drop = max(amount.bit_length() - 3, 0)
    return (amount + (1 << drop >> 1)) >> drop << drop


class _Fleet(NamedTuple):
    """Properties common to all nodes with one DeviceLayout."""

    usable: npt.NDArray[np.int32]
    """By place: 1 for devices that may be given whole or shared."""
    total: int
    model: int


class ScoreView:
    """ScoreColumns of a snapshot, kept up to date. Models are numbered from 1; 0 is a node without GPUs."""

    def __init__(self, snapshot: ClusterSnapshot, devices: DeviceSnapshots, models: dict[tuple[str, int], int]) -> None:
        """`models` has the numbers of models met before; those met from now on are added."""
        self._snapshot = snapshot
        self._devices = devices
        self._version = -1
        self._roster = -1
        self._models = models
        self._fleets: dict[DeviceLayout, _Fleet] = {}
        self._demands: dict[tuple[DeviceRequest | None, int], GpuDemand] = {}
        self._columns = self._allocate(0)

    def fork_for(
        self, snapshot: ClusterSnapshot, devices: DeviceSnapshots, models: dict[tuple[str, int], int]
    ) -> "ScoreView":
        """Return a copy for the forked snapshot."""
        twin = copy(self)
        twin._snapshot, twin._devices, twin._models = snapshot, devices, models
        twin._fleets, twin._demands = self._fleets.copy(), self._demands.copy()
        twin._columns = self._columns.copy()
        return twin

    @property
    def models(self) -> int:
        """Count of model numbers in use, 0 included."""
        return len(self._models) + 1

    def capacity(self) -> npt.NDArray[np.float64]:
        """Number of GPUs of each model in the cluster."""
        counts = np.zeros(self.models)
        np.add.at(counts, self._columns.model, self._columns.gpu_total / MILLI_GPU)
        return counts

    def columns(self) -> ScoreColumns:
        """Current columns: the same object while the rows are the same. Valid until a change."""
        columns = self._snapshot.columns
        if self._version == columns.changed.version:
            return self._columns
        changed = columns.changed.since(self._version) if self._version >= 0 else None
        if len(self._columns.stamp) != columns.size or self._roster != columns.roster:
            before, self._columns = self._columns, self._allocate(columns.size)
            self._columns.take_over(before)  # rows of nodes that came or went changed, too
            self._columns.name_rank[:] = 0
            self._columns.name_rank[columns.by_name] = np.arange(len(columns.by_name))
            self._roster = columns.roster
        for row in range(columns.size) if changed is None else changed:
            self._describe(row)
        self._version = columns.changed.version
        return self._columns

    def demand(self, ask: DeviceRequest | None, cpu: int) -> GpuDemand:
        """GpuDemand of a pod with this device request and CPU in thousandths of a core."""
        cpu = _coarse(cpu or _DEFAULT_CPU)
        key = (ask, cpu)
        known = self._demands.get(key)
        if known is None or len(known.milli) != self.models:
            if len(self._demands) >= MOST_DEMANDS:
                self._demands.clear()
            milli = (0, *(self._taken(ask, model, Bytes(memory)) for model, memory in self._models))
            # MIG instances are cut from GPUs that are never given whole: of those they take nothing.
            whole = ask is not None and ask.exclusivity is not Exclusivity.MIG
            known = self._demands[key] = GpuDemand(cpu, ask.count if ask is not None and whole else 0, milli)
        return known

    def _taken(self, ask: DeviceRequest | None, model: str, memory: Bytes) -> int:
        """Thousandths taken of each GPU of this model; 0 if the model does not suit."""
        if ask is None or ask.exclusivity is Exclusivity.MIG:
            return 0
        if memory < ask.memory or (ask.model and not is_model(model, ask.model)):
            return 0
        if isinstance(capable(ask, model), Verdict):
            return 0
        return share_of(ask, memory, model) if ask.exclusivity is Exclusivity.SHARED else MILLI_GPU

    def _allocate(self, rows: int) -> ScoreColumns:
        return ScoreColumns(
            stamp=np.zeros(rows, np.int64),
            cpu_left=np.zeros(rows, np.int64),
            cpu_total=np.zeros(rows, np.int64),
            gpu_left=np.zeros((rows, MOST_DEVICES), np.int64),
            gpu_total=np.zeros(rows, np.int64),
            model=np.zeros(rows, np.int64),
            name_rank=np.zeros(rows, np.int64),
        )

    def _describe(self, row: int) -> None:
        columns, view = self._snapshot.columns, self._columns
        cpu = columns.resource(CPU)
        total = columns.allocatable.item(cpu, row)
        view.stamp[row] = columns.changed.of_row.item(row)
        view.cpu_total[row] = total
        view.cpu_left[row] = total - columns.used.item(cpu, row)
        layout = self._devices.layout(row) if columns.names[row] else None
        if layout is None:
            self._describe_counted(row)
            return
        fleet = self._fleets.get(layout)
        if fleet is None:
            fleet = self._fleet(layout)
        np.maximum(columns.gpus.free[row] * fleet.usable, 0, out=view.gpu_left[row])
        view.gpu_total[row] = fleet.total
        view.model[row] = fleet.model

    def _fleet(self, layout: DeviceLayout) -> _Fleet:
        mask = layout.healthy & ~layout.partitioned
        usable = np.array([mask >> device & 1 for device in range(MOST_DEVICES)], np.int32)
        kinds = sorted({(layout.models[d], layout.memory[d]) for d in range(len(layout.models)) if mask >> d & 1})
        model = 0
        if kinds:
            # Two models in one node are a model of their own, named after both.
            name = kinds[0] if len(kinds) == 1 else (" + ".join(model for model, _ in kinds), kinds[0][1])
            model = self._models.setdefault(name, self.models)
        if len(self._fleets) >= MOST_LAYOUTS:
            self._fleets.clear()
        fleet = self._fleets[layout] = _Fleet(usable, mask.bit_count() * MILLI_GPU, model)
        return fleet

    def _describe_counted(self, row: int) -> None:
        """Describe a row without a layout: as many GPUs as kubelet advertises, the first of them free."""
        columns, view = self._snapshot.columns, self._columns
        gpu = columns.resource(GPU)
        offered = columns.allocatable.item(gpu, row)
        total = min(offered // MILLI, MOST_DEVICES)
        left = max(0, min((offered - columns.used.item(gpu, row)) // MILLI, total))
        view.gpu_left[row] = 0
        view.gpu_left[row, :left] = MILLI_GPU
        view.gpu_total[row] = total * MILLI_GPU
        view.model[row] = self._models.setdefault(("", 0), self.models) if total else 0
