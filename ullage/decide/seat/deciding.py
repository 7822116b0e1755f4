"""One pod, one answer: the best seat there is, or why there is none."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from ullage.decide.devices.choice import Choice
from ullage.decide.fit.codes import FITS, REASONS, Codes, first_of
from ullage.decide.fit.table import FitTable
from ullage.decide.score.columns import GpuPolicy
from ullage.decide.score.mix import ObservedMix, Typical
from ullage.decide.score.policies import DEFAULT_POLICY, policy_maker
from ullage.decide.seat.boards import Boards
from ullage.decide.seat.gpus import GpuTable
from ullage.decide.seat.rank import level_of, soft_of
from ullage.decide.seat.standing import Standing, Standings, ask_of
from ullage.decide.seat.view import GpuView
from ullage.model.claim import DeviceAsk, Exclusivity
from ullage.model.pod import Pod
from ullage.model.verdict import CURES, Reason, Verdict, Wake
from ullage.state.gpus import Kind
from ullage.state.placements import Placements

MOST_CLAIMS_NAMED = 3


@dataclass(frozen=True, slots=True)
class Seat:
    """A node, and the devices to be leased there."""

    node: str
    choice: Choice | None
    """None for pods without GPUs; without ids where a device plugin chooses."""
    uuids: tuple[str, ...] = ()
    """Of the chosen devices or instances."""
    fitting: int = 1
    """How many nodes would have done."""
    score: int | None = None
    """The policy's level: the higher the better, among nodes for one pod. None where nothing was compared."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """No node will do now. Reasons with the number of nodes that gave them, most frequent first."""

    nodes: int
    reasons: Mapping[Reason, int]

    @property
    def wakes_on(self) -> frozenset[Wake]:
        """The news that can change it."""
        return frozenset({Wake.NODE_APPEARED}).union(*(CURES[reason].wakes_on for reason in self.reasons))

    def __str__(self) -> str:
        """As in kube-scheduler's events: `0/5 nodes fit: 3 TooFewGpus, 2 TaintNotTolerated`."""
        why = ", ".join(f"{count} {reason}" for reason, count in self.reasons.items()) or "there are no nodes"
        return f"0/{self.nodes} nodes fit: {why}"


def device_ask(pod: Pod) -> DeviceAsk | None:
    """What a pod asks of GPUs: its claim, or as many whole ones as it requests."""
    return ask_of(pod.shape)


def hold(placements: Placements, pod: Pod, seat: Seat) -> None:
    """The pod has this seat from now on, with the devices or instances chosen for it."""
    choice = seat.choice
    if choice is None:
        placements.place(pod, seat.node)
    else:
        if choice.instances != pod.gpu_instances:
            pod = msgspec.structs.replace(pod, gpu_instances=choice.instances)
        placements.place(pod, seat.node, choice.ids, choice.share_milli)


