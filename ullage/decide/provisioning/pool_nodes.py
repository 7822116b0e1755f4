"""Nodes of a pool, from the snapshot and the instances the cloud lists."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ullage.decide.placement.devices.freshness import STALE_AFTER
from ullage.model.admission import LEASED_TAINT
from ullage.model.device import MILLI_GPU, GpuNodeKind, Inventory
from ullage.model.draining import DRAINING_TAINT
from ullage.model.instance import Instance, InstanceState
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.pool_sighting import NOTHING_SEEN, Seen, Sighting
from ullage.model.provisioner import (
    DELETION_TAINT,
    PROVISIONER_LABEL,
    STAY_BEHIND,
    PoolNode,
    Provisioner,
    token_of,
)
from ullage.model.resources import GPU, whole_gpus
from ullage.model.stepper import StepMeter, Stepper, finish
from ullage.model.units import Instant, Milli, Seconds
from ullage.state.external_leases import NOWHERE
from ullage.state.snapshot import ClusterSnapshot

MOST_NAMED = 5


def some_of(names: Sequence[str]) -> str:
    """First few names, and the number of further ones."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"


def nodes_in_words(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


REJOIN_SECONDS = Seconds(300.0)
"""Seconds for which an instance must have been observed without a usable Node before it is given up.

A Node that was deleted may come back in this time, and a clock that was wrong at the start ends no boot at once.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedUse:
    """Use of a node by pending pods: thousandths of GPUs, and number of pods."""

    milli: Milli = Milli(0)
    pods: int = 0


NOBODY = AssumedUse()


NODE_COST = Seconds(0.000_02)
"""Modelled CPU seconds of drawing one node."""


def matters(pod: Pod) -> bool:
    """True if a node with this pod on it may not be deleted. A Lease that a pod left behind is no pod."""
    if is_left_behind(pod):
        return False
    return pod.owner is None or pod.owner.kind not in STAY_BEHIND


def gpu_use(pod: Pod) -> int:
    """Thousandths of GPUs a pod holds: its request, or the parts it was given."""
    return max(dict(pod.shape.requests).get(GPU, 0), len(pod.gpu_ids) * pod.gpu_share)


def deletion_time(node: Node) -> Instant | None:
    """Instant after which a node may be deleted, by its taint. An unreadable taint keeps its node: it is never due."""
    for taint in node.taints:
        if taint.key == DELETION_TAINT:
            return Instant(float(taint.value) if taint.value.isdecimal() else float("inf"))
    return None


def pool_nodes(
    provisioner: Provisioner,
    instances: Iterable[Instance],
    snapshot: ClusterSnapshot,
    *,
    now: Instant,
    protected: frozenset[str] = frozenset(),
    seen: Seen = NOTHING_SEEN,
) -> tuple[PoolNode, ...]:
    """Nodes and instances of a pool, at once."""
    return finish(pool_nodes_in_steps(provisioner, instances, snapshot, now=now, protected=protected, seen=seen))


def pool_nodes_in_steps(
    provisioner: Provisioner,
    instances: Iterable[Instance],
    snapshot: ClusterSnapshot,
    *,
    now: Instant,
    protected: frozenset[str] = frozenset(),
    seen: Seen = NOTHING_SEEN,
) -> Stepper[tuple[PoolNode, ...]]:
    """Nodes and instances of a pool, each once, by name, in steps. No pending pod is assumed to any yet."""
    listed = [one for one in instances if one.pool == provisioner.name]
    going = {one.node for one in listed if one.state is InstanceState.STOPPING and one.node}
    machines = [one for one in listed if one.state is not InstanceState.STOPPING]
    by_node = {one.node: one for one in machines if one.node}
    there, state = dict(snapshot.state.nodes_of_pool(provisioner.name)), snapshot.state
    for name in by_node.keys() - there.keys():
        if name in state.nodes and PROVISIONER_LABEL not in state.nodes[name].labels:
            there[name] = state.nodes[name]
    ours = [there[name] for name in sorted(there) if name not in going]
    named = {node.name for node in ours}
    drawing = _Drawing(provisioner, snapshot, seen, now)
    meter, found = StepMeter(), list[PoolNode]()
    for node in ours:
        found.append(drawing.registered(node, by_node.get(node.name), protected=node.name in protected))
        if meter.spend(NODE_COST):
            yield meter.take()
    yield meter.take()
    found += [drawing.unregistered(one.id, one.since) for one in machines if one.node not in named]
    found += drawing.not_listed(listed, {node.name for node in found})
    return tuple(sorted(found, key=lambda node: node.name))


def with_their_nodes(instances: Iterable[Instance], snapshot: ClusterSnapshot) -> list[Instance]:
    """Instances with the names of their nodes. Those that joined under another name are found by provider id."""
    nodes, known = snapshot.state.nodes, list(instances)
    sought = {one.provider_id for one in known if one.node not in nodes and one.provider_id}
    if not sought:
        return known
    by_id = {node.provider_id: name for name, node in sorted(nodes.items()) if node.provider_id in sought}
    return [
        one if one.node in nodes or one.provider_id not in by_id else replace(one, node=by_id[one.provider_id])
        for one in known
    ]


def machines_of_nodes(provisioners: Iterable[Provisioner], snapshot: ClusterSnapshot) -> list[Instance]:
    """Instances as a cloud would list them if every node of these pools had one. For callers without a cloud."""
    names = {one.name for one in provisioners}
    labelled = [(node, node.labels.get(PROVISIONER_LABEL, "")) for node in snapshot.state.nodes.values()]
    return [
        Instance(id=node.name, pool=pool, since=node.created, node=node.name)
        for node, pool in labelled
        if pool in names
    ]


def with_assumed(nodes: Sequence[PoolNode], assumed: Mapping[str, AssumedUse]) -> tuple[PoolNode, ...]:
    """Nodes with the pending pods that would fit on them."""
    return tuple(_taken(node, assumed[node.name]) if node.name in assumed else node for node in nodes)


def is_coming(node: Node) -> bool:
    """True for a node that is not ready, or is ready without its GPUs."""
    return not node.ready or whole_gpus(node.allocatable) == 0


def _reported(node: Node, snapshot: ClusterSnapshot) -> bool:
    """True if its agent has reported GPUs. Until then no pod can get one of its leased GPUs."""
    report = snapshot.state.inventories.get(node.name)
    return report is not None and bool(report.devices)


def rejoin_time(boot_deadline: Seconds) -> Seconds:
    """Seconds an instance without a usable Node is observed before it is given up."""
    return min(boot_deadline, REJOIN_SECONDS)


def is_silent(report: Inventory | None, now: Instant) -> bool:
    """True if the node's agent reported leased GPUs once, and its last report is too old to place pods on them."""
    if report is None or not report.devices or report.kind is not GpuNodeKind.LEASED:
        return False
    return report.reported_at < now - STALE_AFTER


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Builder of the PoolNodes of one pool at one moment."""

    provisioner: Provisioner
    snapshot: ClusterSnapshot
    seen: Seen
    now: Instant

    def registered(self, node: Node, machine: Instance | None, *, protected: bool) -> PoolNode:
        pods = list(self.snapshot.pods_on(node.name).values())
        bare, reported = whole_gpus(node.allocatable) == 0, _reported(node, self.snapshot)
        empty = not any(matters(pod) for pod in pods)
        ours_to_give = self.provisioner.template.gpus.kind is GpuNodeKind.LEASED
        since = node.created or (machine.since if machine is not None else 0.0)
        sighting = self.seen.bare.get(node.name) or self._by_time_stamp(Instant(since))
        late = self._is_late(sighting)
        left = self.seen.unlisted.get(node.name) if machine is None else None
        return PoolNode(
            name=node.name,
            instance=machine.id if machine is not None else "",
            since=Instant(since),
            capacity=self._capacity if bare else node.allocatable[GPU],
            used=sum(gpu_use(pod) for pod in pods if not is_left_behind(pod)),
            empty=empty,
            upcoming=not late and left is None and (is_coming(node) or (ours_to_give and not reported)),
            # Not being ready for a while is no proof: it may have been ready for weeks.
            # Neither is having no GPUs, if its agent has reported some: a driver may be restarting.
            failed_to_register=bare and late and empty and not reported and self._was_seen_long(sighting),
            protected=protected or node.kept,
            delete_after=deletion_time(node),
            unlisted=left is not None,
            given_up_at=None if left is None else Instant(self.now + left),
            due_at=self.seen.due_at.get(node.name),
            draining=any(taint.key == DRAINING_TAINT for taint in node.taints),
            silent_for=self._silent_for(node.name),
            agent_taint=any(taint.key == LEASED_TAINT for taint in node.taints),
        )

    def unregistered(self, name: str, since: Instant) -> PoolNode:
        """Instance without a Node: upcoming, given up, or one whose Node was deleted and may come back."""
        sighting = self.seen.machines.get(name) or self._by_time_stamp(since)
        late = sighting.had_node or self._is_late(sighting)
        return PoolNode(
            name=name,
            instance=name,
            since=since,
            capacity=self._capacity,
            registered=False,
            upcoming=not late,
            failed_to_register=late and self._was_seen_long(sighting),
            given_up_at=Instant(self.now + self._rejoin_time - sighting.seconds) if late else None,
            # First observed after its deadline: it is not known whether it ever was a node.
            departed=late and (sighting.had_node or sighting.age > self.provisioner.thresholds.boot_deadline),
        )

    def not_listed(self, listed: Sequence[Instance], known: set[str]) -> Iterator[PoolNode]:
        """Instances that were bought and are not in the list, which may be old; and those of an open purchase."""
        ids = {one.id for one in listed}
        for awaited in self.provisioner.awaited:
            if awaited.instance not in ids and awaited.instance not in known:
                yield self.unregistered(awaited.instance, awaited.since)
        purchase = self.provisioner.purchase
        if purchase is None:
            return
        token = token_of(self.provisioner, purchase.serial)
        there = sum(one.token == token for one in listed)
        for place in range(there, purchase.count):
            # Not an instance that could be given up: as long as the purchase is open, it is upcoming.
            yield self.unregistered(f"{token}-{place}", self.now)

    @property
    def _capacity(self) -> int:
        return self.provisioner.template.gpus.count * MILLI_GPU

    def _by_time_stamp(self, since: Instant) -> Sighting:
        """Sighting where the process has observed nothing: as if observed from the beginning."""
        return Sighting(seconds=Seconds(self.now - since), age=Seconds(0.0))

    def _is_late(self, sighting: Sighting) -> bool:
        return sighting.age + sighting.seconds > self.provisioner.thresholds.boot_deadline

    def _was_seen_long(self, sighting: Sighting) -> bool:
        return sighting.seconds >= self._rejoin_time

    @property
    def _rejoin_time(self) -> Seconds:
        return rejoin_time(self.provisioner.thresholds.boot_deadline)

    def _silent_for(self, node: str) -> Seconds:
        """Seconds of silence; the age of the report where the process has observed none."""
        report = self.snapshot.state.inventories.get(node)
        if report is None or not is_silent(report, self.now):
            return Seconds(0.0)
        return Seconds(max(self.seen.silent.get(node, self.now - report.reported_at), 1.0))


def is_left_behind(pod: Pod) -> bool:
    """True for a stand-in of a pod that is gone and whose Lease remains."""
    return pod.key.namespace == NOWHERE and pod.deleting


def _taken(node: PoolNode, assumed: AssumedUse) -> PoolNode:
    return replace(node, assumed=assumed.milli, empty=node.empty and not assumed.pods)
