"""The life of one pod on its node: admitted or rejected, started, done or restarted, stopped. Pure.

What a kubelet remembers of a pod (`Admitted`) is an argument; the fleet keeps it.
"""

from dataclasses import dataclass, replace

from ullage.clock import Instant
from ullage.kube.api import Deletion
from ullage.model.resources import Amounts
from ullage.sim.actors import kubelet_status as report
from ullage.sim.actors.admission import Shortage
from ullage.sim.actors.kubelet_behaviour import Behaviour, duration_seconds, exit_code
from ullage.sim.actors.podstate import has_ended, is_ready
from ullage.sim.actors.shapes import PODS, ActorPod
from ullage.sim.actors.writes import Delete, Merge, Plan, earlier

FIRST_RESTART_SECONDS = 10.0
LONGEST_RESTART_SECONDS = 300.0
KILLED = 143
"""Exit code of containers that end because they are told to."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A pod the kubelet has taken in."""

    since: Instant
    requests: Amounts
    address: str
    restarts: int = 0
    running_since: Instant | None = None
    """When its containers were last started; None while they are being made or wait for a restart."""
    restart_at: Instant | None = None
    told_at: Instant | None = None
    """When the kubelet first saw that it is to go; the pod's own timestamps are cut to whole seconds."""
    is_over: bool = False
    """Its containers have ended for good: it holds nothing any more."""


@dataclass(frozen=True, slots=True)
class Step:
    """What to write, when to look again, and what to remember if the writes succeed."""

    plan: Plan
    memory: Admitted | None


def reject(pod: ActorPod, lack: Shortage, *, now: Instant) -> Merge:
    """The node was promised to somebody else."""
    message = (
        f"Pod was rejected: Node didn't have enough resource: {lack.resource}, "
        f"requested: {_plain(lack, lack.requested)}, used: {_plain(lack, lack.used)}, "
        f"capacity: {_plain(lack, lack.capacity)}"
    )
    return report.rejected(pod, reason=f"OutOf{lack.resource}", message=message, now=now)


def _plain(lack: Shortage, amount: int) -> int:
    """As kubelets print them: CPU in thousandths, everything else in whole units."""
    return amount if lack.resource == "cpu" else amount // 1000


def next_step(pod: ActorPod, memory: Admitted | None, behaviour: Behaviour, *, now: Instant) -> Step:
    """What happens to a pod that is on the node; `memory` is None if it was never admitted."""
    if has_ended(pod):
        gone = (_remove(pod),) if pod.metadata.deletion_timestamp else ()
        return Step(Plan(gone), None if memory is None else replace(memory, is_over=True))
    if pod.metadata.deletion_timestamp is not None:
        return _stop(pod, memory, behaviour, now)
    if memory is None or memory.is_over:
        return Step(Plan(), memory)
    deadline = _deadline(pod, memory)
    if deadline is not None and deadline <= now:
        message = "Pod was active on the node longer than the specified deadline"
        write = report.ended(
            pod, code=KILLED, restarts=memory.restarts, now=now, reason="DeadlineExceeded", message=message
        )
        return Step(Plan((write,)), replace(memory, is_over=True))
    step = _work(pod, memory, behaviour, now)
    return Step(Plan(step.plan.writes, earlier(step.plan.wake_at, deadline)), step.memory)


def _work(pod: ActorPod, memory: Admitted, behaviour: Behaviour, now: Instant) -> Step:
    if memory.running_since is None:
        seconds = behaviour.start_seconds(pod)
        due = memory.restart_at if memory.restart_at is not None else Instant(memory.since + seconds)
        if due <= now:
            return _run(pod, memory, now)
        fresh = not pod.status.container_statuses and memory.restart_at is None
        writes = (report.starting(pod, since=memory.since),) if fresh else ()
        return Step(Plan(writes, due), memory)
    duration = duration_seconds(pod)
    done_at = None if duration is None else Instant(memory.running_since + duration)
    if done_at is not None and done_at <= now:
        return _end_of_work(pod, memory, now)
    # Somebody who could not hear from the node has written that the pod is not ready.
    doubted = pod.status.phase == "Running" and not is_ready(pod)
    writes = (_report_running(pod, memory, memory.running_since, now),) if doubted else ()
    return Step(Plan(writes, done_at), memory)


def _run(pod: ActorPod, memory: Admitted, now: Instant) -> Step:
    restarts = memory.restarts + (memory.restart_at is not None)
    duration = duration_seconds(pod)
    wake_at = None if duration is None else Instant(now + duration)
    after = replace(memory, restarts=restarts, running_since=now, restart_at=None)
    return Step(Plan((_report_running(pod, after, now, now),), wake_at), after)


def _report_running(pod: ActorPod, memory: Admitted, began: Instant, now: Instant) -> Merge:
    life = report.Life(memory.address, admitted=memory.since, began=began, restarts=memory.restarts)
    return report.running(pod, life, now=now)


def _end_of_work(pod: ActorPod, memory: Admitted, now: Instant) -> Step:
    """The containers ended: for good, or to be started again after a rest that doubles every time."""
    code = exit_code(pod, memory.restarts)
    policy = pod.spec.restart_policy or "Always"
    if policy == "Never" or (policy == "OnFailure" and code == 0):
        write = report.ended(pod, code=code, restarts=memory.restarts, now=now)
        return Step(Plan((write,)), replace(memory, is_over=True))
    rest = min(FIRST_RESTART_SECONDS * 2 ** min(memory.restarts, 10), LONGEST_RESTART_SECONDS)
    again = Instant(now + rest)
    after = replace(memory, running_since=None, restart_at=again)
    return Step(Plan((report.backing_off(pod, code=code, restarts=memory.restarts, now=now),), again), after)


def _stop(pod: ActorPod, memory: Admitted | None, behaviour: Behaviour, now: Instant) -> Step:
    """Told to go: its containers get as long as they need, the grace period at most."""
    grace = pod.metadata.deletion_grace_period_seconds or 0
    if memory is not None and memory.running_since is not None:
        told_at = now if memory.told_at is None else memory.told_at
        due = Instant(told_at + min(float(grace), behaviour.stop_seconds(pod)))
        if due > now:
            return Step(Plan((), due), replace(memory, told_at=told_at))
    restarts = memory.restarts if memory is not None else 0
    write = report.ended(pod, code=KILLED, restarts=restarts, now=now)
    return Step(Plan((write, _remove(pod))), None if memory is None else replace(memory, is_over=True))


def _remove(pod: ActorPod) -> Delete:
    how = Deletion(uid=pod.metadata.uid, grace_seconds=0)
    return Delete(PODS, pod.metadata.namespace, pod.metadata.name, how)


def _deadline(pod: ActorPod, memory: Admitted) -> Instant | None:
    seconds = pod.spec.active_deadline_seconds
    return None if seconds is None else Instant(memory.since + seconds)
