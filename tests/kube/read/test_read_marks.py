"""What pods and their owners say of moving them, as objects on the wire say it."""

from typing import Any

import msgspec
import pytest

from ullage.errors import Unreadable
from ullage.kube.objects.pod import KubePod
from ullage.kube.objects.workload import KubeJob, KubeWorkload
from ullage.kube.read.drain_info import read_marks
from ullage.kube.read.pod import read_pod
from ullage.kube.read.workload import read_workload
from ullage.model.pod_marks import PodDrainInfo, SafeToEvict
from ullage.model.units import Instant, Seconds

CA = "cluster-autoscaler.kubernetes.io"


def a_pod(meta: dict[str, Any] | None = None, spec: Any = None, status: Any = None) -> KubePod:
    body = {"metadata": {"name": "p", "namespace": "n"} | (meta or {}), "spec": spec or {}, "status": status or {}}
    return msgspec.convert(body, KubePod)


def safe(value: str) -> dict[str, Any]:
    return {"annotations": {f"{CA}/safe-to-evict": value}}


def volumes(**kinds: Any) -> dict[str, Any]:
    return {"volumes": [{"name": name, **kind} for name, kind in kinds.items()]}


DISK: dict[str, Any] = {"emptyDir": {}}
MEMORY, HOST = {"emptyDir": {"medium": "Memory"}}, {"hostPath": {"path": "/x"}}
RS = {"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True, "apiVersion": "apps/v1"}

STORIES: dict[str, tuple[tuple[Any, ...], PodDrainInfo]] = {
    "nothing-said": ((), PodDrainInfo()),
    "a-mirror": (({"annotations": {"kubernetes.io/config.mirror": "x"}},), PodDrainInfo(mirror=True)),
    "as-a-daemon": (({"annotations": {f"{CA}/daemonset-pod": "true"}},), PodDrainInfo(daemon=True)),
    "safe": ((safe("true"),), PodDrainInfo(safe_to_evict=SafeToEvict.YES)),
    "not-safe": ((safe("false"),), PodDrainInfo(safe_to_evict=SafeToEvict.NO)),
    "later": ((safe("on-completion"),), PodDrainInfo(safe_to_evict=SafeToEvict.ON_COMPLETION)),
    "nonsense": ((safe("perhaps"),), PodDrainInfo()),
    "karpenter-s-word": (
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}},),
        PodDrainInfo(safe_to_evict=SafeToEvict.NO),
    ),
    "data-on-disk": ((None, volumes(a=DISK, b=MEMORY, c=HOST)), PodDrainInfo(local_volumes=("a", "c"))),
    "data-that-may-be-lost": (
        ({"annotations": {f"{CA}/safe-to-evict-local-volumes": "a, c"}}, volumes(a=DISK, c=HOST)),
        PodDrainInfo(),
    ),
    "not-ready": ((None, None, {"conditions": [{"type": "Ready", "status": "False"}]}), PodDrainInfo(ready=False)),
    "ready": ((None, None, {"conditions": [{"type": "Ready", "status": "True"}]}), PodDrainInfo()),
    "leaving": (
        ({"deletionTimestamp": "1970-01-01T00:01:40Z"}, {"terminationGracePeriodSeconds": 7}),
        PodDrainInfo(deleted_at=Instant(100.0), grace_period=Seconds(7.0)),
    ),
    "owned": (({"ownerReferences": [RS]},), PodDrainInfo(owner_group="apps")),
    "of-a-core-kind": (({"ownerReferences": [RS | {"apiVersion": "v1"}]},), PodDrainInfo()),
    "not-restarted": ((None, {"restartPolicy": "Never"}), PodDrainInfo(restart="Never")),
}


@pytest.mark.parametrize(("said", "marks"), STORIES.values(), ids=STORIES)
def test_what_a_pod_says(said: tuple[Any, ...], marks: PodDrainInfo) -> None:
    assert read_marks(a_pod(*said)) == marks
    assert read_pod(a_pod(*said)).marks is read_marks(a_pod(*said))


def test_a_time_that_is_none_is_named() -> None:
    with pytest.raises(Unreadable, match=r"n/p: metadata.deletionTimestamp: "):
        read_pod(a_pod({"deletionTimestamp": "soon"}))


COUNTS: dict[str, tuple[str, dict[str, Any], tuple[int, int]]] = {
    "a-replica-set": ("ReplicaSet", {"spec": {"replicas": 3}, "status": {"replicas": 2}}, (3, 2)),
    "one-that-does-not-say": ("StatefulSet", {}, (1, 0)),
    "a-job": ("Job", {"spec": {"parallelism": 4}, "status": {"active": 2}}, (4, 2)),
    "a-job-that-is-nearly-done": (
        "Job",
        {"spec": {"parallelism": 4, "completions": 5}, "status": {"active": 1, "succeeded": 4}},
        (1, 1),
    ),
    "a-job-that-is-suspended": ("Job", {"spec": {"parallelism": 4, "suspend": True}, "status": {}}, (0, 0)),
    "a-job-that-has-failed": (
        "Job",
        {"spec": {"parallelism": 4}, "status": {"conditions": [{"type": "Failed", "status": "True"}]}},
        (0, 0),
    ),
}


@pytest.mark.parametrize(("kind", "body", "counts"), COUNTS.values(), ids=COUNTS)
def test_how_many_pods_a_controller_wants_and_has(kind: str, body: dict[str, Any], counts: tuple[int, int]) -> None:
    struct: type[KubeWorkload] | type[KubeJob] = KubeJob if kind == "Job" else KubeWorkload
    found = read_workload(msgspec.convert({"metadata": {"uid": "u"}} | body, struct), kind)
    assert (found.uid, found.kind, found.target, found.current) == ("u", kind, *counts)


MADE = {
    "metadata": {"labels": {"app": "web"}, "annotations": {"gpu.scheduling/claim-template": "four"}},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]},
}


@pytest.mark.parametrize(
    ("kind", "spec", "cpu"),
    [
        pytest.param("ReplicaSet", {"replicas": 1, "template": MADE}, 2000, id="of-a-replica-set"),
        pytest.param("StatefulSet", {"template": MADE}, 2000, id="of-a-stateful-set"),
        pytest.param("Job", {"template": MADE}, 2000, id="of-a-job"),
        pytest.param("ReplicaSet", {"replicas": 0, "template": MADE}, None, id="none-is-to-be"),
        pytest.param("DaemonSet", {"template": MADE}, None, id="one-for-each-node"),
        pytest.param("ReplicaSet", {"template": {"spec": {"containers": 5}}}, None, id="makes-no-sense"),
        pytest.param(
            "ReplicaSet",
            {"template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]}}},
            None,
            id="no-quantity",
        ),
    ],
)
def test_a_pod_as_its_controller_would_make_it(kind: str, spec: dict[str, Any], cpu: int | None) -> None:
    struct: type[KubeWorkload] | type[KubeJob] = KubeJob if kind == "Job" else KubeWorkload
    body = {"metadata": {"uid": "u", "name": "web", "namespace": "n"}, "spec": spec}
    found = read_workload(msgspec.convert(body, struct), kind).template
    assert (found is None) == (cpu is None)
    if found is not None and found.owner is not None:
        assert (found.requests["cpu"], found.labels, found.claim_template) == (cpu, {"app": "web"}, "four")
        assert (found.owner.kind, found.owner.uid, found.node, found.key.namespace) == (kind, "u", "", "n")
