"""Clusters for decisions about GPUs: written as manifests, in few words, and read as any file is."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ullage.decide.explain.planning import PlanInputs
from ullage.decide.placement.observed_gpus import account_for_bound, hold_in_use
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS, GPU_QUOTAS, POD_GROUPS
from ullage.kube.manifests.manifests import Manifests, read_manifests
from ullage.model.pod import Pod
from ullage.state.snapshot import ClusterSnapshot
from ullage.testing.builders import a_gpu_claim, of_kind

H100 = "NVIDIA H100 80GB HBM3"
A100 = "NVIDIA A100-SXM4-40GB"
NOON = "2030-01-01T12:00:00Z"
ROOM = {"cpu": "64", "memory": "512Gi", "pods": "110"}


def node(name: str, gpus: int = 0, *, labels: Mapping[str, str] | None = None, **spec: Any) -> JsonObject:
    """A node that advertises this many GPUs."""
    room = ROOM | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    meta = {"name": name, "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": {"allocatable": room}}


def report(name: str, gpus: int = 8, **said: Any) -> JsonObject:
    """What a node's agent says: `model`, `memory`, islands of `island` GPUs, `ill` ones, `kind`, `at`, `mig` by GPU."""
    size, ill, mig = said.get("island", 4), said.get("ill", ()), said.get("mig", {})
    devices = [
        {
            "id": gpu,
            "uuid": f"GPU-{name}-{gpu}",
            "model": said.get("model", H100),
            "memory": said.get("memory", "80Gi"),
            "health": "Unhealthy" if gpu in ill else "Healthy",
            "island": f"nv{gpu // size}",
            "bandwidthGBps": 450,
            "inUseBy": list(said.get("in_use", {}).get(gpu, ())),
            "mig": [
                {"uuid": f"MIG-{name}-{gpu}-{n}", "profile": profile, "memory": memory}
                for n, (profile, memory) in enumerate(mig.get(gpu, ()))
            ],
        }
        for gpu in range(gpus)
    ]
    status = {"observedAt": said.get("at", NOON), "kind": said.get("kind", "Leased"), "devices": devices}
    kind = {"apiVersion": "gpu.scheduling/v1", "kind": "GpuNodeStatus"}
    return kind | {"metadata": {"name": name}, "spec": {"nodeName": name}, "status": status}


def leased(name: str, gpus: int = 8, **said: Any) -> list[JsonObject]:
    """A node with its report."""
    return [node(name, gpus, labels=said.pop("labels", None)), report(name, gpus, **said)]


def pod(name: str, gpus: int = 0, *, claim: str = "", on: str = "", **more: Any) -> JsonObject:
    """A pod in namespace `team`, or `namespace`; `template`, `held` (its GPUs) and `created` may be said, too."""
    notes = {
        "gpu.scheduling/claim": claim,
        "gpu.scheduling/claim-template": more.pop("template", ""),
        "gpu.scheduling/allocated": f"{on}:{more.pop('held')}" if "held" in more else "",
        "gpu.scheduling/share-milli": str(more.pop("share", "")),
    }
    meta = {
        "name": name,
        "namespace": more.pop("namespace", "team"),
        "uid": f"uid-{name}",
        "creationTimestamp": more.pop("created", None),
        "labels": more.pop("labels", {}),
        "annotations": {key: value for key, value in notes.items() if value},
    }
    resources = {"requests": more.pop("requests", {}), "limits": {"nvidia.com/gpu": gpus} if gpus else {}}
    container = {"name": "main", "image": "x", "resources": resources}
    spec = {"containers": [container]} | ({"nodeName": on} if on else {}) | more
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def claim(name: str, count: int = 1, *, namespace: str = "team", status: Any = None, **spec: Any) -> JsonObject:
    """A claim for this many; `devices` says more about them."""
    return of_kind(GPU_CLAIMS, a_gpu_claim(name, count, **spec), namespace) | {"status": status or {}}


def quota(name: str = "quota", *, namespace: str = "team", **spec: Any) -> JsonObject:
    return of_kind(GPU_QUOTAS, {"metadata": {"name": name}, "spec": spec}, namespace)


def pod_group(name: str, members: int) -> JsonObject:
    return of_kind(POD_GROUPS, {"metadata": {"name": name}, "spec": {"minMember": members}}, "team")


def read(*objects: JsonObject | Iterable[JsonObject]) -> Manifests:
    """All of these, as one file."""
    flat = [one for each in objects for one in ([each] if isinstance(each, dict) else each)]
    return read_manifests(["-"], stdin=msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": flat}))


class Scene:
    """What was read, ready to decide on."""

    def __init__(self, *objects: JsonObject | Iterable[JsonObject]) -> None:
        found = read(*objects)
        self.snapshot = ClusterSnapshot(found.state)
        self.unnamed = account_for_bound(self.snapshot)
        hold_in_use(self.snapshot, sorted(found.state.inventories))
        self.known = PlanInputs(unreadable_claims=found.unreadable_claims)
        self.now = max((one.reported_at for one in found.state.inventories.values()), default=0.0)

    def pod(self, name: str) -> Pod:
        return next(pod for key, pod in self.snapshot.state.pods.items() if key.name == name)
