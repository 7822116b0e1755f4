"""Scale-up: the pool that gets new nodes. Every pool is tried and the best is taken; pods that pack are bought in bulk.

*Best*: serves most pods; then fewest GPUs bought and left idle; then lowest price; then name. A pod *packs* if only
room and its own node decide on its placement: no rule about other pods, no volume, no zone, no quota. Then a pattern
that fits on one new node fits on a thousand: the placement rules are asked once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ullage.decide.gang.placement import GangPlacement, GangRequest, place_gang
from ullage.decide.placement.engine import Placement, hold
from ullage.decide.provisioning.node_offers import (
    ENDLESS,
    OPEN_COST,
    PLACE_COST,
    READ_COST,
    BulkNodes,
    Mark,
    NodeOffers,
    Pool,
    ScaleUpBlocked,
    looks_at_zones,
    zones_for,
)
from ullage.decide.provisioning.packing import FilledNodes, pack_in_steps
from ullage.decide.provisioning.patterns import NodeType, Pattern
from ullage.decide.provisioning.pool_nodes import gpu_use
from ullage.model.device import MILLI_GPU
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.shape import Shape
from ullage.model.stepper import Stepper
from ullage.model.units import Micros, Seconds
from ullage.model.verdict import Reason

UNPRICED = 1 << 62
"""Price of a node without one: higher than any other."""

Refusals = Mapping[str, ScaleUpBlocked | Reason]
"""Reason of each provisioner for not serving a pod."""


@dataclass(frozen=True, slots=True)
class _Offer:
    """Result of trying a pool, or several for a gang, with some pods."""

    names: tuple[str, ...]
    served: int
    idle: int
    price: Micros

    @property
    def rank(self) -> tuple[int, int, int, tuple[str, ...]]:
        return -self.served, self.idle, self.price, self.names


def buy_for_pods(offers: NodeOffers, pools: Sequence[Pool], pods: Sequence[Pod]) -> Stepper[list[Pod]]:
    """Open nodes for pods of one shape, and place the pods. Returns those no pool serves."""
    waiting = list(pods)
    while waiting:
        tried: list[tuple[_Offer, Pool]] = []
        for pool in pools:
            offer = yield from _tried(offers, pool, waiting)
            tried += [(offer, pool)] if offer.served else []
        if not tried:
            break
        _, best = min(tried, key=lambda one: one[0].rank)
        waiting = yield from _serve(offers, best, waiting)
    return waiting


def place_on_opened(offers: NodeOffers, pods: Sequence[Pod]) -> Stepper[list[Pod]]:
    """Place pods of one shape on nodes opened already. Returns those without a place."""
    for place, pod in enumerate(pods):
        placement = offers.place_on_opened(pod)
        if placement is None:
            return list(pods[place:])
        hold(offers.snapshot, pod, placement)
        if offers.meter.spend(Seconds(PLACE_COST)):
            yield offers.meter.take()
    return []


def buy_for_gang(offers: NodeOffers, pools: Sequence[Pool], gang: GangRequest) -> Stepper[bool]:
    """Open nodes for a whole gang and place it, in one pool if possible, else in several. False: nothing was opened."""
    able = [pool for pool in pools if offers.no_purchase(pool) is None]
    for choices in ([[pool] for pool in able], [able] if len(able) > 1 else []):
        tried: list[tuple[_Offer, list[Pool]]] = []
        for chosen in choices:
            offer = yield from _tried_gang(offers, chosen, gang)
            tried += [(offer, chosen)] if offer.served else []
        if tried:
            _, best = min(tried, key=lambda one: one[0].rank)
            return (yield from _serve_gang(offers, best, gang))
    return False


def refusals(offers: NodeOffers, pools: Sequence[Pool], pod: Pod) -> Stepper[Refusals]:
    """Reason of each pool for not serving a pod. The snapshot is left unchanged.

    A limit is named only where it is what keeps the pool from serving the pod: its new node would take it.
    """
    found: dict[str, ScaleUpBlocked | Reason] = {}
    for pool in pools:
        mark = offers.mark()
        answer = offers.open_for(pool, pod)
        offers.rollback(mark)
        if isinstance(answer, Placement):
            # One node would do for this pod alone: what is missing is room for all of its gang.
            answer = ScaleUpBlocked.FULL
        elif isinstance(answer, ScaleUpBlocked):
            answer = offers.beyond_limits(pool, pod) or answer
        found[pool.name] = answer
        if offers.meter.spend(Seconds(PLACE_COST + OPEN_COST)):
            yield offers.meter.take()
    return found


def _tried(offers: NodeOffers, pool: Pool, pods: Sequence[Pod]) -> Stepper[_Offer]:
    mark = offers.mark()
    left = yield from _serve(offers, pool, pods)
    offer = _offer(offers, mark, len(pods) - len(left), (pool.name,))
    yield from offers.rollback_in_steps(mark)
    return offer


def _serve(offers: NodeOffers, pool: Pool, pods: Sequence[Pod]) -> Stepper[list[Pod]]:
    """Place pods of one shape, opening nodes of a pool where no opened one fits. Returns those without a place."""
    for place, pod in enumerate(pods):
        placement: Placement | ScaleUpBlocked | Reason | None = offers.place_on_opened(pod)
        if placement is None:
            placement = offers.open_for(pool, pod)
        if not isinstance(placement, Placement):
            return list(pods[place:])  # the others are of the same shape
        hold(offers.snapshot, pod, placement)
        if offers.meter.spend(Seconds(PLACE_COST + OPEN_COST)):
            yield offers.meter.take()
    return []


def _offer(offers: NodeOffers, mark: Mark, served: int, names: tuple[str, ...]) -> _Offer:
    opened = [node for node in offers.opened_since(mark) if offers.pods_on(node)]
    bought = sum(node.pool.provisioner.template.gpus.count * MILLI_GPU for node in opened)
    used = sum(gpu_use(pod) for node in opened for pod in offers.pods_on(node))
    price = sum(node.pool.provisioner.template.price or UNPRICED for node in opened)
    return _Offer(names, served, max(0, bought - used), Micros(price))


def _tried_gang(offers: NodeOffers, pools: Sequence[Pool], gang: GangRequest) -> Stepper[_Offer]:
    mark = offers.mark()
    placed = yield from _serve_gang(offers, pools, gang)
    offer = _offer(offers, mark, int(placed), tuple(pool.name for pool in pools))
    yield from offers.rollback_in_steps(mark)
    return offer


def _serve_gang(offers: NodeOffers, pools: Sequence[Pool], gang: GangRequest) -> Stepper[bool]:
    """Place a gang with as few new nodes as possible. True if it was placed."""
    for count in _counts(pools, gang):
        for zone in _zones(pools, gang):
            mark = offers.mark()
            opened = [offers.open(pool, zone) for pool in pools for _ in range(count)]
            if offers.meter.spend(Seconds(OPEN_COST * len(opened) + PLACE_COST * len(gang.pending))):
                yield offers.meter.take()
            if any(opened) and _place_gang(offers, gang):
                return True
            yield from offers.rollback_in_steps(mark)
            if not any(opened):
                return False
    return False


def _counts(pools: Sequence[Pool], gang: GangRequest) -> Iterator[int]:
    """Numbers of nodes of each pool to try: the fewest possible, some more, and one for each member."""
    most = len(gang.pending)
    if len(pools) > 1:
        yield most
        return
    needs = sorted(gpu_use(pod) for pod in gang.pending)[: gang.needed]
    size = max(1, pools[0].provisioner.template.gpus.count * MILLI_GPU)
    fewest = max(1, -(-sum(needs) // size))
    yield from sorted({count for count in (1, fewest, fewest + 1, 2 * fewest, most) if count <= most})


def _zones(pools: Sequence[Pool], gang: GangRequest) -> Sequence[str]:
    """Zones of a single pool, one after another. Several pools are not bound to one zone."""
    return zones_for(pools[0], gang.pending[0]) if len(pools) == 1 else ("",)


def _place_gang(offers: NodeOffers, gang: GangRequest) -> bool:
    closed = offers.quota.closed(gang.pending[: gang.needed])
    answer = place_gang(offers.engine, gang, now=offers.now, closed=closed)
    return isinstance(answer, GangPlacement)


PODS = "pods"
_ONE_POD = 1000

_GPU, _NAME = 1e4, 1e-3
"""Weights in the cost of a node beside its price, where the dearest is 1: GPUs decide, then price, then the name."""
_NO_PRICE = 2.0
"""Price of a node without one: higher than the dearest."""


def packs(offers: NodeOffers, pod: Pod) -> bool:
    """True if room alone decides on which new nodes of a pool the pod may go."""
    if pod.key.namespace in offers.quota_namespaces or not _packs(pod.shape):
        return False
    return not offers.snapshot.placed.refusals.about(pod)


@lru_cache(maxsize=4096)  # asked for every pod, of a few shapes
def _packs(shape: Shape) -> bool:
    # A VM's room is in the VM ledger, and not in its pod's requests.
    return not (looks_at_zones(shape) or shape.host_ports or shape.node_name or shape.vm is not None)


def size_order(pod: Pod) -> tuple[int, int, int]:
    """Sort key, largest first: GPUs, then cores, then memory."""
    requests = pod.requests
    return -gpu_use(pod), -requests.get("cpu", 0), -requests.get("memory", 0)


def buy_in_bulk(offers: NodeOffers, pools: Sequence[Pool], groups: Sequence[list[Pod]]) -> Stepper[list[list[Pod]]]:
    """Offer new nodes for pods that pack, grouped by shape. Returns the pods without one, group by group."""
    able = [pool for pool in pools if offers.allowance(pool)]
    asked = [group for group in groups if group]
    if not able or not asked:
        return asked
    order = _Order(offers, able, asked)
    budgets = tuple(left for left in offers.budgets_left if left != ENDLESS)
    types = yield from order.types()
    packing = yield from pack_in_steps([len(group) for group in asked], types, budgets, order.fill, offers.meter)
    queues = [list(reversed(group)) for group in asked]
    for filled in packing.filled:
        bulk = order.opened(filled, queues)
        offers.open_bulk(bulk)
        if offers.meter.spend(Seconds(READ_COST * len(bulk.pods))):
            yield offers.meter.take()
    return [queue[::-1] for queue in queues if queue]


class _Order:
    """Input of the packing: pools as node types, and shapes as sizes on their nodes."""

    def __init__(self, offers: NodeOffers, pools: Sequence[Pool], groups: Sequence[list[Pod]]) -> None:
        self._offers, self._pools, self._groups = offers, pools, groups
        named = {name for group in groups for name, _ in group[0].shape.requests}
        self._resources = sorted(named | {GPU, PODS})

    def types(self) -> Stepper[list[NodeType]]:
        dearest = max(pool.provisioner.template.price for pool in self._pools) or 1
        found, meter = list[NodeType](), self._offers.meter
        for place, pool in enumerate(self._pools):
            sizes: list[tuple[int, ...] | None] = []
            for group in self._groups:
                sizes.append(self._size(place, group[0]))
                if meter.spend(Seconds(PLACE_COST + OPEN_COST)):
                    yield meter.take()
            found.append(self._type(place, pool, dearest, sizes))
        return found

    def _type(self, place: int, pool: Pool, dearest: int, sizes: Sequence[tuple[int, ...] | None]) -> NodeType:
        template = pool.provisioner.template
        price = template.price / dearest if template.price else _NO_PRICE
        face, _ = self._offers.face(pool, "")
        left = self._offers.budgets_left
        charges = (template.gpus.count, template.price)
        return NodeType(
            cost=_GPU * max(template.gpus.count, 1) + price + _NAME * place,
            limit=self._offers.allowance(pool),
            room=tuple(face.allocatable.get(name, 0) for name in self._resources),
            sizes=tuple(sizes),
            charges=tuple(charge for charge, most in zip(charges, left, strict=True) if most != ENDLESS),
        )

    def _size(self, place: int, pod: Pod) -> tuple[int, ...] | None:
        """Room a pod takes on an empty node of a pool; None if it does not fit on one."""
        mark = self._offers.mark()
        placed = self._placed(place, [pod])
        taken = dict(pod.shape.requests) | {PODS: _ONE_POD}
        if placed:
            taken[GPU] = gpu_use(self._offers.snapshot.pods[pod.key])
        self._offers.rollback(mark)
        return tuple(taken.get(name, 0) for name in self._resources) if placed else None

    def fill(self, place: int, pattern: Pattern) -> Pattern:
        """Part of a pattern that the placement rules allow on one empty node, shape by shape."""
        mark = self._offers.mark()
        pods = [(shape, pod) for shape, count in enumerate(pattern) for pod in self._groups[shape][:count]]
        pods.sort(key=lambda one: size_order(one[1]))
        placed = self._placed(place, [pod for _, pod in pods])
        self._offers.rollback(mark)
        counts = [0] * len(pattern)
        for shape, pod in pods:
            counts[shape] += pod.key in placed
        return tuple(counts)

    def _placed(self, place: int, pods: Sequence[Pod]) -> set[object]:
        """Pods placed on one more node, in this order. The node stays open."""
        pool = self._pools[place]
        node = self._offers.open(pool, zones_for(pool, pods[0])[0] if pods else "")
        placed: set[object] = set()
        for pod in pods if node is not None else ():
            answer = self._offers.place_on(pod, node.name) if node is not None else None
            if isinstance(answer, Placement):
                hold(self._offers.snapshot, pod, answer)
                placed.add(pod.key)
        return placed

    def opened(self, filled: FilledNodes, queues: Sequence[list[Pod]]) -> BulkNodes:
        """Nodes with pods on them. The pods are taken off the ends of their queues."""
        pods = [
            queues[shape].pop()
            for _ in range(filled.count)
            for shape, count in enumerate(filled.pods)
            for _ in range(count)
        ]
        pool = self._pools[filled.node_type]
        return BulkNodes(pool, zones_for(pool, pods[0])[0], filled.count, tuple(pods))
