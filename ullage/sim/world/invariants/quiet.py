"""Quiet invariant: the scheduler does not write about a pending pod again and again."""

from collections import deque

from ullage.kube.client.resources import EVENTS
from ullage.model.fact_event import ObjectKey
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.world.invariants.breach import InvariantBreach, Report, pod_name
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredPod

RULE = "a pod that waits is not written about again and again"
WINDOW_SECONDS = 600.0
MOST_WORDS = 30
"""Writes to a pending pod and to Events about it within WINDOW_SECONDS, at most.

Three verdicts may come at once, then ever more rarely. A restarted scheduler begins anew.
"""


class QuietChecks:
    """Counts the writes of `scheduler` about pods that have no node."""

    def __init__(self, mirror: ObjectMirror, server: SimulatedApiServer, report: Report, scheduler: str) -> None:
        self._mirror = mirror
        self._server = server
        self._report = report
        self._scheduler = scheduler
        self._words: dict[str, deque[float]] = {}
        """Times of the writes, by pod uid."""
        mirror.pod_listeners.append(self._pod)
        server.listen(EVENTS.plural, self._event)  # Events of both API groups are stored as v1

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        pod = step.after
        if pod is None or pod.node:
            self._words.pop(step.fact.uid, None)
        elif step.before is not None and step.by == self._scheduler:
            self._count(pod, step.at)

    def _event(self, change: StoredChange) -> None:
        told = change.after.obj
        if change.deleted or self._server.caller != self._scheduler or told.get("reason") != "FailedScheduling":
            return
        about = told.get("involvedObject") or {}
        pod = self._mirror.pods.get(ObjectKey(about.get("namespace", ""), about.get("name", "")))
        if pod is not None and pod.uid == about.get("uid") and not pod.node:
            self._count(pod, self._mirror.clock.now())

    def _count(self, pod: StoredPod, now: float) -> None:
        words = self._words.setdefault(pod.uid, deque())
        words.append(now)
        while words[0] < now - WINDOW_SECONDS:
            words.popleft()
        if len(words) > MOST_WORDS:
            what = f"{len(words)} writes about {pod.key} in {WINDOW_SECONDS:.0f} s, which only waits"
            self._report(
                InvariantBreach(
                    now, "a pod that waits is not written about again and again", what, (pod_name(pod.key),)
                )
            )
