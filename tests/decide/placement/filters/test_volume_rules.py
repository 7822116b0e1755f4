"""Volumes: bound ones are somewhere, waiting ones can be made somewhere, and some are for one pod only."""

from typing import Any

import pytest

from tests.decide.placement.filters.asking import Cluster, Manifest, a_node, a_waiting
from ullage.model.pod import Pod
from ullage.model.verdict import Reason

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
DONE = {"pv.kubernetes.io/bind-completed": "yes"}


def a_claim(name: str = "data", annotations: Manifest | None = None, **facts: Any) -> Manifest:
    status = {"phase": facts.pop("phase", "Pending")}
    meta = {"name": name, "namespace": "here", "uid": f"uid-{name}", "annotations": annotations or {}}
    meta |= facts.pop("meta", {})
    return {"metadata": meta, "spec": {"resources": {"requests": {"storage": "1Gi"}}} | facts, "status": status}


def a_bound_claim(name: str = "data", **facts: Any) -> Manifest:
    return a_claim(name, DONE, volumeName="v", **facts)


def a_volume(name: str = "v", labels: Manifest | None = None, **spec: Any) -> Manifest:
    status = {"phase": spec.pop("phase", "Available")}
    facts = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "late"} | spec
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": facts, "status": status}


def reached_from(*zones: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": list(zones)}]}]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}


def a_class(name: str = "late", **facts: Any) -> Manifest:
    return {"metadata": {"name": name}, "provisioner": "csi", "volumeBindingMode": "WaitForFirstConsumer"} | facts


def mounting(*claims: str, **more: Any) -> Pod:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return a_waiting(volumes=volumes, **more)


def cluster(*stored: tuple[str, Manifest]) -> Cluster:
    """Nodes `a` and `b` in zones 1 and 2, and `c` in none."""
    world = Cluster(a_node("a", {ZONE: "1"}), a_node("b", {ZONE: "2"}), a_node("c"))
    for kind, manifest in stored:
        world.hear(kind, manifest)
    return world


def claim(manifest: Manifest) -> tuple[str, Manifest]:
    return "PersistentVolumeClaim", manifest


def volume(manifest: Manifest) -> tuple[str, Manifest]:
    return "PersistentVolume", manifest


def storage_class(manifest: Manifest) -> tuple[str, Manifest]:
    return "StorageClass", manifest


LATE = storage_class(a_class())
LATE_CLAIM: dict[str, Any] = {"storageClassName": "late", "accessModes": ["ReadWriteOnce"]}


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        pytest.param([], "does not exist", id="a-claim-that-is-missing"),
        pytest.param([claim(a_claim())], "is not bound yet", id="a-claim-without-a-class"),
        pytest.param([claim(a_claim(storageClassName="gone"))], "is not bound yet", id="a-class-that-is-missing"),
        pytest.param(
            [claim(a_claim(storageClassName="now")), storage_class(a_class("now", volumeBindingMode="Immediate"))],
            "is not bound yet",
            id="a-claim-to-be-bound-at-once",
        ),
        pytest.param(
            [claim(a_claim(volumeName="v", **LATE_CLAIM)), volume(a_volume()), LATE],
            "is not bound yet",
            id="a-claim-that-names-a-volume-and-is-not-bound",
        ),
        pytest.param([claim(a_bound_claim())], "volume v, which does not exist", id="a-volume-that-is-missing"),
        pytest.param(
            [claim(a_bound_claim(phase="Lost")), volume(a_volume())], "has lost its volume", id="a-claim-that-is-lost"
        ),
        pytest.param(
            [claim(a_bound_claim(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})), volume(a_volume())],
            "is being deleted",
            id="a-claim-on-its-way-out",
        ),
    ],
)
def test_volumes_that_are_not_ready_fit_nowhere(stored: list[tuple[str, Manifest]], said: str) -> None:
    verdicts = cluster(*stored).ask(mounting("data"))
    assert {verdict.reason for verdict in verdicts.values()} == {Reason.VOLUME_NOT_READY}
    assert said in verdicts["a"].detail


@pytest.mark.parametrize(
    ("manifest", "fitting"),
    [
        pytest.param(a_volume(), "abc", id="a-volume-for-everybody"),
        pytest.param(a_volume(**reached_from("2")), "b", id="node-affinity"),
        pytest.param(a_volume(labels={ZONE: "1"}), "ac", id="zone-label-and-nodes-without-zones-are-everywhere"),
        pytest.param(a_volume(labels={ZONE: "1__2"}), "abc", id="a-label-may-name-several-zones"),
        pytest.param(a_volume(labels={OLD_ZONE: "2"}), "bc", id="old-label-of-the-volume-new-label-of-the-node"),
        pytest.param(a_volume(labels={ZONE: "1__"}), "abc", id="a-malformed-zone-says-nothing"),
        pytest.param(a_volume(labels={"topology.kubernetes.io/region": "r"}), "c", id="a-region-nobody-is-in"),
    ],
)
def test_where_a_bound_volume_is(manifest: Manifest, fitting: str) -> None:
    world = cluster(claim(a_bound_claim()), volume(manifest))
    assert world.fitting(mounting("data")) == fitting
    refused = {verdict.reason for verdict in world.ask(mounting("data")).values() if not verdict}
    assert refused <= {Reason.VOLUME_ELSEWHERE}


