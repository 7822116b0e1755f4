"""MachineDeployment and its Machines as instances of a pool, and as a template."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ullage.cloud.clusterapi.sizes import PURCHASES, REMOVALS, note_of, replicas_of
from ullage.kube.client.resource import JsonObject
from ullage.kube.timestamps import read_time
from ullage.model.instance import Instance, InstanceState
from ullage.model.node import Taint
from ullage.model.provisioner import ZONE_LABEL, GpuTemplate, NodeTemplate
from ullage.model.quantity import milli
from ullage.model.units import Instant

CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
"""Annotations by which Cluster API describes a node before one exists."""
ACCELERATOR = "cluster-api/accelerator"
"""Label that names the GPU model."""


class MachineDeploymentRef(NamedTuple):
    """Key of a MachineDeployment."""

    namespace: str
    name: str


class MachineSet:
    """Machines of a MachineDeployment, with the replicas that are requested and not made yet."""

    def __init__(
        self, pool: str, where: MachineDeploymentRef, deployment: JsonObject, found: Sequence[JsonObject]
    ) -> None:
        self._pool = pool
        self._where = where
        self._deployment = deployment
        self._found = sorted(found, key=lambda raw: (raw["metadata"].get("creationTimestamp", ""), _name(raw)))
        self._removed = set(note_of(deployment, REMOVALS, []))

    def instances(self) -> list[Instance]:
        """Instances, oldest first; at the end those not made yet."""
        machines = [self._instance(raw) for raw in self._found]
        staying = sum(one.state is not InstanceState.STOPPING for one in machines)
        return machines + [self._missing(place) for place in range(replicas_of(self._deployment) - staying)]

    def _instance(self, raw: JsonObject) -> Instance:
        status = raw.get("status") or {}
        node = (status.get("nodeRef") or {}).get("name", "")
        going = raw["metadata"].get("deletionTimestamp") or _name(raw) in self._removed
        state = InstanceState.RUNNING if node else InstanceState.PENDING
        return Instance(
            id=f"{self._where.namespace}/{_name(raw)}",
            pool=self._pool,
            since=read_time(raw["metadata"].get("creationTimestamp")),
            state=InstanceState.STOPPING if going else state,
            node=node,
            provider_id=raw.get("spec", {}).get("providerID") or "",
            zone=raw.get("spec", {}).get("failureDomain") or "",
        )

    def _missing(self, place: int) -> Instance:
        purchases = note_of(self._deployment, PURCHASES, {})
        last = max((float(at) for _, at in purchases.values()), default=0.0)
        return Instance(
            id=f"{self._where.namespace}/{self._where.name}#{place}",
            pool=self._pool,
            since=Instant(last or read_time(self._deployment["metadata"].get("creationTimestamp"))),
            state=InstanceState.REQUESTED,
        )


def described(deployment: JsonObject) -> list[NodeTemplate]:
    """Template of its nodes, from its annotations; empty without GPUs."""
    notes: Mapping[str, str] = deployment["metadata"].get("annotations") or {}
    said = {key.removeprefix(CAPACITY): text for key, text in notes.items() if key.startswith(CAPACITY)}
    count = int(said.get("gpu-count", "0"))
    labels = dict(part.split("=", 1) for part in said.get("labels", "").split(",") if "=" in part)
    if not count:
        return []
    zone = labels.get(ZONE_LABEL)
    return [
        NodeTemplate(
            gpus=GpuTemplate(model=labels.get(ACCELERATOR, said.get("gpu-type", "unknown")), count=count),
            labels=labels,
            taints=tuple(_taint(text) for text in said.get("taints", "").split(",") if text),
            resources={name: milli(said[name]) for name in ("cpu", "memory") if name in said},
            zones=(zone,) if zone else (),
        )
    ]


def _taint(text: str) -> Taint:
    """`key=value:effect`."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return Taint(key, value, effect)


def _name(raw: JsonObject) -> str:
    return str(raw["metadata"]["name"])
