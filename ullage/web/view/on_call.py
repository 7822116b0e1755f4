"""Views for on-call: quotas, gangs, preemptions and drains under way, as rows. Pure; made at most once a second."""

from collections.abc import Iterable, Mapping

from ullage.decide.claims.quota_status import used_of
from ullage.decide.gang.membership import gang_members, gang_size
from ullage.decide.provisioning.pool_nodes import matters
from ullage.decide.scheduling.assignment import PodAssigner, waits
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.quota import QuotaLimits, QuotaUsage
from ullage.model.verdict import Reason
from ullage.web.view.banners import STUCK_SECONDS
from ullage.web.view.nodes import NO_NAMESPACE
from ullage.web.view.pacing import is_due
from ullage.web.view.patch import SectionTable
from ullage.web.view.pending import PendingPods
from ullage.web.view.rows import AnyRow, DrainRow, GangRow, LimitBar, NodeRow, PreemptionRow, QuotaRow

EVERY = 1.0
"""Seconds between two looks."""
MOST_ROWS = 300
"""Rows of a view: those that need attention first."""
NAMED = 8
"""Pods named in a row."""


class OnCallViews:
    """Tables of the four views."""

    def __init__(self, assigner: PodAssigner, waiting: PendingPods) -> None:
        self.quotas, self.gangs, self.preemptions, self.drains = (SectionTable() for _ in range(4))
        self._assigner = assigner
        self._waiting = waiting
        self._renewed: float | None = None
        self._seen: dict[ObjectKey, float] = {}
        """First sight of each pod for which room is made."""

    def renew(self, nodes: Iterable[NodeRow], *, now: float) -> None:
        """Bring all rows up to date, if a second has passed."""
        if not is_due(self._renewed, EVERY, now=now):
            return
        self._renewed = now
        _show(self.quotas, self._quotas())
        _show(self.gangs, self._gangs())
        _show(self.preemptions, self._preemptions(now))
        _show(self.drains, self._drains(nodes, now))

    def _quotas(self) -> dict[str, QuotaRow]:
        quotas = self._assigner.snapshot.state.quotas
        if not quotas:
            return {}
        refused = self._waiting.refused_for(Reason.QUOTA_EXCEEDED)
        rows = [
            QuotaRow(
                quota=str(key),
                namespace=key.namespace,
                limits=_bars(quotas[key].limits, self._assigner.quota.usage(key.namespace)),
                waiting=refused[key.namespace],
            )
            for key in sorted(quotas)
        ]
        rows.sort(key=lambda one: (-one.waiting, -_fullness(one), one.quota))
        return {one.quota: one for one in rows[:MOST_ROWS]}

    def _gangs(self) -> dict[str, GangRow]:
        rows = [self._gang(key) for key in self._assigner.snapshot.state.gangs]
        rows.sort(key=lambda one: (not one.waiting, -one.priority, one.since or 0.0, one.gang))
        return {one.gang: one for one in rows[:MOST_ROWS]}

    def _gang(self, key: ObjectKey) -> GangRow:
        members = gang_members(key, self._assigner.snapshot.state)
        placed = self._assigner.snapshot.pods
        pending = [pod for pod in members if waits(pod) and pod.key not in placed]
        nodes = {placed[pod.key].node for pod in members if pod.key in placed}
        word, message = self._waiting.answer(pending[0].key) if pending else ("", "")
        return GangRow(
            gang=str(key),
            namespace=key.namespace,
            needs=gang_size(key, self._assigner.snapshot.state),
            members=len(members),
            bound=sum(pod.key in placed for pod in members),
            waiting=len(pending),
            nodes=len(nodes),
            priority=max((pod.priority for pod in members), default=0),
            since=min((float(pod.created) for pod in pending), default=None),
            reason=word,
            message=message,
            first=str((pending or members)[0].key) if members else "",
        )

    def _preemptions(self, now: float) -> dict[str, PreemptionRow]:
        pods = self._waiting.nominated()
        self._seen = {pod.key: self._seen.get(pod.key, now) for pod in pods}
        rows = [self._preemption(pod) for pod in sorted(pods, key=lambda one: (-one.priority, one.key))[:MOST_ROWS]]
        return {one.pod: one for one in rows}

    def _preemption(self, pod: Pod) -> PreemptionRow:
        leaving = sorted(str(one.key) for one in self._on(pod.nominated) if one.deleting)
        return PreemptionRow(
            pod=str(pod.key),
            node=pod.nominated,
            priority=pod.priority,
            since=self._seen[pod.key],
            leaving=tuple(leaving[:NAMED]),
            more=max(0, len(leaving) - NAMED),
        )

    def _drains(self, nodes: Iterable[NodeRow], now: float) -> dict[str, DrainRow]:
        rows = [self._drain(row, row.draining_since, now) for row in nodes if row.draining_since is not None]
        rows.sort(key=lambda one: (one.since, one.node))
        return {one.node: one for one in rows[:MOST_ROWS]}

    def _drain(self, row: NodeRow, since: float, now: float) -> DrainRow:
        pods = sorted((one for one in self._on(row.name) if matters(one)), key=lambda one: one.key)
        return DrainRow(
            node=row.name,
            pool=row.pool,
            since=since,
            left=len(pods),
            pods=tuple(str(one.key) for one in pods[:NAMED]),
            leaving=sum(one.deleting for one in pods),
            stuck=bool(since) and now - since > STUCK_SECONDS,
        )

    def _on(self, node: str) -> list[Pod]:
        """Pods on a node; what only stands for a Lease or a process is no pod."""
        found = self._assigner.snapshot.pods_on(node).values()
        return [pod for pod in found if not pod.key.namespace.startswith(NO_NAMESPACE)]


def _show(table: SectionTable, rows: Mapping[str, AnyRow]) -> None:
    for gone in [key for key in table.rows if key not in rows]:
        table.drop(gone)
    for key, row in rows.items():
        table.put(key, row)


def _bars(limits: QuotaLimits, used: QuotaUsage) -> tuple[LimitBar, ...]:
    held = used_of(limits, used)
    bars = [LimitBar(what="GPUs", used=held.gpus, most=limits.gpus)] if limits.gpus is not None else []
    by_model = dict(held.by_model)
    bars += [LimitBar(what=model, used=by_model.get(model, 0), most=most) for model, most in limits.by_model]
    if limits.shares is not None:
        bars.append(LimitBar(what="shares, in thousandths of a GPU", used=held.shares, most=limits.shares))
    return tuple(bars)


def _fullness(row: QuotaRow) -> float:
    return max((bar.used / bar.most if bar.most else 1.0 for bar in row.limits), default=0.0)
