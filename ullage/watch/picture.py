"""Which resources make the picture of the cluster, read once or followed for as long as a loop runs."""

import random
from collections.abc import Sequence
from typing import Any

from ullage.clock import Clock
from ullage.kube.api import KubeApi
from ullage.kube.read import read_budget, read_node, read_pod
from ullage.kube.resources import BUDGETS, NODES, PODS
from ullage.kube.watching import closed_after
from ullage.model.event import Appeared, ObjectKey, Synced
from ullage.state.cluster import ClusterState
from ullage.watch.informer import Informer, Interest

SOURCES: Sequence[Interest[Any, Any]] = (
    Interest(NODES, read_node),
    Interest(PODS, read_pod),
    Interest(BUDGETS, read_budget),
)


async def read_picture(api: KubeApi) -> ClusterState:
    """The cluster as it is now. Raises the first error there is: this is for people who wait for an answer."""
    state = ClusterState()
    for source in SOURCES:
        pages = api.pages(source.resource, chunk=source.chunk)
        async with closed_after(pages):
            async for page in pages:
                for item in page.items:
                    key = ObjectKey(item.metadata.namespace, item.metadata.name)
                    state.apply(Appeared(key, source.read(item)))
        state.apply(Synced(source.resource.id))
    return state


def follow(api: KubeApi, state: ClusterState, *, rng: random.Random, clock: Clock) -> Sequence[Informer[Any, Any]]:
    """Informers that keep `state` equal to the cluster while they run."""
    return [Informer(api, source, state.apply, rng=rng, clock=clock) for source in SOURCES]
