"""Rest of VMs between two migrations: when their last one began. Shared by migrations for pressure and by drains."""

from collections.abc import Iterable

from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant
from ullage.model.vm import Vm


class MigrationStarts:
    """Starts recorded on VirtualMachines. One in the future (a wrong clock, or somebody's edit) would never end."""

    def __init__(self) -> None:
        self._odd: dict[tuple[ObjectKey, Instant], Instant] = {}
        """By VM and recorded start that was in the future: when it was first seen."""

    def last(self, vm: Vm, *, now: Instant) -> Instant | None:
        """Start of the VM's last migration; None if there was none. One in the future counts from when it was seen."""
        recorded = vm.last_migration
        if recorded is None:
            return None
        one = (vm.key, recorded)
        if recorded <= now and one not in self._odd:
            return recorded
        self._odd[one] = seen = min(self._odd.get(one, now), now)
        return seen

    def keep(self, vms: Iterable[Vm]) -> None:
        """Forget starts that no VM shows any more."""
        shown = {(vm.key, vm.last_migration) for vm in vms}
        self._odd = {one: seen for one, seen in self._odd.items() if one in shown}
