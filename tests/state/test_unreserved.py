"""Reservations that are let go: those that are being deleted, and whose Lease is gone, and no others."""

import pytest
from msgspec.structs import replace

from ullage.model.dra import AllocatedDevice, ResourceClaim
from ullage.model.fact_event import Added, Deleted, ObjectKey
from ullage.model.lease import GpuLease, LeaseHold
from ullage.model.units import Instant, Milli
from ullage.state.unreserved import LOST_AFTER, SETTLED_AFTER, UnreservedLeases

NOW, NAME = Instant(100.0), "gpu-a-0"
LONG_AFTER = Instant(NOW + 10 * SETTLED_AFTER)
RESERVATION = ResourceClaim(key=ObjectKey("ullage", NAME), uid="r", withheld=(AllocatedDevice("a", "pool", "gpu-0"),))
GOING = replace(RESERVATION, deleting=True)
LEASE = GpuLease(
    name=NAME,
    node="a",
    device=0,
    holds=(LeaseHold(uid="u", milli=Milli(1000)),),
    shared=False,
    renewed=NOW,
    resource_version="1",
)


def heard(*events: Added[ResourceClaim] | Added[GpuLease] | Deleted[ResourceClaim]) -> UnreservedLeases:
    found = UnreservedLeases("ullage", lambda _node, _device: None)
    for event in events:
        found.apply(event, now=NOW)
    return found


def there(claim: ResourceClaim) -> Added[ResourceClaim]:
    return Added(claim.key, claim)


def gone(claim: ResourceClaim) -> Deleted[ResourceClaim]:
    return Deleted(claim.key, claim)


@pytest.mark.parametrize(
    ("events", "let_go"),
    [
        ([there(GOING)], [NAME]),
        ([there(RESERVATION)], []),
        ([Added(ObjectKey("ullage", NAME), LEASE), there(GOING)], []),
        ([there(GOING), gone(GOING)], []),
        ([there(replace(GOING, key=ObjectKey("team", NAME)))], []),
    ],
    ids=["being deleted", "not being deleted", "its Lease is there", "gone by itself", "somebody else's"],
)
def test_which_reservations_are_let_go(
    events: list[Added[ResourceClaim] | Added[GpuLease] | Deleted[ResourceClaim]], let_go: list[str]
) -> None:
    found = heard(*events)
    assert found.take_left(now=NOW) == [], "events of two watches may come in any order"
    assert found.take_left(now=LONG_AFTER) == let_go


def test_a_reservation_that_does_not_go_comes_again() -> None:
    found = heard(there(GOING))
    assert found.next_due() == NOW + LOST_AFTER
    assert found.take_left(now=Instant(NOW + LOST_AFTER)) == [NAME]
    assert found.next_due() == NOW + LOST_AFTER + SETTLED_AFTER
    assert found.take_left(now=LONG_AFTER) == [NAME]
