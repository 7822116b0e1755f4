"""A story as data: objects created and deleted at each step, hardware faults, and a caption for each step."""

from collections.abc import Callable
from dataclasses import dataclass

from ullage.kube.client.resource import JsonObject
from ullage.sim.world.spec import WorldSpec


@dataclass(frozen=True, slots=True)
class CreateManifest:
    """Create an object."""

    manifest: JsonObject


@dataclass(frozen=True, slots=True)
class DeleteManifest:
    """Delete the object with the kind, namespace and name of this manifest."""

    manifest: JsonObject


@dataclass(frozen=True, slots=True)
class ScaleDeployment:
    """Set the number of replicas of a Deployment."""

    deployment: str
    replicas: int


@dataclass(frozen=True, slots=True)
class ForbiddenWrite:
    """Write annotations on a pod that the webhook rejects. The API server's message is shown."""

    pod: str
    annotations: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class BreakGpu:
    """Make the first GPU of this pod fall off the bus."""

    pod: str


@dataclass(frozen=True, slots=True)
class RepairGpus:
    """Make all broken GPUs healthy again."""


@dataclass(frozen=True, slots=True)
class LoadVm:
    """Give a VM this load, in cores."""

    vm: str
    cores: float


Step = LoadVm | CreateManifest | DeleteManifest | ScaleDeployment | ForbiddenWrite | BreakGpu | RepairGpus


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryStep:
    """One step of a story: its time, its caption and its actions."""

    at: float
    """Seconds of the story's own time."""
    name: str
    """One word, to find the step by."""
    caption: str
    """Caption: one or two sentences that say where to look."""
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A cluster and the steps that happen in it."""

    name: str
    summary: str
    world: Callable[[int], WorldSpec]
    """World at the beginning, for a seed."""
    story_steps: tuple[StoryStep, ...]
    """In order of time."""

    @property
    def seconds(self) -> float:
        """Time of the last step, in seconds since the beginning."""
        return self.story_steps[-1].at
