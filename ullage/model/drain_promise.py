"""A removal with what it counts on, and what can speak against it when it comes to that."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.model.drain import RemoveNode
from ullage.model.drain_outcome import DrainSetback
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A removal, and what it counts on."""

    action: RemoveNode
    uid: str
    """Of the node."""
    pods: Mapping[ObjectKey, str] = field(default_factory=dict)
    """Uids of the pods that may be evicted: no others."""
    gangs: Mapping[ObjectKey, tuple[ObjectKey, ...]] = field(default_factory=dict)
    """Those among them that go together or not at all."""
    owned: bool = True
    """It is a pool's: its machine is deleted. Otherwise it is left to its owner when it is empty."""

    @property
    def node(self) -> str:
        return self.action.node

    def knows(self, pod: Pod) -> bool:
        return self.pods.get(pod.key) == pod.uid


@dataclass(frozen=True, slots=True)
class Objection:
    """Why it is not right any more."""

    setback: DrainSetback
    detail: str
    pod: ObjectKey | None = None
