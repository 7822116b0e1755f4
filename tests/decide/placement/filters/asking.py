"""Clusters written as manifests, and one question: may this pod go on that node, and if not, why.

Every answer is asked for twice, of the vectors and of the rules, and must be the same.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from ullage.decide.placement.filters.codes import REASONS
from ullage.decide.placement.filters.table import FilterTable
from ullage.kube.objects.node import KubeNode
from ullage.kube.objects.pod import KubePod
from ullage.kube.objects.policy import KubeNamespace
from ullage.kube.objects.storage import KubePersistentVolume as KubeVolume
from ullage.kube.objects.storage import KubePersistentVolumeClaim as KubeVolumeClaim
from ullage.kube.objects.storage import KubeStorageClass
from ullage.kube.read import (
    read_namespace,
    read_node,
    read_pod,
    read_storage_class,
    read_volume,
    read_volume_claim,
)
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.pod import Pod
from ullage.model.verdict import Verdict
from ullage.state.cluster import Fact
from ullage.state.snapshot import ClusterSnapshot

Manifest = Mapping[str, Any]

_READ: Mapping[str, Any] = {
    "Node": (KubeNode, read_node),
    "Pod": (KubePod, read_pod),
    "Namespace": (KubeNamespace, read_namespace),
    "PersistentVolumeClaim": (KubeVolumeClaim, read_volume_claim),
    "PersistentVolume": (KubeVolume, read_volume),
    "StorageClass": (KubeStorageClass, read_storage_class),
}


def fact_of(kind: str, manifest: Manifest) -> Any:
    struct, read = _READ[kind]
    return read(msgspec.convert(manifest, struct))


def a_waiting(**spec: Any) -> Pod:
    """A pod in namespace `here` that has no node; `labels` and `requests` are its own, the rest is its spec."""
    return pod_of("waiting", **spec)


def pod_of(name: str, *, namespace: str = "here", labels: Manifest | None = None, **spec: Any) -> Pod:
    """A pod; `requests` and `leaving` (being deleted) are said in short, everything else in Kubernetes' spelling."""
    requests, leaving = spec.pop("requests", {}), spec.pop("leaving", False)
    container = {"name": "main", "image": "app", "resources": {"requests": requests}, "ports": spec.pop("ports", [])}
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels or {}}
    if leaving:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {"phase": "Running" if spec.get("nodeName") else "Pending"}
    pod: Pod = fact_of("Pod", {"metadata": meta, "spec": {"containers": [container]} | spec, "status": status})
    return pod


def a_node(name: str, labels: Manifest | None = None, **facts: Any) -> Manifest:
    """A node of 8 CPUs and 10 pods; `taints`, `unschedulable`, `ready` and `allocatable` may be said."""
    offers = {"cpu": "8", "memory": "16Gi", "pods": "10"} | facts.pop("allocatable", {})
    ready = "True" if facts.pop("ready", True) else "False"
    status = {"allocatable": offers, "conditions": [{"type": "Ready", "status": ready}]}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name} | dict(labels or {})}
    return {"metadata": metadata, "spec": facts, "status": status}


class Cluster:
    """What has been heard, and the question."""

    def __init__(self, *nodes: Manifest) -> None:
        self.snapshot = ClusterSnapshot()
        self.table = FilterTable(self.snapshot)
        for node in nodes:
            self.hear("Node", node)

    def hear(self, kind: str, manifest: Manifest) -> "Cluster":
        fact = fact_of(kind, manifest)
        meta = manifest["metadata"]
        self.snapshot.apply(Added(ObjectKey(meta.get("namespace", ""), meta["name"]), fact))
        return self

    def run(self, name: str, node: str, **facts: Any) -> "Cluster":
        """A pod that is on a node already."""
        pod: Fact = pod_of(name, nodeName=node, **facts)
        self.snapshot.apply(Added(ObjectKey(facts.get("namespace", "here"), name), pod))
        return self

    def ask(self, pod: Pod) -> dict[str, Verdict]:
        """The verdict of every node, once both forms of the rules agree on it."""
        codes = self.table.codes(pod)
        by_rule = self.table.explain(pod)
        by_vector = {name: REASONS[codes[row]] for name, row in self.snapshot.columns.rows.items()}
        assert by_vector == {name: verdict.reason for name, verdict in by_rule.items()}
        return by_rule

    def fitting(self, pod: Pod) -> str:
        """The names of the nodes that fit, in one word: nodes have names of one letter."""
        return "".join(name for name, verdict in self.ask(pod).items() if verdict)
