"""Claim invariants: no pod is bound by a claim that a deletion could take from under it."""

from ullage.kube.client.resources import GPU_CLAIMS
from ullage.model.claim import PROTECTION, copy_key
from ullage.model.fact_event import ObjectKey
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.world.invariants.breach import InvariantBreach, Report, pod_name
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredPod


class ClaimChecks:
    """Checks binds of our scheduler. A pod whose claim is made from a template may be bound before that is there."""

    def __init__(self, mirror: ObjectMirror, server: SimulatedApiServer, report: Report, scheduler: str) -> None:
        self._report = report
        self._scheduler = scheduler
        self._protected: dict[ObjectKey, bool] = {}
        mirror.pod_listeners.append(self._pod)
        server.listen(GPU_CLAIMS.id, self._claim)

    def _claim(self, change: StoredChange) -> None:
        meta = change.after.obj["metadata"]
        key = ObjectKey(meta["namespace"], meta["name"])
        if change.deleted:
            self._protected.pop(key, None)
        else:
            self._protected[key] = PROTECTION in meta.get("finalizers", ())

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        pod = step.after
        if pod is None or not pod.node or (step.before is not None and step.before.node) or step.by != self._scheduler:
            return
        key = ObjectKey(pod.key.namespace, pod.claim) if pod.claim else copy_key(pod.key, pod.uid)
        found = self._protected.get(key)
        if (found is None and pod.claim) or found is False:
            what = f"{pod.key} was bound by claim {key}, which {'is gone' if found is None else 'is not protected'}"
            self._report(InvariantBreach(step.at, "a claim in use outlives its deletion", what, (pod_name(pod.key),)))
