"""Pods that placement cannot tell apart read as one shape; whatever it can tell apart reads as another."""

from typing import Any

import msgspec
import pytest

from ullage.errors import Unreadable
from ullage.kube.objects.pod import KubePod
from ullage.kube.read import read_pod
from ullage.model.pod import Pod

CONTAINER = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}
SPREAD = {
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


def read(name: str = "p", *, status: Any = None, meta: Any = None, **spec: Any) -> Pod:
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}", "labels": {"app": "web", "pod": name}}
    body = {"metadata": metadata | (meta or {}), "spec": {"containers": [CONTAINER]} | spec, "status": status or {}}
    return read_pod(msgspec.convert(body, KubePod))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"nodeName": "a"}, id="bound"),
        pytest.param({"priority": 7}, id="priority"),
        pytest.param({"schedulerName": "other"}, id="scheduler"),
        pytest.param({"schedulingGates": [{"name": "g"}]}, id="gated"),
        pytest.param({"volumes": [{"name": "token-x7f2", "emptyDir": {}}]}, id="volumes-that-are-everywhere"),
        pytest.param({"meta": {"namespace": "other"}}, id="namespace"),
    ],
)
def test_what_does_not_matter(other: dict[str, Any]) -> None:
    assert read("q", **other).shape is read("p").shape


def test_labels_matter_only_where_rules_look_at_them() -> None:
    constraints = [SPREAD]
    one, two = (read(name, topologySpreadConstraints=constraints) for name in ("p", "q"))
    assert one.shape is two.shape, "their labels differ only where the constraint does not look"
    assert (one.shape.namespace, one.shape.labels) == ("n", (("app", "web"),))
    other = read("r", meta={"labels": {"app": "db"}}, topologySpreadConstraints=constraints)
    assert other.shape is not one.shape


def test_the_order_of_tolerations_does_not_matter() -> None:
    first, second = {"key": "a", "operator": "Exists"}, {"key": "b", "value": "x", "effect": "NoSchedule"}
    assert read(tolerations=[first, second]).shape is read(tolerations=[second, first, second]).shape


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"nodeSelector": {"zone": "1"}}, id="node-selector"),
        pytest.param({"tolerations": [{"key": "k"}]}, id="tolerations"),
        pytest.param({"containers": [CONTAINER | {"image": "app:2"}]}, id="image"),
        pytest.param({"containers": [CONTAINER, CONTAINER]}, id="one-container-more"),
        pytest.param({"containers": [CONTAINER | {"ports": [{"hostPort": 80}]}]}, id="host-port"),
        pytest.param({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, id="claim"),
        pytest.param(
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}, id="affinity"
        ),
        pytest.param({"topologySpreadConstraints": [SPREAD]}, id="spread"),
        pytest.param({"overhead": {"cpu": "1m"}}, id="overhead"),
    ],
)
def test_what_matters(other: dict[str, Any]) -> None:
    assert read(**other).shape is not read().shape


def test_ephemeral_volumes_are_the_pods_own() -> None:
    volumes = [{"name": "scratch", "ephemeral": {}}]
    (use,) = read("p", volumes=volumes).shape.claims
    assert (str(use.claim), use.owner) == ("n/p-scratch", "uid-p")
    assert read("q", volumes=volumes).shape.claims != (use,)


@pytest.mark.parametrize(
    ("requests", "scored"),
    [
        pytest.param({}, (100, 200 * 2**20 * 1000), id="a-container-that-says-nothing"),
        pytest.param({"cpu": "2", "memory": "1"}, (2000, 1000), id="a-container-that-says-both"),
        pytest.param({"cpu": "0", "memory": "0"}, (0, 0), id="a-container-that-says-zero"),
    ],
)
def test_what_scoring_sees(requests: dict[str, str], scored: tuple[int, int]) -> None:
    shape = read(containers=[{"name": "c", "resources": {"requests": requests}}]).shape
    assert (shape.scored_cpu, shape.scored_memory) == scored


