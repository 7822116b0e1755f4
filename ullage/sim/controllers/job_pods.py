"""A Job's pods: creation, removal, delay after a failure, and completion indexes. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import count, islice

from ullage.clock import Instant
from ullage.kube.client.resource import JsonObject
from ullage.kube.timestamps import read_time
from ullage.sim.controllers.objects import JOBS, ActorJob, ActorPod
from ullage.sim.controllers.ownership import controller_reference, pod_from_template
from ullage.sim.controllers.podstate import condition_of, in_order_of_deletion

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FIRST_BACKOFF_SECONDS = 10.0
LONGEST_BACKOFF_SECONDS = 600.0


def is_indexed(job: ActorJob) -> bool:
    return job.spec.completion_mode == "Indexed"


def completion_index(pod: ActorPod) -> int:
    """The pod's index, or -1."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdigit() else -1


def job_pod(job: ActorJob, active: Sequence[ActorPod], succeeded: frozenset[int], number: int) -> Iterator[JsonObject]:
    """Bodies of so many new pods; those of an indexed Job get the lowest free indexes."""
    reference = controller_reference(JOBS, job.metadata)
    if not is_indexed(job):
        body = pod_from_template(job.spec.template, reference, generate_name=f"{job.metadata.name}-")
        body["metadata"].setdefault("finalizers", []).append(TRACKING)
        yield from (body for _ in range(number))
        return
    taken = succeeded | {completion_index(pod) for pod in active}
    free = (index for index in range(job.spec.completions or 0) if index not in taken)
    for index in islice(free, number):
        yield _indexed(job, reference, index)


def _indexed(job: ActorJob, reference: JsonObject, index: int) -> JsonObject:
    name = f"{job.metadata.name}-{index}"
    body = pod_from_template(deepcopy(job.spec.template), reference, generate_name=f"{name}-")
    metadata = body["metadata"]
    metadata.setdefault("finalizers", []).append(TRACKING)
    metadata["annotations"] = {**metadata.get("annotations", {}), INDEX: str(index)}
    metadata["labels"] = {**metadata.get("labels", {}), INDEX: str(index)}
    body["spec"]["hostname"] = name
    variable = {
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
    }
    for kind in ("containers", "initContainers"):
        for container in body["spec"].get(kind) or ():
            container.setdefault("env", []).append(variable)
    return body


def pods_to_remove(job: ActorJob, active: Sequence[ActorPod], surplus: int, now: Instant) -> list[ActorPod]:
    """Pods whose index is taken or out of range, then by the usual order of deletion."""
    doubled: list[ActorPod] = []
    if is_indexed(job):
        seen: set[int] = set()
        for pod in reversed(in_order_of_deletion(active, (), now)):
            index = completion_index(pod)
            if index in seen or not 0 <= index < (job.spec.completions or 0):
                doubled.append(pod)
            seen.add(index)
    if len(doubled) >= surplus:
        return doubled
    names = {pod.metadata.name for pod in doubled}
    others = [pod for pod in in_order_of_deletion(active, (), now) if pod.metadata.name not in names]
    return [*doubled, *others[: surplus - len(doubled)]]


@dataclass(frozen=True, slots=True)
class EndedJobPod:
    """A pod that has ended, remembered after it is deleted."""

    at: Instant
    failed: bool


def next_creation(ended: Iterable[EndedJobPod]) -> Instant:
    """Earliest instant of the next creation: 10 s after a failure, doubled per failure since the last success."""
    failures, last = 0, Instant(0.0)
    for each in sorted(ended, key=lambda one: (one.at, one.failed)):
        failures = failures + 1 if each.failed else 0
        last = each.at
    if failures == 0:
        return Instant(0.0)
    wait = min(FIRST_BACKOFF_SECONDS * 2 ** min(failures - 1, 10), LONGEST_BACKOFF_SECONDS)
    return Instant(last + wait)


def ended_at(pod: ActorPod) -> Instant:
    """Instant of the pod's end: its last container's end, else of Ready turning False, else of its deletion."""
    ends = [
        read_time(status.state["terminated"]["finishedAt"])
        for status in pod.status.container_statuses
        if status.state.get("terminated", {}).get("finishedAt")
    ]
    if ends:
        return max(ends)
    ready = condition_of(pod.status.conditions, "Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return read_time(ready.last_transition_time)
    if pod.metadata.deletion_timestamp:
        return Instant(read_time(pod.metadata.deletion_timestamp) - (pod.metadata.deletion_grace_period_seconds or 0))
    return read_time(pod.metadata.creation_timestamp)


def read_indexes(text: str) -> frozenset[int]:
    """`1,3-5,7` as numbers."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def write_indexes(indexes: frozenset[int]) -> str:
    """Numbers as `1,3-5,7`."""
    parts: list[str] = []
    ordered = sorted(indexes)
    runs: dict[int, list[int]] = {}
    for place, index in zip(count(), ordered):
        runs.setdefault(index - place, []).append(index)
    for run in runs.values():
        joined = f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run))
        parts.append(joined)
    return ",".join(parts)
