"""PlacementEngine: filters, scores and device choice for one pod on one snapshot. Returns a Placement or a NoFit."""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ullage.decide.placement.devices.choice import DeviceChoice
from ullage.decide.placement.devices.fit import DeviceFitTable
from ullage.decide.placement.devices.requirements import ask_of
from ullage.decide.placement.devices.snapshots import DeviceSnapshots
from ullage.decide.placement.filters.codes import FITS, REASONS, Codes, first_of
from ullage.decide.placement.filters.first_consumer import assumed_on
from ullage.decide.placement.filters.table import FilterTable
from ullage.decide.placement.quota import QuotaTable
from ullage.decide.placement.rank import level_of, soft_of
from ullage.decide.placement.ranking import NodeRanking, NodeRankings
from ullage.decide.placement.reasons import CURES
from ullage.decide.placement.score.gpu_scorer import GpuDemand, GpuScorer
from ullage.decide.placement.score.policies import policy_maker
from ullage.decide.placement.score.workload_mix import TypicalDemands, WorkloadMix
from ullage.decide.placement.score_view import CPU, ScoreView
from ullage.model.claim import DeviceRequest, Exclusivity
from ullage.model.pod import Pod
from ullage.model.scoring import DEFAULT_POLICY
from ullage.model.stepper import Stepper
from ullage.model.units import Instant, Seconds
from ullage.model.verdict import ClusterEvent, Reason, Verdict
from ullage.state.device_columns import NodeKindCode
from ullage.state.snapshot import ClusterSnapshot
from ullage.state.storage import AssumedVolume

MOST_CLAIMS_NAMED = 3

MOST_POLICIES = 64
"""Policies kept. There is one for the current mix, and one per demand before anything was placed."""
ROWS_PER_STEP = 500
"""Rows whose devices are read in one step of a warm-up."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A node with the devices to be leased there."""

    node: str
    choice: DeviceChoice | None
    """None for pods without GPUs; without ids on counted nodes, where a device plugin chooses."""
    uuids: tuple[str, ...] = ()
    """UUIDs of the chosen devices or MIG instances."""
    fitting: int = 1
    """Number of nodes that fit."""
    score: int | None = None
    """GPU policy's level, or soft score for pods without GPUs: higher is better. None if no nodes were compared."""


@dataclass(frozen=True, slots=True)
class NoFit:
    """No node fits now. Reasons with the number of nodes that gave them, most frequent first."""

    nodes: int
    reasons: Mapping[Reason, int]

    @property
    def wakes_on(self) -> frozenset[ClusterEvent]:
        """Cluster events that can change the answer."""
        return frozenset({ClusterEvent.NODE_APPEARED}).union(*(CURES[reason].wakes_on for reason in self.reasons))

    def __str__(self) -> str:
        """Message as in kube-scheduler's events: `0/5 nodes fit: 3 TooFewGpus, 2 TaintNotTolerated`."""
        why = ", ".join(f"{count} {reason}" for reason, count in self.reasons.items()) or "there are no nodes"
        return f"0/{self.nodes} nodes fit: {why}"


class RejectedRows(NamedTuple):
    """Rows that one rule rejects, by its code."""

    code: int
    rows: npt.NDArray[np.bool_]
    lasting: bool = False
    """They would be rejected without any pod on them, too."""


def device_ask(pod: Pod) -> DeviceRequest | None:
    """Device request of a pod: its claim's, or whole GPUs as many as it requests; None without GPUs."""
    return ask_of(pod.shape)


def hold(snapshot: ClusterSnapshot, pod: Pod, placement: Placement) -> None:
    """Place the pod in the snapshot, with the devices or MIG instances chosen for it."""
    choice = placement.choice
    volumes = _volumes_for(pod, placement.node, snapshot) if pod.shape.claims else ()
    if choice is None:
        snapshot.assume(pod, placement.node, volumes=volumes)
    else:
        if choice.instances != pod.gpu_instances:
            pod = msgspec.structs.replace(pod, gpu_instances=choice.instances)
        snapshot.assume(pod, placement.node, choice.ids, choice.share_milli, volumes)


def _volumes_for(pod: Pod, node: str, snapshot: ClusterSnapshot) -> tuple[AssumedVolume, ...]:
    """Volumes assumed for the pod's claims that wait for their first consumer."""
    known = snapshot.state.nodes.get(node)
    return () if known is None else assumed_on(pod, known, snapshot.storage)


