"""What a terminal needs to hear of the cluster: informers over any `KubeApi`, and what is kept of each object."""

import random
from collections.abc import Callable
from typing import Any

from ullage.clock import Clock
from ullage.kube.api import KubeApi
from ullage.kube.gpu_read import read_inventory
from ullage.kube.objects.pod import Pod as KubePod
from ullage.kube.read import read_node, read_pod
from ullage.kube.resources import EVENTS, GPU_NODE_STATUSES, NODE_PROVISIONERS, NODES, PODS
from ullage.model.event import Appeared, Event
from ullage.sim.demo.picture import SeenPod, Sights
from ullage.sim.demo.programme import Told
from ullage.watch.announced import Announced, bare, read_announced
from ullage.watch.informer import Informer, Interest, run_all, wait_all_synced


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
        self._informers = (
            nodes,
            inventories,
            pods,
            provisioners,
            informer(Interest(EVENTS, read_announced), self._hear),
        )
        self.sights = Sights(
            nodes=nodes.facts, inventories=inventories.facts, pods=pods.facts, provisioners=provisioners.facts
        )

    async def run(self) -> None:
        """Until cancelled."""
        await run_all(*self._informers)

    async def wait_heard(self) -> None:
        """Until there is something to show."""
        await wait_all_synced(*self._informers)

    def _hear(self, event: Event[Announced | None]) -> None:
        """Decisions are announced as Events; what is announced again is only counted there."""
        if isinstance(event, Appeared) and event.new is not None and not event.new.of_nodes:
            self._on_told(_told(event.new, self._clock.now() - self._began))


def _told(decision: Announced, at: float) -> Told:
    return Told(
        at=at,
        who=decision.by,
        word=decision.reason,
        about=decision.about.name,
        text=bare(decision.note, str(decision.about)),
        warning=decision.warning,
    )


def seen_pod(raw: KubePod) -> SeenPod:
    said = next((one for one in raw.status.conditions if one.type == "PodScheduled" and one.status == "False"), None)
    facts = read_pod(raw)
    return SeenPod(facts) if said is None else SeenPod(facts, said.reason, said.message)


def _as_it_is(raw: Any) -> Any:
    return raw


def _unheard(_: Event[Any]) -> None:
    return None
