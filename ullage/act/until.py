"""Waits until one object is as it should be: looks once, then hears of every change. Never asks on a timer."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

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
    pause = _FIRST_PAUSE
    while True:
        try:
            judgement = await _watched(api, resource, key, judge)
            if judgement is not None:
                return judgement
        except _PASSING:
            pass
        # Also after a watch that ended as it should: one that ends at once must not keep everybody busy.
        await asyncio.sleep(pause)
        pause = min(_LONGEST_PAUSE, pause * 2)


async def _watched(
    api: KubeApi, resource: Resource[T], key: ObjectKey, judge: Callable[[T | None], R | None]
) -> R | None:
    """None if the watch ended before there was a judgement."""
    this_one = Selection(fields=f"metadata.name={key.name}")
    page = await api.list(resource, key.namespace, selection=this_one)
    judgement = judge(page.items[0] if page.items else None)
    if judgement is not None:
        return judgement
    watch = api.watch(resource, key.namespace, since=page.resource_version, selection=this_one)
    async with closed_after(watch) as batches:
        async for batch in batches:
            for event in batch:
                if event.change is Change.BOOKMARK:
                    continue
                judgement = judge(None if event.change is Change.DELETED else event.object)
                if judgement is not None:
                    return judgement
    return None