def only_in(*zones: str) -> dict[str, Any]:
    return {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]}


@pytest.mark.parametrize(
    ("stored", "fitting"),
    [
        pytest.param([storage_class(a_class())], "abc", id="made-anywhere"),
        pytest.param([storage_class(a_class(**only_in("2")))], "b", id="made-where-the-class-allows"),
        pytest.param([storage_class(a_class(allowedTopologies=[{}]))], "", id="an-empty-topology-allows-nothing"),
        pytest.param([storage_class(a_class(provisioner="kubernetes.io/no-provisioner"))], "", id="made-by-nobody"),
        pytest.param(
            [storage_class(a_class(provisioner="kubernetes.io/no-provisioner")), volume(a_volume(**reached_from("1")))],
            "a",
            id="a-volume-that-waits-for-a-claim",
        ),
        pytest.param(
            [storage_class(a_class(**only_in("2"))), volume(a_volume(**reached_from("1")))],
            "ab",
            id="one-waits-here-and-one-can-be-made-there",
        ),
        pytest.param(
            [storage_class(a_class(provisioner="")), volume(a_volume(capacity={"storage": "1Mi"}))],
            "",
            id="a-volume-that-is-too-small",
        ),
        pytest.param(
            [storage_class(a_class(provisioner="")), volume(a_volume(accessModes=["ReadOnlyMany"]))],
            "",
            id="a-volume-for-other-uses",
        ),
        pytest.param(
            [storage_class(a_class(provisioner="")), volume(a_volume(phase="Released"))],
            "",
            id="a-volume-somebody-had",
        ),
        pytest.param(
            [
                storage_class(a_class(provisioner="")),
                volume(a_volume(claimRef={"namespace": "here", "name": "other"})),
            ],
            "",
            id="a-volume-promised-to-somebody-else",
        ),
        pytest.param(
            [
                storage_class(a_class(**only_in("1"))),
                volume(a_volume(claimRef={"namespace": "here", "name": "data"}, phase="Bound", **reached_from("2"))),
                volume(a_volume("w")),
            ],
            "ab",
            id="the-volume-promised-to-it-comes-before-any-other",
        ),
    ],
)
def test_where_a_waiting_claim_can_be_served(stored: list[tuple[str, Manifest]], fitting: str) -> None:
    assert cluster(claim(a_claim(**LATE_CLAIM)), *stored).fitting(mounting("data")) == fitting


def test_two_claims_do_not_get_one_volume() -> None:
    none = storage_class(a_class(provisioner=""))
    world = cluster(claim(a_claim(**LATE_CLAIM)), claim(a_claim("logs", **LATE_CLAIM)), none, volume(a_volume()))
    assert world.fitting(mounting("data", "logs")) == ""
    world.hear("PersistentVolume", a_volume("w", **reached_from("1")))
    assert world.fitting(mounting("data", "logs")) == "a"


def test_a_volume_being_made_for_a_node_is_there() -> None:
    chosen = a_claim("data", {"volume.kubernetes.io/selected-node": "b"}, **LATE_CLAIM)
    assert cluster(claim(chosen), LATE).fitting(mounting("data")) == "b"


def test_a_claim_that_becomes_bound_changes_the_answer() -> None:
    world = cluster(claim(a_claim(**LATE_CLAIM)), storage_class(a_class("late", volumeBindingMode="Immediate")))
    assert world.fitting(mounting("data")) == ""
    world.hear("PersistentVolume", a_volume())
    world.hear("PersistentVolumeClaim", a_bound_claim())
    assert world.fitting(mounting("data")) == "abc"


def test_a_volume_for_one_pod_is_taken_by_the_first() -> None:
    alone = a_bound_claim(accessModes=["ReadWriteOncePod"])
    world = cluster(claim(alone), volume(a_volume(**reached_from("1", "2"))))
    assert world.fitting(mounting("data")) == "ab"
    world.run("user", "a", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    verdicts = world.ask(mounting("data"))
    assert {name: verdict.reason for name, verdict in verdicts.items()} == {
        "a": Reason.VOLUME_IN_USE,
        "b": Reason.VOLUME_IN_USE,
        "c": Reason.VOLUME_ELSEWHERE,
    }
    with world.snapshot.what_if():
        world.snapshot.forget(next(iter(world.snapshot.pods)))
        assert world.fitting(mounting("data")) == "ab"


def ephemeral(owner: str) -> tuple[Cluster, Pod]:
    link = {"kind": "Pod", "name": "waiting", "uid": owner, "controller": True}
    made = a_claim("waiting-scratch", **LATE_CLAIM, meta={"ownerReferences": [link]})
    return cluster(claim(made), LATE), a_waiting(volumes=[{"name": "scratch", "ephemeral": {}}])


def test_an_ephemeral_volume_is_the_claim_made_for_the_pod() -> None:
    world, pod = ephemeral(owner="uid-waiting")
    assert world.fitting(pod) == "abc"


def test_a_claim_of_that_name_that_is_not_the_pods_own_does_not_count() -> None:
    world, pod = ephemeral(owner="uid-of-another")
    assert world.ask(pod)["a"].reason is Reason.VOLUME_NOT_READY
