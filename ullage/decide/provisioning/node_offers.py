"""Hypothetical new nodes in a what-if of the snapshot, within the limits of pools and fleet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from msgspec.structs import replace

from ullage.decide.placement.engine import NoFit, Placement, PlacementEngine, device_ask
from ullage.decide.placement.filters.codes import FITS
from ullage.model.admission import LEASED_TAINT
from ullage.model.device import MILLI_GPU, GpuNodeKind, Inventory
from ullage.model.node import Node, Taint
from ullage.model.pod import Pod
from ullage.model.provisioner import ZONE_LABEL, FleetBudget, PoolNode, Provisioner, labels_of, template_node
from ullage.model.shape import Shape
from ullage.model.shape_terms import NodeTerm
from ullage.model.stepper import StepMeter, Stepper
from ullage.model.units import Instant, Seconds
from ullage.model.verdict import Reason
from ullage.state.journal import Trial

FRESH = "~"
"""Prefix of names of hypothetical nodes. It sorts after all names of existing nodes."""


ENDLESS = float("inf")
_AGENT_TAINT = Taint(LEASED_TAINT, "true", "NoSchedule")


class ScaleUpBlocked(StrEnum):
    """Reason a provisioner does not buy, whatever a new node would look like."""

    PAUSED = "Paused"
    BACKED_OFF = "BackedOff"
    FULL = "MaxSizeReached"
    OVER_BUDGET = "FleetBudgetReached"
    NOT_FOR_VMS = "NotForVms"
    """The pod is a VM's without GPUs, and the node selector of the VM configuration does not name the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Provisioner with its nodes."""

    provisioner: Provisioner
    nodes: tuple[PoolNode, ...] = ()

    @property
    def name(self) -> str:
        return self.provisioner.name


@dataclass(frozen=True, slots=True)
class HypotheticalNode:
    """Node that could be bought."""

    name: str
    pool: Pool
    zone: str
    to_minimum: bool = False
    """Bought for minSize, with or without pods on it."""


@dataclass(frozen=True, slots=True)
class BulkNodes:
    """Nodes that could be bought, all with pods of the same shapes on them."""

    pool: Pool
    zone: str
    count: int
    pods: tuple[Pod, ...]
    """Pods of all these nodes, node after node."""

    @property
    def by_node(self) -> Iterator[tuple[Pod, ...]]:
        each = len(self.pods) // self.count
        return (self.pods[first : first + each] for first in range(0, len(self.pods), each))


PLACE_COST, OPEN_COST, UNDO_COST, READ_COST = 0.000_2, 0.000_1, 0.000_02, 0.000_003
"""Modelled CPU seconds: of placing a pod, opening a node, undoing one change, and reading one pod or node."""
_UNDONE_AT_ONCE = 200

Mark = tuple[int, int, int]
"""Point to roll back to."""


