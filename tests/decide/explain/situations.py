"""Situations in which a pod waits, each with the obstacle that a person who knows the cluster would name.

The expected word is written by hand from the situation. Around each stands a crowd of nodes that refuse the pod for
other reasons and could hide the true one: full, cordoned, tainted, without GPUs, of another model.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from tests.cli.test_plan_scale import provisioner
from tests.decide.scenes import A100, NOON, Scene, claim, leased, node, pod, pod_group, quota, read, report
from tests.vms import GI, a_vm, size, vm_config
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import PERSISTENT_VOLUMES, VOLUME_CLAIMS
from ullage.model.fact_event import Added, FactEvent, ObjectKey, Synced, Updated
from ullage.model.shape import interned
from ullage.model.vm import VmMarks
from ullage.model.vm_config import VM_SOURCES, NodeOverride, VmNodesDocument
from ullage.state.snapshot import ClusterSnapshot
from ullage.testing.builders import a_volume, a_volume_claim, of_kind, with_meta

ALL = ",".join(map(str, range(8)))
POOL_LABEL = "gpu.scheduling/provisioner"
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
TEAM_TAINT = {"key": "team", "value": "b", "effect": "NoSchedule"}

Objects = Iterable[JsonObject | Iterable[JsonObject]]
Facts = Callable[[ClusterSnapshot], list[FactEvent[Any]]]


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A cluster in which pod `p` waits."""

    name: str
    reason: str
    """Obstacle, as a person would name it."""
    objects: Objects
    facts: Facts | None = None
    """Further facts, that manifests do not have."""
    known: Mapping[str, Any] = field(default_factory=dict)
    """Further inputs of the explanation."""
    crowded: bool = True
    unlike: tuple[str, ...] = ()
    """Words that the first advice must not have."""

    def scene(self) -> Scene:
        """The cluster, made anew."""
        scene = Scene(*self.objects, *(crowd() if self.crowded else ()))
        for event in self.facts(scene.snapshot) if self.facts is not None else ():
            scene.snapshot.apply(event)
        return scene

    def pools(self) -> tuple[Any, ...]:
        return read(*self.objects).provisioners


def crowd() -> list[JsonObject]:
    """Nodes that refuse for many reasons, most of them for several at once."""
    found: list[JsonObject] = []
    for number in range(4):
        name = f"crowd-a100-{number}"
        found += leased(name, 8, model=A100, memory="40Gi", labels={HOST: name})
        found.append(_filler(name, 8, held=ALL))
    for number in range(3):
        name = f"crowd-cpu-{number}"
        found += [node(name, labels={HOST: name}), _filler(name, requests={"cpu": "64"})]
    found.append(node("crowd-cordoned", labels={HOST: "crowd-cordoned"}, unschedulable=True))
    found.append(_filler("crowd-cordoned", requests={"cpu": "64"}))
    found.append(node("crowd-tainted", labels={HOST: "crowd-tainted"}, taints=[TEAM_TAINT]))
    found.append(_filler("crowd-tainted", requests={"cpu": "64"}))
    return found


def _filler(on: str, gpus: int = 0, **more: Any) -> JsonObject:
    more.setdefault("requests", {"cpu": "60"} if gpus else {})
    return pod(f"on-{on}", gpus, on=on, namespace="others", **more)


def h100(name: str, gpus: int = 8, **said: Any) -> list[JsonObject]:
    labels = {HOST: name, **said.pop("labels", {})}
    return leased(name, gpus, labels=labels, **said)


def held(name: str, ids: str = ALL, **more: Any) -> JsonObject:
    """A pod that holds these GPUs of a node."""
    return pod(f"on-{name}-{ids[:1]}", ids.count(",") + 1, on=name, held=ids, **{"namespace": "others", **more})


