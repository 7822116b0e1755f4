"""What is remembered of purchases and failures."""

import pytest

from tests.decide.provisioning.pools import a_provisioner
from ullage.decide.provisioning.purchase_state import (
    LIST_MARGIN,
    open_purchase,
    prune_awaited,
    release_lost,
    settle_purchase,
)
from ullage.model.instance import Instance, InstanceState
from ullage.model.intents import ScaleUp
from ullage.model.lifecycle import IllegalTransition
from ullage.model.outcomes import LaunchFailed, NodesLaunched
from ullage.model.provisioner import AwaitedInstance, BackOff, CloudFailure, Purchase
from ullage.model.units import Instant, Seconds

BUY = ScaleUp(provisioner="pool", count=2, serial=3, token="t", why="", zone="a", least=2)
OPEN = open_purchase(a_provisioner(purchases=3), BUY, now=Instant(5.0))
TWO = tuple(Instance(id=name, pool="pool", since=Instant(5.0)) for name in ("i-1", "i-2"))


def test_a_purchase_is_open_from_before_it_is_made() -> None:
    assert OPEN.purchase == Purchase(serial=3, count=2, since=Instant(5.0), zone="a", least=2)
    assert OPEN.purchases == 4
    assert open_purchase(OPEN, BUY, now=Instant(9.0)) == OPEN, "the same one again is the same one"


def test_what_was_made_is_awaited_and_ends_the_back_off() -> None:
    after = settle_purchase(OPEN, NodesLaunched(BUY, TWO), now=Instant(6.0))
    assert (after.purchase, after.purchases, after.back_off) == (None, 4, None)
    assert after.awaited == (
        AwaitedInstance(instance="i-1", since=Instant(6.0)),
        AwaitedInstance(instance="i-2", since=Instant(6.0)),
    )


def test_what_has_no_id_yet_is_not_awaited() -> None:
    asked = (Instance(id="md#0", pool="pool", since=Instant(5.0), state=InstanceState.REQUESTED),)
    assert settle_purchase(OPEN, NodesLaunched(BUY, asked), now=Instant(6.0)).awaited == ()


def test_fewer_than_asked_for_back_off() -> None:
    after = settle_purchase(OPEN, NodesLaunched(BUY, TWO[:1], CloudFailure.CAPACITY, "one left"), now=Instant(6.0))
    assert after.back_off == BackOff(
        failure=CloudFailure.CAPACITY, failures=1, until=Instant(126.0), message="one left"
    )
    assert (after.purchase, len(after.awaited)) == (None, 1)


@pytest.mark.parametrize(
    ("failure", "remains_open", "word"),
    [
        pytest.param(CloudFailure.CAPACITY, False, "NoCapacity", id="no-capacity"),
        pytest.param(CloudFailure.REFUSED, False, "Refused", id="refused"),
        pytest.param(None, True, "OutcomeUnknown", id="nobody-knows"),
    ],
)
def test_a_failure_closes_a_purchase_and_a_lost_answer_does_not(
    failure: CloudFailure | None, remains_open: bool, word: str
) -> None:
    after = settle_purchase(OPEN, LaunchFailed(BUY, failure, "why"), now=Instant(6.0))
    assert (after.purchase is not None) is remains_open
    assert after.back_off is not None
    assert (after.back_off.failure, after.back_off.until > 6.0) == (word, True)


def test_instances_given_up_are_no_longer_awaited() -> None:
    after = release_lost(settle_purchase(OPEN, NodesLaunched(BUY, TWO), now=Instant(6.0)), {"i-1"}, now=Instant(1000.0))
    assert [one.instance for one in after.awaited] == ["i-2"]
    assert after.back_off is not None
    assert (after.back_off.failure, after.back_off.message) == (CloudFailure.NEVER_JOINED, "i-1 never became a node")


def test_a_node_that_somebody_deleted_is_no_failure_of_the_cloud() -> None:
    after = release_lost(
        settle_purchase(OPEN, NodesLaunched(BUY, TWO), now=Instant(6.0)), (), {"i-1"}, now=Instant(1000.0)
    )
    assert ([one.instance for one in after.awaited], after.back_off) == (["i-2"], None)


def test_what_a_wrong_clock_wrote_begins_now() -> None:
    """An hour ahead: a back-off of five minutes that would last for 65, and an instance from the future."""
    ahead = release_lost(
        settle_purchase(OPEN, NodesLaunched(BUY, TWO), now=Instant(3600.0)), {"i-1"}, now=Instant(3600.0)
    )
    right = prune_awaited(ahead, (), list_age=Seconds(30.0), now=Instant(10.0))
    assert right.back_off is not None
    assert (right.back_off.until, [one.since for one in right.awaited]) == (310.0, [10.0])
    assert prune_awaited(right, (), list_age=Seconds(30.0), now=Instant(11.0)) == right, "and once only"


def test_instances_are_awaited_until_they_ought_to_be_listed() -> None:
    pool = settle_purchase(OPEN, NodesLaunched(BUY, TWO), now=Instant(6.0))
    assert prune_awaited(pool, {"i-1"}, list_age=Seconds(30.0), now=Instant(7.0)).awaited == (
        AwaitedInstance(instance="i-2", since=Instant(6.0)),
    )
    assert prune_awaited(pool, (), list_age=Seconds(30.0), now=Instant(36.0 + LIST_MARGIN)).awaited == pool.awaited
    assert prune_awaited(pool, (), list_age=Seconds(30.0), now=Instant(37.0 + LIST_MARGIN)).awaited == ()


def test_a_list_that_failed_proves_no_instance_missing() -> None:
    pool = settle_purchase(OPEN, NodesLaunched(BUY, TWO), now=Instant(6.0))
    assert prune_awaited(pool, {"i-1"}, list_age=None, now=Instant(9999.0)).awaited == (
        AwaitedInstance(instance="i-2", since=Instant(6.0)),
    )


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(NodesLaunched(BUY, TWO), id="launched"),
        pytest.param(LaunchFailed(BUY, CloudFailure.CAPACITY, "why"), id="refused"),
    ],
)
def test_a_purchase_that_was_not_written_first_is_not_settled(outcome: NodesLaunched | LaunchFailed) -> None:
    with pytest.raises(IllegalTransition, match="Planned ->"):
        settle_purchase(a_provisioner(), outcome, now=Instant(6.0))
