"""Promises of a VmFleet at one instant: no overcommit, nobody starved beside free room, every VM rests."""

import itertools

from ullage.model.vm import VmAmounts
from ullage.sim.vms.fleet import VmFleet

_STARVED = 60.0


def check_fleet(fleet: VmFleet) -> None:
    """Raise AssertionError where VMs could use more than a node has, or one is starved beside free room."""
    for node in fleet.names:
        could = VmAmounts(0, 0)
        for name in fleet.homes[node]:
            guest = fleet.guests[name]
            could = could.plus(guest.vm.use.at_least(guest.agent.permit or guest.vm.use))
        if not could.within(fleet.spec.room):
            raise AssertionError(f"VMs of {node} could use {could} at {fleet.now}")
        _check_not_starved(fleet, node)
    for name, guest in fleet.guests.items():
        for earlier, later in itertools.pairwise(guest.migrations):
            if later - earlier < fleet.spec.cooldown:
                raise AssertionError(f"{name} was migrated twice within its cool-down, at {later}")


def _check_not_starved(fleet: VmFleet, node: str) -> None:
    """A VM that needs more gets a part of it within a minute where its node has room for a unit."""
    roomy = fleet.report.roomy_since.get(node)
    if roomy is None:
        return
    for name in fleet.homes[node]:
        guest = fleet.guests[name]
        waits = guest.short_since is not None and guest.moving is None and not guest.agent.stays
        if waits and guest.plugging is None and fleet.now - max(guest.short_since or 0.0, roomy) > _STARVED:
            raise AssertionError(f"{name} is starved on {node} since {guest.short_since}, now {fleet.now}")
