"""SchedulePlanner: decides on every pending pod, one after another on one snapshot, as the live scheduler does.

Pods are taken in queue order: priority, then age, then name; a gang with the first of its members. Pods that later
pods could help are tried again. No pod is evicted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ullage.decide.gang.membership import gang_of
from ullage.decide.gang.placement import GangNoFit, GangRequest
from ullage.decide.placement.engine import NoFit, Placement
from ullage.decide.scheduling.assignment import PodAssigner, queue_order, waits
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.provisioner import Provisioner
from ullage.model.scoring import DEFAULT_POLICY
from ullage.model.units import Instant
from ullage.model.verdict import ClusterEvent, Verdict
from ullage.state.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """Inputs that are not in the snapshot."""

    unreadable_claims: Mapping[ObjectKey, str] = field(default_factory=dict)
    """GpuClaims that break a rule, with the rule."""
    pools: Sequence[Provisioner] = ()
    """NodeProvisioners, where nodes that they buy are to be considered."""
    schedulers: frozenset[str] = frozenset()
    """Names of the schedulers that are ours; empty where that is not known, and any name may be."""
    nobody_leads: str = ""
    """Reason that no scheduler of ours decides just now; empty where one does, or that is not known."""


PodOrGang = Pod | GangRequest
Held = NoFit | GangNoFit


def pods_of(turn: PodOrGang) -> tuple[Pod, ...]:
    """Pods that a turn decides on."""
    return (turn,) if isinstance(turn, Pod) else turn.pending


class SchedulePlanner:
    """Plans on a snapshot of its own, which holds the planned pods."""

    def __init__(
        self, snapshot: ClusterSnapshot, known: PlanInputs, *, now: Instant, policy: str = DEFAULT_POLICY
    ) -> None:
        self.snapshot = snapshot
        self.inputs = known
        self.assigner = PodAssigner(snapshot, policy, known.unreadable_claims)
        self.placements: dict[ObjectKey, Placement] = {}
        """Placements, in the order they were decided."""
        self.refused: dict[ObjectKey, Verdict] = {}
        """Pods refused before any node was filtered."""
        self.turned_away: dict[ObjectKey, tuple[PodOrGang, Held]] = {}
        """Pods and gangs without room, by name."""
        self.gangs: dict[ObjectKey, GangRequest] = {}
        self.now = now
        self._nominated: tuple[Pod, ...] = ()

    def run(self, until: ObjectKey | None = None) -> None:
        """Decide on all pending pods, or on those up to and including this pod."""
        pending = self._pending_ones(until)
        self._nominated = tuple(turn for turn in pending if isinstance(turn, Pod) and turn.nominated)
        while pending:
            before = len(self.placements)
            for turn in pending:
                self._decide(turn)
            # A pod may depend on pods that were placed later; nothing else can have changed for the better.
            again = [turn for turn, answer in self.turned_away.values() if ClusterEvent.POD_ARRIVED in answer.wakes_on]
            pending = again if len(self.placements) > before else []

    def _pending_ones(self, until: ObjectKey | None) -> list[PodOrGang]:
        pending: list[PodOrGang] = []
        for pod in sorted(filter(waits, self.snapshot.state.pods.values()), key=queue_order):
            ready = self.assigner.entitled(pod)
            gang = gang_of(pod, self.assigner.snapshot.state)
            if isinstance(ready, Verdict):
                self.refused[pod.key] = ready
            elif gang is None:
                pending.append(ready)
            elif gang not in self.gangs:
                self.gangs[gang] = self.assigner.gang_ask(gang)
                pending.append(self.gangs[gang])
        last = next((place for place, turn in enumerate(pending) if until in {pod.key for pod in pods_of(turn)}), None)
        return pending if last is None else pending[: last + 1]

    def _decide(self, turn: PodOrGang) -> None:
        if isinstance(turn, Pod):
            self._decide_pod(turn)
        else:
            self._decide_gang(turn)

    def _decide_pod(self, pod: Pod) -> None:
        answer = self.assigner.assign_pod(pod, self._nominated, now=self.now)
        if isinstance(answer, NoFit):
            self.turned_away[pod.key] = pod, answer
        else:
            self.turned_away.pop(pod.key, None)
            self.placements[pod.key] = answer

    def _decide_gang(self, gang: GangRequest) -> None:
        answer = self.assigner.assign_gang(gang, self._nominated, now=self.now)
        if isinstance(answer, GangNoFit):
            self.turned_away[gang.key] = gang, answer
            return
        self.turned_away.pop(gang.key, None)
        self.placements |= dict(sorted(answer.placements.items()))
        for pod in gang.pending:
            if pod.key not in answer.placements:
                self._decide_pod(pod)
