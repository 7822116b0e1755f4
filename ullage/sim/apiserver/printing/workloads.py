"""Workloads as rows."""

from ullage.sim.apiserver.printing.ages import age_of, human_duration, since
from ullage.sim.apiserver.printing.column import NONE, Cell, Printer, columns, name_of, number, part
from ullage.sim.apiserver.printing.labels import containers_of, labels_text, selector_text
from ullage.sim.apiserver.storage.context import seconds_of
from ullage.sim.apiserver.storage.json_bytes import JsonObject

_TEMPLATE = ("spec", "template", "spec")
_WIDE = "wide Containers; wide Images; wide Selector"


def _wide(obj: JsonObject) -> list[Cell]:
    return [*containers_of(obj, *_TEMPLATE), selector_text(part(obj, "spec").get("selector"))]


def _deployment(obj: JsonObject, now: float) -> list[Cell]:
    ready = f"{number(obj, 'status', 'readyReplicas')}/{number(obj, 'spec', 'replicas')}"
    current = [number(obj, "status", "updatedReplicas"), number(obj, "status", "availableReplicas")]
    return [name_of(obj), ready, *current, age_of(obj, now), *_wide(obj)]


def _replica_set(obj: JsonObject, now: float) -> list[Cell]:
    counts = [
        number(obj, "spec", "replicas"),
        number(obj, "status", "replicas"),
        number(obj, "status", "readyReplicas"),
    ]
    return [name_of(obj), *counts, age_of(obj, now), *_wide(obj)]


def _replication_controller(obj: JsonObject, now: float) -> list[Cell]:
    return [*_replica_set(obj, now)[:-1], labels_text(part(obj, "spec").get("selector"))]


def _stateful_set(obj: JsonObject, now: float) -> list[Cell]:
    ready = f"{number(obj, 'status', 'readyReplicas')}/{number(obj, 'spec', 'replicas')}"
    return [name_of(obj), ready, age_of(obj, now), *containers_of(obj, *_TEMPLATE)]


def _daemon_set(obj: JsonObject, now: float) -> list[Cell]:
    members = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    counts = [number(obj, "status", member) for member in members]
    where = labels_text(part(obj, *_TEMPLATE).get("nodeSelector"))
    return [name_of(obj), *counts, where, age_of(obj, now), *_wide(obj)]


def _job(obj: JsonObject, now: float) -> list[Cell]:
    spec, done = part(obj, "spec"), number(obj, "status", "succeeded")
    if spec.get("completions") is not None:
        completions = f"{done}/{spec['completions']}"
    else:
        parallel = spec.get("parallelism") or 0
        completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    return [name_of(obj), _job_status(obj), completions, _job_duration(obj, now), age_of(obj, now), *_wide(obj)]


def _job_duration(obj: JsonObject, now: float) -> str:
    started, ended = part(obj, "status").get("startTime"), part(obj, "status").get("completionTime")
    if not started:
        return ""
    return human_duration((seconds_of(ended) if ended else now) - seconds_of(started))


def _job_status(obj: JsonObject) -> str:
    held = {c.get("type") for c in part(obj, "status").get("conditions") or [] if c.get("status") == "True"}
    for word in ("Complete", "Failed"):
        if word in held:
            return word
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((word for word in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if word in held), "Running")


def _cron_job(obj: JsonObject, now: float) -> list[Cell]:
    spec, last = part(obj, "spec"), part(obj, "status").get("lastScheduleTime")
    template = ("spec", "jobTemplate", "spec", "template", "spec")
    return [
        name_of(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        "True" if spec.get("suspend") else "False",
        len(part(obj, "status").get("active") or []),
        since(last, now) if last else NONE,
        age_of(obj, now),
        *containers_of(obj, *template),
        selector_text(part(obj, "spec", "jobTemplate", "spec").get("selector")),
    ]


_COUNTED = "Name; Desired:integer; Current:integer; Ready:integer; Age; " + _WIDE

PRINTERS = {
    "deployments.apps": Printer(columns("Name; Ready; Up-to-date; Available; Age; " + _WIDE), _deployment),
    "replicasets.apps": Printer(columns(_COUNTED), _replica_set),
    "replicationcontrollers": Printer(columns(_COUNTED), _replication_controller),
    "statefulsets.apps": Printer(columns("Name; Ready; Age; wide Containers; wide Images"), _stateful_set),
    "daemonsets.apps": Printer(
        columns(
            "Name; Desired:integer; Current:integer; Ready:integer; Up-to-date:integer; Available:integer; "
            "Node Selector; Age; " + _WIDE
        ),
        _daemon_set,
    ),
    "jobs.batch": Printer(columns("Name; Status; Completions; Duration; Age; " + _WIDE), _job),
    "cronjobs.batch": Printer(
        columns("Name; Schedule; Timezone; Suspend:boolean; Active:integer; Last Schedule; Age; " + _WIDE), _cron_job
    ),
}
