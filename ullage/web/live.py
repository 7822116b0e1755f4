"""The dashboard of a running cluster: a picture kept up by informers, and served by a thread of its own.

For a real cluster and for a simulated one: whatever speaks `KubeApi` can be followed.
"""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from ullage.clock import Clock
from ullage.control.lease_sweeper import gpu_leases
from ullage.errors import ApiError
from ullage.kube.api import KubeApi
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.kube.resources import EVENTS, NODE_PROVISIONERS, NODES, PODS
from ullage.model.event import Appeared, Changed, Event, ObjectKey, Vanished
from ullage.observe.events import Announcement
from ullage.observe.serve import Address
from ullage.watch.informer import Informer, Interest, run_all, wait_all_synced
from ullage.watch.picture import SOURCES, is_served, sources_served
from ullage.web.serve.access import check_may_listen
from ullage.web.serve.thread import Door, ServerThread
from ullage.web.view.decisions import read_decision
from ullage.web.view.explained import as_json, explained
from ullage.web.view.patch import Patch
from ullage.web.view.picture import Picture
from ullage.web.view.pools import read_pool
from ullage.web.view.rows import About

LOOK_AGAIN_SECONDS = 60.0
"""How often to look whether a kind that was missing at the start is served by now."""


class LiveView:
    """A picture with a clock. All methods are for the loop it was made in."""

    def __init__(self, clock: Clock, *, title: str = "", speed: float = 1.0, policy: str = "fragmentation") -> None:
        """`speed` is how many of the clock's seconds pass in one of the world's: countdowns go on between patches."""
        self.picture = Picture(policy)
        self.trouble: Callable[[], str] = lambda: ""
        """Says why what is shown may be old."""
        self.clock = clock
        self._title = title
        self._speed = speed
        self._caption = ""
        self._heard = False
        self._stirred = True

    @property
    def stirred(self) -> bool:
        """Whether anything was heard since the last patch. The one thing that may be asked from any thread."""
        return self._stirred

    @property
    def caption(self) -> str:
        """What is to be seen now, in a sentence; shown above the map."""
        return self._caption

    @caption.setter
    def caption(self, text: str) -> None:
        self._stirred = self._stirred or text != self._caption
        self._caption = text

    def hear(self, event: Event[Any]) -> None:
        """One thing an informer heard. NodeProvisioners and Events may come as they are on the wire."""
        self.picture.hear(_readable(event))
        self._stirred = True

    def all_heard(self) -> None:
        """The whole cluster has been read once: what is not shown is not there."""
        self._heard = self._stirred = True

    def tell(self, announcement: Announcement) -> None:
        """A decision told in this process."""
        self.picture.decisions.tell(announcement, at=self.clock.now())
        self._stirred = True

    def patch(self) -> Patch:
        """What changed since the last one."""
        self._stirred = False
        about = About(
            title=self._title, caption=self._caption, speed=self._speed, heard=self._heard, trouble=self.trouble()
        )
        return self.picture.patch(about, now=self.clock.now())

    def explain(self, key: ObjectKey) -> bytes | None:
        """What every node says to a pod, as JSON; None where there is no such pod."""
        said = explained(self.picture, key, now=self.clock.now())
        return None if said is None else as_json(said)


def _readable(event: Event[Any]) -> Event[Any]:
    """The same event with a pool for a NodeProvisioner, where somebody else's informer delivers it as it is."""
    match event:
        case Appeared(key=key, new=NodeProvisioner() as new):
            return Appeared(key, read_pool(new))
        case Changed(key=key, old=NodeProvisioner() as old, new=NodeProvisioner() as new):
            return Changed(key, read_pool(old), read_pool(new))
        case Vanished(key=key, old=NodeProvisioner() as old):
            return Vanished(key, read_pool(old))
        case _:
            return event


@asynccontextmanager
async def served(view: LiveView, address: Address, token: str = "") -> AsyncIterator[str]:
    """Serve the view during the block, in a thread of its own; gives its URL. Enter it in the view's own loop.

    Raises UserError where other machines could look and there is no token, and OSError if the address is taken.
    """
    check_may_listen(address.host, token)
    thread = ServerThread(view, Door(address, token, life=secrets.token_hex(4)))
    try:
        taken = await thread.start()
        yield f"http://{taken}/"
    finally:
        await thread.stop()


async def follow_cluster(api: KubeApi, view: LiveView, *, seed: int, lease_namespace: str = "ullage-system") -> None:
    """Informers that keep the view equal to the cluster, until cancelled. Nothing is ever written."""
    following = _Following(api, view, random.Random(seed))
    view.trouble = following.trouble
    informers = [following.informer(one) for one in (*await _kinds_served(api), gpu_leases(lease_namespace))]
    # Who may not read everything sees what they may read; the page says what is missing.
    needed = [one for one in informers if one.source in (NODES.id, PODS.id)]
    async with asyncio.TaskGroup() as group:
        group.create_task(run_all(*informers), name="informers")
        group.create_task(following.look_for_others(group.create_task), name="kinds that come later")
        await wait_all_synced(*needed)
        view.all_heard()


_EXTRAS: tuple[Interest[Any, Any], ...] = (Interest(NODE_PROVISIONERS, read_pool), Interest(EVENTS, read_decision))


async def _kinds_served(api: KubeApi) -> list[Interest[Any, Any]]:
    served = await api.discover()
    extras = [one for one in _EXTRAS if one.resource in served or await is_served(api, one.resource)]
    return [*await sources_served(api), *extras]


class _Following:
    """Makes informers, and knows what is wrong with them."""

    def __init__(self, api: KubeApi, view: LiveView, rng: random.Random) -> None:
        self._api = api
        self._view = view
        self._rng = rng
        self._informers: dict[str, Informer[Any, Any]] = {}

    def informer(self, interest: Interest[Any, Any]) -> Informer[Any, Any]:
        made = Informer(self._api, interest, self._view.hear, rng=self._rng, clock=self._view.clock)
        self._informers[made.source] = made
        return made

    def trouble(self) -> str:
        """What the first of them that cannot listen complains about."""
        for source, informer in sorted(self._informers.items()):
            if (error := informer.health.trouble) is not None:
                return f"{source}: {error.message}"
        return ""

    async def look_for_others(self, spawn: Callable[..., Any]) -> None:
        """Kinds that were not served at the start may be installed while we run."""
        wanted = {one.resource.id for one in (*SOURCES, *_EXTRAS)}
        while not wanted <= self._informers.keys():
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            with suppress(ApiError):
                for interest in await _kinds_served(self._api):
                    if interest.resource.id not in self._informers:
                        spawn(self.informer(interest).run(), name=interest.resource.id)
