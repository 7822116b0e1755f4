"""Container invariants: no exclusive GPU or MIG instance is visible to two running containers, shares fit the GPU.

Judged by the devices that containers see, not by Leases or annotations on allocation. A container placed by another
scheduler counts from the time by which its node's agent must have reported it.
"""

from ullage.model.device import MILLI_GPU
from ullage.sim.world.invariants.breach import InvariantBreach, Report, pod_name
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredPod

Sight = tuple[str, str]
"""A node, and the UUID of a GPU or MIG instance."""

REPORTED_WITHIN_SECONDS = 60.0
"""Seconds within which an agent reads and reports its GPUs."""


class ContainerChecks:
    """Tracks the pods that see each GPU, and since when."""

    def __init__(self, mirror: ObjectMirror, report: Report, scheduler: str) -> None:
        self._mirror = mirror
        self._report = report
        self._scheduler = scheduler
        self.reported_seconds = REPORTED_WITHIN_SECONDS
        """Seconds after which the scheduler knows of a container. Longer where faults keep it behind."""
        self._seen: dict[Sight, dict[str, float]] = {}
        """Time since which each pod sees it, by pod uid."""
        for pod in mirror.pods.values():
            for sight in _readings(pod):
                self._seen.setdefault(sight, {})[pod.uid] = mirror.clock.now()
        mirror.pod_listeners.append(self._pod)

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        before, after = _readings(step.before), _readings(step.after)
        if before == after:
            return
        uid = step.fact.uid
        for sight in before:
            self._seen[sight].pop(uid, None)
        for sight in after:
            others = self._seen.setdefault(sight, {})
            if step.after is not None and step.by == self._scheduler:
                self._check(step, step.after, sight)
            others[uid] = step.at

    def _check(self, step: ObjectChange[StoredPod], pod: StoredPod, sight: Sight) -> None:
        held = _milli(pod)
        rivals: list[StoredPod] = []
        for uid, since in self._seen[sight].items():
            rival = self._mirror.by_uid.get(uid)
            if rival is not None and (rival.devices or since <= step.at - self.reported_seconds):
                rivals.append(rival)
                held += _milli(rival)
        if held > MILLI_GPU:
            names = " and ".join(str(one.key) for one in (*rivals, pod))
            about = tuple(pod_name(one.key) for one in (*rivals, pod))
            what = f"{sight[1]} of {sight[0]} is seen by containers of {names}"
            self._report(InvariantBreach(step.at, "no GPU is seen twice", what, about))


def _readings(pod: StoredPod | None) -> list[Sight]:
    return [(pod.node, uuid) for uuid in pod.sees] if pod is not None and pod.holds else []


def _milli(pod: StoredPod) -> int:
    """Thousandths of each device it sees: all of a MIG instance, and all of a GPU it uses without an allocation."""
    return pod.milli or MILLI_GPU
