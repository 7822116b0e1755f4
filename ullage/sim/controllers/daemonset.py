"""DaemonSets: one pod on every node that fits, pinned to it by affinity so that a scheduler binds it there. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from ullage.clock import Instant
from ullage.kube.client.resource import JsonObject
from ullage.kube.objects.node import KubeNode
from ullage.kube.objects.pod import KubeToleration, PodSpec
from ullage.kube.timestamps import read_time
from ullage.sim.controllers.objects import DAEMON_SETS, PODS, ActorPod, DaemonSet
from ullage.sim.controllers.ownership import controller_reference, pod_from_template, template_hash
from ullage.sim.controllers.percent import portion
from ullage.sim.controllers.podstate import has_ended, is_available, is_ready, is_terminating, next_availability
from ullage.sim.controllers.tolerance import is_selected, untolerated
from ullage.sim.controllers.writes import (
    ControllerPlan,
    CreateObject,
    Write,
    delete_exactly,
    earlier,
    merge_status,
    sparse,
)

REVISION = "controller-revision-hash"
FAILED_POD_REST_SECONDS = 1.0
"""Seconds from the creation of a failed daemon pod until it is replaced, at least."""

_ALWAYS_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


_ALWAYS_WRITTEN = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")


@dataclass(slots=True)
class _Place:
    """One node and the daemon's pods on it or meant for it."""

    node: KubeNode | None
    runs: bool
    stays: bool
    pods: list[ActorPod] = field(default_factory=list)


def plan_daemon_set(
    owner: DaemonSet, nodes: Sequence[KubeNode], pods: Sequence[ActorPod], *, now: Instant
) -> ControllerPlan:
    """Create missing pods, delete misplaced ones, replace outdated ones, and count."""
    spec = _template_spec(owner)
    places = {node.metadata.name: _place(spec, node) for node in nodes}
    for pod in sorted(pods, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name)):
        name = node_of(pod)
        places.setdefault(name, _Place(None, runs=False, stays=False)).pods.append(pod)
    status = _status(owner, places, now)
    wake_at = next_availability(pods, owner.spec.min_ready_seconds, now)
    if owner.metadata.deletion_timestamp is not None:
        return ControllerPlan(status, wake_at)
    steps, rest = _steps(owner, places, now)
    if not steps:
        steps = tuple(_update(owner, places, now))
    return ControllerPlan((*steps, *status), earlier(wake_at, rest))


def node_of(pod: ActorPod) -> str:
    """The node a daemon's pod is on, or is pinned to."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    for term in affinity.required.node_selector_terms if affinity and affinity.required else ():
        for each in term.match_fields:
            if each.key == "metadata.name" and each.values:
                return each.values[0]
    return ""


def _place(spec: PodSpec, node: KubeNode) -> _Place:
    if not is_selected(spec, node):
        return _Place(node, runs=False, stays=False)
    open_taints = untolerated(node.spec.taints, spec.tolerations)
    return _Place(
        node,
        runs=not any(taint.effect in ("NoSchedule", "NoExecute") for taint in open_taints),
        stays=not any(taint.effect == "NoExecute" for taint in open_taints),
    )


def _template_spec(owner: DaemonSet) -> PodSpec:
    spec = msgspec.convert(owner.spec.template.get("spec") or {}, PodSpec)
    added = tuple(KubeToleration(key=key, operator="Exists", effect=effect) for key, effect in _ALWAYS_TOLERATED)
    return msgspec.structs.replace(spec, tolerations=(*spec.tolerations, *added))


def _steps(owner: DaemonSet, places: dict[str, _Place], now: Instant) -> tuple[tuple[Write, ...], Instant | None]:
    writes: list[Write] = []
    wake_at: Instant | None = None
    for name in sorted(places):
        place = places[name]
        if not place.stays:
            # The pod garbage collector removes pods of deleted nodes; only pods on existing nodes are removed here.
            gone = [pod for pod in place.pods if not is_terminating(pod)] if place.node is not None else []
            writes.extend(delete_exactly(PODS, pod.metadata) for pod in gone)
            continue
        living = [pod for pod in place.pods if not has_ended(pod)]
        for pod in place.pods:
            if has_ended(pod) and not is_terminating(pod):
                due = Instant(read_time(pod.metadata.creation_timestamp) + FAILED_POD_REST_SECONDS)
                if due <= now:
                    writes.append(delete_exactly(PODS, pod.metadata))
                else:
                    wake_at = earlier(wake_at, due)
        writes.extend(delete_exactly(PODS, pod.metadata) for pod in living[1:] if not is_terminating(pod))
        if not place.pods and place.runs:
            writes.append(CreateObject(PODS, owner.metadata.namespace, daemon_pod(owner, name)))
    return tuple(writes), wake_at


def daemon_pod(owner: DaemonSet, node: str) -> JsonObject:
    """A pod that fits this node only, and tolerates the taints of an unhealthy node."""
    reference = controller_reference(DAEMON_SETS, owner.metadata)
    body = pod_from_template(owner.spec.template, reference, generate_name=f"{owner.metadata.name}-")
    labels = body["metadata"].get("labels", {})
    body["metadata"]["labels"] = {**labels, REVISION: template_hash(owner.spec.template)}
    spec = body["spec"]
    spec["tolerations"] = [
        *(spec.get("tolerations") or ()),
        *({"key": key, "operator": "Exists", "effect": effect} for key, effect in _ALWAYS_TOLERATED),
    ]
    spec["affinity"] = _pinned(spec.get("affinity") or {}, node)
    return body


def _pinned(affinity: JsonObject, node: str) -> JsonObject:
    """The affinity with the node's name in the place of any required terms."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    return {**affinity, "nodeAffinity": node_affinity}