class Seating:
    """Decides for one picture of the cluster. Remembers only what it can compute again, and the mix of pods it saw."""

    def __init__(self, placements: Placements, policy: str = DEFAULT_POLICY, mix: ObservedMix | None = None) -> None:
        self._placements = placements
        self._fit = FitTable(placements)
        self._gpus = GpuTable(placements)
        self.mix = ObservedMix() if mix is None else mix
        self._view = GpuView(placements, self._gpus.boards, self.mix.models)
        self._standings = Standings(placements, self._fit, self._gpus, self._view)
        self._make_policy = policy_maker(policy)
        self._policy: GpuPolicy | None = None
        self._policy_for: tuple[Typical, int] | None = None

    @property
    def placements(self) -> Placements:
        """The picture decisions are made on."""
        return self._placements

    @property
    def boards(self) -> Boards:
        return self._gpus.boards

    def seat(self, pod: Pod, *, now: float, closed: Codes | None = None) -> Seat | Refusal:
        """The best seat for a pod that holds no room. `closed` has codes of rows that are refused for other reasons."""
        standing = self._standings.fitted(pod.shape, now=now)
        beyond = self._fit.beyond(pod, standing.verdicts)
        if beyond is not None:
            closed = beyond if closed is None else first_of(beyond, closed)
        fitting = standing.fitting
        if closed is not None:
            fitting = int(np.count_nonzero(standing.fits & (closed == FITS)))
        if not fitting:
            return self._refusal(pod, now, closed)
        self._view.columns()
        demand = self._standings.demand(standing)
        self.mix.saw(demand)
        policy = self._policy_now()
        self._standings.ranked(standing, policy)
        fits = standing.fits if closed is None else standing.fits & (closed == FITS)
        won = standing.best(closed, self._standings.scores.wishes(pod, standing.scores, fits))
        return self._refusal(pod, now, closed) if won is None else self._seat_at(*won, fitting, standing, policy)

    def _seat_at(self, row: int, rank: int, fitting: int, standing: Standing, policy: GpuPolicy) -> Seat | Refusal:
        node, table = self._placements.columns.names[row], standing.table
        if table is None:
            return Seat(node, None, (), fitting, soft_of(rank))
        leaning = -1
        if table.ask.exclusivity is Exclusivity.SHARED:
            leaning = policy.device(self._view.columns(), self._standings.demand(standing), row)
        choice = table.answer(self._gpus.boards.numbers.item(row), leaning)
        if isinstance(choice, Verdict):
            # Cannot be: the row's code said that it fits. A placement must not be made on a contradiction.
            return Refusal(len(standing.order), {choice.reason: 1})
        return Seat(node, choice, self._uuids(row, choice), fitting, level_of(rank))

    def codes(self, pod: Pod, *, now: float) -> Codes:
        """What every row says to a pod that holds no room (see `codes`); 0 fits. Good until something changes."""
        codes, ask = self._fit.codes(pod), device_ask(pod)
        return codes if ask is None else first_of(codes, self._gpus.codes(ask, now=now))

    def seat_on(self, pod: Pod, node: str, *, now: float) -> Seat | Reason:
        """The seat on one node, or why there is none there. Nothing is compared, and it does not count as typical."""
        row = self._placements.columns.rows.get(node)
        if row is None:
            return Reason.NOT_THE_NODE_NAMED
        ask = device_ask(pod)
        code = self._fit.codes(pod).item(row)
        if not code and ask is not None:
            code = self._gpus.code(ask, row, now=now)
        if code:
            return REASONS[code]
        choice = None if ask is None else self._gpus.choice(ask, row)
        return choice.reason if isinstance(choice, Verdict) else Seat(node, choice, self._uuids(row, choice))

    def explain(self, pod: Pod, *, now: float, among: Iterable[str] | None = None) -> dict[str, Verdict]:
        """The verdict of every node, or of these, in words and by name."""
        ask = device_ask(pod)
        verdicts = self._fit.explain(pod, among)
        if ask is None:
            return verdicts
        rows = self._placements.columns.rows
        for name, verdict in verdicts.items():
            if verdict:
                answer = self._gpus.verdict(ask, rows[name], now=now)
                said = answer if isinstance(answer, Verdict) else _praise(answer, self._kind(name))
                verdicts[name] = Verdict(said.reason, said.detail + self._held_otherwise(name))
            elif verdict.reason is Reason.INSUFFICIENT_RESOURCES:
                verdicts[name] = Verdict(verdict.reason, verdict.detail + self._held_otherwise(name))
        return verdicts

    def _held_otherwise(self, node: str) -> str:
        """Which of its GPUs Kubernetes' own device allocation gave away, in words to add."""
        claims = self._placements.device_claims.on(node, self._placements.state.inventories.get(node))
        if not claims:
            return ""
        present = int(self._placements.columns.gpus.exists[self._placements.columns.rows[node]])
        held = sorted({gpu for gpus in claims.values() for gpu in gpus if present >> gpu & 1})
        named = ", ".join(str(claim) for claim in sorted(claims)[:MOST_CLAIMS_NAMED])
        more = f" and {len(claims) - MOST_CLAIMS_NAMED} more" if len(claims) > MOST_CLAIMS_NAMED else ""
        gpus = f"GPU {','.join(map(str, held))}" if held else "GPUs"
        return f"; {gpus} held by ResourceClaim {named}{more}"

    def _kind(self, node: str) -> Kind:
        return Kind(int(self._placements.columns.gpus.kind[self._placements.columns.rows[node]]))

    def _refusal(self, pod: Pod, now: float, closed: Codes | None) -> Refusal:
        codes = self.codes(pod, now=now)
        return _refusal(codes if closed is None else first_of(codes, closed))

    def _policy_now(self) -> GpuPolicy:
        """The policy for the mix as it is; a new one only when the mix or the models in the cluster have changed."""
        wanted = (self.mix.typical(), self._view.models)
        known = self._policy_for
        if self._policy is None or known is None or known[0] is not wanted[0] or known[1] != wanted[1]:
            self._policy, self._policy_for = self._make_policy(wanted[0], self._view.capacity()), wanted
        return self._policy

    def _uuids(self, row: int, choice: Choice | None) -> tuple[str, ...]:
        if choice is None or not choice.ids:
            return ()
        if choice.instances:
            return choice.instances
        known = self._gpus.boards.uuids(row)
        return tuple([known[device] for device in choice.ids])


def _praise(choice: Choice, kind: Kind) -> Verdict:
    if kind is Kind.COUNTED or not choice.ids:
        return Verdict(Reason.FITS, "by count: the node's device plugin chooses the GPUs")
    islands = "one island" if choice.islands == 1 else f"{choice.islands} islands"
    return Verdict(Reason.FITS, f"GPU {','.join(map(str, choice.ids))} in {islands}")


def _refusal(codes: Codes) -> Refusal:
    counts = np.bincount(codes, minlength=len(REASONS))[: len(REASONS)]
    found = [(reason, int(counts[code])) for code, reason in enumerate(REASONS) if counts[code]]
    return Refusal(int(counts.sum()), dict(sorted(found, key=lambda entry: -entry[1])))