class NodeOffers:
    """Opens new nodes, within the limits of each pool and of the whole fleet."""

    def __init__(
        self, engine: PlacementEngine, trial: Trial, pools: Sequence[Pool], budget: FleetBudget, *, now: Instant
    ) -> None:
        self.snapshot = engine.snapshot
        self._trial = trial
        self.now = now
        self.engine = engine
        self.quota = engine.quota
        self.meter = StepMeter()
        """Cost of the search since its last step."""
        self.pools = tuple(sorted(pools, key=lambda pool: pool.name))
        self._budget = budget
        self._open: list[HypotheticalNode] = []
        self._bulk: list[BulkNodes] = []
        self._sizes = {pool.name: len(pool.nodes) for pool in pools}
        self._gpus = sum(node.capacity for pool in pools for node in pool.nodes) // MILLI_GPU
        self._price = sum(pool.provisioner.template.price * len(pool.nodes) for pool in pools)
        self.quota_namespaces = frozenset(key.namespace for key in self.snapshot.state.quotas)
        nodes = self.snapshot.state.nodes
        self._kept_off = {pool.name: taint for pool in pools if (taint := _kept_off_by_agents(pool, pools, nodes))}

    def mark(self) -> Mark:
        return self._trial.mark(), len(self._open), len(self._bulk)

    def rollback_in_steps(self, mark: Mark) -> Stepper[None]:
        """Roll back many changes, in steps."""
        while (changes := self._trial.mark()) > mark[0] + _UNDONE_AT_ONCE:
            self._trial.rollback(changes - _UNDONE_AT_ONCE)
            if self.meter.spend(Seconds(UNDO_COST * _UNDONE_AT_ONCE)):
                yield self.meter.take()
        self.rollback(mark)

    def rollback(self, mark: Mark) -> None:
        self._trial.rollback(mark[0])
        for node in self._open[mark[1] :]:
            self._count(node.pool, -1)
        for bulk in self._bulk[mark[2] :]:
            self._count(bulk.pool, -bulk.count)
        del self._open[mark[1] :]
        del self._bulk[mark[2] :]

    def used(self) -> Iterator[tuple[HypotheticalNode, list[Pod]]]:
        """New nodes to be bought, with the pods on them."""
        for node in self._open:
            pods = self.pods_on(node)
            if pods or node.to_minimum:
                yield node, pods

    def pods_on(self, node: HypotheticalNode) -> list[Pod]:
        return list(self.snapshot.pods_on(node.name).values())

    def opened_since(self, mark: Mark) -> list[HypotheticalNode]:
        return self._open[mark[1] :]

    @property
    def bulk(self) -> Sequence[BulkNodes]:
        """New nodes that are counted and not in the snapshot."""
        return self._bulk

    def open_bulk(self, bulk: BulkNodes) -> None:
        """Count nodes that are allowed (see `allowance`), with pods known to fit on them."""
        self._bulk.append(bulk)
        self._count(bulk.pool, bulk.count)

    def take_bulk(self) -> list[BulkNodes]:
        """Remove and return all counted nodes. Do not roll back to a mark from before."""
        taken, self._bulk = self._bulk, []
        for bulk in taken:
            self._count(bulk.pool, -bulk.count)
        return taken

    def _count(self, pool: Pool, nodes: int) -> None:
        template = pool.provisioner.template
        self._sizes[pool.name] += nodes
        self._gpus += nodes * template.gpus.count
        self._price += nodes * template.price

    def allowance(self, pool: Pool) -> int:
        """Nodes its `maxSize` still allows; 0 while the pool may not buy at all."""
        if self.no_purchase(pool) is not None:
            return 0
        return pool.provisioner.thresholds.max_size - self._sizes[pool.name]

    @property
    def budgets_left(self) -> tuple[float, float]:
        """GPUs and price that the fleet's budget still allows."""
        gpus = ENDLESS if self._budget.gpus is None else self._budget.gpus - self._gpus
        return gpus, ENDLESS if self._budget.price is None else self._budget.price - self._price

    def no_purchase(self, pool: Pool) -> ScaleUpBlocked | None:
        """Reason a pool cannot have one more node; None if it can."""
        limits, back_off = pool.provisioner.thresholds, pool.provisioner.back_off
        if limits.paused:
            return ScaleUpBlocked.PAUSED
        if back_off is not None and back_off.until > self.now:
            return ScaleUpBlocked.BACKED_OFF
        if self._sizes[pool.name] >= limits.max_size:
            return ScaleUpBlocked.FULL
        template, (gpus, price) = pool.provisioner.template, self.budgets_left
        return ScaleUpBlocked.OVER_BUDGET if template.gpus.count > gpus or template.price > price else None

    def open_to_minimum(self) -> Stepper[None]:
        """Open the nodes pools lack to their minSize, as far as they may buy."""
        for pool in self.pools:
            limits, zones = pool.provisioner.thresholds, pool.provisioner.template.zones
            for _ in range(limits.min_size - sum(not node.failed_to_register for node in pool.nodes)):
                self.open(pool, zones[0] if len(zones) == 1 else "", to_minimum=True)
                if self.meter.spend(Seconds(OPEN_COST)):
                    yield self.meter.take()

    def open(self, pool: Pool, zone: str, *, to_minimum: bool = False) -> HypotheticalNode | None:
        """Open one more node of a pool, if it may have one."""
        if self.no_purchase(pool) is not None:
            return None
        node = HypotheticalNode(f"{FRESH}{pool.name}-{len(self._open):04}", pool, zone, to_minimum)
        self.snapshot.put_node(*self.face(pool, node.name, zone))
        self._open.append(node)
        self._count(pool, 1)
        return node

    def face(self, pool: Pool, name: str, zone: str = "") -> tuple[Node, Inventory]:
        """Node of a pool as it will be, and the inventory its agent will report."""
        node, inventory = template_node(pool.provisioner, name, zone=zone, now=self.now)
        kept_off = self._kept_off.get(pool.name)
        return (replace(node, taints=(*node.taints, kept_off)) if kept_off else node), inventory

    def open_for(self, pool: Pool, pod: Pod) -> Placement | ScaleUpBlocked | Reason:
        """Open one more node of a pool with a place for this pod; or the reason there is none, with nothing opened."""
        refused = self.no_purchase(pool)
        if refused is None and pod.shape.vm is not None and device_ask(pod) is None and not self._is_for_vms(pool):
            refused = ScaleUpBlocked.NOT_FOR_VMS
        if refused is not None:
            return refused
        answer: Placement | Reason = Reason.NODE_SELECTOR_MISMATCH
        for zone in zones_for(pool, pod):
            mark = self.mark()
            node = self.open(pool, zone)
            answer = self.place_on(pod, node.name if node is not None else "")
            if isinstance(answer, Placement):
                return answer
            self.rollback(mark)
        return answer

    def _is_for_vms(self, pool: Pool) -> bool:
        """True if the VM configuration names the nodes of a pool: nodes with GPUs are dear, and for VMs by choice."""
        return self.snapshot.vms.config.names("", labels_of(pool.provisioner))

    def beyond_limits(self, pool: Pool, pod: Pod) -> Reason | None:
        """Reason a new node of a pool would refuse the pod, were the pool allowed to buy it; None if it would not."""
        refused: Reason | None = Reason.NODE_SELECTOR_MISMATCH
        for zone in zones_for(pool, pod):
            mark, name = self.mark(), f"{FRESH}{pool.name}-beyond"
            self.snapshot.put_node(*self.face(pool, name, zone))
            answer = self.place_on(pod, name)
            self.rollback(mark)
            if isinstance(answer, Placement):
                return None
            refused = answer
        return refused

    def place(self, pod: Pod) -> Placement | None:
        """Best placement now, within the quota of the pod's namespace."""
        answer = self.engine.place(pod, now=self.now, closed=self.quota.closed((pod,)))
        if isinstance(answer, NoFit) or not self.quota.verdict([(pod, answer)]):
            return None
        return answer

    def place_on_opened(self, pod: Pod) -> Placement | None:
        """Placement on the first new node that fits: existing nodes have refused the pod already.

        No policy is asked. It would score all nodes again each time a hypothetical node comes or goes.
        """
        if not self._open:
            return None
        rows = self.snapshot.columns.rows
        opened = np.array([rows[node.name] for node in self._open], np.int64)
        for place in np.flatnonzero(self.engine.codes(pod, now=self.now)[opened] == FITS):
            answer = self.place_on(pod, self._open[place].name)
            if isinstance(answer, Placement):
                return answer
        return None

    def place_on(self, pod: Pod, node: str) -> Placement | Reason:
        """Placement on one node within the quota of the pod's namespace, or the reason there is none."""
        answer = self.engine.place_on(pod, node, now=self.now)
        if isinstance(answer, Placement) and not self.quota.verdict([(pod, answer)]):
            return Reason.QUOTA_EXCEEDED
        return answer


