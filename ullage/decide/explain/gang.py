"""Explanation of a gang: which of its members are where, and why the others wait."""

from ullage.decide.explain.answer import Answer, like_its_pod
from ullage.decide.explain.planning import PlanInputs
from ullage.decide.explain.pod import explain_pod
from ullage.decide.gang.membership import gang_members, gang_size
from ullage.decide.scheduling.assignment import PodAssigner, waits
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.units import Instant
from ullage.model.verdict import Verdict
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
        return Answer(
            about=about,
            verdict="GangIncomplete" if short else "Bound",
            message=f"{placed} of the {needs} members it needs are on nodes, and none waits",
            lines=lines,
            steps=(f"create the {needs - placed} members that are missing",) if short else (),
            commands=commands,
        )
    said = explain_pod(snapshot, pending[0], known, now=now, every=every)
    count = f"{len(members)} members exist, {placed} are on nodes; it needs {needs or 'an unknown number'}"
    return like_its_pod(about, said, (count, *lines), (*commands, f"ullage explain pod/{pending[0].key}"))


def _member(assigner: PodAssigner, pod: Pod) -> str:
    held = assigner.snapshot.pods.get(pod.key)
    if held is not None:
        gpus = f" with GPU {','.join(map(str, held.gpu_ids))}" if held.gpu_ids else ""
        return f"{pod.key}: on {held.node}{gpus}"
    if pod.phase.over:
        return f"{pod.key}: {pod.phase.value.lower()}"
    ready = assigner.entitled(pod)
    return f"{pod.key}: {ready.reason.value}: {ready.detail}" if isinstance(ready, Verdict) else f"{pod.key}: waits"
