"""Durations on a simulated node: from annotations on the pod, else by image, else by chance from the seed.

All annotations are read by simulated kubelets only. Pure: chance is a hash of the seed and the pod, never a draw.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.sim.controllers.objects import ActorPod

DURATION = "sim.ullage/duration-seconds"
"""The work of the pod's containers ends after this time; without it they run until they are stopped."""
EXIT_CODES = "sim.ullage/exit-codes"
"""Exit codes of the work, `0` if absent. A list such as `1,1,0` has one entry per restart; the last one stays."""
START = "sim.ullage/start-seconds"
"""Seconds from bind to running and ready."""
STOP = "sim.ullage/stop-seconds"
"""Seconds from deletion to gone; the grace period ends it sooner."""


@dataclass(frozen=True, slots=True)
class DurationRange:
    """A time between two bounds, both included."""

    least: float
    most: float

    def at(self, share: float) -> float:
        return self.least + (self.most - self.least) * share


@dataclass(frozen=True, slots=True)
class KubeletTimings:
    """The model of a fleet's nodes."""

    seed: int = 0
    start: DurationRange = DurationRange(0.5, 2.0)
    """Seconds a pod takes to start when nothing else is said."""
    start_by_image: Mapping[str, DurationRange] = field(default_factory=dict)
    """The same for pods with a container of this image: the slowest counts."""
    stop: DurationRange = DurationRange(0.1, 1.0)
    """Seconds a pod takes to stop."""
    end: DurationRange = DurationRange(0.0, 0.0)
    """Seconds from the end of a pod's work to the kubelet's knowing it."""
    room: Mapping[str, str] = field(default_factory=lambda: {"cpu": "64", "memory": "512Gi", "pods": "110"})
    """Resources of a node that joins without stating its own."""
    boot_seconds: float = 0.0
    """Seconds from the appearance of a node that is not Ready to its being Ready."""

    def start_seconds(self, pod: ActorPod) -> float:
        said = _number(pod, START)
        if said is not None:
            return said
        spans = [self.start_by_image[each.image] for each in pod.spec.containers if each.image in self.start_by_image]
        span = max(spans, key=lambda each: (each.most, each.least), default=self.start)
        return round(span.at(self._chance(pod, "start")), 3)

    def stop_seconds(self, pod: ActorPod) -> float:
        said = _number(pod, STOP)
        return round(self.stop.at(self._chance(pod, "stop")), 3) if said is None else said

    def work_seconds(self, pod: ActorPod) -> float | None:
        """Seconds until the kubelet knows that the pod's work is done; None if it never ends."""
        duration = _number(pod, DURATION)
        return None if duration is None else duration + round(self.end.at(self._chance(pod, "end")), 4)

    def _chance(self, pod: ActorPod, what: str) -> float:
        text = f"{self.seed}/{what}/{pod.metadata.namespace}/{pod.metadata.name}/{pod.metadata.uid}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) / 2**32


INSTANT = KubeletTimings(start=DurationRange(0.0, 0.0), stop=DurationRange(0.0, 0.0))
"""Nodes on which everything happens at once."""


def exit_code(pod: ActorPod, restarts: int) -> int:
    """Exit code of the work after so many restarts."""
    codes = pod.metadata.annotations.get(EXIT_CODES, "0").split(",")
    text = codes[min(restarts, len(codes) - 1)].strip()
    return int(text) if text.isdigit() else 0


def _number(pod: ActorPod, annotation: str) -> float | None:
    try:
        return float(pod.metadata.annotations[annotation])
    except (KeyError, ValueError):
        return None
