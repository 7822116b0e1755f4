"""Small random clusters: few names and few values, so that things meet. One `Random` makes one cluster."""

from random import Random
from typing import Any

import msgspec

from ullage.model.allocation import lease_name
from ullage.model.device import Device, DeviceHealth, Inventory
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Synced, Updated
from ullage.model.lease import GpuLease, LeaseHold
from ullage.model.namespace import Namespace
from ullage.model.node import Node, Taint
from ullage.model.pod import Phase, Pod
from ullage.model.resources import GPU
from ullage.model.selector import Operator, Requirement, Selector
from ullage.model.shape import Shape, interned, own_labels
from ullage.model.shape_terms import (
    ClaimUse,
    HostPort,
    NodeTerm,
    PodMatcher,
    PodTerm,
    SpreadConstraint,
    Toleration,
    WeightedPodTerm,
)
from ullage.model.units import Bytes, Instant, Milli
from ullage.model.vm import Vm, VmAmounts, VmMarks
from ullage.model.vm_config import (
    VM_SOURCES,
    NodeConfig,
    NodeOverride,
    ResourceConfig,
    VmConfig,
    VmNodesDocument,
)
from ullage.model.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from ullage.state.cluster import ClusterState, Fact

ZONE, HOST, TIER = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "tier"
NODES = tuple("abcdef")
SPACES = ("n", "m")
CLAIMS = ("data", "logs")
LABEL_KEYS = ("app", "team")


