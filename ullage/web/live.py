"""Dashboard of a running cluster: a model kept up to date by informers, served by a thread of its own.

Works for real and simulated clusters: everything with a `KubeApi` can be followed.
"""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import Any

import structlog

from ullage.clock import Clock
from ullage.control.leases.loop import gpu_leases
from ullage.errors import ApiError
from ullage.kube.client.api import KubeApi, ListSelector
from ullage.kube.client.resources import EVENTS, NODE_CLAIMS, NODE_POOLS, NODE_PROVISIONERS, NODES, PODS
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.kube.read.karpenter import read_handover_node, read_node_claim, read_node_pool, read_smart_pod
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.karpenter import COMPONENT_LABEL, REQUEST_LABEL, SMART_SCHEDULER
from ullage.model.lease import LEASE_NAMESPACE
from ullage.observe.events import EventMessage
from ullage.observe.probes import ListenAddress
from ullage.watch.informer import Informer, InformerSpec, run_all, wait_all_synced
from ullage.watch.sources import SOURCES, VM_KINDS, is_served, sources_served
from ullage.web.history.answers import HistoryAnswers
from ullage.web.history.prometheus import PrometheusReader
from ullage.web.history.writer import HistoryWriter
from ullage.web.serve.access import check_may_listen
from ullage.web.serve.background import Background
from ullage.web.serve.controls import Controls
from ullage.web.serve.thread import DashboardListen, Question, ServerThread
from ullage.web.view.answers import answered
from ullage.web.view.cluster_copy import Suggestion, Trial, at_once
from ullage.web.view.decisions import read_decision
from ullage.web.view.explanation import as_json, explained
from ullage.web.view.history import HistorySampler
from ullage.web.view.model import DashboardModel
from ullage.web.view.patch import ViewPatch
from ullage.web.view.pools import read_pool
from ullage.web.view.rows import PageInfo

HISTORY_INTERVAL = 30.0
"""Seconds between two samples of the history, if nothing else is said."""
LOOK_AGAIN_SECONDS = 60.0
"""Seconds between two checks whether a kind that was missing at the start is served now."""

_log = structlog.get_logger("dashboard")