class PlacementEngine:
    """Places pods on one snapshot. Only `commit` and `record` change anything but caches: the workload mix."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        policy: str = DEFAULT_POLICY,
        mix: WorkloadMix | None = None,
        *,
        beside: "PlacementEngine | None" = None,
    ) -> None:
        """`beside`: engine of another policy on the same snapshot. Filters, device answers and quotas are shared."""
        self._snapshot = snapshot
        self._fit: FilterTable = FilterTable(snapshot) if beside is None else beside._fit
        self._gpus: DeviceFitTable = DeviceFitTable(snapshot) if beside is None else beside._gpus
        self.quota: QuotaTable = QuotaTable(snapshot) if beside is None else beside.quota
        """Quotas of namespaces on this snapshot. The engine does not check them."""
        self.mix = WorkloadMix() if mix is None else mix
        self._view = ScoreView(snapshot, self._gpus.devices, self.mix.models)
        self._rankings = NodeRankings(snapshot, self._fit, self._gpus, self._view)
        self._make_policy = policy_maker(policy)
        self._policies: dict[int, tuple[TypicalDemands, int, GpuScorer]] = {}
        """Policies by the identity of the mix they are for, each with the number of models at the time."""

    @property
    def snapshot(self) -> ClusterSnapshot:
        """Snapshot that decisions are made on."""
        return self._snapshot

    @property
    def devices(self) -> DeviceSnapshots:
        return self._gpus.devices

    def fork(self) -> "PlacementEngine":
        """Engine on a fork of the snapshot, with all that is known of devices, scores and quotas of nodes.

        `warm_up` first: what is not up to date is computed before the fork, in one piece.
        """
        self._gpus.devices.refresh()
        self._view.columns()
        twin = copy(self)
        twin._snapshot = snapshot = self._snapshot.fork()
        twin._fit, twin._gpus = FilterTable(snapshot), self._gpus.fork_for(snapshot)
        twin.quota, twin.mix = self.quota.fork_for(snapshot), self.mix.fork()
        twin._view = self._view.fork_for(snapshot, twin._gpus.devices, twin.mix.models)
        twin._rankings = NodeRankings(snapshot, twin._fit, twin._gpus, twin._view)
        twin._policies = {}
        return twin

    def warm_up(self) -> Stepper[None]:
        """Compute what the first question would, in steps."""
        columns = self._snapshot.columns
        for row in range(columns.size):
            if columns.names[row]:
                self._gpus.devices.layout(row)
            if row % ROWS_PER_STEP == 0:
                yield Seconds(0.0)
        self._gpus.devices.refresh()
        yield Seconds(0.0)
        self._view.columns()
        yield Seconds(0.0)
        yield from self.quota.warm_up()

    def place(self, pod: Pod, *, now: Instant, closed: Codes | None = None) -> Placement | NoFit:
        """Best placement for a pod that holds no room. `closed` has the codes of rows refused for other reasons."""
        ranking = self._rankings.fitted(pod.shape, now=now)
        beyond = ranking.verdicts.beyond(pod)
        if beyond is not None:
            closed = beyond if closed is None else first_of(beyond, closed)
        fitting = ranking.fitting
        if closed is not None:
            fitting = int(np.count_nonzero(ranking.fits & (closed == FITS)))
        if not fitting:
            return self._refusal(pod, now, closed)
        self._view.columns()
        demand = self._rankings.demand(ranking)
        policy = self._policy_for(demand)
        self._rankings.ranked(ranking, policy)
        fits = ranking.fits if closed is None else ranking.fits & (closed == FITS)
        won = ranking.best(closed, self._rankings.scores.preferred_points(pod, ranking.scores, fits))
        return self._refusal(pod, now, closed) if won is None else self._place_at(*won, fitting, ranking, policy)

    def _place_at(
        self, row: int, rank: int, fitting: int, ranking: NodeRanking, policy: GpuScorer
    ) -> Placement | NoFit:
        node, table = self._snapshot.columns.names[row], ranking.table
        if table is None:
            return Placement(node, None, (), fitting, soft_of(rank))
        leaning = -1
        if table.ask.exclusivity is Exclusivity.SHARED:
            leaning = policy.device(self._view.columns(), self._rankings.demand(ranking), row)
        choice = table.answer(self._gpus.devices.numbers.item(row), leaning)
        if isinstance(choice, Verdict):
            # Cannot be: the row's code said that it fits. A placement must not be made on a contradiction.
            return NoFit(len(ranking.order), {choice.reason: 1})
        return Placement(node, choice, self._uuids(row, choice), fitting, level_of(rank))

    def codes(self, pod: Pod, *, now: Instant) -> Codes:
        """Filter codes of all rows for a pod that holds no room (see `filters.codes`); 0 fits. Valid until a change."""
        codes, ask = self._fit.codes(pod), device_ask(pod)
        return codes if ask is None else first_of(codes, self._gpus.codes(ask, now=now))

    def rejections(self, pod: Pod, *, now: Instant) -> list[RejectedRows]:
        """Everything that rejects a pod that holds no room, rule by rule: not only the first rule for each row."""
        filters = self._fit.verdicts(pod.shape)
        found = [RejectedRows(code, mask) for code, mask in filters.rows.rejections()]
        for codes in filters.each_beyond(pod):
            found += _by_code(codes)
        ask = device_ask(pod)
        if ask is None:
            return found
        lasting, codes = self._gpus.lasting(ask), self._gpus.codes(ask, now=now)
        return [*found, *_by_code(lasting, lasting=True), *_by_code(np.where(lasting == codes, 0, codes))]

    def place_on(self, pod: Pod, node: str, *, now: Instant) -> Placement | Reason:
        """Placement on one node, or the reason for none. Scores no nodes."""
        row = self._snapshot.columns.rows.get(node)
        if row is None:
            return Reason.NOT_THE_NODE_NAMED
        ask = device_ask(pod)
        code = self._fit.codes(pod).item(row)
        if not code and ask is not None:
            code = self._gpus.code(ask, row, now=now)
        if code:
            return REASONS[code]
        choice = None if ask is None else self._gpus.choice(ask, row)
        return choice.reason if isinstance(choice, Verdict) else Placement(node, choice, self._uuids(row, choice))

    def explain(self, pod: Pod, *, now: Instant, among: Iterable[str] | None = None) -> dict[str, Verdict]:
        """Verdicts of all nodes, or of those `among`, with details, by node name."""
        ask = device_ask(pod)
        verdicts = self._fit.explain(pod, among)
        if ask is None:
            return verdicts
        rows = self._snapshot.columns.rows
        for name, verdict in verdicts.items():
            if verdict:
                answer = self._gpus.verdict(ask, rows[name], now=now)
                said = answer if isinstance(answer, Verdict) else _praise(answer, self._kind(name))
                verdicts[name] = Verdict(said.reason, said.detail + self._held_otherwise(name))
            elif verdict.reason is Reason.INSUFFICIENT_RESOURCES:
                verdicts[name] = Verdict(verdict.reason, verdict.detail + self._held_otherwise(name))
        return verdicts

    def _held_otherwise(self, node: str) -> str:
        """Detail to append: GPUs of the node that Dynamic Resource Allocation gave away, with their ResourceClaims."""
        claims = self._snapshot.device_claims.on(node, self._snapshot.state.inventories.get(node))
        if not claims:
            return ""
        present = int(self._snapshot.columns.gpus.exists[self._snapshot.columns.rows[node]])
        held = sorted({gpu for gpus in claims.values() for gpu in gpus if present >> gpu & 1})
        named = ", ".join(str(claim) for claim in sorted(claims)[:MOST_CLAIMS_NAMED])
        more = f" and {len(claims) - MOST_CLAIMS_NAMED} more" if len(claims) > MOST_CLAIMS_NAMED else ""
        gpus = f"GPU {','.join(map(str, held))}" if held else "GPUs"
        return f"; {gpus} held by ResourceClaim {named}{more}"

    def _kind(self, node: str) -> NodeKindCode:
        return NodeKindCode(int(self._snapshot.columns.gpus.kind[self._snapshot.columns.rows[node]]))

    def _refusal(self, pod: Pod, now: Instant, closed: Codes | None) -> NoFit:
        codes = self.codes(pod, now=now)
        return _refusal(codes if closed is None else first_of(codes, closed))

    def commit(self, pod: Pod, placement: Placement) -> None:
        """Assume a placement that was decided on, and count its demand in the workload mix. Trials only assume it."""
        hold(self._snapshot, pod, placement)
        self.record(pod)

    def record(self, pod: Pod) -> None:
        """Count the demand of a pod whose placement is assumed already, as of a gang. Inside a what-if nothing is."""
        if not self._snapshot.trying:
            self._view.columns()
            known = self._rankings.known_demand(pod.shape)  # the placement was mostly found by a ranking
            if known is None:
                known = self._view.demand(device_ask(pod), dict(pod.shape.requests).get(CPU, 0))
            self.mix.record(known)

    def _policy_for(self, demand: GpuDemand) -> GpuScorer:
        """Policy for the current workload mix; made anew only when the mix or the cluster's models have changed."""
        mix, models = self.mix.typical(demand), self._view.models
        known = self._policies.get(id(mix))
        if known is None or known[0] is not mix or known[1] != models:
            if len(self._policies) >= MOST_POLICIES:
                self._policies.clear()
            known = self._policies[id(mix)] = mix, models, self._make_policy(mix, self._view.capacity())
        return known[2]

    def _uuids(self, row: int, choice: DeviceChoice | None) -> tuple[str, ...]:
        if choice is None or not choice.ids:
            return ()
        if choice.instances:
            return choice.instances
        known = self._gpus.devices.uuids(row)
        return tuple([known[device] for device in choice.ids])


def _by_code(codes: Codes, *, lasting: bool = False) -> list[RejectedRows]:
    return [RejectedRows(code, codes == code, lasting) for code in np.unique(codes).tolist() if code != FITS]


def _praise(choice: DeviceChoice, kind: NodeKindCode) -> Verdict:
    if kind is NodeKindCode.COUNTED or not choice.ids:
        return Verdict(Reason.FITS, "by count: the node's device plugin chooses the GPUs")
    islands = "one island" if choice.islands == 1 else f"{choice.islands} islands"
    return Verdict(Reason.FITS, f"GPU {','.join(map(str, choice.ids))} in {islands}")


def _refusal(codes: Codes) -> NoFit:
    counts = np.bincount(codes, minlength=len(REASONS))[: len(REASONS)]
    found = [(reason, int(counts[code])) for code, reason in enumerate(REASONS) if counts[code]]
    return NoFit(int(counts.sum()), dict(sorted(found, key=lambda entry: -entry[1])))
