"""Order invariant: a pending pod is not overtaken again and again by pods that ask for the same and came later.

Of two pods that ask for the same, whatever becomes free is to go to the one that waited longer. Once is no breach: a
write may have failed, and whoever failed stands back for a moment.
"""

from collections import deque

import msgspec

from ullage.kube.client.resource import JsonObject
from ullage.model.fact_event import ObjectKey
from ullage.sim.world.invariants.breach import InvariantBreach, Report, pod_name
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredPod

LATER_SECONDS = 30.0
"""Seconds by which the other pod came later: nobody is to blame for the order in which a burst of pods is heard of."""
MOST_TIMES, OVER_SECONDS = 4, 120.0
"""Times a pod may be overtaken; more are a breach if they are spread over so many seconds."""
_DECIDES_OTHERWISE = ("affinity", "topologySpreadConstraints", "volumes", "resourceClaims", "schedulingGates")
"""Fields by which pods that ask for the same may have different places."""

_encoded = msgspec.json.Encoder(order="sorted").encode
_decoded = msgspec.json.Decoder().decode

Words = tuple[str, str, bytes]
"""Request of a pod in its own words: namespace, claim template, spec."""


class _Waiting:
    """A pending pod."""

    def __init__(self, key: ObjectKey, since: float, words: Words | None) -> None:
        self.key = key
        self.since = since
        self.words = words
        self.stored = b""
        self.overtaken: deque[float] = deque(maxlen=MOST_TIMES + 1)
        """Times of the last pods that were placed before it."""


class OrderChecks:
    """Checks binds of `scheduler` against the pod that asks for the same and has waited longest."""

    def __init__(self, mirror: ObjectMirror, report: Report, scheduler: str) -> None:
        self._mirror = mirror
        self._report = report
        self._scheduler = scheduler
        self._waiting: dict[str, _Waiting] = {}
        self._alike: dict[Words, dict[str, _Waiting]] = {}
        """Pending pods by what they ask for and uid, in the order in which they came."""
        mirror.pod_listeners.append(self._pod)

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        pod, uid = step.after, step.fact.uid
        if pod is not None and not pod.node and not pod.over and pod.leaves_by is None:
            self._note(pod, step)
            return
        waited = self._waiting.pop(uid, None)
        if waited is None or waited.words is None:
            return
        alike = self._alike[waited.words]
        del alike[uid]
        if not alike:
            del self._alike[waited.words]
        elif pod is not None and pod.node and step.by == self._scheduler:
            self._bound(step, pod, waited, next(iter(alike.values())))

    def _note(self, pod: StoredPod, step: ObjectChange[StoredPod]) -> None:
        known = self._waiting.get(pod.uid)
        if known is None:
            known = self._waiting[pod.uid] = _Waiting(pod.key, step.at, _words(pod, step.stored))
            if known.words is not None:
                self._alike.setdefault(known.words, {})[pod.uid] = known
        known.stored = step.stored

    def _bound(self, step: ObjectChange[StoredPod], pod: StoredPod, waited: _Waiting, first: _Waiting) -> None:
        other = self._mirror.pods[first.key]
        if (
            first.since > waited.since - LATER_SECONDS
            or self._claim(pod) is None
            or self._claim(pod) != self._claim(other)
        ):
            return
        if _words(other, first.stored) != _words(pod, step.stored):  # one was edited meanwhile
            return
        first.overtaken.append(step.at)
        if len(first.overtaken) > MOST_TIMES and step.at - first.overtaken[0] >= OVER_SECONDS:
            what = (
                f"{other.key} waited while {len(first.overtaken)} pods that came later and ask for the same were placed"
            )
            about = (pod_name(other.key), pod_name(pod.key))
            self._report(InvariantBreach(step.at, "who waits is not overtaken again and again", what, about))

    def _claim(self, pod: StoredPod) -> JsonObject | None:
        """Spec of the pod's claim, empty without one; None where the claim decides more than what is asked for."""
        if not pod.claim:
            return {}
        found = self._mirror.claims.get(ObjectKey(pod.key.namespace, pod.claim))
        if found is None or found.get("gangRef"):
            return None
        namesakes = (one for one in self._mirror.pods.values() if one.key.namespace == pod.key.namespace)
        return None if sum(one.claim == pod.claim and not one.over for one in namesakes) > 1 else found


def _words(pod: StoredPod, stored: bytes) -> Words | None:
    """None if more decides where the pod may go than what it asks for."""
    spec: JsonObject = _decoded(stored)["spec"]
    if any(spec.get(field) for field in _DECIDES_OTHERWISE):
        return None
    said = {field: value for field, value in spec.items() if field != "nodeName"}
    return pod.key.namespace, pod.template, _encoded(said)