def wants(count: int = 1, **devices: Any) -> list[JsonObject]:
    """Pod `p` with a claim for H100s."""
    more = devices.pop("more", {})
    spec = devices.pop("spec", {})
    return [claim("c", count, devices={"model": "H100"} | devices, **spec), pod("p", claim="c", **more)]


def spec_of(objects: list[JsonObject], **spec: Any) -> list[JsonObject]:
    """The first object, a Node, with further fields of its spec."""
    first, *others = objects
    return [first | {"spec": first["spec"] | spec}, *others]


def status_of(objects: list[JsonObject], **status: Any) -> list[JsonObject]:
    first, *others = objects
    return [first | {"status": first["status"] | status}, *others]


def unready(objects: list[JsonObject], *, since: str, created: str = "2030-01-01T10:00:00Z") -> list[JsonObject]:
    first, *others = objects
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": since}
    first = first | {"metadata": first["metadata"] | {"creationTimestamp": created}}
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    return spec_of(status_of([first, *others], conditions=[condition]), taints=[taint])


def plain(**more: Any) -> JsonObject:
    """Pod `p` without GPUs, for nodes of tier `web`."""
    return pod("p", requests=more.pop("requests", {"cpu": "1"}), nodeSelector={"tier": "web"}, **more)


def web(name: str = "web", **more: Any) -> JsonObject:
    return node(name, labels={HOST: name, "tier": "web", **more.pop("labels", {})}, **more)


def mounting(name: str = "data") -> list[JsonObject]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


def volume_claim(*, volume: str = "", access: str = "ReadWriteOnce", **more: Any) -> JsonObject:
    body = a_volume_claim("data", volume=volume, accessModes=[access], **more)
    return of_kind(VOLUME_CLAIMS, with_meta(body, uid="uid-data"), "team")


def volume(zone: str) -> JsonObject:
    promised = {"namespace": "team", "name": "data", "uid": "uid-data"}
    return of_kind(PERSISTENT_VOLUMES, a_volume("vol", "", {ZONE: [zone]}, claimRef=promised))


def spread(key: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "p"}}
    one = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"labels": {"app": "p"}, "topologySpreadConstraints": [one]}


def affinity(kind: str, app: str, key: str = HOST) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def gang(count: int, gpus: int, minimum: int, **more: Any) -> list[JsonObject]:
    """Members p, q0, q1, ... of a gang."""
    names = ["p", *(f"q{number}" for number in range(count - 1))]
    members = [
        part
        for name in names
        for part in (claim(name, gpus, gangRef="g", devices={"model": "H100"}), pod(name, claim=name, **more))
    ]
    return [pod_group("g", minimum), *members]


def as_shape(**changes: Any) -> Facts:
    """Pod `p` with a shape that its manifest does not give."""

    def facts(snapshot: ClusterSnapshot) -> list[FactEvent[Any]]:
        known = snapshot.state.pods[ObjectKey("team", "p")]
        return [Updated(known.key, known, replace(known, shape=interned(replace(known.shape, **changes))))]

    return facts


DOCUMENT = ObjectKey("ullage-system", "vm-nodes")


def with_vms(*vms: Any, label: str = "", unbounded: bool = False) -> Facts:
    """The VM configuration, these VMs, and pod `p` as one of VM `label`."""

    def facts(snapshot: ClusterSnapshot) -> list[FactEvent[Any]]:
        known = snapshot.state.pods[ObjectKey("team", "p")]
        config = vm_config()
        if unbounded:
            config = vm_config(None, NodeOverride(("web",), config.defaults))
        marks = VmMarks(name=label) if label else None
        shape = interned(replace(known.shape, unbounded=unbounded))
        return [
            Added(DOCUMENT, VmNodesDocument(key=DOCUMENT, config=config)),
            *(Added(vm.key, vm) for vm in vms),
            Updated(known.key, known, replace(known, vm=marks, shape=shape)),
            *(Synced(source) for source in sorted(VM_SOURCES)),
        ]

    return facts


