"""Kinds that were not served at the start and may be installed while a process runs: PodGroups, VirtualMachines, ..."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from ullage.errors import ApiError
from ullage.kube.client.api import KubeApi
from ullage.watch.informer import Informer, InformerSpec
from ullage.watch.sources import any_served, may_come_later, sources_served

LOOK_AGAIN_SECONDS = 60.0
"""Seconds between two checks whether a kind that was missing at the start is served by now."""


async def follow_late_kinds(
    api: KubeApi,
    informers: Iterable[Informer[Any, Any]],
    follow: Callable[[InformerSpec[Any, Any]], Coroutine[Any, Any, None]],
    *,
    lease_namespace: str,
) -> None:
    """Follow each kind of the snapshot as soon as it is served, until all are or cancelled."""
    followed = {informer.source for informer in informers}
    async with asyncio.TaskGroup() as group:
        while missing := may_come_later(followed):
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            with suppress(ApiError):
                if not await any_served(api, missing):
                    continue
                for interest in await sources_served(api, lease_namespace=lease_namespace):
                    if interest.resource.id not in followed:
                        followed.add(interest.resource.id)
                        group.create_task(follow(interest), name=interest.resource.id)
