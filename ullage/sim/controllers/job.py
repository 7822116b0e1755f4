"""Jobs: pods that end, counted until enough have succeeded or too many failed. Pure.

A pod is counted in three steps that survive a crash between any two of them: its uid is written to the Job's status,
its finalizer is taken off, its uid turns into a number.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ullage.clock import Instant
from ullage.kube.client.api import Deletion, Propagation
from ullage.kube.client.resource import JsonObject
from ullage.kube.timestamps import write_time
from ullage.sim.controllers.job_ending import JobEnding, ending_of, finished_at, job_conditions
from ullage.sim.controllers.job_pods import (
    TRACKING,
    EndedJobPod,
    completion_index,
    ended_at,
    is_indexed,
    job_pod,
    next_creation,
    pods_to_remove,
    read_indexes,
    write_indexes,
)
from ullage.sim.controllers.objects import JOBS, PODS, ActorJob, ActorPod
from ullage.sim.controllers.ownership import drop_finalizer_write
from ullage.sim.controllers.podstate import has_ended, is_active, is_ready, is_terminating
from ullage.sim.controllers.writes import (
    ControllerPlan,
    CreateObject,
    DeleteObject,
    MergeObject,
    Write,
    delete_exactly,
    earlier,
    merge_status,
    sparse,
)

MOST_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class JobTally:
    """A Job's pods, counted: the sums, and the uids that are about to be added to them."""

    succeeded: int
    failed: int
    uncounted_succeeded: tuple[str, ...]
    uncounted_failed: tuple[str, ...]
    indexes: frozenset[int]

    @property
    def all_succeeded(self) -> int:
        return len(self.indexes) if self.indexes else self.succeeded + len(self.uncounted_succeeded)

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.uncounted_failed)


def newly_ended(job: ActorJob, pods: Sequence[ActorPod]) -> dict[str, EndedJobPod]:
    """Pods the Job will count as over, by uid."""
    return {
        pod.metadata.uid: EndedJobPod(ended_at(pod), failed=pod.status.phase != "Succeeded")
        for pod in pods
        if pod.status.phase == "Succeeded" or _has_failed(job, pod)
    }


def plan_job(
    job: ActorJob, pods: Sequence[ActorPod], ended: Iterable[EndedJobPod], *, settled: bool, now: Instant
) -> ControllerPlan:
    """One step.

    `pods` are the Job's own; `ended` are all that have ended, deleted ones too; `settled` says that all the Job's own
    creations and deletions have been seen.
    """
    if (over := finished_at(job)) is not None:
        return _after_the_end(job, pods, over, now)
    tally = _count(job, pods)
    active = _active(pods)
    ending = ending_of(job, pods, tally.all_succeeded, tally.all_failed, now=now)
    wake_at = None
    if ending.reached is not None:
        steps: tuple[Write, ...] = tuple(delete_exactly(PODS, pod.metadata) for pod in active)
    elif settled and job.metadata.deletion_timestamp is None:
        steps, wake_at = _manage(job, pods, tally, next_creation(ended), now)
    else:
        steps = ()
    left = len(active) + sum(isinstance(step, CreateObject) - isinstance(step, DeleteObject) for step in steps)
    removed = {step.name for step in steps if isinstance(step, DeleteObject)}
    if ending.reached is None and left == 0 and _is_enough(job, tally):
        ending = JobEnding.success()
    status = _status(job, pods, tally, left, now) | {
        "ready": sum(is_ready(pod) for pod in active if pod.metadata.name not in removed),
        "terminating": sum(is_terminating(pod) and not has_ended(pod) for pod in pods) + len(removed),
    }
    quiet = not any(_is_tracked(pod) for pod in pods) and not tally.uncounted_succeeded and not tally.uncounted_failed
    done = settled and quiet and left == 0 and status["terminating"] == 0
    status |= job_conditions(job, ending, is_over=done, now=now)
    writes = (*steps, *_status_write(job, status), *_release(job, pods, tally, ending))
    return ControllerPlan(writes, earlier(wake_at, ending.wake_at))


def _active(pods: Sequence[ActorPod]) -> list[ActorPod]:
    return sorted((pod for pod in pods if is_active(pod)), key=lambda pod: pod.metadata.name)


def _after_the_end(job: ActorJob, pods: Sequence[ActorPod], over: Instant, now: Instant) -> ControllerPlan:
    """Release pods only, and delete the Job when its time to live is over."""
    release = tuple(_drop_finalizer(pod) for pod in pods if _is_tracked(pod))
    ttl = job.spec.ttl_seconds_after_finished
    if ttl is None or job.metadata.deletion_timestamp is not None:
        return ControllerPlan(release)
    if over + ttl > now:
        return ControllerPlan(release, Instant(over + ttl))
    how = Deletion(uid=job.metadata.uid, propagation=Propagation.FOREGROUND)
    return ControllerPlan((*release, DeleteObject(JOBS, job.metadata.namespace, job.metadata.name, how)))


