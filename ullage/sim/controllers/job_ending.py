"""End of a Job, and its conditions. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from ullage.clock import Instant
from ullage.kube.client.resource import JsonObject
from ullage.kube.objects.meta import Condition
from ullage.kube.timestamps import read_time, write_time
from ullage.sim.controllers.objects import ActorJob, ActorPod
from ullage.sim.controllers.podstate import condition_json, condition_of


@dataclass(frozen=True, slots=True)
class JobConditions:
    """The interim condition that announces the end, and the last one that declares it."""

    announces: str
    declares: str
    reason: str
    message: str


SUCCEEDED = JobConditions(
    "SuccessCriteriaMet", "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
)
TOO_MANY_FAILURES = JobConditions(
    "FailureTarget", "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
)
TOO_LATE = JobConditions("FailureTarget", "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")


@dataclass(frozen=True, slots=True)
class JobEnding:
    """The end a Job has reached, and if none, the instant at which to check again."""

    reached: JobConditions | None
    wake_at: Instant | None = None

    @staticmethod
    def success() -> "JobEnding":
        return JobEnding(SUCCEEDED)


def finished_at(job: ActorJob) -> Instant | None:
    """Instant at which the Job was declared finished."""
    for condition in job.status.conditions:
        if condition.type in ("Complete", "Failed") and condition.status == "True":
            return read_time(condition.last_transition_time)
    return None


def ending_of(job: ActorJob, pods: Sequence[ActorPod], succeeded: int, failed: int, *, now: Instant) -> JobEnding:
    """An end once announced stays; else too many failures, then the deadline."""
    for announced in ("SuccessCriteriaMet", "FailureTarget"):
        condition = condition_of(job.status.conditions, announced)
        if condition is not None and condition.status == "True":
            declares = "Complete" if announced == "SuccessCriteriaMet" else "Failed"
            return JobEnding(JobConditions(announced, declares, condition.reason, condition.message))
    if failed > job.spec.backoff_limit or _restarts_exceed(job, pods):
        return JobEnding(TOO_MANY_FAILURES)
    if job.spec.active_deadline_seconds is None or job.spec.suspend or job.status.start_time is None:
        return JobEnding(None)
    enough = job.spec.completions is not None and succeeded >= job.spec.completions
    deadline = Instant(read_time(job.status.start_time) + job.spec.active_deadline_seconds)
    return JobEnding(TOO_LATE) if now >= deadline and not enough else JobEnding(None, deadline)


def _restarts_exceed(job: ActorJob, pods: Sequence[ActorPod]) -> bool:
    """True if restarts reach the back-off limit: pods that restart in place fail without ever ending."""
    if (job.spec.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    count = sum(
        status.restart_count
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
    return count > 0 if job.spec.backoff_limit == 0 else count >= job.spec.backoff_limit


def job_conditions(job: ActorJob, ending: JobEnding, *, is_over: bool, now: Instant) -> JsonObject:
    """Status fields that change with the end, or with being suspended; empty if nothing does."""
    old = job.status.conditions
    fresh: list[Condition] = []
    extra: JsonObject = {}
    if ending.reached is not None:
        verdict = ending.reached
        if condition_of(old, verdict.announces) is None:
            fresh.append(_true(verdict.announces, verdict, now))
        elif is_over:
            fresh.append(_true(verdict.declares, verdict, now))
            if verdict.declares == "Complete":
                extra["completionTime"] = write_time(now)
    else:
        fresh.extend(_suspension(job, now))
    if not fresh:
        return {}
    named = {condition.type for condition in fresh}
    kept = [condition_json(each) for each in old if each.type not in named]
    return {"conditions": [*kept, *map(condition_json, fresh)], **extra}


def _suspension(job: ActorJob, now: Instant) -> list[Condition]:
    present = condition_of(job.status.conditions, "Suspended")
    if job.spec.suspend and (present is None or present.status != "True"):
        return [_suspended("True", "JobSuspended", "Job suspended", now)]
    if not job.spec.suspend and present is not None and present.status == "True":
        return [_suspended("False", "JobResumed", "Job resumed", now)]
    return []


def _suspended(status: str, reason: str, message: str, now: Instant) -> Condition:
    return Condition(
        type="Suspended", status=status, reason=reason, message=message, last_transition_time=write_time(now)
    )


def _true(kind: str, verdict: JobConditions, now: Instant) -> Condition:
    return Condition(
        type=kind, status="True", reason=verdict.reason, message=verdict.message, last_transition_time=write_time(now)
    )
