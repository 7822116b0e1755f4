"""Need of new nodes: VMs that would be migrated if some node had room for them. Recorded on their VirtualMachines.

A need is recorded once it has lasted, and taken back once it has been gone for as long: pressure comes and goes, and a
node that was bought for it does not. A migration takes it back at once. What is remembered here may be lost: a restart
waits anew.
"""

from collections.abc import Iterable, Mapping

from ullage.model.fact_event import ObjectKey
from ullage.model.intents import RecordNodeNeed
from ullage.model.units import Instant, Seconds, after, elapsed
from ullage.model.vm import Vm

_ASK_AGAIN = Seconds(5.0)
"""Time after which a write that is not observed is asked for again."""


class NodeNeeds:
    """Instants since which VMs need a node, or need none although it is recorded on them."""

    def __init__(self, lasting: Seconds) -> None:
        self.lasting = lasting
        self._since: dict[tuple[ObjectKey, bool], Instant] = {}
        """By VM, and whether it needs a node."""
        self._asked: dict[ObjectKey, Instant] = {}
        self._deadlines: list[Instant] = []

    def intents(self, in_need: Mapping[ObjectKey, Vm], vms: Iterable[Vm], *, now: Instant) -> list[RecordNodeNeed]:
        """Needs to record and to take back now. `vms` are all there are."""
        found: list[RecordNodeNeed] = []
        differing: dict[tuple[ObjectKey, bool], Instant] = {}
        self._deadlines = []
        for vm in vms:
            needs = vm.key in in_need
            if needs == (vm.needs_node is not None):
                continue
            # Never later than now: a clock that was set back must not make a need wait for as long.
            since = differing[vm.key, needs] = min(self._since.get((vm.key, needs), now), now)
            due = after(since, self.lasting)
            asked = self._asked.get(vm.key)
            if asked is not None:
                due = max(due, after(min(asked, now), _ASK_AGAIN))
            if due <= now:
                found.append(_record(vm, needs, since))
            else:
                self._deadlines.append(due)
        self._since = differing
        self._asked = {vm: min(at, now) for vm, at in self._asked.items() if elapsed(at, now) < _ASK_AGAIN}
        self._asked |= {one.vm.key: now for one in found}
        self._deadlines += [after(now, _ASK_AGAIN)] if found else []
        return found

    def next_deadline(self) -> Instant | None:
        """Instant at which time alone can change the result of `intents`."""
        return min(self._deadlines, default=None)


def _record(vm: Vm, needs: bool, since: Instant) -> RecordNodeNeed:
    if needs:
        return RecordNodeNeed(vm=vm, since=since, why="it would be migrated, and no node has room for it")
    return RecordNodeNeed(vm=vm, since=None, why="it needs no new node any more")
