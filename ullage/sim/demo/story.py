"""A story as data: at which moment which objects come and go, what befalls the hardware, and what to say about it."""

from collections.abc import Callable
from dataclasses import dataclass

from ullage.kube.resource import JsonObject
from ullage.sim.world.spec import WorldSpec


@dataclass(frozen=True, slots=True)
class Create:
    """Somebody creates an object."""

    manifest: JsonObject


@dataclass(frozen=True, slots=True)
class Remove:
    """Somebody deletes it: whatever has the kind, namespace and name of this manifest."""

    manifest: JsonObject


@dataclass(frozen=True, slots=True)
class Scale:
    """Somebody wants another number of replicas of a Deployment."""

    deployment: str
    replicas: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """Somebody tries to write annotations on a pod, which is not let in. What the API server says is shown."""

    pod: str
    annotations: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class BreakGpu:
    """The first GPU of this pod falls off the bus."""

    pod: str


@dataclass(frozen=True, slots=True)
class RepairGpus:
    """All broken GPUs are as new again."""


Step = Create | Remove | Scale | Attempt | BreakGpu | RepairGpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Something happens, for a reason worth telling."""

    at: float
    """Seconds of the story's own time."""
    name: str
    """In one word, for who looks for it."""
    caption: str
    """What to look at, in a sentence or two."""
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A cluster, and what happens in it."""

    name: str
    summary: str
    world: Callable[[int], WorldSpec]
    """What is there at the beginning, for a seed."""
    moments: tuple[Moment, ...]
    """In order of time."""

    @property
    def seconds(self) -> float:
        """When the last moment comes."""
        return self.moments[-1].at