class LiveView:
    """A DashboardModel with a clock. Methods may be called only in the loop the view was made in, except `stirred`."""

    def __init__(
        self,
        clock: Clock,
        *,
        title: str = "",
        speed: float = 1.0,
        policy: str = "fragmentation",
        history: HistoryWriter | None = None,
        history_interval: float = HISTORY_INTERVAL,
    ) -> None:
        """`speed` is the number of the clock's seconds per real second. Countdowns go on between patches."""
        self.history = history
        sampler = None if history is None else HistorySampler(history_interval)
        self.model = DashboardModel(policy, history=sampler, run_trial=self._run_trial)
        self.background: Background | None = None
        """Place of trials while pages are served; without one they run at once."""
        self.trouble: Callable[[], str] = lambda: ""
        """Returns the reason why the view may be out of date; empty if it is not."""
        self.when_read: Callable[[], None] = lambda: None
        """Called when the whole cluster has been read."""
        self.clock = clock
        self._title = title
        self._speed = speed
        self._caption = ""
        self._synced = False
        self._stirred = True

    @property
    def stirred(self) -> bool:
        """True if anything changed since the last patch. May be read from any thread; nothing else may."""
        return self._stirred

    @property
    def caption(self) -> str:
        """Sentence above the map that says where to look."""
        return self._caption

    @caption.setter
    def caption(self, text: str) -> None:
        self._stirred = self._stirred or text != self._caption
        self._caption = text

    @property
    def speed(self) -> float:
        """Seconds of the clock per real second; 0 while time stands still."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._stirred = self._stirred or speed != self._speed
        self._speed = speed

    def observe(self, event: FactEvent[Any]) -> None:
        """Apply one event of an informer. NodeProvisioners and Events may come as the API server returns them."""
        self.model.observe(_readable(event))
        self._stirred = True

    def all_observed(self) -> None:
        """Mark the whole cluster as read once. Objects that are not shown do not exist."""
        self._synced = self._stirred = True
        self.when_read()

    def record(self, announcement: EventMessage) -> None:
        """Add a decision announced in this process."""
        self.model.decisions.record(announcement, at=self.clock.now())
        self._stirred = True

    def patch(self) -> ViewPatch:
        """Rows that changed since the last patch."""
        self._stirred = False
        now = self.clock.now()
        about = PageInfo(
            title=self._title,
            caption=self._caption,
            speed=self._speed,
            synced=self._synced,
            trouble=self.trouble(),
            history="" if self.history is None else self.history.trouble,
            keeps_history=self.history is not None,
        )
        patch = self.model.patch(about, now=now)
        self._stirred = self._stirred or self.model.behind
        if self.history is not None and self.model.history is not None:
            self.history.keep(self.model.history.taken(), now=now, steady=self.clock.steady())
        return patch

    def answer(self, kind: str, key: ObjectKey) -> Question:
        """Question about a claim, gang, quota or pool: answered in JSON, or by None if there is no such object."""
        copy = self.model.copy(now=self.clock.now())
        return lambda: answered(copy, kind, key)

    def explain(self, key: ObjectKey) -> Question:
        """Question what every node says to a pod: answered in JSON, or by None if there is no such pod."""
        copy = self.model.copy(now=self.clock.now())

        def ask() -> bytes | None:
            said = explained(copy, key)
            return None if said is None else as_json(said)

        return ask

    def _run_trial(self, trial: Trial, report: Callable[[Suggestion], None]) -> None:
        """Run a trial in the background, and tell what came of it in the loop that called."""
        if self.background is None:
            at_once(trial, report)
            return
        home = asyncio.get_running_loop()

        def settle(done: "Future[Suggestion]") -> None:
            error = done.exception()
            if error is not None:
                _log.error("no action could be tried", error=repr(error))
            report(("", ()) if error is not None else done.result())
            self._stirred = True

        def hand_over(done: "Future[Suggestion]") -> None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                home.call_soon_threadsafe(settle, done)

        self.background.submit(trial).add_done_callback(hand_over)


def _readable(event: FactEvent[Any]) -> FactEvent[Any]:
    """Same event with a pool in place of a NodeProvisioner, for informers that deliver the API object."""
    match event:
        case Added(key=key, new=NodeProvisioner() as new):
            return Added(key, read_pool(new))
        case Updated(key=key, old=NodeProvisioner() as old, new=NodeProvisioner() as new):
            return Updated(key, read_pool(old), read_pool(new))
        case Deleted(key=key, old=NodeProvisioner() as old):
            return Deleted(key, read_pool(old))
        case _:
            return event


@asynccontextmanager
async def served(
    view: LiveView,
    address: ListenAddress,
    token: str = "",
    *,
    controls: Controls | None = None,
    prometheus: PrometheusReader | None = None,
) -> AsyncIterator[str]:
    """Serve the view during the block, in a thread of its own; gives its URL. Enter it in the view's own loop.

    `controls` are buttons that act, for a demo; `prometheus` is asked for what the view's history does not have.
    Raises UserError if other machines could read it without a token, and OSError if the address is taken.
    """
    check_may_listen(address.host, token)
    past = None if view.history is None else HistoryAnswers(view.history, prometheus)
    background = view.background = Background()
    listen = DashboardListen(address, token, life=secrets.token_hex(4), controls=controls)
    thread = ServerThread(view, listen, background, past)
    try:
        taken = await thread.start()
        yield f"http://{taken}/"
    finally:
        view.background = None
        await thread.stop()


async def follow_cluster(api: KubeApi, view: LiveView, *, seed: int, lease_namespace: str = LEASE_NAMESPACE) -> None:
    """Run informers that keep the view equal to the cluster, until cancelled. Writes nothing."""
    following = _Following(api, view, random.Random(seed))
    view.trouble = following.trouble
    informers = [
        following.informer(one) for one in (*await _kinds_served(api, lease_namespace), gpu_leases(lease_namespace))
    ]
    # Without rights to read all kinds, the page shows the others and says what is missing.
    needed = [one for one in informers if one.source in (NODES.id, PODS.id)]
    async with asyncio.TaskGroup() as group:
        group.create_task(run_all(*informers), name="informers")
        later = following.look_for_others(group.create_task, lease_namespace)
        group.create_task(later, name="kinds that come later")
        await wait_all_synced(*needed)
        view.all_observed()


_EXTRAS: tuple[InformerSpec[Any, Any], ...] = (
    InformerSpec(NODE_PROVISIONERS, read_pool),
    InformerSpec(EVENTS, read_decision),
)
_KARPENTER: tuple[InformerSpec[Any, Any], ...] = (
    InformerSpec(NODE_CLAIMS, read_node_claim),
    InformerSpec(NODE_POOLS, read_node_pool),
    InformerSpec(PODS, read_smart_pod, selection=ListSelector(labels=f"{COMPONENT_LABEL}={SMART_SCHEDULER}")),
    InformerSpec(NODES, read_handover_node, selection=ListSelector(labels=REQUEST_LABEL)),
)
"""Followed where Karpenter's kinds are served."""


async def _kinds_served(api: KubeApi, lease_namespace: str) -> list[InformerSpec[Any, Any]]:
    served = await api.discover()
    extras = [one for one in _EXTRAS if one.resource in served or await is_served(api, one.resource)]
    if NODE_CLAIMS in served or await is_served(api, NODE_CLAIMS):
        extras += _KARPENTER
    return [*await sources_served(api, lease_namespace=lease_namespace), *extras]


def _name(interest: InformerSpec[Any, Any]) -> str:
    """Name of an informer: a kind may be followed twice, whole and selected by a label."""
    selected = interest.selection.labels
    return f"{interest.resource.id} {selected}" if selected else interest.resource.id


class _Following:
    """Makes informers and reports their errors."""

    def __init__(self, api: KubeApi, view: LiveView, rng: random.Random) -> None:
        self._api = api
        self._view = view
        self._rng = rng
        self._informers: dict[str, Informer[Any, Any]] = {}

    def informer(self, interest: InformerSpec[Any, Any]) -> Informer[Any, Any]:
        made = Informer(self._api, interest, self._view.observe, rng=self._rng, clock=self._view.clock)
        self._informers[_name(interest)] = made
        return made

    def trouble(self) -> str:
        """Error of the first informer that cannot watch; empty if all can."""
        for _, informer in sorted(self._informers.items()):
            if (error := informer.health.trouble) is not None:
                return f"{informer.source}: {error.message}"
        return ""

    async def look_for_others(self, spawn: Callable[..., Any], lease_namespace: str) -> None:
        """Start informers for kinds that were not served at the start, once they are installed."""
        wanted = {_name(one) for one in (*SOURCES, *VM_KINDS, *_EXTRAS, *_KARPENTER)}
        while not wanted <= self._informers.keys():
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            with suppress(ApiError):
                for interest in await _kinds_served(self._api, lease_namespace):
                    if _name(interest) not in self._informers:
                        spawn(self.informer(interest).run(), name=_name(interest))