def _count(job: ActorJob, pods: Sequence[ActorPod]) -> JobTally:
    tracked = {pod.metadata.uid: pod for pod in pods if _is_tracked(pod)}
    waiting = job.status.uncounted_terminated_pods
    settled_succeeded = [uid for uid in waiting.succeeded if uid not in tracked]
    settled_failed = [uid for uid in waiting.failed if uid not in tracked]
    known = {*waiting.succeeded, *waiting.failed}
    fresh = [pod for uid, pod in sorted(tracked.items()) if uid not in known and _is_countable(job, pod)]
    succeeded = [pod for pod in fresh if pod.status.phase == "Succeeded"]
    failed = [pod for pod in fresh if _has_failed(job, pod)]
    indexed = is_indexed(job)
    indexes = read_indexes(job.status.completed_indexes) if indexed else frozenset()
    return JobTally(
        succeeded=job.status.succeeded + len(settled_succeeded),
        failed=job.status.failed + len(settled_failed),
        uncounted_succeeded=()
        if indexed
        else (*(uid for uid in waiting.succeeded if uid in tracked), *(pod.metadata.uid for pod in succeeded)),
        uncounted_failed=(
            *(uid for uid in waiting.failed if uid in tracked),
            *(pod.metadata.uid for pod in failed),
        ),
        indexes=indexes | {completion_index(pod) for pod in succeeded if indexed},
    )


def _manage(
    job: ActorJob, pods: Sequence[ActorPod], tally: JobTally, not_before: Instant, now: Instant
) -> tuple[tuple[Write, ...], Instant | None]:
    """Either delete or create, never both in one step."""
    active = _active(pods)
    want = 0 if job.spec.suspend else _wanted_active(job, len(active), tally)
    surplus = pods_to_remove(job, active, max(0, len(active) - want), now)
    if surplus:
        going = surplus[:MOST_AT_ONCE]
        # The finalizer is removed first: a pod that the Job itself deletes must not count as failed.
        uncounted = (_drop_finalizer(pod) for pod in going if _is_tracked(pod))
        return (*uncounted, *(delete_exactly(PODS, pod.metadata) for pod in going)), None
    missing = want - len(active)
    if job.spec.pod_replacement_policy == "Failed":
        missing -= sum(is_terminating(pod) and not has_ended(pod) for pod in pods)
    if missing <= 0:
        return (), None
    if not_before > now:
        return (), not_before
    bodies = job_pod(job, active, tally.indexes, min(missing, MOST_AT_ONCE))
    return tuple(CreateObject(PODS, job.metadata.namespace, body) for body in bodies), None


def _wanted_active(job: ActorJob, active: int, tally: JobTally) -> int:
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        return active if tally.all_succeeded else parallelism
    return max(0, min(parallelism, job.spec.completions - tally.all_succeeded))


def _is_enough(job: ActorJob, tally: JobTally) -> bool:
    """Without a number of completions one success ends the Job, once the others have ended too."""
    if job.spec.completions is None:
        return tally.all_succeeded > 0
    return tally.all_succeeded >= job.spec.completions


def _status(job: ActorJob, pods: Sequence[ActorPod], tally: JobTally, active: int, now: Instant) -> JsonObject:
    indexed = is_indexed(job)
    status: JsonObject = {
        "active": active,
        "succeeded": len(tally.indexes) if indexed else tally.succeeded,
        "failed": tally.failed,
        "uncountedTerminatedPods": {
            "succeeded": list(tally.uncounted_succeeded) or None,
            "failed": list(tally.uncounted_failed) or None,
        },
    }
    if indexed:
        status["completedIndexes"] = write_indexes(tally.indexes) or None
    resumed = any(each.type == "Suspended" and each.status == "True" for each in job.status.conditions)
    if not job.spec.suspend and (job.status.start_time is None or resumed):
        status["startTime"] = write_time(now)
    elif job.spec.suspend and job.status.start_time is not None and not any(is_active(pod) for pod in pods):
        status["startTime"] = None
    return status


def _status_write(job: ActorJob, wanted: JsonObject) -> tuple[MergeObject, ...]:
    have = job.status
    waiting = have.uncounted_terminated_pods
    present: JsonObject = {
        "active": have.active,
        "ready": have.ready,
        "terminating": have.terminating,
        "succeeded": have.succeeded,
        "failed": have.failed,
        "completedIndexes": have.completed_indexes or None,
        "uncountedTerminatedPods": {
            "succeeded": list(waiting.succeeded) or None,
            "failed": list(waiting.failed) or None,
        },
        "startTime": have.start_time,
    }
    if all(name in present and present[name] == value for name, value in wanted.items()):
        return ()
    return (merge_status(JOBS, job.metadata, sparse(wanted, always=("ready", "terminating"))),)


def _release(job: ActorJob, pods: Sequence[ActorPod], tally: JobTally, ending: JobEnding) -> tuple[MergeObject, ...]:
    """Remove finalizers of pods whose end is recorded."""
    on_record = {*tally.uncounted_succeeded, *tally.uncounted_failed}
    everyone = job.metadata.deletion_timestamp is not None
    return tuple(
        _drop_finalizer(pod)
        for pod in pods
        if _is_tracked(pod)
        and (
            everyone
            or pod.metadata.uid in on_record
            or (is_indexed(job) and pod.status.phase == "Succeeded")
            or (has_ended(pod) and (ending.reached is not None or not _is_countable(job, pod)))
        )
    )


def _drop_finalizer(pod: ActorPod) -> MergeObject:
    return drop_finalizer_write(PODS, pod.metadata, TRACKING)


def _is_tracked(pod: ActorPod) -> bool:
    return TRACKING in pod.metadata.finalizers


def _is_countable(job: ActorJob, pod: ActorPod) -> bool:
    return not is_indexed(job) or 0 <= completion_index(pod) < (job.spec.completions or 0)


def _has_failed(job: ActorJob, pod: ActorPod) -> bool:
    """True if the pod failed. One being deleted counts as failed at once, unless podReplacementPolicy is Failed."""
    if pod.status.phase == "Failed":
        return True
    going = is_terminating(pod) and pod.status.phase != "Succeeded"
    return going and job.spec.pod_replacement_policy != "Failed"
