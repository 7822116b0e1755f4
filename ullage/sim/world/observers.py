"""Observers of a world, which take no part in it: object mirror, decisions, score sheet, history, invariant checks."""

import asyncio
from collections import deque

from ullage.clock import Clock
from ullage.cloud.api import CreateRequest
from ullage.cloud.simulated import SimulatedCloud
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import EVENTS
from ullage.model.instance import Instance
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.fleet.prices import PriceList
from ullage.sim.world.admin_client import AdminClient
from ullage.sim.world.decisions import EVENTS_SHELF, DecisionLog
from ullage.sim.world.invariants.checking import InvariantChecker
from ullage.sim.world.object_history import ObjectHistory
from ullage.sim.world.object_mirror import ObjectMirror
from ullage.sim.world.processes import OURS
from ullage.sim.world.scorer import Scorer


class Observers:
    """All observers. They listen from the start; scores and checks begin with `begin`."""

    def __init__(
        self, server: SimulatedApiServer, clock: Clock, cloud: SimulatedCloud, prices: PriceList, *, checks: bool
    ) -> None:
        self.mirror = ObjectMirror(server, clock)
        self.decisions = DecisionLog(server, clock)
        self.scorer = Scorer(self.mirror, self.decisions, prices)
        self.stories = ObjectHistory(self.mirror)
        self.checking = InvariantChecker(self.mirror, server, OURS) if checks else None
        cloud.on_made, cloud.on_gone, cloud.on_lost = self._made, self._gone, self._lost

    def check_vms(self, agent: str, cooldown: float) -> None:
        """Check the invariants of VMs, too. Before anything is created."""
        if self.checking is not None:
            self.checking.check_vms(agent, cooldown)

    def begin(self, now: float) -> None:
        """Begin scores and checks, after the world has been built."""
        self.scorer.begin(now)
        self.stories.began = now
        if self.checking is not None:
            self.checking.arm()

    def _made(self, machine: Instance, request: CreateRequest) -> None:
        self.scorer.made(machine, request)
        if self.checking is not None:
            self.checking.made(machine)

    def _gone(self, machine: str) -> None:
        self.scorer.gone(machine)
        if self.checking is not None:
            self.checking.pools.gone(machine)

    def _lost(self, machine: str) -> None:
        self.scorer.gone(machine)
        if self.checking is not None:
            self.checking.pools.lost(machine)


class EventExpiry:
    """Deletes Kubernetes Events after their lifetime, as kube-apiserver does. Runs only when new Events are written."""

    def __init__(self, server: SimulatedApiServer, clock: Clock, hand: AdminClient, seconds: float) -> None:
        self._clock = clock
        self._hand = hand
        self._seconds = seconds
        self._written: deque[tuple[float, str, str]] = deque()
        self._latest: dict[tuple[str, str], float] = {}
        server.listen(EVENTS_SHELF, self._changed)

    def _changed(self, change: StoredChange) -> None:
        meta, now = change.after.obj["metadata"], self._clock.now()
        key = (meta["namespace"], meta["name"])
        if change.deleted:
            self._latest.pop(key, None)
            return
        self._latest[key] = now
        self._written.append((now, *key))
        if self._written[0][0] + self._seconds < now:
            # Listeners of the store must not write: the write follows in the next iteration of the loop.
            asyncio.get_running_loop().call_soon(self._forget)

    def _forget(self) -> None:
        limit = self._clock.now() - self._seconds
        while self._written and self._written[0][0] < limit:
            at, namespace, name = self._written.popleft()
            if self._latest.get((namespace, name)) == at:
                self._hand.delete(_event(namespace, name))


def _event(namespace: str, name: str) -> JsonObject:
    return {"apiVersion": EVENTS.api_version, "kind": EVENTS.kind, "metadata": {"namespace": namespace, "name": name}}
