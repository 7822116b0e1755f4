"""Explanation of a GpuClaim: who has it, or why its pod waits."""

from collections.abc import Sequence

from ullage.decide.explain.answer import Answer, like_its_pod, some
from ullage.decide.explain.planning import PlanInputs
from ullage.decide.explain.pod import explain_pod
from ullage.decide.placement.prefilter import owner_of
from ullage.model.claim import Claim
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
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
        return _unused(about, claim, key, known, show)
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
    lines = (*others, *((f"{len(copies)} pods ask for copies of it: {_some(copies)}",) if copies else ()))
    return like_its_pod(about, said, lines, (*show, f"ullage explain pod/{pod.key}"))


def _unused(about: str, claim: Claim | None, key: ObjectKey, known: PlanInputs, show: tuple[str, ...]) -> Answer:
    if claim is None:
        why = known.unreadable_claims.get(key, "it is not there")
        return Answer(about=about, verdict="ClaimInvalid", message=why, commands=show)
    if claim.deleting:
        return Answer(about=about, verdict="Deleting", message="it is being deleted", commands=show)
    return Answer(
        about=about,
        verdict="Unused",
        message="no pod names it, so nothing is reserved for it",
        steps=(f"name it in a pod: annotation gpu.scheduling/claim: {key.name}",),
        commands=(*show, f"kubectl -n {key.namespace} delete gpuclaim {key.name}"),
    )


def _some(pods: Sequence[Pod]) -> str:
    return some([str(pod.key) for pod in pods])
