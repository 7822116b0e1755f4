"""The nodes of a pool, put together from what the cluster says and what the cloud lists."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ullage.model.device import MILLI_GPU, GpuNodeKind
from ullage.model.drain import DRAINING_TAINT
from ullage.model.instance import Instance, InstanceState
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.provisioner import (
    DELETION_TAINT,
    PROVISIONER_LABEL,
    STAY_BEHIND,
    PoolNode,
    Provisioner,
    token_of,
)
from ullage.model.resources import GPU, whole_gpus
from ullage.state.placements import Placements


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What waiting pods would take on a node: thousandths of GPUs, and how many pods."""

    milli: int = 0
    pods: int = 0


NOBODY = Assumed()


def matters(pod: Pod) -> bool:
    """Whether a node with this pod on it may not be deleted."""
    return pod.owner is None or pod.owner.kind not in STAY_BEHIND


def gpu_use(pod: Pod) -> int:
    """Thousandths of GPUs a pod holds: what it requests, or the parts it was given."""
    return max(dict(pod.shape.requests).get(GPU, 0), len(pod.gpu_ids) * pod.gpu_share)


def deletion_time(node: Node) -> float | None:
    """When a node may go, by its taint. A taint nobody can read keeps its node: it is never due."""
    for taint in node.taints:
        if taint.key == DELETION_TAINT:
            return float(taint.value) if taint.value.isdecimal() else float("inf")
    return None


def pool_nodes(
    provisioner: Provisioner,
    instances: Iterable[Instance],
    placements: Placements,
    *,
    now: float,
    protected: frozenset[str] = frozenset(),
) -> tuple[PoolNode, ...]:
    """Nodes and instances of a pool, each once, by name. Nobody is assumed on any yet."""
    listed = [one for one in instances if one.pool == provisioner.name]
    going = {one.node for one in listed if one.state is InstanceState.STOPPING and one.node}
    machines = [one for one in listed if one.state is not InstanceState.STOPPING]
    by_node = {one.node: one for one in machines if one.node}
    there, state = dict(placements.state.nodes_of_pool(provisioner.name)), placements.state
    for name in by_node.keys() - there.keys():
        if name in state.nodes and PROVISIONER_LABEL not in state.nodes[name].labels:
            there[name] = state.nodes[name]
    ours = [there[name] for name in sorted(there) if name not in going]
    named = {node.name for node in ours}
    found = [
        _registered(provisioner, node, by_node.get(node.name), placements, now=now, protected=node.name in protected)
        for node in ours
    ]
    found += [_unregistered(provisioner, one.id, one.since, now) for one in machines if one.node not in named]
    found += _not_listed(provisioner, listed, {node.name for node in found}, now)
    return tuple(sorted(found, key=lambda node: node.name))


def with_their_nodes(instances: Iterable[Instance], placements: Placements) -> list[Instance]:
    """Instances with the names of their nodes: those that joined under another name are known by their provider id."""
    nodes, known = placements.state.nodes, list(instances)
    sought = {one.provider_id for one in known if one.node not in nodes and one.provider_id}
    if not sought:
        return known
    by_id = {node.provider_id: name for name, node in sorted(nodes.items()) if node.provider_id in sought}
    return [
        one if one.node in nodes or one.provider_id not in by_id else replace(one, node=by_id[one.provider_id])
        for one in known
    ]


def machines_of_nodes(provisioners: Iterable[Provisioner], placements: Placements) -> list[Instance]:
    """What a cloud would list if every node of these pools had its machine: for those who ask no cloud."""
    names = {one.name for one in provisioners}
    labelled = [(node, node.labels.get(PROVISIONER_LABEL, "")) for node in placements.state.nodes.values()]
    return [
        Instance(id=node.name, pool=pool, since=node.created, node=node.name)
        for node, pool in labelled
        if pool in names
    ]


def with_assumed(nodes: Sequence[PoolNode], assumed: Mapping[str, Assumed]) -> tuple[PoolNode, ...]:
    """The same nodes with the waiting pods that would fit on them."""
    return tuple(_taken(node, assumed[node.name]) if node.name in assumed else node for node in nodes)


def is_coming(node: Node) -> bool:
    """A node that is not ready, or is ready without its GPUs."""
    return not node.ready or whole_gpus(node.allocatable) == 0


def _reported(node: Node, placements: Placements) -> bool:
    """Its agent has named its GPUs. Until then nobody can have one of those that are ours to give."""
    report = placements.state.inventories.get(node.name)
    return report is not None and bool(report.devices)


def _registered(
    provisioner: Provisioner,
    node: Node,
    machine: Instance | None,
    placements: Placements,
    *,
    now: float,
    protected: bool,
) -> PoolNode:
    pods = list(placements.pods_on(node.name).values())
    bare = whole_gpus(node.allocatable) == 0
    empty = not any(matters(pod) for pod in pods)
    ours_to_give = provisioner.template.gpus.kind is GpuNodeKind.LEASED
    since = node.created or (machine.since if machine is not None else 0.0)
    late = now > since + provisioner.thresholds.boot_deadline
    return PoolNode(
        name=node.name,
        instance=machine.id if machine is not None else "",
        since=since,
        capacity=provisioner.template.gpus.count * MILLI_GPU if bare else node.allocatable[GPU],
        used=sum(map(gpu_use, pods)),
        empty=empty,
        coming=not late and (is_coming(node) or (ours_to_give and not _reported(node, placements))),
        # Not being ready for a while is no proof: it may have been ready for weeks.
        # Neither is having no GPUs, if its agent has named some: a driver may be starting again.
        lost=bare and late and empty and not _reported(node, placements),
        protected=protected or node.kept,
        delete_after=deletion_time(node),
        draining=any(taint.key == DRAINING_TAINT for taint in node.taints),
    )


def _unregistered(provisioner: Provisioner, name: str, since: float, now: float) -> PoolNode:
    late = now > since + provisioner.thresholds.boot_deadline
    capacity = provisioner.template.gpus.count * MILLI_GPU
    return PoolNode(
        name=name, instance=name, since=since, capacity=capacity, registered=False, coming=not late, lost=late
    )


def _not_listed(
    provisioner: Provisioner, listed: Sequence[Instance], known: set[str], now: float
) -> Iterator[PoolNode]:
    """What was bought and is not in the list, which may be old; and what may have been bought."""
    ids = {one.id for one in listed}
    for awaited in provisioner.awaited:
        if awaited.instance not in ids and awaited.instance not in known:
            yield _unregistered(provisioner, awaited.instance, awaited.since, now)
    purchase = provisioner.purchase
    if purchase is None:
        return
    token = token_of(provisioner, purchase.serial)
    there = sum(one.token == token for one in listed)
    for place in range(there, purchase.count):
        # Not an instance that could be given up: as long as the purchase is open, it is coming.
        yield _unregistered(provisioner, f"{token}-{place}", now, now)


def _taken(node: PoolNode, assumed: Assumed) -> PoolNode:
    return replace(node, assumed=assumed.milli, empty=node.empty and not assumed.pods)
