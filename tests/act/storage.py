"""Volumes, claims and classes; and stand-ins for those who make volumes and bind them, on either API server."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ullage.act.change_feed import ChangeFeed
from ullage.act.concurrency import ended
from ullage.act.volumes import VOLUME_WAIT, VolumeBinder
from ullage.clock import Clock, WallClock
from ullage.errors import ApiError
from ullage.kube.client.api import KubeApi, MergePatch, WatchEventType
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import PERSISTENT_VOLUMES, STORAGE_CLASSES, VOLUME_CLAIMS
from ullage.kube.client.watch_decoder import closed_after
from ullage.kube.read import read_volume, read_volume_claim
from ullage.testing.builders import a_storage_class, a_volume, a_volume_claim
from ullage.watch.informer import Informer, InformerSpec, run_all, wait_all_synced

VOLUMES, CLAIMS, CLASSES = (one.whole() for one in (PERSISTENT_VOLUMES, VOLUME_CLAIMS, STORAGE_CLASSES))

SELECTED = "volume.kubernetes.io/selected-node"
NODE = "node-a"


def a_disk(name: str, storage_class: str, *, node: str = NODE, claim: JsonObject | None = None) -> JsonObject:
    """A disk of a node; promised to a claim as the API server returned it, where one is given."""
    meta = claim["metadata"] if claim is not None else {}
    promised = {"claimRef": {key: meta[key] for key in ("namespace", "name", "uid")}} if meta else {}
    reached = {"kubernetes.io/hostname": [node]}
    return a_volume(name, storage_class, reached, local={"path": "/mnt/disk"}, **promised)


@asynccontextmanager
async def selector(
    api: KubeApi,
    clock: Clock | None = None,
    *,
    wait: float = VOLUME_WAIT,
) -> AsyncIterator[VolumeBinder]:
    """Hands that hear of claims and volumes during the block, as those of a scheduler do."""
    feed = ChangeFeed()
    interests = (InformerSpec(VOLUME_CLAIMS, read_volume_claim), InformerSpec(PERSISTENT_VOLUMES, read_volume))
    informers = [
        Informer(api, one, feed.observe, rng=random.Random(1), clock=clock or WallClock()) for one in interests
    ]
    running = asyncio.create_task(run_all(*informers))
    try:
        await wait_all_synced(*informers)
        yield VolumeBinder(api, feed, wait=wait)
    finally:
        await ended(running)


async def changes(api: KubeApi, resource: Resource[JsonObject], namespace: str = "") -> AsyncIterator[JsonObject]:
    """Every object there is, and every one that is written from then on."""
    page = await api.list(resource, namespace)
    for item in page.items:
        yield item
    since = page.resource_version
    while True:
        async with closed_after(api.watch(resource, namespace, since=since)) as batches:
            async for batch in batches:
                for event in batch:
                    since = event.resource_version
                    if event.object is not None and event.change is not WatchEventType.DELETED:
                        yield event.object


@dataclass
class Storage:
    """One namespace's claims, whoever makes volumes for them, and the volumes of its own that there are."""

    api: KubeApi
    ns: str
    seconds: float = 0.01
    """How long it takes to make a volume, and to bind one."""
    refuses: set[str] = field(default_factory=set)
    """Claims for which no volume can be made."""

    @property
    def late(self) -> str:
        return f"{self.ns}-late"

    @property
    def local(self) -> str:
        return f"{self.ns}-local"

    async def prepare(self) -> None:
        await self.api.create(CLASSES, a_storage_class(self.late))
        await self.api.create(CLASSES, a_storage_class(self.local, "kubernetes.io/no-provisioner"))

    async def claim(self, name: str, *, local: bool = False, node: str = "") -> JsonObject:
        body = a_volume_claim(name, self.local if local else self.late, selected=node)
        return await self.api.create(CLAIMS, body, self.ns)

    async def volume(self, name: str, claim: JsonObject | None = None) -> str:
        body = a_disk(f"{self.ns}-{name}", self.local, claim=claim)
        return str((await self.api.create(VOLUMES, body))["metadata"]["name"])

    async def read(self, name: str) -> JsonObject:
        return await self.api.get(CLAIMS, name, self.ns)

    async def selected(self, name: str) -> str:
        return str((await self.read(name))["metadata"].get("annotations", {}).get(SELECTED, ""))

    async def promise(self, volume: str) -> Any:
        return (await self.api.get(VOLUMES, volume))["spec"].get("claimRef")

    @asynccontextmanager
    async def working(self, *, making: bool = True, binding: bool = True) -> AsyncIterator[None]:
        """Volumes are made and bound during the block."""
        tasks = [asyncio.create_task(self._make())] if making else []
        tasks += [asyncio.create_task(self._bind())] if binding else []
        try:
            yield
        finally:
            await ended(*tasks)

    async def clear(self) -> None:
        """What is not in a namespace would be seen by whoever uses the server next."""
        for resource in (VOLUMES, CLASSES):
            for item in (await self.api.list(resource)).items:
                name = item["metadata"]["name"]
                if name.startswith(self.ns):
                    await self.api.patch(resource, name, MergePatch({"metadata": {"finalizers": None}}))
                    await self.api.delete(resource, name)

    async def _make(self) -> None:
        """As external provisioners do: a volume promised to the claim, or the node taken back."""
        async with closed_after(changes(self.api, CLAIMS, self.ns)) as claims:
            async for claim in claims:
                meta, spec = claim["metadata"], claim["spec"]
                node = meta.get("annotations", {}).get(SELECTED, "")
                if not node or spec["storageClassName"] != self.late or spec.get("volumeName"):
                    continue
                await asyncio.sleep(self.seconds)
                if meta["name"] in self.refuses:
                    back = MergePatch({"metadata": {"annotations": {SELECTED: None}}})
                    await self.api.patch(CLAIMS, meta["name"], back, self.ns)
                else:
                    body = a_disk(f"{self.ns}-made-{meta['name']}", self.late, node=node, claim=claim)
                    await _once(self.api.create(VOLUMES, body))

    async def _bind(self) -> None:
        """As the volume controller does with a volume that is promised to a claim."""
        async with closed_after(changes(self.api, VOLUMES)) as volumes:
            async for volume in volumes:
                promise = volume["spec"].get("claimRef") or {}
                if promise.get("namespace") != self.ns or not promise.get("uid"):
                    continue
                await asyncio.sleep(self.seconds)
                done = {"uid": promise["uid"], "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
                body = {"metadata": done, "spec": {"volumeName": volume["metadata"]["name"]}}
                await _once(self.api.patch(CLAIMS, promise["name"], MergePatch(body), self.ns))


async def _once(call: Any) -> None:
    try:
        await call
    except ApiError:
        return  # it was done before, or its claim is gone
