"""New nodes on a borrowed picture: who may still buy, and what opening one more would be like."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from msgspec.structs import replace

from ullage.decide.fit.codes import FITS
from ullage.decide.pool.scratch import Scratch
from ullage.decide.quota import QuotaTable
from ullage.decide.seat.deciding import Refusal, Seat, Seating
from ullage.model.admission import LEASED_TAINT
from ullage.model.device import MILLI_GPU, Inventory
from ullage.model.node import Node, Taint
from ullage.model.pod import Pod
from ullage.model.provisioner import ZONE_LABEL, FleetBudget, PoolNode, Provisioner, template_node
from ullage.model.terms import NodeTerm
from ullage.model.verdict import Reason

FRESH = "~"
"""How names of nodes that could be bought begin: after all names of nodes that exist."""


class NoPurchase(StrEnum):
    """Why a provisioner does not buy, whatever the pod."""

    PAUSED = "Paused"
    BACKED_OFF = "BackedOff"
    FULL = "MaxSizeReached"
    OVER_BUDGET = "FleetBudgetReached"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A provisioner with the nodes it has."""

    provisioner: Provisioner
    nodes: tuple[PoolNode, ...] = ()

    @property
    def name(self) -> str:
        return self.provisioner.name


@dataclass(frozen=True, slots=True)
class FreshNode:
    """A node that could be bought."""

    name: str
    pool: Pool
    zone: str
    to_minimum: bool = False
    """Bought whether anybody is on it or not."""