PDB = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "all", "namespace": "others"},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "kept"}}},
    "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
}

SLOT = GI
BIG_SHARE: dict[str, Any] = {"exclusivity": "Shared", "memory": "60Gi"}

EVERY_REASON = (
    Situation(
        name="spec.nodeName of a node that is gone",
        reason="NotTheNodeNamed",
        objects=[h100("free"), wants()],
        facts=as_shape(node_name="gone"),
    ),
    Situation(
        name="the only H100 node is cordoned",
        reason="NodeUnschedulable",
        objects=[spec_of(h100("h"), unschedulable=True), wants()],
    ),
    Situation(
        name="the H100 node has registered and is not ready yet",
        reason="NodeStarting",
        objects=[unready(h100("h"), since=NOON, created=NOON), wants()],
    ),
    Situation(
        name="the H100 node was ready and is not any more",
        reason="NodeNotReady",
        objects=[unready(h100("h"), since="2030-01-01T11:00:00Z"), wants()],
    ),
    Situation(
        name="the H100 node is another team's",
        reason="TaintNotTolerated",
        objects=[spec_of(h100("h"), taints=[TEAM_TAINT]), wants()],
    ),
    Situation(
        name="no free node has the label",
        reason="NodeSelectorMismatch",
        objects=[h100("h"), wants(more={"nodeSelector": {"disk": "nvme"}})],
    ),
    Situation(
        name="the port of the web node is taken",
        reason="HostPortTaken",
        objects=[
            web(),
            pod("first", on="web", containers=[{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]),
            plain(containers=[{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]),
        ],
    ),
    Situation(
        name="500 cores where nodes have 64",
        reason="NodeTooSmall",
        objects=[web(), plain(requests={"cpu": "500"})],
    ),
    Situation(
        name="the web node has as many pods as it may",
        reason="TooManyPods",
        objects=[
            status_of([web()], allocatable={"cpu": "64", "memory": "512Gi", "pods": "1"}),
            pod("first", on="web"),
            plain(),
        ],
    ),
    Situation(
        name="the web node is full",
        reason="InsufficientResources",
        objects=[web(), pod("first", on="web", requests={"cpu": "64"}), plain()],
    ),
    Situation(
        name="a container without requests on a node with VMs",
        reason="UnboundedContainer",
        objects=[web(), plain(requests={})],
        facts=with_vms(unbounded=True),
    ),
    Situation(
        name="no room for the VM",
        reason="VmInsufficientRoom",
        objects=[web(), pod("first", on="web", requests={"cpu": "63", "memory": "500Gi"}), plain(requests={})],
        facts=with_vms(a_vm("v", size(4, 16)), label="v"),
    ),
    Situation(
        name="its volume claim was never made",
        reason="VolumeNotReady",
        objects=[web(), plain(volumes=mounting())],
    ),
    Situation(
        name="its volume is in a zone where nothing is free",
        reason="VolumeElsewhere",
        objects=[
            web(labels={ZONE: "a"}),
            volume("b"),
            volume_claim(volume="vol"),
            plain(volumes=mounting()),
        ],
    ),
    Situation(
        name="its volume is for one pod only, and another has it",
        reason="VolumeInUse",
        objects=[
            web(labels={ZONE: "b"}),
            volume("b"),
            volume_claim(volume="vol", access="ReadWriteOncePod"),
            pod("first", on="web", volumes=mounting()),
            plain(volumes=mounting()),
        ],
    ),
    Situation(
        name="spread over zones, and the free node has no zone",
        reason="SpreadKeyMissing",
        objects=[web(), plain(**spread(ZONE))],
    ),
    Situation(
        name="one more here would be too uneven",
        reason="SpreadTooUneven",
        objects=[
            web(labels={ZONE: "a"}),
            web("web-closed", labels={ZONE: "b"}, unschedulable=True),
            pod("first", on="web", labels={"app": "p"}),
            plain(**spread(ZONE)),
        ],
    ),
    Situation(
        name="must be near a pod that is nowhere",
        reason="PodAffinityUnmet",
        objects=[web(), plain(**affinity("podAffinity", "cache"))],
    ),
    Situation(
        name="must be apart from a pod that is on the only node",
        reason="PodAntiAffinity",
        objects=[web(), pod("noisy", on="web", labels={"app": "noisy"}), plain(**affinity("podAntiAffinity", "noisy"))],
    ),
    Situation(
        name="a pod on the only node must be apart from it",
        reason="ExistingAntiAffinity",
        objects=[web(), pod("shy", on="web", **affinity("podAntiAffinity", "p")), plain(labels={"app": "p"})],
    ),
    Situation(
        name="a GPU where no node of the tier has any",
        reason="NoGpus",
        objects=[
            *(one for one in crowd() if "a100" not in one["metadata"]["name"]),
            report("elsewhere", 1),
            web(),
            claim("c"),
            pod("p", claim="c", nodeSelector={"tier": "web"}),
        ],
        crowded=False,
    ),
    Situation(
        name="a GPU node without an agent",
        reason="InventoryMissing",
        objects=[node("bare", 8, labels={HOST: "bare"}), wants()],
    ),
    Situation(
        name="the agent of the H100 node is silent",
        reason="InventoryStale",
        objects=[h100("h", at="2030-01-01T11:00:00Z"), wants()],
    ),
    Situation(
        name="a model that no node has, in a full cluster",
        reason="GpuModelMismatch",
        objects=[wants(model="B200")],
    ),
    Situation(
        name="more memory than any GPU has",
        reason="GpuMemoryTooSmall",
        objects=[h100("h"), wants(memory="120Gi")],
    ),
    Situation(
        name="half of the GPUs of the free node are ill",
        reason="GpusUnhealthy",
        objects=[h100("h", ill=(0, 1, 2, 3, 4)), wants(4)],
    ),
    Situation(
        name="all H100s are taken",
        reason="TooFewGpus",
        objects=[h100("h"), held("h"), wants(2)],
    ),
    Situation(
        name="the GPU it names is taken",
        reason="PreferredGpusTaken",
        objects=[h100("h"), held("h", "3"), wants(1, policy="preferIds", preferIds=[3])],
    ),
    Situation(
        name="no GPU has so much left to share",
        reason="NoRoomForShare",
        objects=[
            h100("h", 1),
            claim("first", devices=BIG_SHARE | {"model": "H100"}, namespace="others"),
            pod("first", claim="first", on="h", held="0", share=750, namespace="others"),
            wants(1, **BIG_SHARE),
        ],
    ),
    Situation(
        name="no MIG instance is free",
        reason="NoMigInstance",
        objects=[
            h100("h", 1, mig={0: [("3g.40gb", "40Gi")]}),
            pod("first", 1, on="h", held="0", namespace="others"),
            wants(exclusivity="MIG", memory="40Gi"),
        ],
    ),
    Situation(
        name="free GPUs are in two islands",
        reason="NoIslandLargeEnough",
        objects=[h100("h"), held("h", "0,4"), wants(4, spec={"topology": {"mode": "Required"}})],
    ),
    Situation(
        name="no GPUs are wired so fast",
        reason="BandwidthTooLow",
        objects=[h100("h"), wants(2, spec={"topology": {"mode": "Required", "minBandwidthGBps": 900}})],
    ),
    Situation(
        name="somebody holds a scheduling gate",
        reason="SchedulingGated",
        objects=[h100("h"), wants(more={"schedulingGates": [{"name": "quota.example.com/wait"}]})],
    ),
    Situation(
        name="ResourceClaims, and our scheduler",
        reason="ResourceClaims",
        objects=[
            h100("h"),
            pod("p", schedulerName="gpu-scheduler", resourceClaims=[{"name": "gpu", "resourceClaimName": "dra"}]),
        ],
    ),
    Situation(
        name="the claim it names was never created",
        reason="ClaimMissing",
        objects=[h100("h"), pod("p", claim="absent")],
    ),
    Situation(
        name="the claim contradicts the pod",
        reason="ClaimInvalid",
        objects=[
            h100("h"),
            claim("c", 1, devices={"model": "H100", "policy": "preferIds", "preferIds": [0]}),
            pod("p", 2, claim="c"),
        ],
    ),
    Situation(
        name="an older pod has the claim",
        reason="ClaimInUse",
        objects=[
            h100("h"),
            claim("c", devices={"model": "H100"}),
            pod("first", claim="c", on="h", held="0", created="2030-01-01T10:00:00Z"),
            pod("p", claim="c", created="2030-01-01T11:00:00Z"),
        ],
    ),
    Situation(
        name="the VM it names is not there",
        reason="VmMissing",
        objects=[web(), plain(requests={})],
        facts=with_vms(label="v"),
    ),
    Situation(
        name="the VM uses more than its maximum",
        reason="VmAmountsInvalid",
        objects=[web(), plain(requests={})],
        facts=with_vms(a_vm("v", size(4, 8), size(2, 4)), label="v"),
    ),
    Situation(
        name="memory slots of another size",
        reason="VmSlotSizeMismatch",
        objects=[web(), plain(requests={})],
        facts=with_vms(replace(a_vm("v", size(2, 4)), memory_slot=2 * SLOT), label="v"),
    ),
    Situation(
        name="a gang that does not say how many it is",
        reason="GangSizeUnknown",
        objects=[h100("h"), claim("p", gangRef="g", devices={"model": "H100"}), pod("p", claim="p")],
    ),
    Situation(
        name="GPUs are free, and the quota is used up",
        reason="QuotaExceeded",
        objects=[
            h100("h"),
            quota(gpus=1),
            claim("mine", devices={"model": "H100"}),
            pod("mine", claim="mine", on="h", held="0"),
            wants(),
        ],
    ),
    Situation(
        name="two of four members exist",
        reason="GangIncomplete",
        objects=[h100("h"), gang(2, 2, 4)],
    ),
)
"""One for every reason of the closed list."""

OUR_OWN = (
    Situation(
        name="a node of a pool whose GPUs have not appeared yet",
        reason="NodeStarting",
        objects=[
            provisioner("pool"),
            node("fresh", labels={HOST: "fresh", POOL_LABEL: "pool"}),
            claim("c", 8),
            pod("p", claim="c"),
        ],
    ),
    Situation(
        name="a pool at its maximum that could never serve it",
        reason="GpuModelMismatch",
        objects=[
            provisioner("small", maxSize=1, template__gpus__model=A100),
            leased("in-small", labels={POOL_LABEL: "small", HOST: "in-small"}, model=A100),
            held("in-small"),
            wants(model="B200"),
        ],
        unlike=("maxSize",),
    ),
    Situation(
        name="a pool at its maximum that would serve it",
        reason="TooFewGpus",
        objects=[
            provisioner("pool", maxSize=1),
            leased("in-pool", labels={POOL_LABEL: "pool", HOST: "in-pool"}),
            held("in-pool", labels={"app": "kept"}),
            PDB,
            wants(8),
        ],
    ),
    Situation(
        name="a paused pool",
        reason="TooFewGpus",
        objects=[provisioner("pool", paused=True), h100("h"), held("h", labels={"app": "kept"}), PDB, wants(8)],
    ),
    Situation(
        name="a pool that buys",
        reason="TooFewGpus",
        objects=[provisioner("pool"), h100("h"), held("h"), wants(8)],
    ),
    Situation(
        name="five seats of six, and another gang on the sixth",
        reason="TooFewGpus",
        objects=[
            *(h100(f"h{number}") for number in range(6)),
            pod_group("other", 1),
            claim("other", 8, gangRef="other", namespace="team"),
            pod("other", claim="other", on="h0", held=ALL, labels={"app": "kept"}),
            gang(6, 8, 6),
        ],
    ),
    Situation(
        name="everything that could leave is protected by a budget",
        reason="TooFewGpus",
        objects=[h100("h"), held("h", labels={"app": "kept"}), PDB, wants(8)],
        unlike=("ending",),
    ),
    Situation(
        name="pinned to a host that is gone",
        reason="NodeSelectorMismatch",
        objects=[h100("h"), wants(more={"nodeSelector": {HOST: "gone"}})],
        unlike=("label h",),
    ),
    Situation(
        name="pinned to a host that is full",
        reason="TooFewGpus",
        objects=[h100("h"), h100("other"), held("h"), wants(more={"nodeSelector": {HOST: "h"}})],
    ),
    Situation(
        name="a pod of another scheduler",
        reason="OtherScheduler",
        objects=[h100("h"), wants(more={"schedulerName": "volcano"})],
        known={"schedulers": frozenset({"gpu-scheduler"})},
    ),
    Situation(
        name="nobody leads",
        reason="NobodyLeads",
        objects=[h100("h"), wants(more={"schedulerName": "gpu-scheduler"})],
        known={"nobody_leads": "Lease ullage-scheduler was renewed 300 s ago"},
    ),
    Situation(
        name="quota and room are both in the way",
        reason="TooFewGpus",
        objects=[h100("h"), held("h"), quota(gpus=0), wants(8)],
    ),
    Situation(
        name="a quota by model that is used up",
        reason="QuotaExceeded",
        objects=[h100("h"), quota(byModel={"H100": 1}), wants(2)],
    ),
    Situation(
        name="a cordoned node that is too small hides a full one",
        reason="TooFewGpus",
        objects=[spec_of(h100("tiny", 1), unschedulable=True), h100("h"), held("h", "0,1,2,3,4,5"), wants(4)],
    ),
    Situation(
        name="a plain request on a leased node",
        reason="TaintNotTolerated",
        objects=[
            spec_of(h100("h"), taints=[{"key": "gpu.scheduling/leased", "effect": "NoSchedule"}]),
            pod("p", 1, nodeSelector={HOST: "h"}),
        ],
    ),
    Situation(
        name="a share that no GPU could ever give",
        reason="GpuMemoryTooSmall",
        objects=[h100("h", 1), wants(exclusivity="Shared", memory="100Gi")],
    ),
    Situation(
        name="the node that would do is to be removed",
        reason="TaintNotTolerated",
        objects=[
            spec_of(
                h100("h"),
                taints=[{"key": "gpu.scheduling/deletion-time", "value": "1893500000", "effect": "NoSchedule"}],
            ),
            wants(),
        ],
    ),
    Situation(
        name="a claim of another namespace",
        reason="ClaimMissing",
        objects=[h100("h"), claim("c", namespace="others"), pod("p", claim="c")],
    ),
    Situation(
        name="pods ahead in the queue take the room",
        reason="BehindOthers",
        objects=[
            h100("h", 4),
            claim("early", 4, devices={"model": "H100"}),
            pod("early", claim="early", created="2030-01-01T10:00:00Z"),
            claim("c", 4, devices={"model": "H100"}),
            pod("p", claim="c", created="2030-01-01T11:00:00Z"),
        ],
    ),
    Situation(
        name="an empty cluster",
        reason="NoNodes",
        objects=[report("nobody", 1), claim("c", 2, devices={"model": "H100"}), pod("p", claim="c")],
        crowded=False,
    ),
    Situation(
        name="cordoned, and of the wrong model",
        reason="GpuModelMismatch",
        objects=[spec_of(leased("old", model=A100), unschedulable=True), wants(model="B200")],
    ),
)
"""Met in use, or looked for to mislead."""

SITUATIONS = (*EVERY_REASON, *OUR_OWN)
