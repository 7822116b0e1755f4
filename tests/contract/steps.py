"""Steps many contract tests begin with: a kind made served, a pod brought to run, a watch read to a point."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from typing import Any, TypeVar, cast

from tests.contract.expect import eventually
from tests.contract.kinds import BUDGET, CRD, GADGET, GADGET_CRD, NODE, POD, WIDGET, WIDGET_CRD
from ullage.errors import AlreadyExists, NotFound, TooManyRequests
from ullage.kube.client.api import (
    EVERYTHING,
    Binding,
    KubeApi,
    ListSelector,
    MergePatch,
    Page,
    WatchEvent,
    WatchEventType,
)
from ullage.kube.client.resource import JsonObject, Resource
from ullage.testing.builders import Strings, a_node, a_pod

T = TypeVar("T")


def version(thing: JsonObject) -> str:
    """An object's resourceVersion."""
    return str(thing["metadata"]["resourceVersion"])


def uid(thing: JsonObject) -> str:
    """An object's identity."""
    return str(thing["metadata"]["uid"])


def names(page: Page[JsonObject]) -> list[str]:
    """The names of what was listed, in the order it was listed."""
    return [item["metadata"]["name"] for item in page.items]


def condition(thing: JsonObject, kind: str) -> JsonObject:
    """The condition of this type, without the times; empty where there is none."""
    found = [one for one in thing.get("status", {}).get("conditions", ()) if one["type"] == kind]
    return {key: value for one in found for key, value in one.items() if not key.startswith("last")}


async def widgets_served(api: KubeApi) -> None:
    """Make the namespaced custom kind known, if it is not."""
    await _make_served(api, WIDGET, WIDGET_CRD)


async def gadgets_served(api: KubeApi) -> None:
    """Make the cluster-scoped custom kind known, if it is not."""
    await _make_served(api, GADGET, GADGET_CRD)


async def _make_served(api: KubeApi, resource: Resource[Any], crd: JsonObject) -> None:
    if await is_served(api, resource):
        return
    with suppress(AlreadyExists):
        await api.create(CRD, crd)
    await eventually(lambda: is_served(api, resource), until=bool)


async def is_served(api: KubeApi, resource: Resource[Any]) -> bool:
    """Whether the server answers a list of it."""
    try:
        await api.list(resource)
    except (NotFound, TooManyRequests):
        return False
    return True


async def node_of(api: KubeApi, namespace: str) -> str:
    """Name of a Node for pods of that namespace. kube-controller-manager deletes pods whose Node is not there."""
    name = f"{namespace}-node"
    with suppress(AlreadyExists):
        await api.create(NODE, a_node(name))
    return name


async def bound_pod(api: KubeApi, namespace: str, pod: JsonObject) -> None:
    """That pod, on a Node that is there."""
    await api.create(POD, pod, namespace)
    await api.bind(pod["metadata"]["name"], namespace, Binding(await node_of(api, namespace)))


async def running_pod(
    api: KubeApi, namespace: str, name: str, *, labels: Strings | None = None, ready: bool = True
) -> JsonObject:
    """A pod bound to a node, of which a kubelet has said that it runs."""
    await bound_pod(api, namespace, a_pod(name, labels=labels))
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"phase": "Running", "conditions": conditions}
    return await api.patch(POD, name, MergePatch({"status": status}), namespace, subresource="status")


async def judge_budget(api: KubeApi, namespace: str, name: str, **status: int) -> JsonObject:
    """Say of a budget what its controller would: `disruptionsAllowed`, `currentHealthy`, `desiredHealthy`."""
    seen = {"observedGeneration": 1, "expectedPods": 2} | status
    return await api.patch(BUDGET, name, MergePatch({"status": seen}), namespace, subresource="status")


async def read_watch(
    api: KubeApi,
    resource: Resource[JsonObject],
    namespace: str,
    since: str,
    *,
    count: int,
    selection: ListSelector = EVERYTHING,
) -> list[WatchEvent[JsonObject]]:
    """The first `count` changes after `since`, bookmarks left out."""
    seen: list[WatchEvent[JsonObject]] = []
    async with ended(api.watch(resource, namespace, since=since, selection=selection, seconds=20)) as stream:
        async for batch in stream:
            seen += [event for event in batch if event.change is not WatchEventType.BOOKMARK]
            if len(seen) >= count:
                break
    return seen


def ended(stream: AsyncIterator[T]) -> AbstractAsyncContextManager[AsyncIterator[T]]:
    """A stream that is let go of at the end of the block, not when the garbage collector comes by."""
    return aclosing(cast(AsyncGenerator[T, None], stream))


def told(events: Sequence[WatchEvent[JsonObject]]) -> list[tuple[WatchEventType, str]]:
    """What a watch said, in short: change and name."""
    return [(event.change, event.object["metadata"]["name"]) for event in events if event.object is not None]
