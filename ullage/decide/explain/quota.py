"""Explanation of a GpuQuota: what is held of each limit, by whom, and who waits for it."""

from ullage.decide.claims.quota_status import used_of
from ullage.decide.explain.answer import Answer, counted, some, that_wait
from ullage.decide.explain.planning import PlanInputs
from ullage.decide.explain.pod import explain_pod
from ullage.decide.placement.engine import NoFit
from ullage.decide.scheduling.assignment import PodAssigner, queue_order, waits
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.quota import Quota, QuotaUsage
from ullage.model.units import Instant
from ullage.model.verdict import Reason
from ullage.state.snapshot import ClusterSnapshot

MOST_ASKED = 64
"""Waiting pods of the namespace that are asked about, at most."""


def explain_quota(
    snapshot: ClusterSnapshot, key: ObjectKey, known: PlanInputs, *, now: Instant, every: bool = False
) -> Answer | None:
    """Explain a quota; None if there is none of this name."""
    quota = snapshot.state.quotas.get(key)
    if quota is None:
        return None
    assigner = PodAssigner(snapshot, unreadable_claims=known.unreadable_claims)
    used = assigner.quota.usage(key.namespace)
    holders = sorted(
        (pod for pod in snapshot.pods.values() if pod.key.namespace == key.namespace and pod.gpu_ids),
        key=lambda pod: (-len(pod.gpu_ids), pod.key),
    )
    lines = (
        *_limits(quota, used),
        f"held by {counted(len(holders), 'pod')}: {_named(holders)}" if holders else "held by no pod",
    )
    refused = _refused(assigner, key.namespace, now)
    about, show = f"gpuquota/{key}", f"kubectl -n {key.namespace} get gpuquota {key.name} -o yaml"
    if not refused:
        return Answer(
            about=about,
            verdict="HasRoom",
            message="it is in the way of no pod that waits",
            lines=lines,
            commands=(show,),
        )
    said = explain_pod(snapshot, refused[0], known, now=now, every=every)
    waiting = f"for it: {that_wait(len(refused))}: {some([str(pod.key) for pod in refused])}"
    return Answer(
        about=about,
        verdict="QuotaExceeded",
        message=f"it is the one thing in the way of {refused[0].key}: {assigner.quota_detail(refused[0])}",
        lines=(*lines, waiting),
        steps=said.steps,
        remedies=said.remedies,
        commands=(show, f"ullage explain pod/{refused[0].key}"),
    )


def _refused(assigner: PodAssigner, namespace: str, now: Instant) -> list[Pod]:
    """Waiting pods whose obstacle is the quota of their namespace."""
    found: list[Pod] = []
    mine = [pod for pod in assigner.snapshot.state.pods.values() if pod.key.namespace == namespace and waits(pod)]
    for pod in sorted(mine, key=queue_order)[:MOST_ASKED]:
        ready = assigner.entitled(pod)
        if not isinstance(ready, Pod) or pod.key in assigner.snapshot.pods:
            continue
        answer = assigner.engine.place(ready, now=now, closed=assigner.closed(ready))
        obstacle = assigner.obstacle(ready, answer, now=now) if isinstance(answer, NoFit) else None
        if obstacle is not None and obstacle.reason is Reason.QUOTA_EXCEEDED:
            found.append(ready)
    return found


def _limits(quota: Quota, used: QuotaUsage) -> list[str]:
    limits, shown = quota.limits, used_of(quota.limits, used)
    lines = [f"GPUs: {used.gpus} of {limits.gpus} held"] if limits.gpus is not None else []
    held = dict(shown.by_model)
    lines += [f"GPUs of model {model}: {held.get(model, 0)} of {most} held" for model, most in limits.by_model]
    if limits.shares is not None:
        lines.append(f"thousandths of shared GPUs: {used.shares} of {limits.shares} held")
    return lines


def _named(pods: list[Pod]) -> str:
    return some([f"{pod.key} ({len(pod.gpu_ids)})" for pod in pods])
