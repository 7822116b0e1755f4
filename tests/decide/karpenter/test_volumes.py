"""Volumes of a waiting pod: the node that is asked for reaches them, and none is asked for that could not."""

from typing import Any

import pytest

from tests.decide.karpenter.cluster import Cluster, claim_pod
from tests.decide.karpenter.outcomes import created
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import PERSISTENT_VOLUMES, STORAGE_CLASSES, VOLUME_CLAIMS
from ullage.model.provisioner import ZONE_LABEL
from ullage.model.selector import Operator
from ullage.testing.builders import a_storage_class, a_volume, a_volume_claim, of_kind, with_meta

GKE, HOST = "topology.gke.io/zone", "kubernetes.io/hostname"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
LATE = "late"


def mounting(*names: str, **more: Any) -> list[JsonObject]:
    """A claim pod that mounts these PersistentVolumeClaims."""
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return claim_pod("a", pod={"volumes": volumes} | more)


def volume_claim(name: str, *, volume: str = "", selected: str = "") -> JsonObject:
    body = with_meta(a_volume_claim(name, LATE, volume=volume, selected=selected), uid=f"uid-{name}")
    return of_kind(VOLUME_CLAIMS, body, "team")


def disk(name: str, *terms: JsonObject, labels: JsonObject | None = None, of: str = "") -> JsonObject:
    promised = {"claimRef": {"namespace": "team", "name": of, "uid": f"uid-{of}"}} if of else {}
    body = with_meta(a_volume(name, LATE, *terms, **promised), labels=labels or {})
    return of_kind(PERSISTENT_VOLUMES, body) | {"status": {"phase": "Bound" if of else "Available"}}


def storage_class(provisioner: str, *topologies: JsonObject) -> JsonObject:
    allowed = [
        {"matchLabelExpressions": [{"key": key, "values": values} for key, values in one.items()]} for one in topologies
    ]
    return of_kind(STORAGE_CLASSES, a_storage_class(LATE, provisioner, allowedTopologies=allowed))


def _term(labels: JsonObject) -> JsonObject:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": values} for key, values in labels.items()]}


def _affinity(*terms: JsonObject) -> JsonObject:
    required = {"nodeSelectorTerms": [_term(one) for one in terms]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def asked(*objects: JsonObject | list[JsonObject]) -> list[dict[str, tuple[str, ...]]]:
    """Alternatives of the smart pod's node affinity: values by label."""
    cluster = Cluster(*objects)
    cluster.ask()
    (one,) = created(cluster)
    terms = one.node_affinity or ()
    assert all(label.operator is Operator.IN for term in terms for label in term.labels)
    return [{label.key: label.values for label in term.labels} for term in terms]


@pytest.mark.parametrize(
    ("volume", "where"),
    [
        pytest.param(disk("v", {ZONE_LABEL: ["z1"]}, of="d"), [{ZONE_LABEL: ("z1",)}], id="a zone"),
        pytest.param(disk("v", {GKE: ["z1"]}, of="d"), [{GKE: ("z1",)}], id="a zone in its driver's words"),
        pytest.param(
            disk("v", {ZONE_LABEL: ["z1"]}, {ZONE_LABEL: ["z2"]}, of="d"),
            [{ZONE_LABEL: ("z1",)}, {ZONE_LABEL: ("z2",)}],
            id="one of two zones",
        ),
        pytest.param(disk("v", labels={OLD_ZONE: "z1__z2"}, of="d"), [{ZONE_LABEL: ("z1", "z2")}], id="an old label"),
        pytest.param(disk("v", of="d"), [], id="everywhere"),
    ],
)
def test_the_node_reaches_the_volume(volume: JsonObject, where: list[dict[str, tuple[str, ...]]]) -> None:
    assert asked(mounting("d"), volume_claim("d", volume="v"), volume) == where


def test_the_node_reaches_every_volume_and_suits_the_pod() -> None:
    found = asked(
        mounting("d", "e", **_affinity({"team": ["x"], ZONE_LABEL: ["z1", "z2"]}, {ZONE_LABEL: ["z9"]})),
        volume_claim("d", volume="v"),
        volume_claim("e", volume="w"),
        disk("v", {ZONE_LABEL: ["z1"]}, {ZONE_LABEL: ["z2"]}, of="d"),
        disk("w", {ZONE_LABEL: ["z2", "z3"]}, of="e"),
    )
    assert found == [{"team": ("x",), ZONE_LABEL: ("z2",)}]


@pytest.mark.parametrize(
    ("klass", "where"),
    [
        pytest.param(
            storage_class("ebs.csi.aws.com", {ZONE_LABEL: ["z1"]}, {ZONE_LABEL: ["z2"]}),
            [{ZONE_LABEL: ("z1",)}, {ZONE_LABEL: ("z2",)}],
            id="where its class makes volumes",
        ),
        pytest.param(storage_class("ebs.csi.aws.com"), [], id="everywhere"),
    ],
)
def test_a_volume_that_is_not_made_yet_can_be_made_there(
    klass: JsonObject, where: list[dict[str, tuple[str, ...]]]
) -> None:
    assert asked(mounting("d"), volume_claim("d"), klass) == where


def test_a_volume_that_is_not_bound_yet_is_there() -> None:
    free = (disk("v", {ZONE_LABEL: ["z1"]}), disk("w", {HOST: ["n1"]}))
    found = asked(mounting("d"), volume_claim("d"), storage_class("kubernetes.io/no-provisioner"), *free)
    assert {ZONE_LABEL: ("z1",)} in found


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([disk("disk", {HOST: ["n1"]})], id="the disk of a node"),
        pytest.param([disk(f"disk-{number}", {HOST: [f"n{number}"]}) for number in range(100)], id="many of them"),
        pytest.param([disk("more", {ZONE_LABEL: ["z1"]})], id="another one there"),
    ],
)
def test_volumes_that_come_and_go_change_no_request(others: list[JsonObject]) -> None:
    """A smart pod whose request is another is replaced."""
    pod = [*mounting("d"), volume_claim("d"), storage_class("kubernetes.io/no-provisioner")]
    there = disk("v", {ZONE_LABEL: ["z1"]})
    before, after = Cluster(pod, there), Cluster(pod, there, others)
    before.ask()
    after.ask()
    assert created(before) == created(after)


