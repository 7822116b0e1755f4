"""Waits until objects are as they should be: looks once, then hears of every change. Never asks on a timer."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ullage import errors
from ullage.kube.api import Change, KubeApi, Selection
from ullage.kube.resource import Resource
from ullage.kube.watching import closed_after
from ullage.model.event import ObjectKey

T = TypeVar("T")
R = TypeVar("R")

_PASSING = (errors.Unreachable, errors.Unreadable, errors.Gone, errors.TooManyRequests, errors.ServerFailure)
"""What ends a watch and is no reason to give up."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


async def until(api: KubeApi, resource: Resource[T], key: ObjectKey, judge: Callable[[T | None], R | None]) -> R:
    """The first judgement there is: of the object as it is now, then after each change; of None while it is not there.

    For as long as it takes: a deadline is the caller's. Raises ApiError where the API server does not let us look.
    """
    this_one = Selection(fields=f"metadata.name={key.name}")
    return await until_all(
        api, resource, this_one, lambda found: judge(next(iter(found.values()), None)), namespace=key.namespace
    )


async def until_all(
    api: KubeApi,
    resource: Resource[T],
    selection: Selection,
    judge: Callable[[Mapping[str, T]], R | None],
    *,
    namespace: str = "",
) -> R:
    """The same of all objects that are selected, by their uids."""
    pause = _FIRST_PAUSE
    while True:
        try:
            judgement = await _watched(api, resource, namespace, selection, judge)
            if judgement is not None:
                return judgement
        except _PASSING:
            pass
        # Also after a watch that ended as it should: one that ends at once must not keep everybody busy.
        await asyncio.sleep(pause)
        pause = min(_LONGEST_PAUSE, pause * 2)


async def _watched(
    api: KubeApi,
    resource: Resource[T],
    namespace: str,
    selection: Selection,
    judge: Callable[[Mapping[str, T]], R | None],
) -> R | None:
    """None if the watch ended before there was a judgement."""
    page = await api.list(resource, namespace, selection=selection)
    found = {_uid(item): item for item in page.items}
    judgement = judge(found)
    if judgement is not None:
        return judgement
    watch = api.watch(resource, namespace, since=page.resource_version, selection=selection)
    async with closed_after(watch) as batches:
        async for batch in batches:
            for event in batch:
                if event.object is None:
                    continue
                if event.change is Change.DELETED:
                    found.pop(_uid(event.object), None)
                else:
                    found[_uid(event.object)] = event.object
                judgement = judge(found)
                if judgement is not None:
                    return judgement
    return None


def _uid(item: Any) -> str:
    found: str = item.metadata.uid
    return found
