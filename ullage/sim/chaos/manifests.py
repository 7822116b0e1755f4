"""Objects of a chaos story: nodes, pools and jobs as Kubernetes manifests. Pure."""

from typing import Any

from ullage.model.device import Device, Inventory, MigInstance
from ullage.model.provisioner import MICROS, GpuTemplate, NodeTemplate
from ullage.sim.chaos.story import ChaosJob, ChaosNode, ChaosPool, ChaosStory, JobKind
from ullage.sim.kubelet.timings import DURATION
from ullage.sim.world.nodes import node_manifest, report_manifest
from ullage.sim.world.spec import Arrival, FleetNode

GIB = 1 << 30
MIG_SLICES = 3
"""Instances on each partitioned GPU."""
GANG_SIZE = 3
REPLICAS = 2
QUOTA_NAMESPACE = "limited"
URGENT = "urgent"
JsonObject = dict[str, Any]


def node_template(gpus: int, islands: int = 1) -> NodeTemplate:
    """Template of a node with so many GPUs."""
    return NodeTemplate(
        gpus=GpuTemplate(model="H100", count=gpus, memory=80 * GIB, islands=min(islands, gpus)),
        resources={"cpu": 32_000, "memory": 256 * GIB * 1000},
        price=4 * MICROS,
    )


def fleet_of(story: ChaosStory) -> tuple[FleetNode, ...]:
    """Nodes that are not partitioned."""
    return tuple(
        FleetNode(name=node_name(number), template=node_template(node.gpus, node.islands))
        for number, node in enumerate(story.nodes)
        if not node.mig
    )


def node_name(number: int) -> str:
    return f"gpu-{number}"


def first_objects(story: ChaosStory) -> tuple[JsonObject, ...]:
    """Objects that exist from the beginning: partitioned nodes, pools, a quota, a priority class."""
    found: list[JsonObject] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": QUOTA_NAMESPACE}},
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": URGENT},
            "value": 100,
        },
        _object("GpuQuota", "quota", {"gpus": 3}, QUOTA_NAMESPACE),
    ]
    for number, node in enumerate(story.nodes):
        if node.mig:
            found += _partitioned(node_name(number), node)
    return (*found, *(pool_manifest(pool) for pool in story.pools))


def _partitioned(name: str, node: ChaosNode) -> list[JsonObject]:
    template = node_template(node.gpus, node.islands)
    inventory = Inventory(node=name, reported_at=0.0, devices=partitioned(template.gpus.devices(name)))
    return [node_manifest(name, template, {}), report_manifest(inventory)]


def partitioned(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """The same GPUs with MIG on."""
    return tuple(_with_mig(device) for device in devices)


def _with_mig(device: Device) -> Device:
    return Device(
        id=device.id,
        uuid=device.uuid,
        model=device.model,
        memory=device.memory,
        health=device.health,
        mig=tuple(MigInstance(f"MIG-{device.uuid}-{one}", "1g.10gb", 10 * GIB) for one in range(MIG_SLICES)),
    )


def pool_manifest(pool: ChaosPool) -> JsonObject:
    spec: JsonObject = {
        "provider": {"name": "aws", "parameters": {"bootSeconds": "40", "gpuSeconds": "10"}},
        "template": {
            "resources": {"cpu": "32", "memory": "256Gi"},
            "gpus": {"model": "H100", "count": 4, "memory": "80Gi", "islands": 1},
            "pricePerHour": "4",
        },
        "minSize": pool.least,
        "maxSize": pool.most,
        "minGPUUtilizationPercent": 50,
        "scaleDownDelay": "1m",
        "bootDeadline": "3m",
    }
    if pool.drain:
        spec["consolidation"] = {"policy": "Drain", "unneededTime": "1m"}
    return _object("NodeProvisioner", pool.name, spec, "")


def arrival_of(job: ChaosJob) -> Arrival:
    """Objects of a job."""
    again = job.kind is not JobKind.TEMPLATE and job.leaves_at is None
    return Arrival(at=job.at, objects=tuple(_objects(job)), leaves_at=job.leaves_at, again=again)


def _objects(job: ChaosJob) -> list[JsonObject]:
    match job.kind:
        case JobKind.WHOLE:
            return [_pod(job, job.name, gpus=job.gpus)]
        case JobKind.PLAIN:
            return [_pod(job, job.name)]
        case JobKind.GANG:
            gang = {"gangRef": job.name, "gangMinMember": GANG_SIZE}
            names = [f"{job.name}-{member}" for member in range(GANG_SIZE)]
            return [one for name in names for one in (_claim(job, name, gang), _pod(job, name, claim=name))]
        case JobKind.TEMPLATE:
            return _deployment(job)
        case JobKind.QUOTA:
            return [
                _claim(job, job.name, {}, QUOTA_NAMESPACE),
                _pod(job, job.name, claim=job.name, namespace=QUOTA_NAMESPACE),
            ]
        case _:
            return [_claim(job, job.name, {}), _pod(job, job.name, claim=job.name)]


def _claim(job: ChaosJob, name: str, more: JsonObject, namespace: str = "default") -> JsonObject:
    devices: JsonObject = {"count": job.gpus}
    spec: JsonObject = {"devices": devices, **more}
    if job.kind is JobKind.SHARED:
        devices |= {"count": 1, "exclusivity": "Shared", "memory": f"{20 * job.gpus}Gi"}
    elif job.kind is JobKind.MIG:
        devices |= {"exclusivity": "MIG", "memory": "10Gi"}
    elif job.kind is JobKind.ISLAND:
        spec["topology"] = {"mode": "Required"}
    return _object("GpuClaim", name, spec, namespace)


def _pod(
    job: ChaosJob, name: str, *, gpus: int = 0, claim: str = "", template: str = "", namespace: str = "default"
) -> JsonObject:
    amounts = {"cpu": "1", "memory": "1Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    notes = {DURATION: f"{job.seconds:.1f}"} if job.seconds is not None else {}
    notes |= {"gpu.scheduling/claim": claim} if claim else {}
    notes |= {"gpu.scheduling/claim-template": template} if template else {}
    notes["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "true"
    container = {"name": "main", "image": "example.test/main:v1", "resources": {"requests": amounts, "limits": amounts}}
    spec: JsonObject = {"schedulerName": "gpu-scheduler", "restartPolicy": "Never", "containers": [container]}
    if job.priority:
        spec["priorityClassName"] = URGENT
    meta = {"name": name, "namespace": namespace, "annotations": notes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _deployment(job: ChaosJob) -> list[JsonObject]:
    """Two replicas with a claim each, of which one may be disrupted at a time."""
    labels = {"app": job.name}
    pod = _pod(job, job.name, template=job.name)
    pod["spec"]["restartPolicy"] = "Always"
    notes = {key: value for key, value in pod["metadata"]["annotations"].items() if key != DURATION}
    template = {"metadata": {"labels": labels, "annotations": notes}, "spec": pod["spec"]}
    selector = {"matchLabels": labels}
    meta = {"name": job.name, "namespace": "default"}
    return [
        _claim(job, job.name, {}),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": meta,
            "spec": {"maxUnavailable": 1, "selector": selector},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {"replicas": REPLICAS, "selector": selector, "template": template},
        },
    ]


def _object(kind: str, name: str, spec: JsonObject, namespace: str) -> JsonObject:
    meta = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": "gpu.scheduling/v1", "kind": kind, "metadata": meta, "spec": spec}
