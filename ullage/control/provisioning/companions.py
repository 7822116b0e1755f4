"""Companions: other loops on the provisioner's snapshot, in the same process. They join before it runs."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from ullage.config.settings import Settings
from ullage.model.fact_event import FactEvent
from ullage.model.pod import Pod
from ullage.observe.events import EventRecorder
from ullage.watch.informer import InformerSpec


class Companion(Protocol):
    """Another loop on the same snapshot, in the same process."""

    async def interests(self) -> Sequence[InformerSpec[Any, Any]]:
        """Informers it needs beside those of the snapshot."""
        ...

    def observe(self, event: FactEvent[Any]) -> None:
        """Apply one fact event, of the shared informers or of a companion's."""
        ...

    def configure(self, settings: Settings) -> None:
        """Take over settings that can change while it runs."""
        ...

    def serves(self, pod: Pod) -> bool:
        """True for a pod, or the supposed target of a VM, that it buys a node for: no NodeProvisioner does then."""
        ...

    def planned(self) -> None:
        """Note that the plan of the NodeProvisioners is new: it says which pods none of them serves."""
        ...

    async def work(self, events: EventRecorder) -> None:
        """Run its loop until cancelled. Called when all informers have synced."""
        ...


class Companions:
    """Companions of one provisioner, in the order in which they joined."""

    def __init__(self) -> None:
        self._joined: list[Companion] = []

    def __iter__(self) -> Iterator[Companion]:
        return iter(self._joined)

    def join(self, companion: Companion) -> None:
        """Add a companion. Call before the provisioner runs."""
        self._joined.append(companion)

    def observe(self, event: FactEvent[Any]) -> None:
        """Pass one event to all."""
        for one in self._joined:
            one.observe(event)

    def configure(self, settings: Settings) -> None:
        """Pass changed settings to all."""
        for one in self._joined:
            one.configure(settings)

    def serves(self, pod: Pod) -> bool:
        """True if one of them buys a node for the pod."""
        return any(one.serves(pod) for one in self._joined)

    def planned(self) -> None:
        """Tell all of them that the plan is new."""
        for one in self._joined:
            one.planned()