def a_node(rng: Random, name: str) -> Node:
    labels = {HOST: name}
    if rng.random() < 0.8:
        labels[ZONE] = rng.choice(("z1", "z2"))
    if rng.random() < 0.6:
        labels[TIER] = rng.choice(("1", "2", "10"))
    taints = tuple(
        Taint(key, rng.choice(("", "v")), rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule")))
        for key in ("node.kubernetes.io/not-ready", "team")
        if rng.random() < 0.2
    )
    ready = rng.random() < 0.9
    return Node(
        name=name,
        uid=f"uid-{name}",
        created=Instant(0.0),
        ready=ready,
        starting=not ready and rng.random() < 0.5,
        unschedulable=rng.random() < 0.1,
        labels=labels,
        taints=taints,
        allocatable={
            "cpu": 1000 * rng.randint(1, 8),
            "memory": 1000 * rng.choice((0, 500, 900)),
            "pods": 1000 * rng.randint(1, 5),
            GPU: 1000 * rng.choice((0, 4)),
        },
    )


def a_pod(rng: Random, name: str, *, on: str = "") -> Pod:
    namespace = rng.choice(SPACES)
    labels = {key: rng.choice(("x", "y")) for key in LABEL_KEYS if rng.random() < 0.7}
    return Pod(
        key=ObjectKey(namespace, name),
        uid=f"uid-{name}",
        created=Instant(0.0),
        node=on,
        phase=rng.choice((Phase.RUNNING, Phase.RUNNING, Phase.RUNNING, Phase.SUCCEEDED)) if on else Phase.PENDING,
        deleting=rng.random() < 0.15,
        gated=False,
        scheduler="gpu-scheduler",
        priority=0,
        labels=labels,
        shape=a_shape(rng, namespace, labels),
        owner=None,
        gpu_ids=tuple(sorted(rng.sample(range(4), rng.randint(1, 2)))) if on and rng.random() < 0.3 else (),
        gpu_share=Milli(rng.choice((1000, 250))),
    )


def a_shape(rng: Random, namespace: str, labels: dict[str, str]) -> Shape:
    requests = {
        "cpu": rng.choice((0, 500, 1000, 3000)),
        "memory": rng.choice((0, 0, 0, 0, 200_000)),
        GPU: rng.choice((0, 0, 1000, 5000)),
        "disk": rng.choice((0, 0, 0, 1)),
    }
    near = _some(rng, 0.2, lambda: a_pod_term(rng, namespace))
    away = _some(rng, 0.2, lambda: a_pod_term(rng, namespace))
    wishes = _some(rng, 0.1, lambda: WeightedPodTerm(weight=rng.choice((-5, 3)), term=a_pod_term(rng, namespace)))
    spread = _some(rng, 0.25, lambda: a_spread(rng))
    looks = bool(near or away or wishes or spread)
    return interned(
        Shape(
            requests=tuple(sorted((name, amount) for name, amount in requests.items() if amount)),
            scored_cpu=max(requests["cpu"], 100),
            scored_memory=max(requests["memory"], 70_000),
            node_name=rng.choice(NODES) if rng.random() < 0.05 else "",
            node_selector=((ZONE, "z1"),) if rng.random() < 0.1 else (),
            node_affinity=_some(rng, 0.5, lambda: a_node_term(rng)) if rng.random() < 0.3 else None,
            tolerations=_some(rng, 0.4, lambda: a_toleration(rng)),
            host_ports=_some(rng, 0.15, lambda: a_port(rng)),
            near=near,
            away=away,
            preferred_pods=wishes,
            spread=spread,
            claims=_some(
                rng, 0.35, lambda: ClaimUse(claim=ObjectKey(namespace, rng.choice((*CLAIMS, *CLAIMS, *CLAIMS, "gone"))))
            ),
            namespace=namespace if looks else "",
            labels=own_labels(labels, LABEL_KEYS) if looks else (),
        )
    )


def a_waiting(rng: Random, name: str) -> Pod:
    """A pod that asks. Most ask little of the node itself: otherwise the rules about others are seldom reached."""
    pod = a_pod(rng, name)
    if rng.random() < 0.25:
        return pod
    easy = msgspec.structs.replace(
        pod.shape,
        requests=(),
        node_name="",
        node_selector=(),
        node_affinity=pod.shape.node_affinity if rng.random() < 0.2 else None,
        tolerations=(Toleration(exists=True),) if rng.random() < 0.7 else pod.shape.tolerations,
        claims=pod.shape.claims if rng.random() < 0.4 else (),
    )
    return msgspec.structs.replace(pod, shape=interned(easy))


def _some(rng: Random, chance: float, make):  # type: ignore[no-untyped-def]  # one word for tuples of any part
    return tuple(make() for _ in range(2) if rng.random() < chance)


def a_toleration(rng: Random) -> Toleration:
    return Toleration(
        key=rng.choice(("", "team", "node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable")),
        value=rng.choice(("", "v")),
        effect=rng.choice(("", "NoSchedule")),
        exists=rng.random() < 0.5,
    )


def a_port(rng: Random) -> HostPort:
    return HostPort(
        port=rng.choice((80, 81)), protocol=rng.choice(("TCP", "UDP")), address=rng.choice(("0.0.0.0", "10.0.0.1"))
    )


def a_requirement(rng: Random, keys: tuple[str, ...], values: tuple[str, ...]) -> Requirement:
    operator = rng.choice((Operator.IN, Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST))
    bare = operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST)
    chosen = () if bare else tuple(rng.sample(values, rng.randint(1, len(values))))
    return Requirement(rng.choice(keys), operator, chosen)


def a_selector(rng: Random) -> Selector | None:
    if rng.random() < 0.08:
        return None
    return Selector(tuple(a_requirement(rng, LABEL_KEYS, ("x", "y")) for _ in range(rng.choice((0, 1, 1, 1, 2)))))


def a_node_term(rng: Random) -> NodeTerm:
    labels = [a_requirement(rng, (ZONE, TIER), ("z1", "z2", "1")) for _ in range(rng.randint(0, 1))]
    if rng.random() < 0.3:
        labels.append(Requirement(TIER, rng.choice((Operator.GREATER, Operator.LESS)), ("2",)))
    fields = (Requirement("metadata.name", rng.choice((Operator.IN, Operator.NOT_IN)), (rng.choice(NODES),)),)
    return NodeTerm(labels=tuple(labels), fields=fields if rng.random() < 0.3 else ())