def _update(owner: DaemonSet, places: dict[str, _Place], now: Instant) -> Iterator[Write]:
    """Delete outdated pods, as many as may be unavailable. Pods that are unavailable already cost nothing."""
    if owner.spec.update_strategy.get("type") == "OnDelete":
        return
    rolling = owner.spec.update_strategy.get("rollingUpdate") or {}
    running = [places[name] for name in sorted(places) if places[name].runs]
    allowed = max(1, portion(rolling.get("maxUnavailable", 1), len(running), round_up=True))
    revision = template_hash(owner.spec.template)
    outdated: list[ActorPod] = []
    for place in running:
        pod = place.pods[0] if place.pods else None
        if pod is None or is_terminating(pod) or not is_available(pod, owner.spec.min_ready_seconds, now):
            allowed -= 1
            if pod is not None and not is_terminating(pod) and pod.metadata.labels.get(REVISION) != revision:
                yield delete_exactly(PODS, pod.metadata)
        elif pod.metadata.labels.get(REVISION) != revision:
            outdated.append(pod)
    yield from (delete_exactly(PODS, pod.metadata) for pod in outdated[: max(0, allowed)])


def _status(owner: DaemonSet, places: dict[str, _Place], now: Instant) -> tuple[Write, ...]:
    revision = template_hash(owner.spec.template)
    wanted = [place for place in places.values() if place.runs]
    served = [place.pods[0] for place in wanted if place.pods]
    available = sum(is_available(pod, owner.spec.min_ready_seconds, now) for pod in served)
    counts = {
        "desiredNumberScheduled": len(wanted),
        "currentNumberScheduled": len(served),
        "numberMisscheduled": sum(
            bool(place.pods) and place.node is not None for place in places.values() if not place.runs
        ),
        "numberReady": sum(map(is_ready, served)),
        "updatedNumberScheduled": sum(pod.metadata.labels.get(REVISION) == revision for pod in served),
        "numberAvailable": available,
        "numberUnavailable": len(wanted) - available,
        "observedGeneration": owner.metadata.generation,
    }
    status = owner.status
    have = (
        status.desired_number_scheduled,
        status.current_number_scheduled,
        status.number_misscheduled,
        status.number_ready,
        status.updated_number_scheduled,
        status.number_available,
        status.number_unavailable,
        status.observed_generation,
    )
    return (
        ()
        if have == tuple(counts.values())
        else (merge_status(DAEMON_SETS, owner.metadata, sparse(counts, always=_ALWAYS_WRITTEN)),)
    )
