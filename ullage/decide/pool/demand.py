"""What waiting pods need beyond all that is there and comes, and which provisioner should buy it.

The scheduler's own rules are asked, on the picture with what is coming drawn in; at the end it is as it was. Who waits
is the caller's to say: pods with what their claims ask for, in turns as the queue takes them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from ullage.decide.gang.seating import GangAsk, GangSeats, seat_gang
from ullage.decide.pool.buying import Refusals, buy_for_gang, buy_for_pods, refusals
from ullage.decide.pool.facts import NOBODY, Assumed, gpu_use
from ullage.decide.pool.market import FRESH, Market, Pool
from ullage.decide.pool.scratch import borrowed
from ullage.decide.seat.deciding import Seat, Seating, device_ask
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.provisioner import DELETION_TAINT, FleetBudget, PoolNode
from ullage.model.shape import Shape
from ullage.state.placements import Placements

NO_BUDGET = FleetBudget()

Turn = Pod | GangAsk
"""Who is decided on at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """New nodes of one pool."""

    by_zone: Mapping[str, int]
    """The empty zone is whichever the cloud likes."""
    for_gangs: Mapping[str, int]
    """How many of them a gang needs, which is no use with fewer."""
    oldest: float
    """When the first pod they are for was made; infinite if they are for nobody."""

    @property
    def count(self) -> int:
        return sum(self.by_zone.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What was found."""

    assumed: Mapping[str, Assumed] = field(default_factory=dict)
    """By node, also by instances that are not nodes yet: waiting pods that fit there."""
    wanted: Mapping[str, Wanted] = field(default_factory=dict)
    """By provisioner."""
    seated: Mapping[ObjectKey, str] = field(default_factory=dict)
    """The node, or instance that is to be one, on which a waiting pod fits."""
    chosen: Mapping[ObjectKey, str] = field(default_factory=dict)
    """The provisioner that is to buy for a pod."""
    unmet: Mapping[ObjectKey, Refusals] = field(default_factory=dict)
    """Pods nobody serves, with what each provisioner says."""


def find_demand(
    seating: Seating,
    pools: Sequence[Pool],
    turns: Iterable[Turn],
    *,
    now: float,
    budget: FleetBudget = NO_BUDGET,
) -> Demand:
    """Seat all who wait: on what is there and coming, on doomed nodes, on new ones. Leaves the picture as it was."""
    waiting = [turn for turn in turns if not _has_a_seat(turn, seating.placements)]
    with borrowed(seating.placements) as scratch:
        search = _Search(Market(seating, scratch, pools, budget, now=now))
        search.draw_what_is_coming()
        rest = search.seated(waiting)
        if rest:
            search.take_taints_off()
            rest = search.seated(rest)
        search.market.open_to_minimum()
        search.buy(rest)
        return search.found()


def _has_a_seat(turn: Turn, placements: Placements) -> bool:
    members = turn.pending if isinstance(turn, GangAsk) else (turn,)
    return any(pod.key in placements.pods for pod in members)


class _Search:
    """One search on a borrowed picture."""

    def __init__(self, market: Market) -> None:
        self.market = market
        self._placements = market.scratch.placements
        self._assumed: dict[str, Assumed] = {}
        self._seated_on: dict[ObjectKey, str] = {}
        self._unmet: dict[ObjectKey, Refusals] = {}
        self._in_gangs: set[ObjectKey] = set()

    def draw_what_is_coming(self) -> None:
        """Nodes that are not there yet, or not ready, or without their GPUs, as they will be."""
        for pool in self.market.pools:
            for node in pool.nodes:
                if node.coming and not node.lost:
                    self._draw(pool, node)

    def _draw(self, pool: Pool, node: PoolNode) -> None:
        face, inventory = self.market.face(pool, node.name)
        known = self._placements.state.nodes.get(node.name)
        if known is not None:
            doomed = tuple(taint for taint in known.taints if taint.key == DELETION_TAINT)
            face = replace(face, labels=face.labels | known.labels, taints=(*face.taints, *doomed))
        self.market.scratch.put(face, inventory)

    def take_taints_off(self) -> None:
        """Doomed nodes as they would be if they were spared."""
        for pool in self.market.pools:
            for node in pool.nodes:
                known = self._placements.state.nodes.get(node.name)
                if node.doomed and known is not None:
                    others = tuple(taint for taint in known.taints if taint.key != DELETION_TAINT)
                    self.market.scratch.put(replace(known, taints=others))

    def seated(self, turns: Iterable[Turn]) -> list[Turn]:
        """Those who got no seat."""
        return [turn for turn in turns if not self._seated(turn)]

    def _seated(self, turn: Turn) -> bool:
        if isinstance(turn, Pod):
            seat = self.market.seat(turn)
            if seat is not None:
                self.market.scratch.hold(turn, seat)
                self._assume(turn, seat)
            return seat is not None
        closed = self.market.quota.closed(turn.pending[: turn.needed])
        answer = seat_gang(self.market.seating, turn, now=self.market.now, closed=closed)
        if isinstance(answer, GangSeats):
            for pod in turn.pending:
                if pod.key in answer.seats:
                    self.market.scratch.noted(pod)
                    self._assume(pod, answer.seats[pod.key])
        return isinstance(answer, GangSeats)

    def _assume(self, pod: Pod, seat: Seat) -> None:
        before = self._assumed.get(seat.node, NOBODY)
        self._seated_on[pod.key] = seat.node
        self._assumed[seat.node] = Assumed(milli=before.milli + self._use(pod), pods=before.pods + 1)

    def _use(self, pod: Pod) -> int:
        return gpu_use(self._placements.pods.get(pod.key, pod))

    def buy(self, turns: Sequence[Turn]) -> None:
        """New nodes for those who fit nowhere; pools that only recommend are asked for what nobody else serves."""
        acting = [pool for pool in self.market.pools if not pool.provisioner.thresholds.recommend_only]
        telling = [pool for pool in self.market.pools if pool.provisioner.thresholds.recommend_only]
        for turn in _groups(turns):
            rest = self._bought(acting, turn)
            if rest and telling:
                rest = self._bought(telling, rest)
            if rest:
                waiting = rest.pending if isinstance(rest, GangAsk) else rest
                why = refusals(self.market, self.market.pools, waiting[0])
                self._unmet |= {pod.key: why for pod in waiting}

    def _bought(self, pools: Sequence[Pool], group: GangAsk | list[Pod]) -> GangAsk | list[Pod]:
        """What is left of a group; empty if nothing is."""
        if isinstance(group, GangAsk):
            if not buy_for_gang(self.market, pools, group):
                return group
            self._in_gangs |= {pod.key for pod in group.pending}
            return []
        return buy_for_pods(self.market, pools, group)

    def found(self) -> Demand:
        by_zone: dict[str, dict[str, int]] = {}
        for_gangs: dict[str, dict[str, int]] = {}
        oldest: dict[str, float] = {}
        chosen: dict[ObjectKey, str] = {}
        for node, pods in self.market.used():
            name = node.pool.name
            zones, gangs = by_zone.setdefault(name, {}), for_gangs.setdefault(name, {})
            zones[node.zone] = zones.get(node.zone, 0) + 1
            if any(pod.key in self._in_gangs for pod in pods):
                gangs[node.zone] = gangs.get(node.zone, 0) + 1
            oldest[name] = min([oldest.get(name, float("inf")), *(pod.created for pod in pods)])
            chosen |= {pod.key: name for pod in pods}
        wanted = {
            name: Wanted(by_zone=zones, for_gangs=for_gangs[name], oldest=oldest[name])
            for name, zones in by_zone.items()
        }
        there = {node: taken for node, taken in self._assumed.items() if not node.startswith(FRESH)}
        return Demand(
            assumed=there,
            wanted=wanted,
            seated=self._seated_on,
            chosen=dict(sorted(chosen.items())),
            unmet=self._unmet,
        )


def _groups(turns: Sequence[Turn]) -> Iterator[GangAsk | list[Pod]]:
    """Pods of one shape together, where the first of them stands; gangs by themselves. Who needs no GPU buys none."""
    by_shape: dict[Shape | ObjectKey, GangAsk | list[Pod]] = {}
    for turn in turns:
        members = turn.pending if isinstance(turn, GangAsk) else (turn,)
        if not any(device_ask(pod) is not None for pod in members):
            continue
        if isinstance(turn, GangAsk):
            by_shape[turn.key] = turn
        else:
            group = by_shape.setdefault(turn.shape, [])
            if isinstance(group, list):
                group.append(turn)
    yield from by_shape.values()