def a_pod_term(rng: Random, namespace: str) -> PodTerm:
    places = rng.choice(((namespace,), (namespace,), SPACES, ()))
    spaces = Selector((Requirement("env", Operator.IN, ("prod",)),)) if rng.random() < 0.5 else Selector()
    return PodTerm(
        topology_key=rng.choice((ZONE, HOST, TIER)),
        pods=PodMatcher(namespaces=places, namespace_selector=None if places else spaces, selector=a_selector(rng)),
    )


def a_spread(rng: Random) -> SpreadConstraint:
    return SpreadConstraint(
        topology_key=rng.choice((ZONE, HOST, TIER)),
        max_skew=rng.randint(1, 2),
        hard=rng.random() < 0.8,
        selector=a_selector(rng),
        min_domains=rng.choice((1, 1, 3)),
        honors_affinity=rng.random() < 0.7,
        honors_taints=rng.random() < 0.5,
    )


def an_inventory(rng: Random, node: str) -> Inventory:
    return Inventory(
        node=node,
        reported_at=Instant(rng.random()),
        devices=tuple(
            Device(
                id=number,
                uuid=f"{node}-{number}",
                model=rng.choice(("A", "H")),
                memory=Bytes(80),
                health=rng.choice(tuple(DeviceHealth)),
                island=rng.choice(("", "i", "j")),
            )
            for number in range(rng.randint(0, 4))
        ),
    )


def a_volume_claim(rng: Random, key: ObjectKey) -> PersistentVolumeClaim:
    volume = rng.choice(("", "v1", "v1", "v2"))
    return PersistentVolumeClaim(
        key=key,
        uid="",
        deleting=rng.random() < 0.05,
        volume=volume,
        bound=bool(volume) and rng.random() < 0.9,
        storage_class=rng.choice(("late", "late", "now")),
        selected_node=rng.choice(("", "", "a")),
        size=rng.randint(0, 2),
        access=(rng.choice(("ReadWriteOncePod", "ReadWriteOncePod", "ReadWriteMany")),),
    )


def a_volume(rng: Random, name: str) -> PersistentVolume:
    return PersistentVolume(
        name=name,
        labels={},
        storage_class="late",
        available=rng.random() < 0.7,
        claim_ref=rng.choice((None, None, ObjectKey("n", "data"))),
        size=rng.randint(0, 3),
        access=("ReadWriteMany", "ReadWriteOncePod"),
        node_affinity=_some(rng, 0.7, lambda: a_node_term(rng)) if rng.random() < 0.3 else None,
        zones=rng.choice(((), ((ZONE, ("z1",)),), (("failure-domain.beta.kubernetes.io/zone", ("z1", "z2")),))),
    )


def a_storage_class(rng: Random, name: str) -> StorageClass:
    return StorageClass(
        name=name,
        provisioner=rng.choice(("csi", "csi", "kubernetes.io/no-provisioner")),
        waits_for_consumer=name == "late",
        topologies=rng.choice(((), ((), ((ZONE, ("z2",)),)))),
    )


def a_lease(rng: Random, node: str, device: int) -> GpuLease:
    """A Lease of one GPU, of pods that are there, of others, or of nobody."""
    holders = rng.sample(("uid-p", "uid-q", "uid-r", "stranger"), rng.randint(0, 2))
    return GpuLease(
        name=lease_name(node, device),
        node=node,
        device=device,
        holds=tuple(LeaseHold(uid, Milli(500 if len(holders) > 1 else 1000)) for uid in sorted(holders)),
        shared=len(holders) > 1,
        renewed=Instant(0.0),
        resource_version="1",
    )


