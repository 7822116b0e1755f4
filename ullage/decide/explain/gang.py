"""Explanation of a gang: which of its members are where, and why the others wait."""

from collections.abc import Sequence

from msgspec.structs import replace

from ullage.decide.explain.answer import Answer, counted, like_its_pod, some
from ullage.decide.explain.planning import PlanInputs, SchedulePlanner
from ullage.decide.explain.pod import explain_pod
from ullage.decide.explain.proof import Proof, ProvedRemedy, apply
from ullage.decide.explain.remedies_of_request import with_all_members
from ullage.decide.explain.remedy import Case
from ullage.decide.gang.membership import gang_members, gang_size
from ullage.decide.placement.obstacle import Obstacle
from ullage.decide.scheduling.assignment import PodAssigner, waits
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Phase, Pod
from ullage.model.units import Instant
from ullage.model.verdict import Reason, Verdict
from ullage.state.snapshot import ClusterSnapshot

MOST_MEMBERS = 32


def explain_gang(
    snapshot: ClusterSnapshot, gang: ObjectKey, known: PlanInputs, *, now: Instant, every: bool = False
) -> Answer | None:
    """Explain a gang; None if neither a PodGroup nor a claim names it."""
    assigner = PodAssigner(snapshot, unreadable_claims=known.unreadable_claims)
    members, about = gang_members(gang, assigner.snapshot.state), f"gang/{gang}"
    if not members and gang not in snapshot.state.groups and not list(snapshot.state.claims_of_gang(gang)):
        return None
    needs = gang_size(gang, assigner.snapshot.state)
    lines = tuple(_member(assigner, pod) for pod in members[:MOST_MEMBERS])
    if len(members) > MOST_MEMBERS:
        lines = (*lines, f"and {len(members) - MOST_MEMBERS} more")
    commands = (f"kubectl -n {gang.namespace} get pods,gpuclaims,podgroups",)
    pending = [pod for pod in members if waits(pod) and pod.key not in snapshot.pods]
    placed = sum(pod.key in snapshot.pods for pod in members)
    if not pending:
        short = placed < needs
        tried = _completed(assigner, members, known, now=now) if short and members else None
        return Answer(
            about=about,
            verdict="GangIncomplete" if short else "Bound",
            message=f"{placed} of the {needs} members it needs are on nodes, and none waits",
            lines=lines,
            steps=(tried.remedy.sentence,) if tried else (),
            remedies=(tried,) if tried else (),
            commands=commands,
        )
    said = explain_pod(snapshot, pending[0], known, now=now, every=every)
    count = f"{counted(len(members), 'member')} there, {placed} on nodes; it needs {needs or 'an unknown number'}"
    return like_its_pod(about, said, (count, *lines), (*commands, f"ullage explain pod/{pending[0].key}"))


def _completed(
    assigner: PodAssigner, members: Sequence[Pod], known: PlanInputs, *, now: Instant
) -> ProvedRemedy | None:
    """The members that are missing are created, each like the first that is there."""
    like = replace(members[0], node="", gpu_ids=(), gpu_instances=(), phase=Phase.PENDING, nominated="")
    obstacle = Obstacle(Reason.GANG_INCOMPLETE)
    case = Case(assigner=assigner, pod=like, ready=like, obstacle=obstacle, now=now, known=known)
    remedy = next(with_all_members(case), None)
    if remedy is None:
        return None
    copy = assigner.snapshot.fork()
    for change in remedy.changes:
        apply(copy, change)
    planner = SchedulePlanner(copy, known, now=now)
    planner.run()
    new = [key for key in copy.state.pods if key not in assigner.snapshot.state.pods]
    unplaced = [key for key in new if key not in planner.placements]
    if unplaced:
        why = explain_pod(copy, copy.state.pods[unplaced[0]], known, now=now).message
        return ProvedRemedy(remedy, Proof(False, f"tried on a copy: they would wait: {why}"))
    places = sorted({planner.placements[key].node for key in new})
    return ProvedRemedy(remedy, Proof(True, f"tried on a copy: they go to {some(places)}"))


def _member(assigner: PodAssigner, pod: Pod) -> str:
    held = assigner.snapshot.pods.get(pod.key)
    if held is not None:
        gpus = f" with GPU {','.join(map(str, held.gpu_ids))}" if held.gpu_ids else ""
        return f"{pod.key}: on {held.node}{gpus}"
    if pod.phase.over:
        return f"{pod.key}: {pod.phase.value.lower()}"
    ready = assigner.entitled(pod)
    return f"{pod.key}: {ready.reason.value}: {ready.detail}" if isinstance(ready, Verdict) else f"{pod.key}: waits"
