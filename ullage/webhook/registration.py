"""Registration: keeps the caBundle of the two webhook configurations, and nothing else of them.

An operator installs and removes the configurations, with an operator's rights: a webhook that may write its own rules
could ask to see, and change, everything that is written in the cluster.
"""

import random
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import structlog

from ullage.clock import Clock
from ullage.errors import AlreadyExists, Conflict, NotFound
from ullage.kube.admission.webhook_configs import WebhookConfiguration, WebhookEndpoint, asked, bundles, configurations
from ullage.kube.client.api import JsonPatch, KubeApi, ListSelector
from ullage.kube.client.resource import JsonObject
from ullage.model.fact_event import Added, Deleted, FactEvent, Updated
from ullage.watch.informer import Informer, InformerSpec

_log = structlog.get_logger("webhook")

_Bundles = tuple[str, ...]


class WebhookRegistrar:
    """Both webhook configurations. All replicas write the same, so any of them may write."""

    def __init__(self, api: KubeApi, reach: WebhookEndpoint, identities: Sequence[str]) -> None:
        self._api = api
        self._reach = reach
        self._identities = tuple(identities)
        self._wanted: str | None = None
        self._complained: set[str] = set()

    async def install(self) -> list[str]:
        """Write both configurations, and keep their caBundle. Returns their names."""
        both = configurations(self._reach, None, self._identities)
        for one in both:
            try:
                await self._put(one)
            except (AlreadyExists, Conflict):  # a replica, or another installer, wrote at the same moment
                await self._put(one)
        return [f"{one.resource.kind} {one.name}" for one in both]

    async def _put(self, one: WebhookConfiguration) -> None:
        """Replace the whole object: an apply would keep webhooks of other versions, as replicas own a part of each."""
        try:
            there = await self._api.get(one.resource, one.name)
        except NotFound:
            await self._api.create(one.resource, one.body)
            return
        known = next((bundle for bundle in bundles(there) if bundle), "")
        metadata = {**one.body["metadata"], "resourceVersion": there["metadata"]["resourceVersion"]}
        hooks = [
            {**hook, "clientConfig": {**hook["clientConfig"], **({"caBundle": known} if known else {})}}
            for hook in one.body["webhooks"]
        ]
        await self._api.replace(one.resource, {**one.body, "metadata": metadata, "webhooks": hooks})

    async def trust(self, trusted: bytes | None) -> None:
        self._wanted = None if trusted is None else b64encode(trusted).decode()
        for one in configurations(self._reach, None, self._identities):
            try:
                there = await self._api.get(one.resource, one.name)
            except NotFound:
                words = f"{one.resource.kind} {one.name} is not there; run `ullage webhook --install` as an admin"
                raise NotFound(words) from None
            self._compare(one, there)
            steps = list(_steps(there, self._wanted))
            if steps:
                await self._api.patch(one.resource, one.name, JsonPatch(steps))

    def _compare(self, ours: WebhookConfiguration, there: JsonObject) -> None:
        """Warn once if the installed rules differ from those of this version."""
        if asked(there) != asked(ours.body) and ours.name not in self._complained:
            self._complained.add(ours.name)
            _log.warning("registration is of another version; run `ullage webhook --install`", name=ours.name)

    async def remove(self) -> list[str]:
        """Delete both configurations. Returns the names of those that existed."""
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

        def observe(event: FactEvent[_Bundles]) -> None:
            match event:
                case Deleted():
                    on_drift()
                case Added(new=found) | Updated(new=found) if self._differs(found):
                    on_drift()

        def interest(resource: Any, name: str) -> InformerSpec[JsonObject, _Bundles]:
            selection = ListSelector(fields=f"metadata.name={name}")
            return InformerSpec(resource, lambda found: tuple(bundles(found)), selection=selection)

        both = configurations(self._reach, None, self._identities)
        return [Informer(self._api, interest(one.resource, one.name), observe, rng=rng, clock=clock) for one in both]

    def _differs(self, found: _Bundles) -> bool:
        return self._wanted is not None and any(bundle != self._wanted for bundle in found)


def _steps(there: JsonObject, wanted: str | None) -> Iterator[JsonObject]:
    """Patch steps that set the caBundle of each webhook, by position. The name test fails if positions changed."""
    for place, (hook, bundle) in enumerate(zip(there.get("webhooks") or (), bundles(there), strict=True)):
        if wanted is not None and bundle != wanted:
            yield {"op": "test", "path": f"/webhooks/{place}/name", "value": hook["name"]}
            yield {"op": "add", "path": f"/webhooks/{place}/clientConfig/caBundle", "value": wanted}
