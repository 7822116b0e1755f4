"""Writes the two webhook configurations, and notices when somebody else changes what they trust."""

import random
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ullage.clock import Clock
from ullage.errors import NotFound
from ullage.kube.api import Apply, KubeApi, Selection
from ullage.kube.resource import JsonObject
from ullage.kube.webhooks import Reach, bundles, configurations
from ullage.model.event import Appeared, Changed, Event, Vanished
from ullage.watch.informer import Informer, Interest

MANAGER = "ullage-webhook"

_Bundles = tuple[str, ...]


class Registry(Protocol):
    """Where the API server is told whom to trust."""

    async def trust(self, trusted: bytes | None) -> None:
        """Certificates signed by any of these are good from now on. Raises ApiError."""
        ...


class Registrar:
    """Both configurations. Replicas write the same, so it does not matter who does."""

    def __init__(self, api: KubeApi, reach: Reach, identities: Sequence[str]) -> None:
        self._api = api
        self._reach = reach
        self._identities = tuple(identities)
        self._wanted: str | None = None

    async def trust(self, trusted: bytes | None) -> None:
        self._wanted = None if trusted is None else b64encode(trusted).decode()
        for one in configurations(self._reach, trusted, self._identities):
            await self._api.patch(one.resource, one.name, Apply(one.body, MANAGER))

    async def remove(self) -> list[str]:
        """Delete both; returns the names of those that were there."""
        gone = []
        for one in configurations(self._reach, None, self._identities):
            try:
                await self._api.delete(one.resource, one.name)
            except NotFound:
                continue
            gone.append(f"{one.resource.kind} {one.name}")
        return gone

    def informers(
        self, on_drift: Callable[[], None], *, rng: random.Random, clock: Clock
    ) -> list[Informer[JsonObject, _Bundles]]:
        """Call `on_drift` when a configuration is gone or trusts something else than was written last."""

        def hear(event: Event[_Bundles]) -> None:
            match event:
                case Vanished():
                    on_drift()
                case Appeared(new=found) | Changed(new=found) if self._differs(found):
                    on_drift()

        def interest(resource: Any, name: str) -> Interest[JsonObject, _Bundles]:
            selection = Selection(fields=f"metadata.name={name}")
            return Interest(resource, lambda found: tuple(bundles(found)), selection=selection)

        both = configurations(self._reach, None, self._identities)
        return [Informer(self._api, interest(one.resource, one.name), hear, rng=rng, clock=clock) for one in both]

    def _differs(self, found: _Bundles) -> bool:
        return self._wanted is not None and any(bundle != self._wanted for bundle in found)
