"""Objects of a chaos story: nodes, pools and jobs as Kubernetes manifests. Pure."""

from typing import Any

from ullage.config.karpenter import KarpenterSettings
from ullage.config.settings import Settings
from ullage.kube.client.resources import RESOURCE_SLICES
from ullage.kube.read.dra import DRIVER
from ullage.model.admission import LEASED_TAINT
from ullage.model.device import KIND_LABEL, Device, GpuNodeKind, Inventory, MigInstance
from ullage.model.karpenter import GPU_TAINT, NodePoolMapping
from ullage.model.provisioner import HOST_LABEL, MICROS, GpuTemplate, NodeTemplate
from ullage.model.resources import GPU
from ullage.model.units import Bytes, Instant, Micros, Seconds
from ullage.model.vm import VmAmounts
from ullage.sim.chaos.story import ChaosJob, ChaosNode, ChaosPool, ChaosStory, JobKind
from ullage.sim.karpenter.timings import KarpenterTimings
from ullage.sim.kubelet.timings import DURATION
from ullage.sim.vms.guest_load import BurstyLoad
from ullage.sim.world.karpenter import gpu_instance_type, node_pool_manifest
from ullage.sim.world.nodes import node_manifest, report_manifest
from ullage.sim.world.spec import Arrival, FleetNode, KarpenterSpec
from ullage.sim.world.vms import VmWorldSpec, virtual_machine

GIB = 1 << 30
MIG_SLICES = 3
"""Instances on each partitioned GPU."""
GANG_SIZE = 3
REPLICAS = 2
QUOTA_NAMESPACE = "limited"
URGENT = "urgent"
NODE_POOL = "gpu-h100"
RIVAL = "rival"
VOLUME = "data"
LARGEST_INSTANCE = 8
"""GPUs of the largest instance that Karpenter can buy."""
_ANY_GPU = {"example.com/any": "gpu"}
"""Label that nodes of Karpenter give themselves, and that the rival selects: Karpenter never buys for it."""
_VM_USE, _VM_MOST = VmAmounts(500, 2 * GIB), VmAmounts(12_000, 48 * GIB)
CALM_CORES = 0.3
"""Load of a VM that has nothing to do."""
JsonObject = dict[str, Any]


