"""Everybody who looks at a world and takes no part in it: books, decisions, score sheet, stories, checks."""

import asyncio
from collections import deque

from ullage.clock import Clock
from ullage.cloud.api import CreateRequest
from ullage.cloud.simulated import SimulatedCloud
from ullage.kube.resource import JsonObject
from ullage.kube.resources import EVENTS
from ullage.model.instance import Instance
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.store import Change
from ullage.sim.world.books import Books
from ullage.sim.world.decisions import EVENTS_SHELF, Decisions
from ullage.sim.world.hand import Hand
from ullage.sim.world.invariants.checking import Checking
from ullage.sim.world.loops import OURS
from ullage.sim.world.scoring import Scorer
from ullage.sim.world.stories import Stories


class Observers:
    """There from the first moment on; what is counted and judged begins with `begin`."""

    def __init__(self, server: SimulatedApiServer, clock: Clock, cloud: SimulatedCloud, *, checks: bool) -> None:
        self.books = Books(server, clock)
        self.decisions = Decisions(server, clock)
        self.scorer = Scorer(self.books, self.decisions)
        self.stories = Stories(self.books)
        self.checking = Checking(self.books, server, OURS) if checks else None
        cloud.on_made, cloud.on_gone = self._made, self._gone

    def begin(self, now: float) -> None:
        """The world has been made."""
        self.scorer.begin(now)
        self.stories.began = now
        if self.checking is not None:
            self.checking.arm()

    def _made(self, machine: Instance, request: CreateRequest) -> None:
        self.scorer.made(machine, request)
        if self.checking is not None:
            self.checking.pools.made(machine)

    def _gone(self, machine: str) -> None:
        self.scorer.gone(machine)
        if self.checking is not None:
            self.checking.pools.gone(machine)


class Forgetting:
    """Kubernetes Events are gone after a while, as with kube-apiserver; looked at only when there are new ones."""

    def __init__(self, server: SimulatedApiServer, clock: Clock, hand: Hand, seconds: float) -> None:
        self._clock = clock
        self._hand = hand
        self._seconds = seconds
        self._written: deque[tuple[float, str, str]] = deque()
        self._latest: dict[tuple[str, str], float] = {}
        server.listen(EVENTS_SHELF, self._changed)

    def _changed(self, change: Change) -> None:
        meta, now = change.after.obj["metadata"], self._clock.now()
        key = (meta["namespace"], meta["name"])
        if change.deleted:
            self._latest.pop(key, None)
            return
        self._latest[key] = now
        self._written.append((now, *key))
        if self._written[0][0] + self._seconds < now:
            # Nothing is written while the store tells of a change.
            asyncio.get_running_loop().call_soon(self._forget)

    def _forget(self) -> None:
        limit = self._clock.now() - self._seconds
        while self._written and self._written[0][0] < limit:
            at, namespace, name = self._written.popleft()
            if self._latest.get((namespace, name)) == at:
                self._hand.delete(_event(namespace, name))


def _event(namespace: str, name: str) -> JsonObject:
    return {"apiVersion": EVENTS.api_version, "kind": EVENTS.kind, "metadata": {"namespace": namespace, "name": name}}
