"""Volumes that a decision gave away count from then on, before anybody has written or heard anything."""

import pytest
from msgspec.structs import replace

from tests.decide.placement.filters.asking import Cluster, Manifest, fact_of, pod_of
from tests.decide.placement.filters.test_volume_requirements import LOCAL
from tests.decide.placement.filters.test_volume_rules import (
    LATE,
    LATE_CLAIM,
    a_claim,
    a_volume,
    claim,
    cluster,
    reached_from,
    volume,
)
from ullage.decide.placement.engine import Placement, hold
from ullage.model.fact_event import Added, Deleted, ObjectKey, Updated
from ullage.model.pod import Pod
from ullage.model.volume import PersistentVolume
from ullage.testing.checks.audit import drifted

CLAIMS = [claim(a_claim(name, **LATE_CLAIM)) for name in ("data", "logs")]
ONE_DISK = [*CLAIMS, LOCAL, volume(a_volume("disk", **reached_from("1")))]
TO_BE_MADE = [*CLAIMS, LATE]


def mounts(name: str, claim_name: str = "data") -> Pod:
    return pod_of(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}])


def assume(world: Cluster, pod: Pod, node: str) -> None:
    assert node in world.fitting(pod)
    hold(world.snapshot, pod, Placement(node, None))


@pytest.mark.parametrize(
    ("stored", "first", "second", "left"),
    [
        pytest.param(ONE_DISK, "data", "logs", "", id="one-disk-is-given-to-one-claim"),
        pytest.param(ONE_DISK, "data", "data", "a", id="who-shares-the-claim-goes-where-its-disk-is"),
        pytest.param(TO_BE_MADE, "data", "data", "a", id="who-shares-the-claim-goes-where-it-is-made"),
        pytest.param(TO_BE_MADE, "data", "logs", "abc", id="another-claim-is-made-anywhere"),
    ],
)
def test_what_is_left_for_the_next(stored: list[tuple[str, Manifest]], first: str, second: str, left: str) -> None:
    world = cluster(*stored)
    before = world.fitting(mounts("two", second))
    with world.snapshot.what_if():
        assume(world, mounts("one", first), "a")
        assert world.fitting(mounts("two", second)) == left
        assert not list(drifted(world.snapshot))
    assert world.fitting(mounts("two", second)) == before
    assume(world, mounts("one", first), "a")
    assert world.fitting(mounts("two", second)) == left
    world.snapshot.forget(ObjectKey("here", "one"))
    assert world.fitting(mounts("two", second)) == before


def test_who_was_taken_out_to_try_something_gets_the_same_volume_back() -> None:
    world = cluster(*CLAIMS, LOCAL, volume(a_volume("disk-1")), volume(a_volume("disk-2")))
    one, two = mounts("one", "data"), mounts("two", "logs")
    assume(world, one, "a")
    assume(world, two, "a")
    world.snapshot.forget(one.key)
    with world.snapshot.what_if():
        world.snapshot.forget(two.key)
    assert [one.volume for one in world.snapshot.storage.of(two.key)] == ["disk-2"]


def test_it_counts_until_the_volume_itself_is_heard_of() -> None:
    """The pod is heard of on its node before its claim is heard to be bound."""
    world = cluster(*ONE_DISK)
    waiting = mounts("one")
    world.snapshot.apply(Added(waiting.key, waiting))
    assume(world, waiting, "a")
    bound = replace(waiting, node="a")
    world.snapshot.apply(Updated(waiting.key, waiting, bound))
    assert world.fitting(mounts("two", "logs")) == ""
    free: PersistentVolume = fact_of("PersistentVolume", a_volume("disk", **reached_from("1")))
    promised = replace(free, claim_ref=ObjectKey("here", "data"), claim_ref_uid="uid-data", available=False)
    world.snapshot.apply(Updated(ObjectKey("", "disk"), free, promised))
    assert world.fitting(mounts("two", "logs")) == ""
    world.snapshot.apply(Deleted(waiting.key, bound))
    assert world.fitting(mounts("two", "logs")) == "", "it is promised for good"
    assert world.fitting(mounts("two", "data")) == "a"
