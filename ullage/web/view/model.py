"""Dashboard model: facts in by `hear`, changed rows out by `patch`. Pure; `now` is an argument.

An event makes no row at once: it marks the rows it touches, and those are made at the next patch.
"""

from typing import Any

from ullage.decide.explain.planning import PlanInputs
from ullage.decide.explain.pod import explain_pod
from ullage.decide.placement.devices.freshness import STALE_AFTER
from ullage.decide.placement.observed_gpus import account_for_bound, hold_in_use
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.claim import Claim
from ullage.model.device import MILLI_GPU, Inventory
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Synced, Updated
from ullage.model.karpenter import HandoverNode, NodeClaim, SmartPod
from ullage.model.lease import GpuLease
from ullage.model.pod import Pod
from ullage.model.provisioner import MICROS, PROVISIONER_LABEL
from ullage.model.scoring import DEFAULT_POLICY
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot
from ullage.web.view.banners import banners
from ullage.web.view.capacity import CapacityOnOrder
from ullage.web.view.decisions import RecentDecisions, ShownDecision
from ullage.web.view.groups import WaitingGroupTable
from ullage.web.view.ledgers import VmLedgers
from ullage.web.view.nodes import NO_NAMESPACE, node_row
from ullage.web.view.patch import ONLY, PageSection, SectionTable, ViewPatch
from ullage.web.view.pending import PendingPods
from ullage.web.view.pools import PoolView, pool_row
from ullage.web.view.rows import NodeRow, PageInfo, PoolRow, Totals
from ullage.web.view.usage import NodeCost, UsageMeter, worth_of

NOTHING = NodeCost()
BANNERS_EVERY = 1.0
"""Seconds between two looks at all rows for banners."""


