"""Life of one pod as it was observed, and the annotations that give it the same life in the simulator. Pure."""

from dataclasses import dataclass

from ullage.kube.client.resource import JsonObject
from ullage.sim.kubelet.timings import DURATION, EXIT_CODES, START, STOP

_OVER = ("Succeeded", "Failed")
_EVICTED = "DisruptionTarget"


@dataclass(slots=True)
class PodLife:
    """Times are seconds since the recording began; None for what was not observed."""

    manifest: JsonObject
    """As it was first seen."""
    created: float | None
    """None for a pod that was there before."""
    bound: float | None = None
    started: float | None = None
    ended: float | None = None
    failed: bool = False
    leaves: float | None = None
    gone: float | None = None
    grace_seconds: float | None = None
    evicted: bool = False
    """True if preemption, a drain or Kubernetes ended it, and no user did."""

    def observe(self, manifest: JsonObject, at: float) -> None:
        """Take in one version of the pod."""
        status, meta = manifest.get("status") or {}, manifest["metadata"]
        phase = status.get("phase", "")
        if self.bound is None and manifest["spec"].get("nodeName"):
            self.bound = at
        if self.started is None and phase == "Running":
            self.started = at
        if self.ended is None and phase in _OVER:
            self.ended, self.failed = at, phase == "Failed"
        conditions = status.get("conditions") or ()
        self.evicted |= any(one["type"] == _EVICTED and one["status"] == "True" for one in conditions)
        if self.leaves is None and meta.get("deletionTimestamp"):
            self.leaves, self.grace_seconds = at, meta.get("deletionGracePeriodSeconds")

    def removed(self, at: float) -> None:
        """Note that it is gone."""
        self.gone = at
        if self.leaves is None:
            self.leaves, self.grace_seconds = at, 0.0

    @property
    def ran(self) -> float | None:
        """Seconds it ran until it ended by itself."""
        if self.started is None or self.ended is None or self.evicted or self.leaves is not None:
            return None
        return self.ended - self.started

    @property
    def deleted_by_user(self) -> float | None:
        """Time at which a user deleted it; None if nobody did, or it was over or evicted by then."""
        if self.leaves is None or self.evicted:
            return None
        return None if self.ended is not None and self.ended <= self.leaves else self.leaves

    def annotations(self, began: float) -> dict[str, str]:
        """Annotations for the simulated kubelet. `began`: start of a pod that was there before, where known."""
        found: dict[str, str] = {}
        if self.created is not None and self.bound is not None and self.started is not None:
            found[START] = f"{max(self.started - self.bound, 0.0):.3f}"
        running = began if self.created is None or self.started is None else self.started
        deleted = self.leaves is not None and self.ended is not None and self.ended > self.leaves
        if self.ended is not None and not self.evicted and not deleted:
            found[DURATION] = f"{max(self.ended - running, 0.0):.3f}"
            if self.failed:
                found[EXIT_CODES] = "1"
        if self.leaves is not None and self.gone is not None:
            found[STOP] = f"{max(self.gone - self.leaves, 0.0):.3f}"
        return found