def test_images_have_their_tag_spelled_out() -> None:
    images = ["example.com:5000/app", "app:1", "app@sha256:1"]
    containers = [{"name": str(number), "image": image} for number, image in enumerate(images)]
    shape = read(containers=containers, volumes=[{"name": "v", "image": {"reference": "data"}}]).shape
    assert shape.images == ("app:1", "app@sha256:1", "data:latest", "example.com:5000/app:latest")
    assert shape.containers == 3


def resized(written: str, given: str, runs: str, *, refused: bool = False, node: str = "a") -> dict[str, int]:
    pending = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    status = {
        "containerStatuses": [
            {"name": "main", "allocatedResources": {"cpu": given}, "resources": {"requests": {"cpu": runs}}}
        ],
        "conditions": pending if refused else [],
    }
    return read(
        containers=[CONTAINER | {"resources": {"requests": {"cpu": written}}}], status=status, nodeName=node
    ).requests


@pytest.mark.parametrize(
    ("held", "cpu"),
    [
        pytest.param(resized("4", "2", "2"), 4000, id="it-wants-to-grow"),
        pytest.param(resized("1", "2", "2"), 2000, id="it-wants-to-shrink"),
        pytest.param(resized("1", "1", "2"), 2000, id="it-has-not-shrunk-yet"),
        pytest.param(resized("4", "2", "2", refused=True), 2000, id="it-will-never-grow"),
        pytest.param(resized("4", "9", "9", node=""), 4000, id="without-a-node-only-what-is-written-counts"),
    ],
)
def test_what_a_pod_holds_while_it_is_resized(held: dict[str, int], cpu: int) -> None:
    assert held["cpu"] == cpu


@pytest.mark.parametrize(
    ("annotation", "ids"),
    [
        pytest.param("a:0,3", (0, 3), id="its-gpus"),
        pytest.param("b:0,3", (), id="of-another-node"),
        pytest.param("a:zero", (), id="not-an-allocation"),
        pytest.param("a:3,99", (3,), id="a-gpu-no-node-has"),
    ],
)
def test_gpus_a_pod_was_given(annotation: str, ids: tuple[int, ...]) -> None:
    meta = {"annotations": {"gpu.scheduling/allocated": annotation}}
    assert read(meta=meta, nodeName="a").gpu_ids == ids
    assert read(meta=meta).gpu_ids == ()


BAD = {"matchExpressions": [{"key": "k", "operator": "Near"}]}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param(
            {"containers": [CONTAINER, {"resources": {"requests": {"cpu": "x"}}}]},
            "spec.containers[1].resources.requests.cpu",
            id="request",
        ),
        pytest.param(
            {"initContainers": [{"resources": {"requests": {"cpu": "x"}}}]},
            "spec.initContainers[0].resources.requests.cpu",
            id="request-of-an-init-container",
        ),
        pytest.param({"overhead": {"cpu": "x"}}, "spec.overhead.cpu", id="overhead"),
        pytest.param({"resources": {"requests": {"cpu": "x"}}}, "spec.resources.requests.cpu", id="request-of-the-pod"),
        pytest.param(
            {"topologySpreadConstraints": [SPREAD, SPREAD | {"labelSelector": BAD}]},
            "spec.topologySpreadConstraints[1].labelSelector.matchExpressions[0].operator",
            id="operator",
        ),
        pytest.param(
            {
                "affinity": {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "podAffinityTerm": {"topologyKey": "z", "namespaceSelector": BAD}}
                        ]
                    }
                }
            },
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
            ".podAffinityTerm.namespaceSelector.matchExpressions[0].operator",
            id="operator-deep-inside",
        ),
    ],
)
def test_what_cannot_be_read_is_named(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(Unreadable) as refused:
        read(**spec)
    assert refused.value.message.startswith(f"pod n/p: {field}: ")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"status": {"phase": "Odd"}}, "status.phase", id="phase"),
        pytest.param({"meta": {"creationTimestamp": "today"}}, "metadata.creationTimestamp", id="time"),
    ],
)
def test_facts_that_cannot_be_read_are_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(Unreadable, match=f"pod n/p: {field}: "):
        read(**change)
