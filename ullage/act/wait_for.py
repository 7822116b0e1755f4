"""Wait until objects reach a state: list once, then watch. No polling."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ullage import errors
from ullage.kube.client.api import KubeApi, ListSelector, WatchEventType
from ullage.kube.client.resource import Resource
from ullage.kube.client.watch_decoder import closed_after

T = TypeVar("T")
R = TypeVar("R")

PASSING = (errors.Unreachable, errors.Unreadable, errors.Gone, errors.TooManyRequests, errors.ServerFailure)
"""Errors that end a watch and are retried."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


async def until_all(
    api: KubeApi,
    resource: Resource[T],
    selection: ListSelector,
    decide: Callable[[Mapping[str, T]], R | None],
    *,
    namespace: str = "",
) -> R:
    """Wait until `judge` returns a result. It is called with the selected objects by uid: now, then after each change.

    There is no time limit: the caller sets a deadline. Raises ApiError where the API server refuses the list or watch.
    """
    pause = _FIRST_PAUSE
    while True:
        try:
            judgement = await _watched(api, resource, namespace, selection, decide)
            if judgement is not None:
                return judgement
        except PASSING:
            pass
        # Also after a watch that ended normally: a watch that ends at once must not make a busy loop.
        await asyncio.sleep(pause)
        pause = min(_LONGEST_PAUSE, pause * 2)


async def _watched(
    api: KubeApi,
    resource: Resource[T],
    namespace: str,
    selection: ListSelector,
    decide: Callable[[Mapping[str, T]], R | None],
) -> R | None:
    """List and watch once. None if the watch ended before `judge` returned a result."""
    page = await api.list(resource, namespace, selection=selection)
    found = {_uid(item): item for item in page.items}
    judgement = decide(found)
    if judgement is not None:
        return judgement
    watch = api.watch(resource, namespace, since=page.resource_version, selection=selection)
    async with closed_after(watch) as batches:
        async for batch in batches:
            for event in batch:
                if event.object is None:
                    continue
                if event.change is WatchEventType.DELETED:
                    found.pop(_uid(event.object), None)
                else:
                    found[_uid(event.object)] = event.object
                judgement = decide(found)
                if judgement is not None:
                    return judgement
    return None


def _uid(item: Any) -> str:
    found: str = item.metadata.uid
    return found