def vm_facts(rng: Random) -> list[FactEvent[Any]]:
    """VMs on some nodes, and a configuration that names two of them. Memory is counted byte by byte."""
    one = NodeConfig(ResourceConfig(800_000, 500), ResourceConfig(800_000, 100), VmAmounts(1000, 100))
    named = NodeOverride(tuple(rng.sample(NODES, 2)), one)
    key = ObjectKey("ullage-system", "vm-nodes")
    config = VmConfig(slot=VmAmounts(1000, 1), defaults=one, overrides=(named,))
    events: list[FactEvent[Any]] = [Added(key, VmNodesDocument(key=key, config=config))]
    for name in ("g", "h"):
        use = VmAmounts(1000 * rng.randint(1, 4), 100 * rng.randint(1, 4))
        vm = Vm(
            key=ObjectKey("n", name), uid=name, minimum=VmAmounts(1, 1), use=use, maximum=use.times(2), memory_slot=1
        )
        pod = a_pod(rng, name, on=rng.choice(NODES))
        marks = VmMarks(name=name, approved=rng.choice((None, use, use.times(2))))
        pod = msgspec.structs.replace(pod, key=vm.key, phase=Phase.RUNNING, vm=marks)
        events += [Added(vm.key, vm), Added(pod.key, pod)]
    return [*events, *(Synced(source) for source in sorted(VM_SOURCES))]


def as_guest(rng: Random, pod: Pod) -> Pod:
    """The pod as one of a VM, as it is when nodes are filtered."""
    amounts = VmAmounts(1000 * rng.randint(1, 4), 100 * rng.randint(0, 4))
    homes = (rng.choice(NODES),) if rng.random() < 0.3 else ()
    shape = interned(msgspec.structs.replace(pod.shape, vm=amounts, vm_elsewhere=homes))
    return msgspec.structs.replace(pod, shape=shape, vm=VmMarks(name="w", approved=amounts))


def a_step(rng: Random, state: ClusterState) -> FactEvent[Fact]:
    """Something that may be heard next: a thing appears, changes or goes."""
    kind = rng.choice(("node", *["pod"] * 4, "namespace", "inventory", *["claim"] * 2, "volume", "class", "lease"))
    key, old, new = _next_of(rng, state, kind)
    if old is None:
        return Added(key, new)
    return Deleted(key, old) if rng.random() < 0.3 else Updated(key, old, new)


def _slightly_changed(rng: Random, pod: Pod) -> Pod:
    """The same pod where it was, with one fact of it changed."""
    change = rng.choice(({"deleting": not pod.deleting}, {"labels": {"app": rng.choice("xy")}}, {"gpu_ids": (3,)}, {}))
    return msgspec.structs.replace(pod, **change)


def _next_of(rng: Random, state: ClusterState, kind: str) -> tuple[ObjectKey, Fact | None, Fact]:
    name = rng.choice(NODES)
    match kind:
        case "node":
            return ObjectKey("", name), state.nodes.get(name), a_node(rng, name)
        case "pod":
            pod = a_pod(rng, rng.choice("pqrstuvw"), on=rng.choice((*NODES, "")))
            known = state.pods.get(pod.key)
            return pod.key, known, pod if known is None or rng.random() < 0.6 else _slightly_changed(rng, known)
        case "namespace":
            space = rng.choice(SPACES)
            labels = {"env": rng.choice(("prod", "dev"))}
            return ObjectKey("", space), state.namespaces.get(space), Namespace(name=space, labels=labels)
        case "inventory":
            return ObjectKey("", name), state.inventories.get(name), an_inventory(rng, name)
        case "claim":
            key = ObjectKey(rng.choice(SPACES), rng.choice(CLAIMS))
            return key, state.volume_claims.get(key), a_volume_claim(rng, key)
        case "volume":
            volume = rng.choice(("v1", "v2", "v3"))
            return ObjectKey("", volume), state.volumes.get(volume), a_volume(rng, volume)
        case "lease":
            lease = a_lease(rng, name, rng.randrange(4))
            return ObjectKey("leases", lease.name), state.leases.get(lease.name), lease
        case _:
            name = rng.choice(("late", "now"))
            return ObjectKey("", name), state.storage_classes.get(name), a_storage_class(rng, name)
