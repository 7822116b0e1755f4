"""The status a kubelet reports: of its pods in each stage of their life, and of its node. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ullage.clock import Instant
from ullage.kube.client.resource import JsonObject
from ullage.kube.objects.meta import Condition
from ullage.kube.objects.pod import Container
from ullage.kube.timestamps import write_time
from ullage.sim.controllers.objects import NODES, PODS, ActorNode, ActorPod
from ullage.sim.controllers.podstate import condition_json, condition_of
from ullage.sim.controllers.writes import MergeObject, merge_status

_KUBELETS_OWN = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


def starting(pod: ActorPod, *, since: Instant) -> MergeObject:
    """Admitted, its containers being made."""
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    status: JsonObject = {
        "phase": "Pending",
        "startTime": write_time(since),
        "conditions": _conditions(pod, _not_ready(pod, initialized=not pod.spec.init_containers), since),
        "containerStatuses": [_container(each, waiting) for each in pod.spec.containers],
    }
    if pod.spec.init_containers:
        pending = {"waiting": {"reason": "PodInitializing"}}
        status["initContainerStatuses"] = [_container(each, pending) for each in pod.spec.init_containers]
    return merge_status(PODS, pod.metadata, status)


@dataclass(frozen=True, slots=True)
class RunningPod:
    """Record of a running pod, as its kubelet keeps it."""

    address: str
    admitted: Instant
    began: Instant
    """Instant its containers were last started."""
    restarts: int


def running(pod: ActorPod, life: RunningPod, *, now: Instant) -> MergeObject:
    """All containers up and ready."""
    state = {"running": {"startedAt": write_time(life.began)}}
    ready = dict.fromkeys(_KUBELETS_OWN, ("True", "", ""))
    status: JsonObject = {
        "phase": "Running",
        "startTime": write_time(life.admitted),
        "podIP": life.address,
        "podIPs": [{"ip": life.address}],
        "conditions": _conditions(pod, ready, now),
        "containerStatuses": [
            _container(each, state, is_ready=True, restarts=life.restarts) for each in pod.spec.containers
        ],
    }
    if pod.spec.init_containers:
        status["initContainerStatuses"] = list(_init_statuses(pod, now))
    return merge_status(PODS, pod.metadata, status)


def backing_off(pod: ActorPod, *, code: int, restarts: int, now: Instant) -> MergeObject:
    """A container ended and will be started again later."""
    reason = "CrashLoopBackOff" if code else "Completed"
    state: JsonObject = {"waiting": {"reason": reason, "message": "back-off restarting failed container"}}
    containers = [_container(each, state, restarts=restarts) for each in pod.spec.containers]
    for each in containers:
        each["lastState"] = _terminated(pod, code, now)
    status = {"conditions": _conditions(pod, _not_ready(pod), now), "containerStatuses": containers}
    return merge_status(PODS, pod.metadata, status)


def ended(pod: ActorPod, *, code: int, restarts: int, now: Instant, reason: str = "", message: str = "") -> MergeObject:
    """All containers have ended for good."""
    phase = "Failed" if code else "Succeeded"
    why = "PodFailed" if code else "PodCompleted"
    not_ready = dict.fromkeys(("ContainersReady", "Ready"), ("False", why, ""))
    status: JsonObject = {
        "phase": phase,
        "conditions": _conditions(pod, not_ready, now),
        "containerStatuses": [
            _container(each, _terminated(pod, code, now), restarts=restarts) for each in pod.spec.containers
        ],
    }
    if reason:
        status |= {"reason": reason, "message": message}
    return merge_status(PODS, pod.metadata, status)


def rejected(pod: ActorPod, *, reason: str, message: str, now: Instant) -> MergeObject:
    """The node does not take it: no container was ever started."""
    status = {"phase": "Failed", "reason": reason, "message": message, "startTime": write_time(now)}
    return merge_status(PODS, pod.metadata, status)


def node_ready(node: ActorNode, room: Mapping[str, str], *, now: Instant) -> MergeObject:
    """The node's own report of its health, and of its resources where its status lists none."""
    healthy = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    )
    conditions = node.status.conditions
    for kind, status, reason, message in healthy:
        fresh = Condition(type=kind, status=status, reason=reason, message=message)
        conditions = _replaced(conditions, fresh, now)
    beat = {"lastHeartbeatTime": write_time(now)}
    written = [{**condition_json(each), **beat} for each in conditions]
    report: JsonObject = {"conditions": written}
    if not node.status.allocatable:
        own = dict(node.status.capacity or room)
        report |= {"capacity": own, "allocatable": own}
    return merge_status(NODES, node.metadata, report)


def _replaced(conditions: Sequence[Condition], fresh: Condition, now: Instant) -> tuple[Condition, ...]:
    old = condition_of(conditions, fresh.type)
    since = old.last_transition_time if old is not None and old.status == fresh.status else write_time(now)
    dated = Condition(
        type=fresh.type, status=fresh.status, reason=fresh.reason, message=fresh.message, last_transition_time=since
    )
    return (*(each for each in conditions if each.type != fresh.type), dated)


def _not_ready(pod: ActorPod, *, initialized: bool = True) -> dict[str, tuple[str, str, str]]:
    names = " ".join(each.name for each in pod.spec.containers)
    lacking = ("False", "ContainersNotReady", f"containers with unready status: [{names}]")
    start = ("True", "", "") if initialized else ("False", "ContainersNotInitialized", "")
    return {"Initialized": start, "ContainersReady": lacking, "Ready": lacking}


def _conditions(pod: ActorPod, wanted: dict[str, tuple[str, str, str]], now: Instant) -> list[JsonObject]:
    """The pod's conditions with the kubelet's own set; conditions of other writers are left as they are."""
    present = pod.status.conditions
    if condition_of(present, "PodScheduled") is None:
        wanted = {"PodScheduled": ("True", "", ""), **wanted}
    for kind, (status, reason, message) in wanted.items():
        present = _replaced(present, Condition(type=kind, status=status, reason=reason, message=message), now)
    return [condition_json(each) for each in present]


def _container(container: Container, state: JsonObject, *, is_ready: bool = False, restarts: int = 0) -> JsonObject:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": is_ready,
        "started": is_ready,
        "restartCount": restarts,
        "state": state,
    }


def _init_statuses(pod: ActorPod, now: Instant) -> Iterator[JsonObject]:
    """Sidecars run beside the others; plain init containers have done their work."""
    for each in pod.spec.init_containers:
        if each.restart_policy == "Always":
            yield _container(each, {"running": {"startedAt": write_time(now)}}, is_ready=True)
        else:
            done = {"exitCode": 0, "reason": "Completed", "startedAt": write_time(now), "finishedAt": write_time(now)}
            yield _container(each, {"terminated": done}) | {"ready": True}


def _terminated(pod: ActorPod, code: int, now: Instant) -> JsonObject:
    began = pod.status.start_time or write_time(now)
    return {
        "terminated": {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "startedAt": began,
            "finishedAt": write_time(now),
        }
    }
