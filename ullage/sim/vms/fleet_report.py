"""FleetReport: figures of a fleet of VMs over time. Sums only; nothing is decided or checked here."""

import math
from dataclasses import dataclass, field

from ullage.model.vm import NOTHING, NodeLedger, VmAmounts


@dataclass(slots=True)
class FleetReport:
    """Counts and integrals since the beginning."""

    nodes: int
    unit: VmAmounts
    """Compute unit."""
    requests: int = 0
    changes: int = 0
    """Approvals that changed."""
    denials: int = 0
    moved: int = 0
    failed: int = 0
    restarts: int = 0
    above_watermark: float = 0.0
    """Node-seconds with more reserved than the watermark."""
    denied: float = 0.0
    """Node-seconds with capacity pressure: some VM waited for room."""
    short: float = 0.0
    """VM-seconds with less than the VM needed."""
    peak_demand: VmAmounts = NOTHING
    """Most that all VMs needed together at one instant."""
    peak_by_node: dict[str, VmAmounts] = field(default_factory=dict)
    """Most that the VMs which began on a node needed together, by node."""
    _since: dict[str, tuple[float, bool, bool]] = field(default_factory=dict)
    _short: dict[str, float] = field(default_factory=dict)
    _desired: dict[str, VmAmounts] = field(default_factory=dict)
    _home: dict[str, str] = field(default_factory=dict)
    _demand: VmAmounts = NOTHING
    _demand_on: dict[str, VmAmounts] = field(default_factory=dict)
    roomy_since: dict[str, float] = field(default_factory=dict)
    """By node: instant since which it has had room for a compute unit without a break."""

    def node_changed(self, node: str, rows: NodeLedger, now: float) -> None:
        since, above, denied = self._since.get(node, (0.0, False, False))
        self.above_watermark += (now - since) * above
        self.denied += (now - since) * denied
        above = bool(rows.cpu.logical_pressure or rows.memory.logical_pressure)
        self._since[node] = (now, above, bool(rows.cpu.capacity_pressure or rows.memory.capacity_pressure))
        if self.unit.within(rows.free):
            self.roomy_since.setdefault(node, now)
        else:
            self.roomy_since.pop(node, None)

    def demand_changed(self, vm: str, node: str, desired: VmAmounts) -> None:
        home, before = self._home.setdefault(vm, node), self._desired.get(vm, NOTHING)
        if desired == before:
            return
        self._desired[vm] = desired
        self._demand = _moved(self._demand, before, desired)
        self._demand_on[home] = _moved(self._demand_on.get(home, NOTHING), before, desired)
        self.peak_demand = self.peak_demand.at_least(self._demand)
        self.peak_by_node[home] = self.peak_by_node.get(home, NOTHING).at_least(self._demand_on[home])

    def shortage_changed(self, vm: str, short: bool, now: float) -> None:
        if short:
            self._short.setdefault(vm, now)
        elif (since := self._short.pop(vm, None)) is not None:
            self.short += now - since

    def nodes_needed(self, room: VmAmounts) -> int:
        """Nodes that hold the peak of all VMs together: VMs can be moved to where there is room."""
        return _nodes(self.peak_demand, room)

    def nodes_needed_unmoved(self, room: VmAmounts) -> int:
        """Nodes that hold the peaks of all groups of VMs that stay together: groups peak at different times."""
        together = NOTHING
        for peak in self.peak_by_node.values():
            together = together.plus(peak)
        return _nodes(together, room)


def _moved(total: VmAmounts, before: VmAmounts, after: VmAmounts) -> VmAmounts:
    return VmAmounts(total.cpu - before.cpu + after.cpu, total.memory - before.memory + after.memory)


def _nodes(amounts: VmAmounts, room: VmAmounts) -> int:
    return max(math.ceil(amounts.cpu / room.cpu), math.ceil(amounts.memory / room.memory))


def nodes_for_maxima(vms: int, largest: VmAmounts, room: VmAmounts) -> int:
    """Nodes that hold VMs of fixed size: without an agent each has its maximum."""
    per_node = min(room.cpu // largest.cpu, room.memory // largest.memory)
    return math.ceil(vms / per_node)