def node_template(gpus: int, islands: int = 1) -> NodeTemplate:
    """Template of a node with so many GPUs."""
    return NodeTemplate(
        gpus=GpuTemplate(model="H100", count=gpus, memory=Bytes(80 * GIB), islands=min(islands, gpus)),
        resources={"cpu": 32_000, "memory": 256 * GIB * 1000},
        price=Micros(4 * MICROS),
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
    if story.dra:
        found += [_slice(node_name(number), node) for number, node in enumerate(story.nodes)]
    if any(job.kind is JobKind.VOLUME for job in story.jobs):
        found += _volume()
    if story.karpenter:
        found += [_node_pool(story), _rival()]
    return (*found, *(pool_manifest(pool) for pool in story.pools))


def settings_of(story: ChaosStory) -> Settings:
    """Settings of every process: the usual ones, and a mapping where Karpenter is there."""
    if not story.karpenter:
        return Settings()
    mapping = NodePoolMapping(
        name="h100", node_pool=NODE_POOL, gpu_model="H100", gpu_memory=Bytes(80 * GIB), price_per_gpu=Micros(2 * MICROS)
    )
    # Every deadline and pause is shorter than the time without a write after which a world is at rest.
    soon = Seconds(150.0)
    karpenter = KarpenterSettings(
        enabled=True,
        node_pools={"h100": mapping},
        priority_class="",
        max_backoff=Seconds(60.0),
        launch_deadline=soon,
        registration_deadline=soon,
        initialization_deadline=soon,
        inventory_deadline=soon,
        gang_deadline=Seconds(200.0),
    )
    return Settings(karpenter=karpenter)


def karpenter_of(story: ChaosStory) -> KarpenterSpec | None:
    """Karpenter with instances of one, four and eight GPUs; None if the story has none."""
    if not story.karpenter:
        return None
    return KarpenterSpec(
        types=tuple(gpu_instance_type(f"h100-{gpus}", gpus, 2.0 * gpus) for gpus in (1, 4, LARGEST_INSTANCE)),
        gpus=GpuTemplate(model="H100", count=8, memory=Bytes(80 * GIB), islands=1),
        timings=KarpenterTimings(registration=30.0, initialisation=3.0),
        boot_labels=_ANY_GPU if story.real_agents else {**_ANY_GPU, KIND_LABEL: GpuNodeKind.LEASED.value.lower()},
    )


def vms_of(story: ChaosStory) -> VmWorldSpec | None:
    """VMs with bursts of a few minutes; None if the story has none."""
    if not story.vms:
        return None
    load = BurstyLoad(seed=story.seed, calm=(CALM_CORES, CALM_CORES), burst=(2.0, 11.0), calm_seconds=200.0)
    return VmWorldSpec(load=load)


def _node_pool(story: ChaosStory) -> JsonObject:
    """NodePool as we ship it. Without agents of their own, nodes come with the taint that agents would set."""
    manifest = node_pool_manifest(NODE_POOL)
    if not story.real_agents:
        manifest["spec"]["template"]["spec"]["taints"].append({"key": LEASED_TAINT, "effect": "NoSchedule"})
    return manifest


def _rival() -> JsonObject:
    """A pod of kube-scheduler that waits for any node of Karpenter and tolerates the taint of GPU nodes."""
    amounts = {"cpu": "1", GPU: "1"}
    container = {"name": "main", "image": "example.test/main:v1", "resources": {"requests": amounts, "limits": amounts}}
    spec = {
        "schedulerName": "default-scheduler",
        "containers": [container],
        "nodeSelector": _ANY_GPU,
        "tolerations": [{"key": GPU_TAINT, "operator": "Exists"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": RIVAL, "namespace": "default"}, "spec": spec}


def _slice(name: str, node: ChaosNode) -> JsonObject:
    """GPUs of a node as a DRA driver publishes them."""
    devices = node_template(node.gpus, node.islands).gpus.devices(name)
    named = [{"name": f"gpu-{one.id}", "attributes": {"uuid": {"string": one.uuid}}} for one in devices]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": named}
    slices = RESOURCE_SLICES[0]
    return {"apiVersion": slices.api_version, "kind": slices.kind, "metadata": {"name": name}, "spec": spec}


def _volume() -> list[JsonObject]:
    """A volume on the disk of the first node, with the claim that is bound to it."""
    amounts = {"storage": "10Gi"}
    only = {"key": HOST_LABEL, "operator": "In", "values": [node_name(0)]}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": VOLUME},
            "spec": {
                "capacity": amounts,
                "accessModes": ["ReadWriteOnce"],
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": VOLUME},
                "local": {"path": "/data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [only]}]}},
            },
            "status": {"phase": "Bound"},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": VOLUME,
                "namespace": "default",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": amounts},
                "volumeName": VOLUME,
                "storageClassName": "",
            },
            "status": {"phase": "Bound"},
        },
    ]


def _partitioned(name: str, node: ChaosNode) -> list[JsonObject]:
    template = node_template(node.gpus, node.islands)
    inventory = Inventory(node=name, reported_at=Instant(0.0), devices=partitioned(template.gpus.devices(name)))
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
        mig=tuple(MigInstance(f"MIG-{device.uuid}-{one}", "1g.10gb", Bytes(10 * GIB)) for one in range(MIG_SLICES)),
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
    again = job.kind not in (JobKind.TEMPLATE, JobKind.VM) and job.leaves_at is None
    return Arrival(at=job.at, objects=tuple(_objects(job)), leaves_at=job.leaves_at, again=again)


def _objects(job: ChaosJob) -> list[JsonObject]:
    match job.kind:
        case JobKind.VM:
            manifest = virtual_machine(job.name, "gpu-scheduler", _VM_USE, _VM_MOST)
            return [manifest | {"metadata": manifest["metadata"] | {"namespace": "default"}}]
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
    elif job.kind is JobKind.COUNTED:
        spec["selector"] = {"matchLabels": {KIND_LABEL: GpuNodeKind.COUNTED.value.lower()}}
    return _object("GpuClaim", name, spec, namespace)


def _pod(
    job: ChaosJob, name: str, *, gpus: int = 0, claim: str = "", template: str = "", namespace: str = "default"
) -> JsonObject:
    amounts = {"cpu": "1", "memory": "1Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    notes = {DURATION: f"{job.seconds:.1f}"} if job.seconds is not None else {}
    notes |= {"gpu.scheduling/claim": claim} if claim else {}
    notes |= {"gpu.scheduling/claim-template": template} if template else {}
    notes["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "true"
    container: JsonObject = {"name": "main", "image": "example.test/main:v1"}
    container["resources"] = {"requests": amounts, "limits": amounts}
    spec: JsonObject = {"schedulerName": "gpu-scheduler", "restartPolicy": "Never", "containers": [container]}
    if job.kind is JobKind.COUNTED:
        container["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    if job.kind is JobKind.VOLUME:
        spec["volumes"] = [{"name": VOLUME, "persistentVolumeClaim": {"claimName": VOLUME}}]
    if job.priority:
        spec["priorityClassName"] = URGENT
    if claim or template:
        spec["tolerations"] = [{"key": GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"}]
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


def foreign_pod(name: str, node: str, uuid: str, seconds: float) -> JsonObject:
    """Pod of another scheduler, bound already, whose container uses a GPU."""
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": uuid}]
    container = {"name": "main", "image": "example.test/main:v1", "env": env}
    notes = {DURATION: f"{seconds:.1f}", "cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": notes},
        "spec": {
            "schedulerName": "another-scheduler",
            "restartPolicy": "Never",
            "nodeName": node,
            "containers": [container],
        },
    }


def _object(kind: str, name: str, spec: JsonObject, namespace: str) -> JsonObject:
    meta = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": "gpu.scheduling/v1", "kind": kind, "metadata": meta, "spec": spec}