def zones_for(pool: Pool, pod: Pod) -> Sequence[str]:
    """Zones to try a new node in. Empty where the pod does not look at zones, so that the cloud may choose."""
    zones = pool.provisioner.template.zones
    if len(zones) <= 1:
        return zones or ("",)
    return zones if looks_at_zones(pod.shape) else ("",)


def looks_at_zones(shape: Shape) -> bool:
    """True if the zone of a node matters to pods of this shape."""
    if shape.claims or shape.near or shape.away or shape.spread or shape.preferred_pods:
        return True
    terms: tuple[NodeTerm, ...] = shape.node_affinity or ()
    asked = [requirement.key for term in terms for requirement in term.labels]
    return ZONE_LABEL in (*asked, *(key for key, _ in shape.node_selector))


def _kept_off_by_agents(pool: Pool, pools: Sequence[Pool], nodes: Mapping[str, Node]) -> Taint | None:
    """Taint that agents will put on a new node of this pool and the template does not name.

    Agents taint every leased node. Usable nodes of the pool show whether they do here; else those of the whole cluster,
    or what was recorded of pools while they had nodes. A pool that is empty again must not buy for the same pods again.
    """
    template = pool.provisioner.template
    if template.gpus.kind is not GpuNodeKind.LEASED or any(taint.key == LEASED_TAINT for taint in template.taints):
        return None
    if any(node.usable for node in pool.nodes):
        return _AGENT_TAINT if any(node.agent_taint for node in pool.nodes) else None
    recorded = any(one.provisioner.agent_taint for one in pools)
    seen = recorded or any(taint.key == LEASED_TAINT for node in nodes.values() for taint in node.taints)
    return _AGENT_TAINT if seen else None
