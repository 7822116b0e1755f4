"""The life of one pod on its node: admitted or rejected, started, done or restarted, stopped. Pure.

What a kubelet remembers of a pod (`AdmittedPod`) is an argument; the fleet keeps it.
"""

from dataclasses import dataclass, replace

from ullage.clock import Instant
from ullage.kube.client.api import Deletion
from ullage.model.resources import Amounts
from ullage.sim.controllers.objects import PODS, ActorPod
from ullage.sim.controllers.podstate import has_ended, is_ready
from ullage.sim.controllers.writes import ControllerPlan, DeleteObject, MergeObject, earlier
from ullage.sim.kubelet import status as report
from ullage.sim.kubelet.admission import KubeletShortage
from ullage.sim.kubelet.timings import KubeletTimings, exit_code

FIRST_RESTART_SECONDS = 10.0
LONGEST_RESTART_SECONDS = 300.0
KILLED = 143
"""Exit code of containers that are stopped."""


@dataclass(frozen=True, slots=True)
class AdmittedPod:
    """Record of a pod the kubelet has admitted."""

    since: Instant
    requests: Amounts
    address: str
    restarts: int = 0
    running_since: Instant | None = None
    """Instant its containers were last started; None while they are being created or wait for a restart."""
    restart_at: Instant | None = None
    deletion_seen_at: Instant | None = None
    """Instant the kubelet first saw the deletion; the pod's own timestamps are cut to whole seconds."""
    is_over: bool = False
    """Its containers have ended for good: it holds nothing any more."""


@dataclass(frozen=True, slots=True)
class KubeletStep:
    """Writes, the instant to look again, and the record to keep if the writes succeed."""

    plan: ControllerPlan
    memory: AdmittedPod | None


def reject(pod: ActorPod, lack: KubeletShortage, *, now: Instant) -> MergeObject:
    """Reject a pod whose node has no room left: other pods were admitted first."""
    message = (
        f"Pod was rejected: Node didn't have enough resource: {lack.resource}, "
        f"requested: {_plain(lack, lack.requested)}, used: {_plain(lack, lack.used)}, "
        f"capacity: {_plain(lack, lack.capacity)}"
    )
    return report.rejected(pod, reason=f"OutOf{lack.resource}", message=message, now=now)


def _plain(lack: KubeletShortage, amount: int) -> int:
    """As kubelets print them: CPU in thousandths, everything else in whole units."""
    return amount if lack.resource == "cpu" else amount // 1000


def next_step(pod: ActorPod, memory: AdmittedPod | None, behaviour: KubeletTimings, *, now: Instant) -> KubeletStep:
    """Next step of a pod that is on the node; `memory` is None if it was never admitted."""
    if has_ended(pod):
        gone = (_remove(pod),) if pod.metadata.deletion_timestamp else ()
        return KubeletStep(ControllerPlan(gone), None if memory is None else replace(memory, is_over=True))
    if pod.metadata.deletion_timestamp is not None:
        return _stop(pod, memory, behaviour, now)
    if memory is None or memory.is_over:
        return KubeletStep(ControllerPlan(), memory)
    deadline = _deadline(pod, memory)
    if deadline is not None and deadline <= now:
        message = "Pod was active on the node longer than the specified deadline"
        write = report.ended(
            pod, code=KILLED, restarts=memory.restarts, now=now, reason="DeadlineExceeded", message=message
        )
        return KubeletStep(ControllerPlan((write,)), replace(memory, is_over=True))
    step = _work(pod, memory, behaviour, now)
    return KubeletStep(ControllerPlan(step.plan.writes, earlier(step.plan.wake_at, deadline)), step.memory)


def _work(pod: ActorPod, memory: AdmittedPod, behaviour: KubeletTimings, now: Instant) -> KubeletStep:
    if memory.running_since is None:
        seconds = behaviour.start_seconds(pod)
        due = memory.restart_at if memory.restart_at is not None else Instant(memory.since + seconds)
        if due <= now:
            return _run(pod, memory, behaviour, now)
        fresh = not pod.status.container_statuses and memory.restart_at is None
        writes = (report.starting(pod, since=memory.since),) if fresh else ()
        return KubeletStep(ControllerPlan(writes, due), memory)
    duration = behaviour.work_seconds(pod)
    done_at = None if duration is None else Instant(memory.running_since + duration)
    if done_at is not None and done_at <= now:
        return _end_of_work(pod, memory, now)
    # A controller that did not hear from the node has written that the pod is not ready.
    doubted = pod.status.phase == "Running" and not is_ready(pod)
    writes = (_report_running(pod, memory, memory.running_since, now),) if doubted else ()
    return KubeletStep(ControllerPlan(writes, done_at), memory)


def _run(pod: ActorPod, memory: AdmittedPod, behaviour: KubeletTimings, now: Instant) -> KubeletStep:
    restarts = memory.restarts + (memory.restart_at is not None)
    duration = behaviour.work_seconds(pod)
    wake_at = None if duration is None else Instant(now + duration)
    after = replace(memory, restarts=restarts, running_since=now, restart_at=None)
    return KubeletStep(ControllerPlan((_report_running(pod, after, now, now),), wake_at), after)


def _report_running(pod: ActorPod, memory: AdmittedPod, began: Instant, now: Instant) -> MergeObject:
    life = report.RunningPod(memory.address, admitted=memory.since, began=began, restarts=memory.restarts)
    return report.running(pod, life, now=now)


def _end_of_work(pod: ActorPod, memory: AdmittedPod, now: Instant) -> KubeletStep:
    """Step after the containers ended: for good, or restarted after a back-off that doubles every time."""
    code = exit_code(pod, memory.restarts)
    policy = pod.spec.restart_policy or "Always"
    if policy == "Never" or (policy == "OnFailure" and code == 0):
        write = report.ended(pod, code=code, restarts=memory.restarts, now=now)
        return KubeletStep(ControllerPlan((write,)), replace(memory, is_over=True))
    rest = min(FIRST_RESTART_SECONDS * 2 ** min(memory.restarts, 10), LONGEST_RESTART_SECONDS)
    again = Instant(now + rest)
    after = replace(memory, running_since=None, restart_at=again)
    return KubeletStep(
        ControllerPlan((report.backing_off(pod, code=code, restarts=memory.restarts, now=now),), again), after
    )


def _stop(pod: ActorPod, memory: AdmittedPod | None, behaviour: KubeletTimings, now: Instant) -> KubeletStep:
    """Stop a deleted pod: its containers get as long as they need, the grace period at most."""
    grace = pod.metadata.deletion_grace_period_seconds or 0
    if memory is not None and memory.running_since is not None:
        deletion_seen_at = now if memory.deletion_seen_at is None else memory.deletion_seen_at
        due = Instant(deletion_seen_at + min(float(grace), behaviour.stop_seconds(pod)))
        if due > now:
            return KubeletStep(ControllerPlan((), due), replace(memory, deletion_seen_at=deletion_seen_at))
    restarts = memory.restarts if memory is not None else 0
    write = report.ended(pod, code=KILLED, restarts=restarts, now=now)
    return KubeletStep(ControllerPlan((write, _remove(pod))), None if memory is None else replace(memory, is_over=True))


def _remove(pod: ActorPod) -> DeleteObject:
    how = Deletion(uid=pod.metadata.uid, grace_seconds=0)
    return DeleteObject(PODS, pod.metadata.namespace, pod.metadata.name, how)


def _deadline(pod: ActorPod, memory: AdmittedPod) -> Instant | None:
    seconds = pod.spec.active_deadline_seconds
    return None if seconds is None else Instant(memory.since + seconds)