class Market:
    """Opens new nodes, within what each pool and the whole fleet may have."""

    def __init__(
        self, seating: Seating, scratch: Scratch, pools: Sequence[Pool], budget: FleetBudget, *, now: float
    ) -> None:
        self.scratch = scratch
        self.now = now
        self.seating = seating
        self.quota = QuotaTable(scratch.placements)
        self.pools = tuple(sorted(pools, key=lambda pool: pool.name))
        self._budget = budget
        self._open: list[FreshNode] = []
        self._gpus = sum(node.capacity for pool in pools for node in pool.nodes) // MILLI_GPU
        self._price = sum(pool.provisioner.template.price * len(pool.nodes) for pool in pools)
        nodes = scratch.placements.state.nodes
        self._kept_off = {pool.name: taint for pool in pools if (taint := _kept_off_by_agents(pool, nodes))}

    def mark(self) -> tuple[int, int]:
        return self.scratch.mark(), len(self._open)

    def rollback(self, mark: tuple[int, int]) -> None:
        self.scratch.rollback(mark[0])
        del self._open[mark[1] :]

    def used(self) -> Iterator[tuple[FreshNode, list[Pod]]]:
        """New nodes that are to be bought, and who is on them."""
        for node in self._open:
            pods = self.pods_on(node)
            if pods or node.to_minimum:
                yield node, pods

    def pods_on(self, node: FreshNode) -> list[Pod]:
        return list(self.scratch.placements.pods_on(node.name).values())

    def opened_since(self, mark: tuple[int, int]) -> list[FreshNode]:
        return self._open[mark[1] :]

    def no_purchase(self, pool: Pool) -> NoPurchase | None:
        """Why a pool cannot have one more node."""
        limits, back_off = pool.provisioner.thresholds, pool.provisioner.back_off
        if limits.paused:
            return NoPurchase.PAUSED
        if back_off is not None and back_off.until > self.now:
            return NoPurchase.BACKED_OFF
        opened = [node.pool for node in self._open]
        if len(pool.nodes) + sum(one is pool for one in opened) >= limits.max_size:
            return NoPurchase.FULL
        template = pool.provisioner.template
        gpus = self._gpus + sum(one.provisioner.template.gpus.count for one in opened) + template.gpus.count
        price = self._price + sum(one.provisioner.template.price for one in opened) + template.price
        over_gpus = self._budget.gpus is not None and gpus > self._budget.gpus
        over_price = self._budget.price is not None and price > self._budget.price
        return NoPurchase.OVER_BUDGET if over_gpus or over_price else None

    def open_to_minimum(self) -> None:
        """What pools lack to their minimum, as far as they may buy it."""
        for pool in self.pools:
            limits, zones = pool.provisioner.thresholds, pool.provisioner.template.zones
            for _ in range(limits.min_size - sum(not node.lost for node in pool.nodes)):
                self.open(pool, zones[0] if len(zones) == 1 else "", to_minimum=True)

    def open(self, pool: Pool, zone: str, *, to_minimum: bool = False) -> FreshNode | None:
        """One more node of a pool, if it may have one."""
        if self.no_purchase(pool) is not None:
            return None
        node = FreshNode(f"{FRESH}{pool.name}-{len(self._open):04}", pool, zone, to_minimum)
        self.scratch.put(*self.face(pool, node.name, zone))
        self._open.append(node)
        return node

    def face(self, pool: Pool, name: str, zone: str = "") -> tuple[Node, Inventory]:
        """A node of a pool as it will be, and what its agent will say."""
        node, inventory = template_node(pool.provisioner, name, zone=zone, now=self.now)
        kept_off = self._kept_off.get(pool.name)
        return (replace(node, taints=(*node.taints, kept_off)) if kept_off else node), inventory

    def open_for(self, pool: Pool, pod: Pod) -> Seat | NoPurchase | Reason:
        """One more node of a pool with a seat for this pod, or why there is none; then nothing was opened."""
        refused = self.no_purchase(pool)
        if refused is not None:
            return refused
        answer: Seat | Reason = Reason.NODE_SELECTOR_MISMATCH
        for zone in zones_for(pool, pod):
            mark = self.mark()
            node = self.open(pool, zone)
            answer = self._seat_on(pod, node.name if node is not None else "")
            if isinstance(answer, Seat):
                return answer
            self.rollback(mark)
        return answer

    def seat(self, pod: Pod) -> Seat | None:
        """The best seat there is now, within the quota of the pod's namespace."""
        answer = self.seating.seat(pod, now=self.now, closed=self.quota.closed((pod,)))
        if isinstance(answer, Refusal) or not self.quota.verdict([(pod, answer)]):
            return None
        return answer

    def seat_on_opened(self, pod: Pod) -> Seat | None:
        """A seat on the first new node that has one: what exists has refused the pod already.

        No policy is asked. Nodes that come and go would make it look at all of them again each time.
        """
        if not self._open:
            return None
        codes = self.seating.codes(pod, now=self.now)
        rows = self.scratch.placements.columns.rows
        for node in self._open:
            if codes[rows[node.name]] == FITS:
                answer = self._seat_on(pod, node.name)
                if isinstance(answer, Seat):
                    return answer
        return None

    def _seat_on(self, pod: Pod, node: str) -> Seat | Reason:
        answer = self.seating.seat_on(pod, node, now=self.now)
        if isinstance(answer, Seat) and not self.quota.verdict([(pod, answer)]):
            return Reason.QUOTA_EXCEEDED
        return answer


def zones_for(pool: Pool, pod: Pod) -> Sequence[str]:
    """Zones to try a new node in; one without a zone where the pod does not look at zones, so the cloud may choose."""
    zones = pool.provisioner.template.zones
    if len(zones) <= 1:
        return zones or ("",)
    return zones if looks_at_zones(pod) else ("",)


def looks_at_zones(pod: Pod) -> bool:
    """Whether it matters to a pod in which zone its node is."""
    shape = pod.shape
    if shape.claims or shape.near or shape.away or shape.spread or shape.preferred_pods:
        return True
    terms: tuple[NodeTerm, ...] = shape.node_affinity or ()
    asked = [requirement.key for term in terms for requirement in term.labels]
    return ZONE_LABEL in (*asked, *(key for key, _ in shape.node_selector))


def _kept_off_by_agents(pool: Pool, nodes: Mapping[str, Node]) -> Taint | None:
    """The taint that agents have put on nodes of this pool, which no template names: new ones will get it, too."""
    named = {taint.key for taint in pool.provisioner.template.taints}
    there = (node for one in pool.nodes if (node := nodes.get(one.name)) is not None)
    found = (taint for node in there for taint in node.taints if taint.key == LEASED_TAINT and taint.key not in named)
    return next(found, None)