class DashboardModel:
    """Observed facts of a cluster, as rows."""

    def __init__(self, policy: str = DEFAULT_POLICY) -> None:
        self.snapshot = ClusterSnapshot()
        self.pools: dict[str, PoolView] = {}
        self.policy = policy
        self.decisions = RecentDecisions()
        self.capacity = CapacityOnOrder()
        self.assigner = PodAssigner(self.snapshot, policy)
        self._waiting = PendingPods(self.assigner)
        self._groups = WaitingGroupTable(self._suggest)
        self._banners = SectionTable()
        self._banners_at: float | None = None
        self._meter = UsageMeter()
        self._ledgers = VmLedgers(self.snapshot.vms)
        self._nodes, self._pool_rows, self._totals, self._about = (
            SectionTable(),
            SectionTable(),
            SectionTable(),
            SectionTable(),
        )
        self._worth: dict[str, NodeCost] = {}
        self._sum = NOTHING
        self._seen = 0
        """Version of the columns that the node rows were made from."""
        self._touched: dict[str, None] = {}
        """Nodes whose rows are stale for other reasons than their columns."""
        self._unaccounted: dict[ObjectKey, None] = {}
        self._used: dict[str, None] = {}
        """Nodes where processes may use GPUs that their pods do not account for, or no longer do."""
        self._changes = 0
        """Version that grows with every change that may alter the answer for a pending pod."""
        self._now = 0.0
        """Time of the patch that is being made."""
        self._roster = 0
        self._stale_at: float | None = None

    def observe(self, event: FactEvent[Any]) -> None:
        """Apply one event: a fact of the cluster, a GPU's Lease, a pool or a decision."""
        fact = event.new if isinstance(event, Added | Updated) else getattr(event, "old", None)
        match fact:
            case GpuLease():
                self.snapshot.apply(event)
                self._used[fact.node] = None
            case PoolView():
                self._pool_changed(event, fact)
            case SmartPod() | NodeClaim() | HandoverNode():
                self.capacity.observe(event)
            case ShownDecision():
                if not isinstance(event, Deleted):
                    self.decisions.put(fact)
            case None if not isinstance(event, Synced):
                pass  # an Event that is not shown
            case _:
                self.snapshot.apply(event)
                if not isinstance(event, Synced):
                    self._fact_changed(event, fact)

    def patch(self, about: PageInfo, *, now: float) -> ViewPatch:
        """Rows that changed since the last patch. Its cost grows with the changes, not with the cluster."""
        self._now = now
        # Time until now is counted with the old values, before they are computed again.
        self._meter.advance(self._sum, len(self._waiting), now=now)
        self._account()
        self._renew_nodes(now)
        self._ledgers.renew()
        # Questions about gangs are what-if trials that are undone: node rows do not change.
        if self._waiting.renew(now=now, version=self._changes):
            self._groups.regroup(self._waiting.entries())
        self._groups.advise(now=now)
        self._renew_banners(now)
        self.capacity.renew(now=now)
        self._seen = self.snapshot.columns.changed.version
        self._totals.put(ONLY, self._counted())
        self._about.put(ONLY, about)
        tables = {
            PageSection.ABOUT: self._about,
            PageSection.TOTALS: self._totals,
            PageSection.POOLS: self._pool_rows,
            PageSection.NODES: self._nodes,
            PageSection.PENDING: self._waiting.table,
            PageSection.GROUPS: self._groups.table,
            PageSection.BANNERS: self._banners,
            PageSection.CAPACITY: self.capacity.table,
            PageSection.DECISIONS: self.decisions.table,
            PageSection.SERIES: self._meter.series,
            PageSection.LEDGERS: self._ledgers.table,
        }
        changed = {section: table.taken() for section, table in tables.items()}
        return ViewPatch(now=now, sections={section: rows for section, rows in changed.items() if rows})

    def _suggest(self, pod: Pod) -> tuple[str, tuple[str, ...]]:
        """First step that `ullage explain` advises for a pod, with its commands."""
        said = explain_pod(self.snapshot, pod, self.plan_inputs(), now=Instant(self._now), policy=self.policy)
        if said.remedies:
            best = said.remedies[0].remedy
            return best.sentence, best.commands
        return (said.steps[0] if said.steps else ""), ()

    def plan_inputs(self) -> PlanInputs:
        """Pools, as explanations need them."""
        return PlanInputs(pools=[self.pools[name].facts for name in sorted(self.pools)])

    def _renew_banners(self, now: float) -> None:
        if self._banners_at is not None and self._banners_at <= now < self._banners_at + BANNERS_EVERY:
            return
        self._banners_at = now
        pools = [row for row in self._pool_rows.rows.values() if isinstance(row, PoolRow)]
        nodes = [row for row in self._nodes.rows.values() if isinstance(row, NodeRow)]
        found = {f"{one.kind}/{one.about}": one for one in banners(pools, nodes, len(self._waiting), now=now)}
        for gone in [key for key in self._banners.rows if key not in found]:
            self._banners.drop(gone)
        for key, row in found.items():
            self._banners.put(key, row)

    def _fact_changed(self, event: FactEvent[Any], fact: object) -> None:
        if isinstance(fact, Pod):
            gone = isinstance(event, Deleted)
            self._waiting.observe(fact, gone=gone)
            self._used[fact.node] = None
            if fact.holds_room and not gone:
                self._unaccounted[fact.key] = None
        elif isinstance(fact, Inventory):
            self._touched[fact.node] = None
            if isinstance(event, Updated) and event.old.devices == fact.devices:
                return  # a heartbeat without a change
            self._unaccounted |= dict.fromkeys(self.snapshot.pods_on(fact.node))
            self._used[fact.node] = None
        elif isinstance(fact, Claim):
            self._unaccounted |= dict.fromkeys(pod.key for pod in self.snapshot.state.pods_naming(fact.key))
        self._changes += 1

    def _pool_changed(self, event: FactEvent[PoolView], pool: PoolView) -> None:
        name = pool.facts.name
        if isinstance(event, Deleted):
            self.pools.pop(name, None)
            self._pool_rows.drop(name)
        else:
            self.pools[name] = pool
            self._pool_rows.put(name, pool_row(pool))
        before = event.old if isinstance(event, Updated) else None
        if before is None or before.facts.template != pool.facts.template:
            nodes = self.snapshot.state.nodes.values()
            self._touched |= dict.fromkeys(node.name for node in nodes if node.labels.get(PROVISIONER_LABEL) == name)

    def _account(self) -> None:
        """Assign GPUs to pods that do not name theirs, from Leases and from processes seen on GPUs."""
        synced, self._unaccounted = self._unaccounted, {}
        placed = self.snapshot.pods
        pods = [placed[key] for key in synced if key in placed and not key.namespace.startswith(NO_NAMESPACE)]
        account_for_bound(self.snapshot, pods)
        for pod in pods:
            self.snapshot.leases.observe_pod(pod, gone=False)
        nodes, self._used = self._used, {}
        hold_in_use(self.snapshot, nodes)

    def _renew_nodes(self, now: float) -> None:
        columns = self.snapshot.columns
        rows = columns.changed.since(self._seen)
        names = [columns.names[row] for row in (range(columns.size) if rows is None else rows)]
        touched, self._touched = self._touched, {}
        touched |= dict.fromkeys((*names, *self._gone(), *self._newly_stale(now)))
        for name in touched:
            self._renew_node(name, now)

    def _gone(self) -> list[str]:
        columns = self.snapshot.columns
        if columns.roster == self._roster:
            return []
        self._roster = columns.roster
        return [name for name in self._nodes.rows if name not in columns.rows]

    def _newly_stale(self, now: float) -> list[str]:
        """Nodes whose reports became stale. No event announces that, so the columns are scanned from time to time."""
        if self._stale_at is not None and now < self._stale_at + STALE_AFTER / 9:
            return []
        self._stale_at = now
        columns = self.snapshot.columns
        silent = columns.gpus.reported_at[: columns.size] < now - STALE_AFTER
        names = [columns.names[row] for row in silent.nonzero()[0].tolist()]
        shown = ((name, self._nodes.rows.get(name)) for name in names)
        return [name for name, row in shown if isinstance(row, NodeRow) and not row.stale]

    def _renew_node(self, name: str, now: float) -> None:
        before = self._worth.pop(name, NOTHING)
        if name in self.snapshot.columns.rows:
            node = self.snapshot.state.nodes[name]
            pool = self.pools.get(node.labels.get(PROVISIONER_LABEL, ""))
            row = node_row(self.snapshot, name, None if pool is None else pool.facts, now=now)
            self._nodes.put(name, row)
            after = self._worth[name] = worth_of(row, 0 if pool is None else pool.facts.template.price)
        else:
            self._nodes.drop(name)
            after = NOTHING
        self._sum = self._sum.plus(before, -1).plus(after)

    def _counted(self) -> Totals:
        worth, meter = self._sum, self._meter
        return Totals(
            nodes=worth.nodes,
            gpus=worth.gpus // MILLI_GPU,
            allocated=worth.allocated / MILLI_GPU,
            idle=worth.idle / MILLI_GPU,
            broken=worth.broken // MILLI_GPU,
            pending=len(self._waiting),
            pending_gpus=self._waiting.gpus,
            price=worth.price / MICROS,
            waste=worth.waste / MICROS,
            gpu_hours=round(meter.gpu_hours, 4),
            idle_gpu_hours=round(meter.idle_gpu_hours, 4),
            cost=round(meter.cost, 4),
            wasted=round(meter.wasted, 4),
            unpriced=worth.unpriced,
            since=meter.since or 0.0,
        )
