"""Bodies of the objects that the simulated Karpenter writes: NodeClaims, Nodes, conditions, Events."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ullage.clock import Instant
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import NODE_CLAIMS, NODE_POOLS
from ullage.kube.timestamps import write_micro_time, write_time
from ullage.kube.write.smart_pod import written_amount
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import INSTANCE_TYPE_LABEL, KARPENTER, NodePool
from ullage.model.node import Taint
from ullage.model.provisioner import HOST_LABEL
from ullage.sim.karpenter.solver import InstanceType, Planned

FINALIZER = "karpenter.sh/termination"
REGISTERED_LABEL = "karpenter.sh/registered"
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
"""Taint of a Node until it is registered."""
NODE_CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}


def node_claim(name: str, planned: Planned, labels: Mapping[str, str]) -> JsonObject:
    """NodeClaim of a planned node. Its requirements name every instance type that holds the pods."""
    pool = planned.pool
    types = {"key": INSTANCE_TYPE_LABEL, "operator": "In", "values": sorted(one.name for one in planned.types)}
    return {
        "apiVersion": NODE_CLAIMS.api_version,
        "kind": NODE_CLAIMS.kind,
        "metadata": {
            "name": name,
            "labels": dict(labels),
            "finalizers": [FINALIZER],
            "ownerReferences": [_owner(pool)],
        },
        "spec": {
            "resources": {"requests": amounts(planned.requests)},
            "requirements": [types],
            "taints": taints(pool.taints),
            "startupTaints": taints(pool.startup_taints),
            "nodeClassRef": NODE_CLASS,
        },
    }


def node(name: str, claim: JsonObject, kind: InstanceType) -> JsonObject:
    """Node of a launched NodeClaim: its labels and taints, and the resources of its instance type."""
    room = amounts(kind.resources if kind.reports_gpus else kind.without_gpus)
    meta, spec = claim["metadata"], claim["spec"]
    return {
        "metadata": {
            "name": name,
            "labels": {**(meta.get("labels") or {}), HOST_LABEL: meta["name"], REGISTERED_LABEL: "true"},
            "finalizers": [FINALIZER],
        },
        "spec": {
            "providerID": f"kwok://{name}",
            "taints": [UNREGISTERED, *(spec.get("taints") or []), *(spec.get("startupTaints") or [])],
        },
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def conditions(said: Mapping[str, str], *, now: Instant, node_name: str = "", why: str = "") -> JsonObject:
    """Status of a NodeClaim. `why` is the reason of the condition that is not True."""
    written = [
        {
            "type": kind,
            "status": status,
            "reason": kind if status == "True" or not why else why,
            "message": "",
            "lastTransitionTime": write_time(now),
        }
        for kind, status in said.items()
    ]
    return {"conditions": written} | ({"nodeName": node_name} if node_name else {})


@dataclass(frozen=True, slots=True)
class SimulatedEvent:
    """Event of the simulated Karpenter about a pod or a NodeClaim."""

    kind: str
    about: ObjectKey
    uid: str
    reason: str
    note: str

    def body(self, name: str, *, now: Instant) -> JsonObject:
        namespace = self.about.namespace
        return {
            "metadata": {"name": name, "namespace": namespace or "default"},
            "regarding": {
                "apiVersion": "v1" if self.kind == "Pod" else NODE_CLAIMS.api_version,
                "kind": self.kind,
                "namespace": namespace,
                "name": self.about.name,
                "uid": self.uid,
            },
            "reason": self.reason,
            "note": self.note,
            "type": "Warning" if self.reason != "Nominated" else "Normal",
            "action": "Provisioning",
            "eventTime": write_micro_time(now),
            "reportingController": KARPENTER,
            "reportingInstance": KARPENTER,
        }


def amounts(known: Mapping[str, int]) -> dict[str, str]:
    return {name: written_amount(amount) for name, amount in sorted(known.items())}


def taints(known: Iterable[Taint]) -> list[JsonObject]:
    return [{"key": one.key, "value": one.value, "effect": one.effect} for one in known]


def _owner(pool: NodePool) -> JsonObject:
    names = {"apiVersion": NODE_POOLS.api_version, "kind": NODE_POOLS.kind, "name": pool.name, "uid": pool.uid}
    return names | {"blockOwnerDeletion": True}
