"""Dashboard model: facts in by `hear`, changed rows out by `patch`. Pure; `now` is an argument.

An event makes no row at once: it marks the rows it touches, and those are made at the next patch.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any

from msgspec.structs import replace

from ullage.decide.explain.planning import PlanInputs
from ullage.decide.placement.devices.freshness import STALE_AFTER
from ullage.decide.placement.observed_gpus import account_for_bound, hold_in_use
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.claim import Claim
from ullage.model.device import MILLI_GPU, Inventory
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Synced, Updated
from ullage.model.karpenter import HandoverNode, NodeClaim, NodePool, SmartPod
from ullage.model.lease import GpuLease
from ullage.model.pod import Pod
from ullage.model.provisioner import MICROS, PROVISIONER_LABEL
from ullage.model.scoring import DEFAULT_POLICY
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot
from ullage.web.view.banners import at_maximum, banners
from ullage.web.view.capacity import CapacityOnOrder
from ullage.web.view.changes import ChangeNotes, as_change
from ullage.web.view.cluster_copy import ClusterCopy, RunTrial, Suggestion, at_once
from ullage.web.view.decisions import RecentDecisions, ShownDecision
from ullage.web.view.groups import WaitingGroupTable
from ullage.web.view.history import HistorySampler, pool_samples
from ullage.web.view.idleness import IdleTimes
from ullage.web.view.ledgers import VmLedgers
from ullage.web.view.nodes import NO_NAMESPACE, node_row
from ullage.web.view.on_call import OnCallViews
from ullage.web.view.pacing import is_due
from ullage.web.view.patch import ONLY, PageSection, SectionTable, ViewPatch
from ullage.web.view.pending import PendingPods
from ullage.web.view.pool_reach import PoolReach
from ullage.web.view.pools import PoolView, pool_row
from ullage.web.view.rows import NodeRow, PageInfo, PoolRow, Totals, WaitingGroupRow
from ullage.web.view.usage import NodeCost, UsageMeter, worth_of

NOTHING = NodeCost()
MOST_NODES_A_PATCH = 400
"""Rows of nodes made in one patch: those of 5,000 nodes in one go would hold the loop for most of a second."""
BANNERS_EVERY = 1.0
"""Seconds between two looks at all rows for banners."""


class DashboardModel:
    """Observed facts of a cluster, as rows."""

    def __init__(
        self, policy: str = DEFAULT_POLICY, *, history: HistorySampler | None = None, run_trial: RunTrial = at_once
    ) -> None:
        """`history` takes samples and changes, if they are kept. `run_trial` runs what takes long."""
        self.history = history
        self._run_trial = run_trial
        self.changes = ChangeNotes()
        self.snapshot = ClusterSnapshot()
        self.pools: dict[str, PoolView] = {}
        self.policy = policy
        self.decisions = RecentDecisions()
        self.capacity = CapacityOnOrder()
        self.assigner = PodAssigner(self.snapshot, policy)
        self._waiting = PendingPods(self.assigner)
        self._groups = WaitingGroupTable(self._try)
        self._reach = PoolReach(self.assigner)
        self._banners = SectionTable()
        self._banners_at: float | None = None
        self._meter = UsageMeter()
        self._idle = IdleTimes()
        self._views = OnCallViews(self.assigner, self._waiting)
        self._ledgers = VmLedgers(self.snapshot.vms)
        self._nodes, self._pool_rows, self._totals, self._about = (
            SectionTable(),
            SectionTable(),
            SectionTable(),
            SectionTable(),
        )
        self._worth: dict[str, NodeCost] = {}
        self._sum = NOTHING
        self._by_pool: dict[str, NodeCost] = {}
        self._seen = self._roster = 0
        """Versions of the columns, and of the list of nodes, that the node rows were made from."""
        self._touched: dict[str, None] = {}
        """Nodes whose rows are stale for other reasons than their columns."""
        self._unaccounted: dict[ObjectKey, None] = {}
        self._used: dict[str, None] = {}
        """Nodes where processes may use GPUs that their pods do not account for, or no longer do."""
        self._changes = 0
        """Version that grows with every change that may alter the answer for a pending pod."""
        self._pool_changes = 0
        """Version that grows when a pool comes, goes or is changed, not with its status."""
        self._now = 0.0
        """Time of the patch that is being made."""
        self._filling: bool | None = None
        """The cluster was read, and some nodes have no row yet; None before it was read."""
        self._stale_at: float | None = None

    def observe(self, event: FactEvent[Any]) -> None:
        """Apply one event: a fact of the cluster, a GPU's Lease, a pool or a decision."""
        fact = event.new if isinstance(event, Added | Updated) else getattr(event, "old", None)
        if self.history is not None:
            self.changes.observe(event)
        match fact:
            case GpuLease():
                self.snapshot.apply(event)
                self._used[fact.node] = None
            case PoolView():
                self._pool_changed(event, fact)
            case SmartPod() | NodeClaim() | NodePool() | HandoverNode():
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
        sample_due = self._advance_history(about, now)
        self._account()
        self._renew_nodes(now)
        filling, about = self._filling, self._as_far_as_shown(about)
        self._ledgers.renew()
        # Questions about gangs are what-if trials that are undone: node rows do not change.
        if not filling and not self._filling and self._waiting.renew(now=now, version=self._changes):
            self._groups.regroup(self._waiting.entries)
        objects = len(self.snapshot.columns.rows) + len(self._waiting)
        self._groups.advise(now=now, version=(self._changes, self._pool_changes), objects=objects)
        self._views.renew((row for row in self._nodes.rows.values() if isinstance(row, NodeRow)), now=now)
        self._renew_banners(now)
        self.capacity.renew(now=now)
        self._seen = self.snapshot.columns.changed.version
        self._totals.put(ONLY, self._counted())
        self._about.put(ONLY, about)
        self._keep_history(about, now, sample_due=sample_due)
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
            PageSection.QUOTAS: self._views.quotas,
            PageSection.GANGS: self._views.gangs,
            PageSection.PREEMPTIONS: self._views.preemptions,
            PageSection.DRAINS: self._views.drains,
        }
        changed = {section: table.taken() for section, table in tables.items()}
        return ViewPatch(now=now, sections={section: rows for section, rows in changed.items() if rows})

    def _advance_history(self, about: PageInfo, now: float) -> bool:
        """True if a sample is due. Nothing is kept of a cluster that is not read yet."""
        waiting = (len(self._waiting), self._waiting.gpus)
        read = about.synced and not self._filling
        return self.history is not None and read and self.history.advance(self._sum, waiting, now=now)

    def _as_far_as_shown(self, about: PageInfo) -> PageInfo:
        """Page info that does not call the cluster read before every node has been shown once."""
        if about.synced and self._filling is not False:
            self._filling = self.behind
        return replace(about, synced=False) if self._filling else about

    def _keep_history(self, about: PageInfo, now: float, *, sample_due: bool) -> None:
        """Note what changed, and make the sample that is due."""
        decided = self.decisions.fresh()
        if self.history is None:
            return
        self.history.note(map(as_change, decided))
        self.history.note(self.changes.taken(now=now, synced=about.synced))
        if sample_due:
            pools = [row for row in self._pool_rows.rows.values() if isinstance(row, PoolRow)]
            groups = [row for row in self._groups.table.rows.values() if isinstance(row, WaitingGroupRow)]
            self.history.sample(pool_samples(self._by_pool, pools), groups)

    def _try(self, pod: Pod, report: Callable[[Suggestion], None]) -> None:
        copy = self.copy(now=self._now)
        self._run_trial(lambda: copy.suggestion(pod), report)

    def copy(self, *, now: float) -> ClusterCopy:
        """Copy of the cluster as it is, for questions that take long."""
        return ClusterCopy(
            snapshot=self.snapshot.fork(),
            known=self.plan_inputs(),
            capacity=self.capacity.facts.fork(),
            policy=self.policy,
            now=Instant(now),
            pending=len(self._waiting),
        )

    @property
    def behind(self) -> bool:
        """True if nodes changed whose rows were left for the next patch."""
        return bool(self._touched)

    def plan_inputs(self) -> PlanInputs:
        """Pools, as explanations need them."""
        return PlanInputs(pools=[self.pools[name].facts for name in sorted(self.pools)])

    def _renew_banners(self, now: float) -> None:
        if not is_due(self._banners_at, BANNERS_EVERY, now=now):
            return
        self._banners_at = now
        pools = [row for row in self._pool_rows.rows.values() if isinstance(row, PoolRow)]
        nodes = [row for row in self._nodes.rows.values() if isinstance(row, NodeRow)]
        theirs = self.capacity.facts.node_pools.values()
        short = [self.pools[row.name].facts for row in pools if row.blocked or at_maximum(row)]
        wanted = self._reach.wanted(short, self._groups.oldest, now=now)
        shown = banners(pools, nodes, wanted, now=now, node_pools=theirs)
        found = {f"{one.kind}/{one.about}": one for one in shown}
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
        self._pool_changes += before is None or before.facts != pool.facts
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
        for name in islice(touched, MOST_NODES_A_PATCH):
            self._renew_node(name, now)
        self._touched = dict.fromkeys(islice(touched, MOST_NODES_A_PATCH, None))

    def _gone(self) -> list[str]:
        columns = self.snapshot.columns
        if columns.roster == self._roster:
            return []
        self._roster = columns.roster
        return [name for name in self._nodes.rows if name not in columns.rows]

    def _newly_stale(self, now: float) -> list[str]:
        """Nodes whose reports became stale. No event announces that, so the columns are scanned from time to time."""
        if not is_due(self._stale_at, STALE_AFTER / 9, now=now):
            return []
        self._stale_at = now
        columns = self.snapshot.columns
        silent = columns.gpus.reported_at[: columns.size] < now - STALE_AFTER
        names = [columns.names[row] for row in silent.nonzero()[0].tolist()]
        shown = ((name, self._nodes.rows.get(name)) for name in names)
        return [name for name, row in shown if isinstance(row, NodeRow) and not row.stale]

    def _renew_node(self, name: str, now: float) -> None:
        before = self._worth.pop(name, NOTHING)
        if isinstance(known := self._nodes.rows.get(name), NodeRow):
            self._count_pool(known.pool, before, -1)
        if name in self.snapshot.columns.rows:
            # Read here, so that the first question about a pod does not read the GPUs of all nodes at once.
            self.assigner.engine.devices.layout(self.snapshot.columns.rows[name])
            node = self.snapshot.state.nodes[name]
            pool = self.pools.get(node.labels.get(PROVISIONER_LABEL, ""))
            row = node_row(self.snapshot, name, None if pool is None else pool.facts, now=now)
            row = replace(row, idle_since=self._idle.of(row, now=now))
            self._nodes.put(name, row)
            after = self._worth[name] = worth_of(row, 0 if pool is None else pool.facts.template.price)
            self._count_pool(row.pool, after, 1)
        else:
            self._nodes.drop(name)
            self._idle.forget(name)
            after = NOTHING
        self._sum = self._sum.plus(before, -1).plus(after)

    def _count_pool(self, pool: str, cost: NodeCost, sign: int) -> None:
        total = self._by_pool.get(pool, NOTHING).plus(cost, sign)
        if total.nodes:
            self._by_pool[pool] = total
        else:
            self._by_pool.pop(pool, None)

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
