"""Proof: a remedy is tried on a copy of the cluster, and the pod gets a place there or it does not.

The copy is decided on by the code that decides live: pods ahead in the queue take what they would take, and pools buy
what they would buy. The cluster at hand is left as it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ullage.decide.explain.plan_scale import plan_scale
from ullage.decide.explain.planning import SchedulePlanner
from ullage.decide.explain.remedy import Case, Remedy
from ullage.decide.gang.membership import gang_of
from ullage.model.fact_event import Added, Deleted, ObjectKey, Updated
from ullage.model.pod import Pod
from ullage.state.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Proof:
    """Outcome of a trial."""

    works: bool
    said: str
    node: str = ""
    """Node the pod got."""


@dataclass(frozen=True, slots=True)
class ProvedRemedy:
    """A remedy, and whether it works."""

    remedy: Remedy
    proof: Proof


MOST_TRIED = 6
"""Remedies tried for one pod, at most."""


def proved(case: Case, remedies: Iterable[Remedy], *, every: bool = False) -> tuple[ProvedRemedy, ...]:
    """Remedies with their proofs, those that work first. They are tried until one works, or `every` one is."""
    found: list[ProvedRemedy] = []
    for remedy in remedies:
        found.append(ProvedRemedy(remedy, prove(case, remedy)))
        if len(found) == MOST_TRIED or (found[-1].proof.works and not every):
            break
    return tuple(sorted(found, key=lambda one: not one.proof.works))


def prove(case: Case, remedy: Remedy) -> Proof:
    """Try a remedy on a copy."""
    copy = case.assigner.snapshot.fork()
    for change in remedy.changes:
        apply(copy, change)
    readable = {key: why for key, why in case.known.unreadable_claims.items() if key not in remedy.readable}
    if remedy.pools:
        return _bought(case, remedy, copy)
    inputs = replace(case.known, unreadable_claims=readable)
    planner = SchedulePlanner(copy, inputs, now=case.now)
    planner.run(until=case.pod.key)
    placement = planner.placements.get(case.pod.key)
    if placement is not None:
        return Proof(True, f"tried on a copy: it goes to {placement.node}", placement.node)
    return Proof(False, f"tried on a copy: it does not help: {_why_not(planner, case.pod)}")


def _bought(case: Case, remedy: Remedy, copy: ClusterSnapshot) -> Proof:
    plan = plan_scale(copy, remedy.pools, now=case.now)
    placed = copy.pods.get(case.pod.key)
    if placed is not None:
        return Proof(True, f"tried on a copy: it goes to {placed.node}", placed.node)
    said = plan.unmet.get(case.pod.key, {})
    why = ", ".join(f"{name} {reason.value}" for name, reason in said.items()) or "it gets no node"
    return Proof(False, f"tried on a copy: it does not help: {why}")


def _why_not(planner: SchedulePlanner, pod: Pod) -> str:
    if pod.key in planner.refused:
        verdict = planner.refused[pod.key]
        return verdict.detail or verdict.reason.value
    gang = gang_of(pod, planner.assigner.snapshot.state)
    for key in (pod.key, gang):
        if key is not None and key in planner.turned_away:
            turn, answer = planner.turned_away[key]
            about = turn if isinstance(turn, Pod) else next(iter(turn.pending), pod)
            return planner.assigner.why(about, answer, now=planner.now)[1]
    return "the pod is not there any more"


def apply(copy: ClusterSnapshot, change: object) -> None:
    """Apply one change to a copy. A pod that a remedy creates again is as new: nothing is assumed for it."""
    match change:
        case Added(key=key, new=Pod()) | Updated(key=key, new=Pod()):
            copy.forget(key)
    if isinstance(change, Added | Updated | Deleted):
        copy.apply(change)


def copy_of(name: str, existing: Iterable[str]) -> str:
    """A name that nothing has yet."""
    taken = set(existing)
    return next(new for number in range(1, len(taken) + 2) if (new := f"{name}-{number}") not in taken)


def key_of(node: str) -> ObjectKey:
    return ObjectKey("", node)
