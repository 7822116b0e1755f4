"""Explanation of a GpuClaim: who has it, or why its pod waits."""

import shlex
from collections.abc import Sequence

from ullage.decide.explain.answer import Answer, counted, like_its_pod, some
from ullage.decide.explain.planning import PlanInputs, SchedulePlanner
from ullage.decide.explain.pod import explain_pod
from ullage.decide.explain.proof import Proof, ProvedRemedy, copy_of
from ullage.decide.explain.remedy import Remedy, new_pod
from ullage.decide.placement.prefilter import owner_of
from ullage.model.claim import Claim
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.pod import Pod
from ullage.model.scoring import DEFAULT_SCHEDULER
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot


def explain_claim(
    snapshot: ClusterSnapshot, key: ObjectKey, known: PlanInputs, *, now: Instant, every: bool = False
) -> Answer | None:
    """Explain a claim; None if there is none, and no pod names it either."""
    state, about = snapshot.state, f"gpuclaim/{key}"
    claim, names = state.claims.get(key), sorted(state.pods_naming(key), key=lambda pod: pod.key)
    copies = sorted(state.pods_from_template(key), key=lambda pod: pod.key)
    show = (f"kubectl -n {key.namespace} get gpuclaim {key.name} -o yaml",)
    if claim is None and not (names or copies) and key not in known.unreadable_claims:
        return None
    owner = owner_of(key, snapshot) if claim is not None else None
    others = tuple(
        f"pod {pod.key} names it, too, and has to wait: a claim belongs to one pod"
        for pod in names
        if owner is not None and pod.key != owner.key and not pod.phase.over
    )
    pod = owner or next((one for one in (*names, *copies) if not one.phase.over), None)
    if pod is None:
        return _without_a_pod(snapshot, key, known, show, now=now)
    held = snapshot.pods.get(pod.key)
    if held is not None:
        gpus = f"GPU {','.join(map(str, held.gpu_ids))} of " if held.gpu_ids else ""
        return Answer(
            about=about,
            verdict="Bound",
            message=f"pod {pod.key} has {gpus}{held.node} by it",
            lines=others,
            commands=(*show, f"ullage explain pod/{pod.key}"),
        )
    said = explain_pod(snapshot, pod, known, now=now, every=every)
    lines = (
        *others,
        *((f"copies of it are asked for by {counted(len(copies), 'pod')}: {_some(copies)}",) if copies else ()),
    )
    return like_its_pod(about, said, lines, (*show, f"ullage explain pod/{pod.key}"))


def _without_a_pod(
    snapshot: ClusterSnapshot, key: ObjectKey, known: PlanInputs, show: tuple[str, ...], *, now: Instant
) -> Answer:
    claim, about = snapshot.state.claims.get(key), f"gpuclaim/{key}"
    if claim is None:
        why = known.unreadable_claims.get(key, "it is not there")
        edit = f"kubectl -n {key.namespace} edit gpuclaim {key.name}"
        return Answer(about=about, verdict="ClaimInvalid", message=why, commands=(edit, *show))
    if claim.deleting:
        return Answer(about=about, verdict="Deleting", message="it is being deleted", commands=show)
    tried = _named_by_a_pod(snapshot, claim, known, now=now)
    return Answer(
        about=about,
        verdict="Unused",
        message="no pod names it, so nothing is reserved for it",
        steps=(tried.remedy.sentence,),
        remedies=(tried,),
        commands=(*show, f"kubectl -n {key.namespace} delete gpuclaim {key.name}"),
    )


def _named_by_a_pod(snapshot: ClusterSnapshot, claim: Claim, known: PlanInputs, *, now: Instant) -> ProvedRemedy:
    """A pod without other wishes names the claim."""
    namespace, name = claim.key
    taken = (key.name for key in snapshot.state.pods if key.namespace == namespace)
    scheduler = min(known.schedulers, default=DEFAULT_SCHEDULER)
    pod = new_pod(ObjectKey(namespace, copy_of(name, taken)), claim=name, scheduler=scheduler)
    spec = shlex.quote(f'{{"spec":{{"schedulerName":"{scheduler}"}}}}')
    remedy = Remedy(
        sentence=f"name it in a pod: annotation gpu.scheduling/claim: {name}",
        commands=(
            f"kubectl -n {namespace} run {pod.key.name} --image=registry.example/train "
            f"--annotations=gpu.scheduling/claim={name} --overrides={spec}",
        ),
        changes=(Added(pod.key, pod),),
    )
    copy = snapshot.fork()
    copy.apply(remedy.changes[0])
    planner = SchedulePlanner(copy, known, now=now)
    planner.run(until=pod.key)
    placement = planner.placements.get(pod.key)
    if placement is not None:
        return ProvedRemedy(remedy, Proof(True, f"tried on a copy: such a pod goes to {placement.node}"))
    why = explain_pod(copy, pod, known, now=now).message
    return ProvedRemedy(remedy, Proof(False, f"tried on a copy: such a pod would wait: {why}"))


def _some(pods: Sequence[Pod]) -> str:
    return some([str(pod.key) for pod in pods])
