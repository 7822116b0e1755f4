"""Informers that feed a HistoryRecorder from a cluster. Reads only."""

import random
from typing import Any

from ullage.clock import Clock
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import JsonObject, Resource
from ullage.model.fact_event import Deleted, FactEvent, Synced
from ullage.sim.recording.history import HistoryRecorder
from ullage.sim.recording.objects import RECORDED
from ullage.watch.informer import Informer, InformerSpec, run_all


async def follow(api: KubeApi, history: HistoryRecorder, clock: Clock, began: float) -> None:
    """Follow all recorded kinds that the cluster serves, until cancelled. Times count from `began` of the clock."""
    served = await api.discover()
    rng = random.Random(0)

    def informer(resource: Resource[Any]) -> Informer[JsonObject, JsonObject]:
        def deliver(event: FactEvent[JsonObject]) -> None:
            at = clock.steady() - began
            if isinstance(event, Deleted):
                history.remove(resource, event.old, at)
            elif not isinstance(event, Synced):
                history.observe(resource, event.new, at)

        return Informer(api, InformerSpec(resource.whole(), _as_it_is), deliver, rng=rng, clock=clock)

    await run_all(*(informer(one) for one in RECORDED if one in served))


def _as_it_is(manifest: JsonObject) -> JsonObject:
    return manifest
