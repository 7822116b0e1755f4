"""History of a cluster as steps: what users and machines did, without what our processes made of it. Pure.

The time is an argument: seconds since the recording began.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from statistics import median

import msgspec

from ullage.errors import Unreadable
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import GPU_NODE_STATUSES, JOBS, NODES, PODS
from ullage.kube.objects.gpu import GpuNodeStatus
from ullage.kube.read.gpu import read_inventory
from ullage.kube.timestamps import read_time
from ullage.model.device import Inventory
from ullage.model.units import Instant, Seconds
from ullage.sim.kubelet.timings import DURATION
from ullage.sim.recording.objects import RECORDED, Part, difference, fresh, is_result, name_of
from ullage.sim.recording.pod_life import PodLife
from ullage.state.dump import RecordedStep, StepVerb

_Key = tuple[str, str, str]
"""Kind, namespace, name."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The steps, and the first objects with what became known of them later."""

    steps: tuple[RecordedStep, ...]
    objects: tuple[JsonObject, ...]
    left_out: Counter[str]
    """Number of changes that a replay cannot do, by reason."""


class HistoryRecorder:
    """Turns changes into steps. `schedulers` are the names of ours: pods of others arrive when they are bound."""

    def __init__(self, objects: Iterable[JsonObject], schedulers: Collection[str], began: Instant) -> None:
        self._objects = tuple(objects)
        self._schedulers = schedulers
        self._began = began
        self._known: dict[_Key, JsonObject] = {}
        self._pods: dict[_Key, PodLife] = {}
        """Present pods."""
        self._job_pods: dict[_Key, dict[str, PodLife]] = {}
        """Pods of each Job that came later, by uid."""
        self._over: set[str] = set()
        """Uids of pods that were over when the recording began."""
        self._lives: list[PodLife] = []
        self._steps: list[RecordedStep] = []
        self._bought: set[str] = set()
        """Names of nodes of pools. A replay buys its own, under other names."""
        self._left_out: Counter[str] = Counter()
        self._first_nodes = frozenset(_key(one) for one in self._objects if one["kind"] == NODES.kind)
        by_kind = {one.kind: one for one in RECORDED}
        for manifest in self._objects:
            resource = by_kind.get(manifest["kind"])
            if resource is not None:
                self._first(resource, manifest)

    @property
    def size(self) -> int:
        """Number of steps and pods kept so far."""
        return len(self._steps) + len(self._lives)

    def observe(self, resource: Resource[object], manifest: JsonObject, at: float) -> None:
        """Take in one version of an object."""
        part = RECORDED[resource]
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **manifest}
        if is_result(part, whole):
            self._note_result(part, whole, at)
        elif part is Part.POD:
            self._pod(whole, at)
        else:
            self._other(part, whole, at)

    def remove(self, resource: Resource[object], manifest: JsonObject, at: float) -> None:
        """Take in that an object is gone; `manifest` is its last version."""
        part = RECORDED[resource]
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **manifest}
        key = _key(whole)
        if part is Part.POD:
            life = self._pods.pop(key, None)
            if life is not None:
                life.observe(whole, at)
                life.removed(at)
        elif self._known.pop(key, None) is not None and not whole["metadata"].get("deletionTimestamp"):
            self._steps.append(RecordedStep(at=Seconds(at), verb=StepVerb.DELETE, object=name_of(whole)))
        elif part is Part.NODE and is_result(part, whole) and not _marked(whole):
            self._left_out["nodes of pools that were deleted by hand"] += 1

    def recording(self) -> Recording:
        """Everything so far. May be asked for again and again."""
        of_pods = [step for life in self._lives for step in self._steps_of(life)]
        others = [self._with_run_time(one) for one in self._steps if not self._is_of_bought(one.object)]
        steps = sorted((*others, *of_pods), key=lambda one: one.at)
        ends = {_key(one.manifest): one for one in self._lives if one.created is None}
        objects = tuple(self._with_end(one, ends.get(_key(one))) for one in self._objects)
        return Recording(tuple(steps), objects, Counter(self._left_out))

    def _is_of_bought(self, manifest: JsonObject) -> bool:
        return manifest["kind"] == GPU_NODE_STATUSES.kind and manifest["metadata"]["name"] in self._bought

    def _with_run_time(self, step: RecordedStep) -> RecordedStep:
        """Step that creates a Job, with the median of how long its pods ran."""
        lives = self._job_pods.get(_key(step.object), {}).values()
        ran = [one.ran for one in lives if one.ran is not None]
        if step.verb is not StepVerb.CREATE or not ran:
            return step
        spec = step.object["spec"]
        meta = spec["template"].get("metadata") or {}
        notes = {**(meta.get("annotations") or {}), DURATION: f"{median(ran):.3f}"}
        template = {**spec["template"], "metadata": {**meta, "annotations": notes}}
        return msgspec.structs.replace(step, object={**step.object, "spec": {**spec, "template": template}})

    def _first(self, resource: Resource[object], manifest: JsonObject) -> None:
        """Take in an object that is there when the recording begins."""
        if resource.kind == PODS.kind:
            life = PodLife(manifest, created=None)
            life.observe(manifest, 0.0)
            if life.ended is None:
                self._keep(life)
            else:
                self._over.add(manifest["metadata"].get("uid", ""))
        elif not is_result(RECORDED[resource], manifest):
            self._known[_key(manifest)] = manifest  # agents of bought nodes, too: these nodes exist in the replay

    def _keep(self, life: PodLife) -> None:
        self._pods[_key(life.manifest)] = life
        self._lives.append(life)

    def _note_result(self, part: Part, manifest: JsonObject, at: float) -> None:
        if part is Part.NODE and _key(manifest) not in self._first_nodes:
            self._bought.add(manifest["metadata"]["name"])
        life = self._pods.get(_key(manifest)) if part is Part.POD else None
        if life is not None:  # of the first objects, and owned: it only ends
            life.observe(manifest, at)
        elif part is Part.POD:
            self._pod_of_job(manifest, at)

    def _pod_of_job(self, manifest: JsonObject, at: float) -> None:
        meta = manifest["metadata"]
        for owner in meta.get("ownerReferences") or ():
            if owner.get("kind") == JOBS.kind:
                pods = self._job_pods.setdefault((JOBS.kind, meta.get("namespace", ""), owner["name"]), {})
                pods.setdefault(meta.get("uid", ""), PodLife(manifest, created=at)).observe(manifest, at)

    def _pod(self, manifest: JsonObject, at: float) -> None:
        if manifest["metadata"].get("uid") in self._over:
            return
        life = self._pods.get(_key(manifest))
        if life is not None and life.manifest["metadata"].get("uid") == manifest["metadata"].get("uid"):
            life.observe(manifest, at)
            return
        ours = manifest["spec"].get("schedulerName", "default-scheduler") in self._schedulers
        if not ours and not manifest["spec"].get("nodeName"):
            return  # it takes no room yet
        life = PodLife(manifest, created=at)
        life.observe(manifest, at)
        self._keep(life)

    def _other(self, part: Part, manifest: JsonObject, at: float) -> None:
        key = _key(manifest)
        before = self._known.get(key)
        if manifest["metadata"].get("deletionTimestamp"):
            if self._known.pop(key, None) is not None:
                self._steps.append(RecordedStep(at=Seconds(at), verb=StepVerb.DELETE, object=name_of(manifest)))
            return
        if before is None:
            self._steps.append(RecordedStep(at=Seconds(at), verb=StepVerb.CREATE, object=fresh(manifest)))
        elif part is Part.REPORT:
            if _devices(before) == _devices(manifest):
                return
            self._steps.append(RecordedStep(at=Seconds(at), verb=StepVerb.CHANGE, object=fresh(manifest)))
        else:
            patch = difference(before, manifest)
            if patch is None:
                return
            self._steps.append(RecordedStep(at=Seconds(at), verb=StepVerb.CHANGE, object=patch))
        self._known[key] = manifest

    def _steps_of(self, life: PodLife) -> list[RecordedStep]:
        steps = []
        if life.created is not None:
            steps.append(RecordedStep(at=Seconds(life.created), verb=StepVerb.CREATE, object=self._as_created(life)))
        leaves = life.deleted_by_user
        if leaves is not None and not any(
            one.get("kind") in ("ReplicaSet", "StatefulSet", "DaemonSet", "Job")
            for one in life.manifest["metadata"].get("ownerReferences") or ()
        ):
            named = name_of(life.manifest)
            steps.append(
                RecordedStep(at=Seconds(leaves), verb=StepVerb.DELETE, object=named, at_once=life.grace_seconds == 0)
            )
        return steps

    def _as_created(self, life: PodLife) -> JsonObject:
        made = fresh(life.manifest)
        spec = dict(made["spec"])
        if spec.get("schedulerName", "default-scheduler") in self._schedulers:
            spec.pop("nodeName", None)
        notes = {**(made["metadata"].get("annotations") or {}), **life.annotations(life.bound or 0.0)}
        return {**made, "spec": spec, "metadata": {**made["metadata"], "annotations": notes}}

    def _with_end(self, manifest: JsonObject, life: PodLife | None) -> JsonObject:
        """First object, with how long it runs, if it is a pod that ended by itself."""
        if life is None or manifest["kind"] != PODS.kind:
            return manifest
        text = (manifest.get("status") or {}).get("startTime")
        began = read_time(text) - self._began if text else 0.0
        notes = life.annotations(began)
        if not notes:
            return manifest
        meta = manifest["metadata"]
        return {**manifest, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), **notes}}}


def _devices(report: JsonObject) -> Inventory | None:
    """Inventory without its time; None if it cannot be read."""
    try:
        found = read_inventory(msgspec.convert(report, GpuNodeStatus))
    except (msgspec.MsgspecError, Unreadable):
        return None
    plain = tuple(msgspec.structs.replace(one, in_use_by=()) for one in found.devices)
    return msgspec.structs.replace(found, reported_at=Instant(0.0), dated=Instant(0.0), devices=plain)


def _marked(node: JsonObject) -> bool:
    """True if the controller was about to remove it."""
    return any(one["key"].startswith("gpu.scheduling/") for one in (node.get("spec") or {}).get("taints") or ())


def _key(manifest: JsonObject) -> _Key:
    meta = manifest["metadata"]
    return manifest["kind"], meta.get("namespace", ""), meta["name"]
