"""What the volumes of a pod need before it is bound: claims that wait, and volumes that wait for them."""

from typing import Any

import pytest

from tests.decide.placement.filters.asking import Cluster, Manifest, a_waiting
from tests.decide.placement.filters.test_volume_rules import (
    LATE,
    LATE_CLAIM,
    a_bound_claim,
    a_claim,
    a_class,
    a_volume,
    claim,
    cluster,
    mounting,
    reached_from,
    storage_class,
    volume,
)
from ullage.decide.placement.filters.first_consumer import assumed_on, volume_assignments, waiting_claims
from ullage.model.intents import VolumeAssignment
from ullage.model.pod import Pod

LOCAL = storage_class(a_class(provisioner="kubernetes.io/no-provisioner"))


def promised(world: Cluster, node: str, *claims: str) -> dict[str, str]:
    nodes, storage = world.snapshot.state.nodes, world.snapshot.storage
    found = volume_assignments(assumed_on(mounting(*claims), nodes[node], storage))
    assert found == tuple(VolumeAssignment(one.claim, one.volume) for one in sorted(found, key=lambda one: one.claim))
    return {one.claim: one.volume for one in found}


def waiting_on_a(world: Cluster, pod: Pod) -> tuple[str, ...]:
    return waiting_claims(assumed_on(pod, world.snapshot.state.nodes["a"], world.snapshot.storage))


@pytest.mark.parametrize(
    ("stored", "waiting"),
    [
        pytest.param([claim(a_claim(**LATE_CLAIM)), LATE], ("data",), id="to-be-made"),
        pytest.param([claim(a_claim(**LATE_CLAIM)), LOCAL, volume(a_volume())], ("data",), id="to-be-matched"),
        pytest.param([claim(a_bound_claim()), volume(a_volume()), LATE], (), id="bound"),
        pytest.param(
            [claim(a_claim(**LATE_CLAIM)), storage_class(a_class(volumeBindingMode="Immediate"))],
            (),
            id="somebody-else-makes-it-at-once",
        ),
        pytest.param([LATE], (), id="not-there"),
    ],
)
def test_which_claims_wait(stored: list[tuple[str, Manifest]], waiting: tuple[str, ...]) -> None:
    assert waiting_on_a(cluster(*stored), mounting("data")) == waiting


def test_a_claim_mounted_twice_waits_once() -> None:
    mounts: list[dict[str, Any]] = [{"name": name, "persistentVolumeClaim": {"claimName": "data"}} for name in "xy"]
    world = cluster(claim(a_claim(**LATE_CLAIM)), LOCAL, volume(a_volume()))
    pod = a_waiting(volumes=mounts)
    assert waiting_on_a(world, pod) == ("data",)
    assert world.fitting(pod) == "abc"


def test_the_smallest_volume_that_does_is_promised_and_names_break_ties() -> None:
    large, small = {"capacity": {"storage": "9Gi"}}, {"capacity": {"storage": "2Gi"}}
    tiny = {"capacity": {"storage": "1Mi"}}
    world = cluster(claim(a_claim(**LATE_CLAIM)), LOCAL, volume(a_volume("a-large", **large)))
    for name, size in (("c", small), ("b", small), ("tiny", tiny)):
        world.hear("PersistentVolume", a_volume(name, **size))
    assert promised(world, "a", "data") == {"data": "b"}


def test_only_volumes_of_the_node_are_promised() -> None:
    world = cluster(
        claim(a_claim(**LATE_CLAIM)),
        LOCAL,
        volume(a_volume("one", **reached_from("1"))),
        volume(a_volume("two", **reached_from("2"))),
    )
    assert [promised(world, node, "data") for node in "abc"] == [{"data": "one"}, {"data": "two"}, {}]


def test_two_claims_are_promised_two_volumes() -> None:
    world = cluster(claim(a_claim(**LATE_CLAIM)), claim(a_claim("logs", **LATE_CLAIM)), LOCAL)
    world.hear("PersistentVolume", a_volume("v"))
    world.hear("PersistentVolume", a_volume("w"))
    assert promised(world, "a", "logs", "data") == {"data": "v", "logs": "w"}


def test_what_was_promised_before_a_crash_is_promised_again() -> None:
    mine: dict[str, Any] = {"claimRef": {"namespace": "here", "name": "data", "uid": "uid-data"}, "phase": "Bound"}
    world = cluster(claim(a_claim(**LATE_CLAIM)), LOCAL, volume(a_volume("a")), volume(a_volume("z", **mine)))
    assert promised(world, "a", "data") == {"data": "z"}


def test_a_claim_that_was_told_a_node_gets_a_new_volume() -> None:
    told = a_claim("data", {"volume.kubernetes.io/selected-node": "a"}, **LATE_CLAIM)
    assert promised(cluster(claim(told), LATE, volume(a_volume())), "a", "data") == {}
