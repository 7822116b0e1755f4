"""History of each object: its latest changes, with author and time. Printed when an invariant is broken."""

from collections import deque
from collections.abc import Iterable

from ullage.sim.world.invariants.breach import lease_name, node_name, pod_name
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredLease, StoredNode, StoredPod

LATEST = 30
"""Changes kept per object."""
GONE_KEPT = 2_000
"""Deleted objects still kept."""

_Any = ObjectChange[StoredPod] | ObjectChange[StoredNode] | ObjectChange[StoredLease]


class ObjectHistory:
    """Keeps changes; formats them only when asked."""

    def __init__(self, mirror: ObjectMirror) -> None:
        self.began: float = mirror.clock.now()
        """Time from which the seconds of the printed lines count."""
        self._steps: dict[str, deque[tuple[int, _Any]]] = {}
        self._gone: deque[str] = deque()
        self._count = 0
        mirror.pod_listeners.append(lambda step: self._keep(pod_name(step.fact.key), step))
        mirror.node_listeners.append(lambda step: self._keep(node_name(step.fact.name), step))
        mirror.lease_listeners.append(lambda step: self._keep(lease_name(step.fact.name), step))

    def of(self, names: Iterable[str]) -> list[str]:
        """One line for each change of these objects, in order."""
        found = [(number, name, step) for name in dict.fromkeys(names) for number, step in self._steps.get(name, ())]
        return [
            f"{step.at - self.began:12.3f} s  {step.by:<12} {name}: {words}"
            for _, name, step in sorted(found, key=lambda one: one[0])
            if (words := _words(step))
        ]

    def _keep(self, name: str, step: _Any) -> None:
        self._count += 1
        kept = self._steps.get(name)
        if kept is None:
            kept = self._steps[name] = deque(maxlen=LATEST)
        kept.append((self._count, step))
        if step.after is None:
            self._gone.append(name)
            if len(self._gone) > GONE_KEPT:
                self._forget(self._gone.popleft())

    def _forget(self, name: str) -> None:
        """Drop a deleted object, unless it was created again since."""
        kept = self._steps.get(name)
        if kept is not None and kept[-1][1].after is None and name not in self._gone:
            del self._steps[name]


def _words(step: _Any) -> str:
    if step.after is None:
        return "gone"
    before = None if step.before is None else _facts(step.before)
    after = _facts(step.after)
    if before is None:
        return ", ".join(("made", *(f"{name} {value}" for name, value in after.items() if value)))
    return ", ".join(f"{name} {value or 'none'}" for name, value in after.items() if before.get(name) != value)


def _facts(fact: StoredPod | StoredNode | StoredLease) -> dict[str, str]:
    """Fields of an object that are printed."""
    match fact:
        case StoredPod():
            return {
                "node": fact.node,
                "phase": f"{fact.phase} {fact.reason}".strip(),
                "GPUs": ",".join(map(str, fact.devices)),
                "leaving": "yes" if fact.leaves_by is not None else "",
                "disrupted": fact.disrupted,
            }
        case StoredNode():
            taints = " ".join(f"{key}={value}:{effect}" for key, value, effect in fact.taints)
            return {"pool": fact.pool, "GPUs": str(fact.gpus), "taints": taints}
        case StoredLease():
            return {"held by": " ".join(f"{uid}:{milli}" for uid, milli in sorted(fact.holders.items()))}
