"""What a terminal needs to hear of the cluster: informers over any `KubeApi`, and what is kept of each object."""

import random
from collections.abc import Callable
from typing import Any

from ullage.clock import Clock
from ullage.kube.api import KubeApi
from ullage.kube.gpu_read import read_inventory
from ullage.kube.objects.pod import Pod as KubePod
from ullage.kube.read import read_node, read_pod
from ullage.kube.resource import JsonObject
from ullage.kube.resources import EVENTS, GPU_NODE_STATUSES, NODE_PROVISIONERS, NODES, PODS
from ullage.model.event import Appeared, Event
from ullage.sim.demo.picture import SeenPod, Sights
from ullage.sim.demo.programme import Told
from ullage.watch.informer import Informer, Interest, run_all, wait_all_synced

_OURS = "ullage.dev/"
"""How those who decide sign their Events."""
_TOLD_OF_NODES = ("NodeTainted", "NodeSpared", "NodeRemoved", "NodeNotRemoved")
"""What is told of a node and of its pool is shown once."""


class Watching:
    """Keeps `sights` true, and tells what is decided. `run` until cancelled."""

    def __init__(self, api: KubeApi, clock: Clock, on_told: Callable[[Told], None], *, seed: int, began: float) -> None:
        """`began` is when the clock showed the beginning."""
        self._clock = clock
        self._began = began
        self._on_told = on_told
        rng = random.Random(seed)

        def informer(interest: Interest[Any, Any], hear: Callable[[Event[Any]], None] = _unheard) -> Informer[Any, Any]:
            return Informer(api, interest, hear, rng=rng, clock=clock)

        nodes, inventories = informer(Interest(NODES, read_node)), informer(Interest(GPU_NODE_STATUSES, read_inventory))
        pods = informer(Interest(PODS, seen_pod))
        provisioners = informer(Interest(NODE_PROVISIONERS, _as_it_is))
        self._informers = (nodes, inventories, pods, provisioners, informer(Interest(EVENTS, _as_it_is), self._hear))
        self.sights = Sights(
            nodes=nodes.facts, inventories=inventories.facts, pods=pods.facts, provisioners=provisioners.facts
        )

    async def run(self) -> None:
        """Until cancelled."""
        await run_all(*self._informers)

    async def wait_heard(self) -> None:
        """Until there is something to show."""
        await wait_all_synced(*self._informers)

    def _hear(self, event: Event[JsonObject]) -> None:
        """Decisions are announced as Events; what is announced again is only counted there."""
        if not isinstance(event, Appeared) or not event.new.get("reportingController", "").startswith(_OURS):
            return
        about = (event.new.get("regarding") or {}).get("kind")
        if about != NODE_PROVISIONERS.kind or event.new.get("reason") not in _TOLD_OF_NODES:
            self._on_told(_told(event.new, self._clock.now() - self._began))


def _told(raw: JsonObject, at: float) -> Told:
    about = raw.get("regarding") or {}
    return Told(
        at=at,
        who=raw["reportingController"].removeprefix(_OURS),
        word=raw.get("reason", ""),
        about=about.get("name", ""),
        text=raw.get("note", "").removeprefix(f"Successfully assigned {about.get('namespace')}/{about.get('name')} "),
        warning=raw.get("type") == "Warning",
    )


def seen_pod(raw: KubePod) -> SeenPod:
    said = next((one for one in raw.status.conditions if one.type == "PodScheduled" and one.status == "False"), None)
    facts = read_pod(raw)
    return SeenPod(facts) if said is None else SeenPod(facts, said.reason, said.message)


def _as_it_is(raw: Any) -> Any:
    return raw


def _unheard(_: Event[Any]) -> None:
    return None
