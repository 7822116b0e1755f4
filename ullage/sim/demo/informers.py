"""Informers for the terminal view, over any `KubeApi`, and the part of each object that is kept."""

import random
from collections.abc import Callable
from typing import Any

from ullage.clock import Clock
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import EVENTS, GPU_NODE_STATUSES, NODE_PROVISIONERS, NODES, PODS
from ullage.kube.objects.pod import KubePod
from ullage.kube.read import read_node, read_pod
from ullage.kube.read.gpu import read_inventory
from ullage.model.fact_event import Added, FactEvent
from ullage.sim.demo.captions import Caption
from ullage.sim.demo.terminal_model import SeenPod, TerminalModel
from ullage.watch.announced_events import AnnouncedEvent, bare, read_announced
from ullage.watch.informer import Informer, InformerSpec, run_all, wait_all_synced


class TerminalInformers:
    """Keeps `sights` up to date and passes on decisions. `run` until cancelled."""

    def __init__(
        self, api: KubeApi, clock: Clock, on_caption: Callable[[Caption], None], *, seed: int, began: float
    ) -> None:
        """`began` is the clock's time at the beginning."""
        self._clock = clock
        self._began = began
        self._on_caption = on_caption
        rng = random.Random(seed)

        def informer(
            interest: InformerSpec[Any, Any], listener: Callable[[FactEvent[Any]], None] = _unheard
        ) -> Informer[Any, Any]:
            return Informer(api, interest, listener, rng=rng, clock=clock)

        nodes, inventories = (
            informer(InformerSpec(NODES, read_node)),
            informer(InformerSpec(GPU_NODE_STATUSES, read_inventory)),
        )
        pods = informer(InformerSpec(PODS, seen_pod))
        provisioners = informer(InformerSpec(NODE_PROVISIONERS, _as_it_is))
        self._informers = (
            nodes,
            inventories,
            pods,
            provisioners,
            informer(InformerSpec(EVENTS, read_announced), self._observe),
        )
        self.terminal = TerminalModel(
            nodes=nodes.facts, inventories=inventories.facts, pods=pods.facts, provisioners=provisioners.facts
        )

    async def run(self) -> None:
        """Run until cancelled."""
        await run_all(*self._informers)

    async def wait_synced(self) -> None:
        """Wait until the cluster has been read once."""
        await wait_all_synced(*self._informers)

    def _observe(self, event: FactEvent[AnnouncedEvent | None]) -> None:
        """Pass on a decision. Decisions are announced as Events; a repeated one only has its count raised."""
        if isinstance(event, Added) and event.new is not None and not event.new.of_nodes:
            self._on_caption(_caption(event.new, self._clock.now() - self._began))


def _caption(decision: AnnouncedEvent, at: float) -> Caption:
    return Caption(
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


def _unheard(_: FactEvent[Any]) -> None:
    return None