def test_many_volumes_of_nodes_hide_none_of_a_zone_and_who_takes_one_changes_nothing() -> None:
    disks = [disk(f"disk-{number:03}", {HOST: [f"n{number}"]}) for number in range(100)]
    zonal = [disk(f"zonal-{number}", {ZONE_LABEL: ["z1"]}) for number in range(3)]
    made = storage_class("kubernetes.io/no-provisioner")
    found = asked(mounting("d"), volume_claim("d"), made, *disks, *zonal)
    assert found[0] == {ZONE_LABEL: ("z1",)}
    assert found.count(found[0]) == 1
    assert asked(mounting("d"), volume_claim("d"), made, *disks, *zonal[1:]) == found


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([volume_claim("d", volume="v"), disk("v", {HOST: ["n1"]}, of="d")], id="a node's own disk"),
        pytest.param(
            [
                volume_claim("d", volume="v"),
                volume_claim("e", volume="w"),
                disk("v", {ZONE_LABEL: ["z1"]}, of="d"),
                disk("w", {ZONE_LABEL: ["z2"]}, of="e"),
            ],
            id="volumes of two zones",
        ),
        pytest.param(
            [volume_claim("d", selected="n1"), storage_class("ebs.csi.aws.com")], id="a volume being made for a node"
        ),
        pytest.param(
            [volume_claim("d"), storage_class("kubernetes.io/no-provisioner"), disk("v", {HOST: ["n1"]})],
            id="a class of node disks",
        ),
        pytest.param(
            [
                volume_claim("d", volume="v"),
                disk("v", {ZONE_LABEL: ["z1"]}, of="d"),
                _affinity({ZONE_LABEL: ["z2"]}),
            ],
            id="a zone the pod may not be in",
        ),
    ],
)
def test_nothing_is_bought_where_no_new_node_reaches_the_volumes(objects: list[JsonObject]) -> None:
    more = next((one for one in objects if "affinity" in one), {})
    stored = [one for one in objects if one is not more]
    names = [one["metadata"]["name"] for one in stored if one["kind"] == "PersistentVolumeClaim"]
    cluster = Cluster(mounting(*names, **more), stored)
    cluster.ask()
    assert not cluster.smart_pods
