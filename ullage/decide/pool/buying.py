"""Which pool should have the new nodes: every pool is tried, the best one is taken.

*Best*: serves most pods; then fewest GPUs bought and left idle; then lowest price; then name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ullage.decide.gang.seating import GangAsk, GangSeats, seat_gang
from ullage.decide.pool.facts import gpu_use
from ullage.decide.pool.market import Market, NoPurchase, Pool, zones_for
from ullage.decide.seat.deciding import Seat
from ullage.model.device import MILLI_GPU
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.verdict import Reason

UNPRICED = 1 << 62
"""What a node costs that does not say so: more than any other."""

Refusals = Mapping[str, NoPurchase | Reason]
"""Why each provisioner does not serve a pod."""


@dataclass(frozen=True, slots=True)
class _Offer:
    """What a pool, or several for a gang, would make of some pods."""

    names: tuple[str, ...]
    served: int
    idle: int
    price: int

    @property
    def rank(self) -> tuple[int, int, int, tuple[str, ...]]:
        return -self.served, self.idle, self.price, self.names


def buy_for_pods(market: Market, pools: Sequence[Pool], pods: Sequence[Pod]) -> list[Pod]:
    """Open nodes for pods of one shape, and seat them. Returns those nobody serves."""
    waiting = list(pods)
    while waiting:
        offers = [(offer, pool) for pool in pools if (offer := _tried(market, pool, waiting)).served]
        if not offers:
            break
        _, best = min(offers, key=lambda one: one[0].rank)
        waiting = _serve(market, best, waiting)
    return waiting


def buy_for_gang(market: Market, pools: Sequence[Pool], gang: GangAsk) -> bool:
    """Open nodes for a whole gang, and seat it: in one pool if that can be, else in several. Or do nothing."""
    able = [pool for pool in pools if market.no_purchase(pool) is None]
    for choices in ([[pool] for pool in able], [able] if len(able) > 1 else []):
        offers = [(offer, chosen) for chosen in choices if (offer := _tried_gang(market, chosen, gang)).served]
        if offers:
            _, best = min(offers, key=lambda one: one[0].rank)
            return _serve_gang(market, best, gang)
    return False


def refusals(market: Market, pools: Sequence[Pool], pod: Pod) -> Refusals:
    """Why each pool does not serve a pod. Leaves nothing behind."""
    found: dict[str, NoPurchase | Reason] = {}
    for pool in pools:
        mark = market.mark()
        answer = market.open_for(pool, pod)
        market.rollback(mark)
        # One node would do for this pod alone: what is missing is room for all of its gang.
        found[pool.name] = NoPurchase.FULL if isinstance(answer, Seat) else answer
    return found


def _tried(market: Market, pool: Pool, pods: Sequence[Pod]) -> _Offer:
    mark = market.mark()
    left = _serve(market, pool, pods)
    offer = _offer(market, mark, len(pods) - len(left), (pool.name,))
    market.rollback(mark)
    return offer


def _serve(market: Market, pool: Pool, pods: Sequence[Pod]) -> list[Pod]:
    """Seat pods of one shape, opening nodes of a pool where nothing fits any more. Returns those without a seat."""
    for place, pod in enumerate(pods):
        seat: Seat | NoPurchase | Reason | None = market.seat_on_opened(pod)
        if seat is None:
            seat = market.open_for(pool, pod)
        if not isinstance(seat, Seat):
            return list(pods[place:])  # the others are of the same shape
        market.scratch.hold(pod, seat)
    return []


def _offer(market: Market, mark: tuple[int, int], served: int, names: tuple[str, ...]) -> _Offer:
    opened = [node for node in market.opened_since(mark) if market.pods_on(node)]
    bought = sum(node.pool.provisioner.template.gpus.count * MILLI_GPU for node in opened)
    used = sum(gpu_use(pod) for node in opened for pod in market.pods_on(node))
    price = sum(node.pool.provisioner.template.price or UNPRICED for node in opened)
    return _Offer(names, served, max(0, bought - used), price)


def _tried_gang(market: Market, pools: Sequence[Pool], gang: GangAsk) -> _Offer:
    mark = market.mark()
    seated = _serve_gang(market, pools, gang)
    offer = _offer(market, mark, int(seated), tuple(pool.name for pool in pools))
    market.rollback(mark)
    return offer


def _serve_gang(market: Market, pools: Sequence[Pool], gang: GangAsk) -> bool:
    """With as few new nodes as it takes."""
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


def _counts(pools: Sequence[Pool], gang: GangAsk) -> Iterator[int]:
    """How many nodes of each pool to try with: the fewest that could do, some more, and one for each member."""
    most = len(gang.pending)
    if len(pools) > 1:
        yield most
        return
    needs = sorted(gpu_use(pod) for pod in gang.pending)[: gang.needed]
    size = max(1, pools[0].provisioner.template.gpus.count * MILLI_GPU)
    fewest = max(1, -(-sum(needs) // size))
    yield from sorted({count for count in (1, fewest, fewest + 1, 2 * fewest, most) if count <= most})


def _zones(pools: Sequence[Pool], gang: GangAsk) -> Sequence[str]:
    """Zones of a single pool one after another; nobody is asked to be in one zone over several pools."""
    return zones_for(pools[0], gang.pending[0]) if len(pools) == 1 else ("",)


def _seat_gang(market: Market, gang: GangAsk) -> bool:
    closed = market.quota.closed(gang.pending[: gang.needed])
    answer = seat_gang(market.seating, gang, now=market.now, closed=closed)
    if not isinstance(answer, GangSeats):
        return False
    seated: dict[ObjectKey, Seat] = dict(answer.seats)
    for pod in gang.pending:
        if pod.key in seated:
            market.scratch.noted(pod)
    return True
