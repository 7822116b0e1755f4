"""The columns as GPU scores read them, repaired where rows changed; and pods as demands on them."""

import numpy as np

from ullage.decide.devices.products import is_model
from ullage.decide.devices.suiting import capable, share_of
from ullage.decide.score.columns import GpuColumns, GpuDemand
from ullage.decide.seat.boards import Boards
from ullage.model.claim import DeviceAsk, Exclusivity
from ullage.model.device import MILLI_GPU, MOST_DEVICES
from ullage.model.resources import GPU, MILLI
from ullage.model.verdict import Verdict
from ullage.state.placements import Placements

CPU = "cpu"
_DEFAULT_CPU = 100


def _coarse(amount: int) -> int:
    """To three binary digits. Scores weigh what is typical: a core more or less in thirty makes no other kind of pod.

    Whether a pod fits is asked exactly, elsewhere.
    """
    drop = max(amount.bit_length() - 3, 0)
    return (amount + (1 << drop >> 1)) >> drop << drop


class GpuView:
    """Arrays over rows. Models are numbered from 1; 0 is a node without GPUs."""

    def __init__(self, placements: Placements, boards: Boards) -> None:
        self._placements = placements
        self._boards = boards
        self._version = -1
        self._names_of: object = None
        self._models: dict[tuple[str, int], int] = {}
        self._demands: dict[tuple[DeviceAsk | None, int], GpuDemand] = {}
        self._allocate(0)

    @property
    def models(self) -> int:
        """How many numbers are in use for models, 0 included."""
        return len(self._models) + 1

    def capacity(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """GPUs of each model in the cluster."""
        size = self._placements.columns.size
        counts = np.zeros(self.models)
        np.add.at(counts, self._model[:size], self._gpu_total[:size] / MILLI_GPU)
        return counts

    def columns(self) -> GpuColumns:
        """The arrays as of now. Good until something changes."""
        columns = self._placements.columns
        size = columns.size
        changed = columns.changed.since(self._version) if self._version >= 0 else None
        if changed is None or len(self._gpu_left) < size:
            self._allocate(columns.capacity)
            changed = range(size)
        for row in changed:
            self._describe(row)
        self._version = columns.changed.version
        if self._names_of is not columns.by_name:
            self._names_of = columns.by_name
            self._rank[columns.by_name] = np.arange(len(columns.by_name))
        cpu = columns.resource(CPU)
        total = columns.allocatable[cpu, :size]
        return GpuColumns(
            stamp=columns.changed.of_row[:size],
            cpu_left=total - columns.used[cpu, :size],
            cpu_total=total,
            gpu_left=self._gpu_left[:size],
            gpu_total=self._gpu_total[:size],
            model=self._model[:size],
            name_rank=self._rank[:size],
        )

    def demand(self, ask: DeviceAsk | None, cpu: int) -> GpuDemand:
        """What a pod with this ask means to scores."""
        cpu = _coarse(cpu or _DEFAULT_CPU)
        key = (ask, cpu)
        known = self._demands.get(key)
        if known is None or len(known.milli) != self.models:
            milli = (0, *(self._taken(ask, model, memory) for model, memory in self._models))
            count = 0 if ask is None else ask.count
            known = self._demands[key] = GpuDemand(cpu, count, milli)
        return known

    def _taken(self, ask: DeviceAsk | None, model: str, memory: int) -> int:
        """Thousandths taken of each GPU of this model; 0 where it will not do."""
        if ask is None or memory < ask.memory or (ask.model and not is_model(model, ask.model)):
            return 0
        if isinstance(capable(ask, model), Verdict):
            return 0
        return share_of(ask, memory, model) if ask.exclusivity is Exclusivity.SHARED else MILLI_GPU

    def _allocate(self, rows: int) -> None:
        self._gpu_left = np.zeros((rows, MOST_DEVICES), np.int64)
        self._gpu_total = np.zeros(rows, np.int64)
        self._model = np.zeros(rows, np.int64)
        self._rank = np.zeros(rows, np.int64)
        self._names_of = None

    def _describe(self, row: int) -> None:
        board = self._boards.of(row) if self._placements.columns.names[row] else None
        self._gpu_left[row] = 0
        self._gpu_total[row] = self._model[row] = 0
        if board is None:
            self._describe_counted(row)
            return
        layout = board.layout
        usable = layout.healthy & ~layout.partitioned
        kinds = sorted({(layout.models[d], layout.memory[d]) for d in range(len(layout.models)) if usable >> d & 1})
        for device, free in enumerate(board.free):
            if usable >> device & 1:
                self._gpu_left[row, device] = max(free, 0)
        self._gpu_total[row] = usable.bit_count() * MILLI_GPU
        if kinds:
            # Two models in one node are a model of their own, named after both.
            name = kinds[0] if len(kinds) == 1 else (" + ".join(model for model, _ in kinds), kinds[0][1])
            self._model[row] = self._models.setdefault(name, self.models)

    def _describe_counted(self, row: int) -> None:
        """A node whose GPUs are only counted: as many as kubelet advertises, the first of them free."""
        columns = self._placements.columns
        gpu = columns.resource(GPU)
        total = min(int(columns.allocatable[gpu, row]) // MILLI, MOST_DEVICES)
        left = max(0, min(int(columns.allocatable[gpu, row] - columns.used[gpu, row]) // MILLI, total))
        self._gpu_left[row, :left] = MILLI_GPU
        self._gpu_total[row] = total * MILLI_GPU
        if total:
            self._model[row] = self._models.setdefault(("", 0), self.models)
