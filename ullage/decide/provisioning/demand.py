"""Demand of pending pods beyond existing and upcoming nodes, and the provisioner that should buy for it.

The scheduler's own rules are asked, on the snapshot with upcoming nodes added. Pending pods come with the devices their
claims ask for, and in the order of the queue.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from msgspec.structs import replace

from ullage.decide.gang.placement import GangPlacement, GangRequest, place_gang
from ullage.decide.placement.engine import Placement, PlacementEngine, device_ask, hold
from ullage.decide.provisioning.node_offers import (
    FRESH,
    OPEN_COST,
    PLACE_COST,
    READ_COST,
    NodeOffers,
    Pool,
    ScaleUpBlocked,
)
from ullage.decide.provisioning.pending import PodOrGang, is_pending
from ullage.decide.provisioning.pool_nodes import NOBODY, AssumedUse, gpu_use
from ullage.decide.provisioning.scale_up import (
    Refusals,
    buy_for_gang,
    buy_for_pods,
    buy_in_bulk,
    packs,
    place_on_opened,
    refusals,
    size_order,
)
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.provisioner import DELETION_TAINT, FleetBudget, PoolNode
from ullage.model.shape import Shape
from ullage.model.stepper import Stepper, finish, sort_in_steps
from ullage.model.units import Instant, Milli, Seconds

NO_BUDGET = FleetBudget()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDemand:
    """New nodes of one pool."""

    by_zone: Mapping[str, int]
    """Number of nodes by zone. In the empty zone the cloud chooses."""
    for_gangs: Mapping[str, int]
    """Nodes among them that gangs need, by zone. Fewer are of no use to a gang."""
    oldest: Instant
    """Creation time of the oldest pod they are for; infinite if they are for no pod."""

    @property
    def count(self) -> int:
        return sum(self.by_zone.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDemand:
    """Result of `find_demand`."""

    assumed: Mapping[str, AssumedUse] = field(default_factory=dict)
    """Pending pods that fit on a node or upcoming instance, by its name."""
    wanted: Mapping[str, NodeDemand] = field(default_factory=dict)
    """New nodes by provisioner."""
    placed: Mapping[ObjectKey, str] = field(default_factory=dict)
    """Node, or upcoming instance, on which a pending pod fits."""
    chosen: Mapping[ObjectKey, str] = field(default_factory=dict)
    """Provisioner that is to buy for a pod."""
    unmet: Mapping[ObjectKey, Refusals] = field(default_factory=dict)
    """Pods no pool serves, with the answer of each provisioner."""


def find_demand(
    engine: PlacementEngine,
    pools: Sequence[Pool],
    pending: Iterable[PodOrGang],
    *,
    now: Instant,
    budget: FleetBudget = NO_BUDGET,
) -> FleetDemand:
    """Place all pending pods: on existing and upcoming nodes, on nodes marked for deletion, on new ones; at once.

    The snapshot is left unchanged.
    """
    waiting = [turn for turn in pending if is_pending(turn, engine.snapshot)]
    with engine.snapshot.what_if() as trial:
        return finish(_Search(NodeOffers(engine, trial, pools, budget, now=now)).steps(waiting))


def find_demand_in_steps(
    fork: PlacementEngine,
    pools: Sequence[Pool],
    pending: Sequence[PodOrGang],
    *,
    now: Instant,
    budget: FleetBudget = NO_BUDGET,
) -> Stepper[FleetDemand]:
    """`find_demand`, in steps, on a forked engine: its snapshot is changed, and left so."""
    with fork.snapshot.what_if() as trial:
        trial.keep()  # the fork is dropped: to undo everything would cost as much as it took
        return (yield from _Search(NodeOffers(fork, trial, pools, budget, now=now)).steps(pending))


class _Search:
    """One search in a what-if of the snapshot, in steps."""

    def __init__(self, offers: NodeOffers) -> None:
        self.offers = offers
        self._meter = offers.meter
        self._snapshot = offers.snapshot
        self._assumed: dict[str, AssumedUse] = {}
        self._placed_on: dict[ObjectKey, str] = {}
        self._unmet: dict[ObjectKey, Refusals] = {}
        self._in_gangs: set[ObjectKey] = set()
        self._packing: dict[ObjectKey, bool] = {}
        recommends = [pool.provisioner.thresholds.recommend_only for pool in offers.pools]
        acting = [pool for pool, only in zip(offers.pools, recommends, strict=True) if not only]
        self._pools = [acting, [pool for pool, only in zip(offers.pools, recommends, strict=True) if only]]
        """Pools that buy, and pools that only recommend."""

    def steps(self, waiting: Sequence[PodOrGang]) -> Stepper[FleetDemand]:
        yield from self._draw_what_is_coming()
        rest = yield from self._place_all(waiting)
        if rest:
            yield from self._take_taints_off()
            rest = yield from self._place_all(rest)
        yield from self.offers.open_to_minimum()
        yield from self._buy(rest)
        return (yield from self._found())

    def _draw_what_is_coming(self) -> Stepper[None]:
        """Add upcoming nodes as they will be: without a Node yet, not ready, without GPUs; and excused silent nodes."""
        for pool in self.offers.pools:
            for node in pool.nodes:
                if node.upcoming and not node.failed_to_register:
                    self._draw(pool, node)
                elif node.silence_excused:
                    self._draw_as_reported(node)
                if self._meter.spend(Seconds(OPEN_COST if node.upcoming or node.silence_excused else 0.0)):
                    yield self._meter.take()

    def _draw(self, pool: Pool, node: PoolNode) -> None:
        face, inventory = self.offers.face(pool, node.name)
        known = self._snapshot.state.nodes.get(node.name)
        if known is not None:
            marked_for_deletion = tuple(taint for taint in known.taints if taint.key == DELETION_TAINT)
            face = replace(face, labels=face.labels | known.labels, taints=(*face.taints, *marked_for_deletion))
        self._snapshot.put_node(face, inventory)

    def _draw_as_reported(self, node: PoolNode) -> None:
        """Put a node with a silent agent into the snapshot as if its agent had repeated its report now."""
        known, report = self._snapshot.state.nodes.get(node.name), self._snapshot.state.inventories.get(node.name)
        if known is None or report is None:
            return  # it went while the plan was made
        self._snapshot.put_node(known, replace(report, reported_at=self.offers.now))

    def _take_taints_off(self) -> Stepper[None]:
        """Put nodes marked for deletion into the snapshot without that taint, if they have a machine."""
        for pool in self.offers.pools:
            for node in pool.nodes:
                known = self._snapshot.state.nodes.get(node.name)
                if node.marked_for_deletion and node.instance and known is not None:
                    others = tuple(taint for taint in known.taints if taint.key != DELETION_TAINT)
                    self._snapshot.put_node(replace(known, taints=others))
                    if self._meter.spend(Seconds(OPEN_COST)):
                        yield self._meter.take()

    def _place_all(self, pending: Iterable[PodOrGang]) -> Stepper[list[PodOrGang]]:
        """Place pods and gangs. Returns those without a place.

        Once a pod that packs is refused, so are all of its shape: room only shrinks.
        """
        refused: set[Shape] = set()
        rest: list[PodOrGang] = []
        for turn in pending:
            known = isinstance(turn, Pod) and turn.shape in refused and self._packs(turn)
            if known or not self._placed(turn):
                rest.append(turn)
                if isinstance(turn, Pod) and not known and self._packs(turn):
                    refused.add(turn.shape)
            if self._meter.spend(Seconds(READ_COST if known else PLACE_COST * _size(turn))):
                yield self._meter.take()
        return rest

    def _packs(self, pod: Pod) -> bool:
        """`packs`, asked once per pod."""
        known = self._packing.get(pod.key)
        if known is None:
            known = self._packing[pod.key] = packs(self.offers, pod)
        return known

    def _placed(self, turn: PodOrGang) -> bool:
        if isinstance(turn, Pod):
            placement = self.offers.place(turn)
            if placement is not None:
                hold(self._snapshot, turn, placement)
                self._assume(turn, placement)
            return placement is not None
        closed = self.offers.quota.closed(turn.pending[: turn.needed])
        answer = place_gang(self.offers.engine, turn, now=self.offers.now, closed=closed)
        if isinstance(answer, GangPlacement):
            for pod in turn.pending:
                if pod.key in answer.placements:
                    self._assume(pod, answer.placements[pod.key])
        return isinstance(answer, GangPlacement)

    def _assume(self, pod: Pod, placement: Placement) -> None:
        before = self._assumed.get(placement.node, NOBODY)
        self._placed_on[pod.key] = placement.node
        self._assumed[placement.node] = AssumedUse(milli=Milli(before.milli + self._use(pod)), pods=before.pods + 1)

    def _use(self, pod: Pod) -> int:
        return gpu_use(self._snapshot.pods.get(pod.key, pod))

    def _buy(self, pending: Sequence[PodOrGang]) -> Stepper[None]:
        """Offer new nodes for pods that fit nowhere. Priorities come first only where there is not enough for all."""
        mark = self.offers.mark()
        yield from self._buy_for(pending)
        levels = _by_priority(pending)
        if len(levels) > 1 and self._short_of_nodes():
            yield from self.offers.rollback_in_steps(mark)
            self._unmet.clear()
            self._in_gangs.clear()
            for level in levels:
                yield from self._buy_for(level)
                yield from self._draw_bulk()

    def _short_of_nodes(self) -> bool:
        """True if a pod would be served with a higher maxSize or fleet budget."""
        short = {ScaleUpBlocked.FULL, ScaleUpBlocked.OVER_BUDGET}
        return any(not short.isdisjoint(why.values()) for why in self._unmet.values())

    def _buy_for(self, pending: Sequence[PodOrGang]) -> Stepper[None]:
        """Gangs first, then pods with rules beyond their node, then all others packed together; largest first.

        Pools that only recommend are asked for the pods that no other pool serves.
        """
        gangs, shapes = _grouped(pending)
        for gang in gangs:
            if (yield from self._bought_for(gang)):
                self._in_gangs |= {pod.key for pod in gang.pending}
            else:
                yield from self._refuse(gang.pending)
        shapes.sort(key=lambda group: size_order(group[0]))
        packed: list[list[Pod]] = []
        for group in shapes:
            together = [pod for pod in group if self._packs(pod)]
            alone = [] if len(together) == len(group) else [pod for pod in group if not self._packs(pod)]
            packed.append(together)
            if self._meter.spend(Seconds(READ_COST * len(group))):
                yield self._meter.take()
            for pools in self._pools:
                alone = yield from buy_for_pods(self.offers, pools, alone)
            yield from self._refuse(alone)
        for place, group in enumerate(packed):
            packed[place] = yield from place_on_opened(self.offers, group)
        for pools in self._pools:
            packed = yield from buy_in_bulk(self.offers, pools, packed)
        for group in packed:
            yield from self._refuse(group)

    def _bought_for(self, gang: GangRequest) -> Stepper[bool]:
        for pools in self._pools:
            if (yield from buy_for_gang(self.offers, pools, gang)):
                return True
        return False

    def _refuse(self, pods: Sequence[Pod]) -> Stepper[None]:
        if pods:
            why = yield from refusals(self.offers, self.offers.pools, pods[0])
            self._unmet |= {pod.key: why for pod in pods}
            if self._meter.spend(Seconds(READ_COST * len(pods))):
                yield self._meter.take()

    def _draw_bulk(self) -> Stepper[None]:
        """Put counted nodes into the snapshot: pods of lower priority may use the room left on them."""
        for bulk in self.offers.take_bulk():
            for pods in bulk.by_node:
                node = self.offers.open(bulk.pool, bulk.zone)
                for pod in pods:
                    placement = self.offers.place_on(pod, "" if node is None else node.name)
                    if isinstance(placement, Placement):
                        hold(self._snapshot, pod, placement)
                    else:
                        self._unmet[pod.key] = {bulk.pool.name: placement}
                if self._meter.spend(Seconds(OPEN_COST + PLACE_COST * len(pods))):
                    yield self._meter.take()

    def _found(self) -> Stepper[FleetDemand]:
        by_zone: dict[str, dict[str, int]] = {}
        for_gangs: dict[str, dict[str, int]] = {}
        oldest: dict[str, Instant] = {}
        chosen: dict[ObjectKey, str] = {}
        drawn = [(node.pool.name, node.zone, 1, pods) for node, pods in self.offers.used()]
        counted = [(bulk.pool.name, bulk.zone, bulk.count, bulk.pods) for bulk in self.offers.bulk]
        for name, zone, count, pods in [*drawn, *counted]:
            zones, gangs = by_zone.setdefault(name, {}), for_gangs.setdefault(name, {})
            zones[zone] = zones.get(zone, 0) + count
            if any(pod.key in self._in_gangs for pod in pods):
                gangs[zone] = gangs.get(zone, 0) + count
            oldest[name] = Instant(min([oldest.get(name, float("inf")), *(pod.created for pod in pods)]))
            chosen |= {pod.key: name for pod in pods}
            if self._meter.spend(Seconds(READ_COST * len(pods))):
                yield self._meter.take()
        wanted = {
            name: NodeDemand(by_zone=zones, for_gangs=for_gangs[name], oldest=oldest[name])
            for name, zones in by_zone.items()
        }
        there = {node: taken for node, taken in self._assumed.items() if not node.startswith(FRESH)}
        by_key = yield from sort_in_steps(chosen.items(), itemgetter(0), self._meter)
        return FleetDemand(
            assumed=there,
            wanted=wanted,
            placed=self._placed_on,
            chosen=dict(by_key),
            unmet=self._unmet,
        )


def _size(turn: PodOrGang) -> int:
    """Pods that a turn places."""
    return 1 if isinstance(turn, Pod) else len(turn.pending)


def _grouped(pending: Sequence[PodOrGang]) -> tuple[list[GangRequest], list[list[Pod]]]:
    """Gangs in their order, and pods by shape. Pods that need neither GPUs nor room for a VM are left out."""
    gangs = [turn for turn in pending if isinstance(turn, GangRequest) and any(map(_may_need_node, turn.pending))]
    by_shape: dict[Shape, list[Pod]] = {}
    for turn in pending:
        if isinstance(turn, Pod):
            by_shape.setdefault(turn.shape, []).append(turn)
    return gangs, [group for group in by_shape.values() if _may_need_node(group[0])]


def _may_need_node(pod: Pod) -> bool:
    """True if nodes are bought for such pods."""
    return device_ask(pod) is not None or pod.shape.vm is not None


def _by_priority(pending: Sequence[PodOrGang]) -> list[list[PodOrGang]]:
    """Pods and gangs by priority, highest first. A gang has the priority of its first member."""
    levels: dict[int, list[PodOrGang]] = {}
    for turn in pending:
        first = turn.pending[0] if isinstance(turn, GangRequest) else turn
        levels.setdefault(first.priority, []).append(turn)
    return [levels[priority] for priority in sorted(levels, reverse=True)]
