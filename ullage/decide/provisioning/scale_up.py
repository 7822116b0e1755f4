"""Choice of the pool that gets the new nodes: every pool is tried, the best one is taken.

*Best*: serves most pods; then fewest GPUs bought and left idle; then lowest price; then name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ullage.decide.gang.placement import GangPlacement, GangRequest, seat_gang
from ullage.decide.placement.engine import Placement, hold
from ullage.decide.provisioning.node_offers import Mark, NodeOffers, Pool, ScaleUpBlocked, zones_for
from ullage.decide.provisioning.pool_nodes import gpu_use
from ullage.model.device import MILLI_GPU
from ullage.model.pod import Pod
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
    price: int

    @property
    def rank(self) -> tuple[int, int, int, tuple[str, ...]]:
        return -self.served, self.idle, self.price, self.names


def buy_for_pods(market: NodeOffers, pools: Sequence[Pool], pods: Sequence[Pod]) -> list[Pod]:
    """Open nodes for pods of one shape, and place the pods. Returns those no pool serves."""
    waiting = list(pods)
    while waiting:
        offers = [(offer, pool) for pool in pools if (offer := _tried(market, pool, waiting)).served]
        if not offers:
            break
        _, best = min(offers, key=lambda one: one[0].rank)
        waiting = _serve(market, best, waiting)
    return waiting


def seat_on_opened(market: NodeOffers, pods: Sequence[Pod]) -> list[Pod]:
    """Place pods of one shape on nodes opened already. Returns those without a place."""
    for place, pod in enumerate(pods):
        seat = market.seat_on_opened(pod)
        if seat is None:
            return list(pods[place:])
        hold(market.placements, pod, seat)
    return []


def buy_for_gang(market: NodeOffers, pools: Sequence[Pool], gang: GangRequest) -> bool:
    """Open nodes for a whole gang and place it, in one pool if possible, else in several. False: nothing was opened."""
    able = [pool for pool in pools if market.no_purchase(pool) is None]
    for choices in ([[pool] for pool in able], [able] if len(able) > 1 else []):
        offers = [(offer, chosen) for chosen in choices if (offer := _tried_gang(market, chosen, gang)).served]
        if offers:
            _, best = min(offers, key=lambda one: one[0].rank)
            return _serve_gang(market, best, gang)
    return False


def refusals(market: NodeOffers, pools: Sequence[Pool], pod: Pod) -> Refusals:
    """Reason of each pool for not serving a pod. The snapshot is left unchanged."""
    found: dict[str, ScaleUpBlocked | Reason] = {}
    for pool in pools:
        mark = market.mark()
        answer = market.open_for(pool, pod)
        market.rollback(mark)
        # One node would do for this pod alone: what is missing is room for all of its gang.
        found[pool.name] = ScaleUpBlocked.FULL if isinstance(answer, Placement) else answer
    return found


def _tried(market: NodeOffers, pool: Pool, pods: Sequence[Pod]) -> _Offer:
    mark = market.mark()
    left = _serve(market, pool, pods)
    offer = _offer(market, mark, len(pods) - len(left), (pool.name,))
    market.rollback(mark)
    return offer


def _serve(market: NodeOffers, pool: Pool, pods: Sequence[Pod]) -> list[Pod]:
    """Place pods of one shape, opening nodes of a pool where no opened one fits. Returns those without a place."""
    for place, pod in enumerate(pods):
        seat: Placement | ScaleUpBlocked | Reason | None = market.seat_on_opened(pod)
        if seat is None:
            seat = market.open_for(pool, pod)
        if not isinstance(seat, Placement):
            return list(pods[place:])  # the others are of the same shape
        hold(market.placements, pod, seat)
    return []


def _offer(market: NodeOffers, mark: Mark, served: int, names: tuple[str, ...]) -> _Offer:
    opened = [node for node in market.opened_since(mark) if market.pods_on(node)]
    bought = sum(node.pool.provisioner.template.gpus.count * MILLI_GPU for node in opened)
    used = sum(gpu_use(pod) for node in opened for pod in market.pods_on(node))
    price = sum(node.pool.provisioner.template.price or UNPRICED for node in opened)
    return _Offer(names, served, max(0, bought - used), price)


def _tried_gang(market: NodeOffers, pools: Sequence[Pool], gang: GangRequest) -> _Offer:
    mark = market.mark()
    seated = _serve_gang(market, pools, gang)
    offer = _offer(market, mark, int(seated), tuple(pool.name for pool in pools))
    market.rollback(mark)
    return offer


def _serve_gang(market: NodeOffers, pools: Sequence[Pool], gang: GangRequest) -> bool:
    """Place a gang with as few new nodes as possible. True if it was placed."""
    for count in _counts(pools, gang):
        for zone in _zones(pools, gang):
            mark = market.mark()
            opened = [market.open(pool, zone) for pool in pools for _ in range(count)]
            if any(opened) and _seat_gang(market, gang):
                return True
            market.rollback(mark)
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


def _seat_gang(market: NodeOffers, gang: GangRequest) -> bool:
    closed = market.quota.closed(gang.pending[: gang.needed])
    answer = seat_gang(market.seating, gang, now=market.now, closed=closed)
    return isinstance(answer, GangPlacement)
