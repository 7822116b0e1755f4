"""All that is shown, kept up: facts in by `hear`, what changed out by `patch`. Pure; time is told.

Nothing is made anew for an event: it is noted which rows it touches, and those are made when a patch is asked for.
"""

from typing import Any

from ullage.decide.accounting import account_for_bound
from ullage.decide.assigning import Assigner
from ullage.decide.score.policies import DEFAULT_POLICY
from ullage.decide.seat.freshness import STALE_AFTER
from ullage.model.claim import Claim
from ullage.model.device import MILLI_GPU, Inventory
from ullage.model.event import Appeared, Changed, Event, ObjectKey, Synced, Vanished
from ullage.model.lease import GpuLease
from ullage.model.pod import Pod
from ullage.model.provisioner import MICROS, PROVISIONER_LABEL
from ullage.state.foreign import ForeignHolds
from ullage.state.placements import Placements
from ullage.web.view.decisions import Decision, Decisions
from ullage.web.view.meter import Meter, Worth, worth_of
from ullage.web.view.nodes import NO_NAMESPACE, node_row
from ullage.web.view.patch import ONLY, Patch, Section, Table
from ullage.web.view.pending import Waiting
from ullage.web.view.pools import Pool, pool_row
from ullage.web.view.rows import About, NodeRow, Totals

NOTHING = Worth()


class Picture:
    """What is heard of a cluster, as rows."""

    def __init__(self, policy: str = DEFAULT_POLICY) -> None:
        self.placements = Placements()
        self.pools: dict[str, Pool] = {}
        self.policy = policy
        self.decisions = Decisions()
        self._foreign = ForeignHolds(self.placements)
        self._waiting = Waiting(Assigner(self.placements, policy))
        self._meter = Meter()
        self._nodes, self._pool_rows, self._totals, self._about = Table(), Table(), Table(), Table()
        self._worth: dict[str, Worth] = {}
        self._sum = NOTHING
        self._seen = 0
        """The version of the columns the rows of nodes are made from."""
        self._touched: dict[str, None] = {}
        """Nodes to make anew for other reasons than their columns."""
        self._unaccounted: dict[ObjectKey, None] = {}
        self._news = 0
        """Grows with everything that may change the answer to a pod that waits."""
        self._roster = 0
        self._stale_at: float | None = None

    def hear(self, event: Event[Any]) -> None:
        """One thing that was heard: a fact of the cluster, a GPU's Lease, a pool or a decision."""
        fact = event.new if isinstance(event, Appeared | Changed) else getattr(event, "old", None)
        match fact:
            case GpuLease():
                self._foreign.apply(event)
            case Pool():
                self._pool_heard(event, fact)
            case Decision():
                if not isinstance(event, Vanished):
                    self.decisions.put(fact)
            case None if not isinstance(event, Synced):
                pass  # an Event of somebody else
            case _:
                self.placements.apply(event)
                self._foreign.apply(event) if isinstance(event, Synced) else self._fact_heard(event, fact)

    def patch(self, about: About, *, now: float) -> Patch:
        """What changed since the last one. What it costs grows with that, not with the cluster."""
        # What was so until now is counted before it is looked at anew.
        self._meter.advance(self._sum, len(self._waiting), now=now)
        self._account()
        self._renew_nodes(now)
        # Asking about gangs tries places out and takes them back: the rows are as they were.
        self._waiting.renew(now=now, version=self._news)
        self._seen = self.placements.columns.changed.version
        self._totals.put(ONLY, self._counted())
        self._about.put(ONLY, about)
        tables = {
            Section.ABOUT: self._about,
            Section.TOTALS: self._totals,
            Section.POOLS: self._pool_rows,
            Section.NODES: self._nodes,
            Section.PENDING: self._waiting.table,
            Section.DECISIONS: self.decisions.table,
            Section.SERIES: self._meter.series,
        }
        changed = {section: table.taken() for section, table in tables.items()}
        return Patch(now=now, sections={section: rows for section, rows in changed.items() if rows})

    def _fact_heard(self, event: Event[Any], fact: object) -> None:
        if isinstance(fact, Pod):
            gone = isinstance(event, Vanished)
            self._foreign.pod_heard(fact, gone=gone)
            self._waiting.hear(fact, gone=gone)
            if fact.holds_room and not gone:
                self._unaccounted[fact.key] = None
        elif isinstance(fact, Inventory):
            self._touched[fact.node] = None
            if isinstance(event, Changed) and event.old.devices == fact.devices:
                return  # it only says that it is still there
            self._unaccounted |= dict.fromkeys(self.placements.pods_on(fact.node))
        elif isinstance(fact, Claim):
            self._unaccounted |= dict.fromkeys(pod.key for pod in self.placements.state.pods_naming(fact.key))
        self._news += 1

    def _pool_heard(self, event: Event[Pool], pool: Pool) -> None:
        name = pool.facts.name
        if isinstance(event, Vanished):
            self.pools.pop(name, None)
            self._pool_rows.drop(name)
        else:
            self.pools[name] = pool
            self._pool_rows.put(name, pool_row(pool))
        before = event.old if isinstance(event, Changed) else None
        if before is None or before.facts.template != pool.facts.template:
            nodes = self.placements.state.nodes.values()
            self._touched |= dict.fromkeys(node.name for node in nodes if node.labels.get(PROVISIONER_LABEL) == name)

    def _account(self) -> None:
        """Pods that do not say which GPUs are theirs hold those that others know to be."""
        heard, self._unaccounted = self._unaccounted, {}
        placed = self.placements.pods
        pods = [placed[key] for key in heard if key in placed and not key.namespace.startswith(NO_NAMESPACE)]
        account_for_bound(self.placements, pods)
        for pod in pods:
            self._foreign.pod_heard(pod, gone=False)

    def _renew_nodes(self, now: float) -> None:
        columns = self.placements.columns
        rows = columns.changed.since(self._seen)
        names = [columns.names[row] for row in (range(columns.size) if rows is None else rows)]
        touched, self._touched = self._touched, {}
        touched |= dict.fromkeys((*names, *self._gone(), *self._newly_stale(now)))
        for name in touched:
            self._renew_node(name, now)

    def _gone(self) -> list[str]:
        columns = self.placements.columns
        if columns.roster == self._roster:
            return []
        self._roster = columns.roster
        return [name for name in self._nodes.rows if name not in columns.rows]

    def _newly_stale(self, now: float) -> list[str]:
        """Nodes fall silent without a word: looked at by their columns, now and then."""
        if self._stale_at is not None and now < self._stale_at + STALE_AFTER / 9:
            return []
        self._stale_at = now
        columns = self.placements.columns
        silent = columns.gpus.reported_at[: columns.size] < now - STALE_AFTER
        names = [columns.names[row] for row in silent.nonzero()[0].tolist()]
        shown = ((name, self._nodes.rows.get(name)) for name in names)
        return [name for name, row in shown if isinstance(row, NodeRow) and not row.stale]

    def _renew_node(self, name: str, now: float) -> None:
        before = self._worth.pop(name, NOTHING)
        if name in self.placements.columns.rows:
            node = self.placements.state.nodes[name]
            pool = self.pools.get(node.labels.get(PROVISIONER_LABEL, ""))
            row = node_row(self.placements, name, None if pool is None else pool.facts, now=now)
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
