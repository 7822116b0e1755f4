"""Plays a workload on a world: creates arrivals, deletes finished ones, and deletes those whose time has come."""

import asyncio
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ullage.errors import ApiError, UserError
from ullage.kube.client.resources import PODS
from ullage.model.fact_event import ObjectKey
from ullage.sim.kubelet.timings import DURATION
from ullage.sim.world.admin_client import resource_of
from ullage.sim.world.object_mirror import ObjectChange
from ullage.sim.world.spec import Arrival
from ullage.sim.world.stored_objects import StoredPod
from ullage.sim.world.world import World

PATIENCE_SECONDS = 86_400.0
"""Seconds without any change, after the last arrival, from which pending pods are given up."""


@dataclass(frozen=True, slots=True)
class PlayProgress:
    """Progress of a run."""

    elapsed: float
    """Simulated seconds."""
    arrived: int
    expected: int
    """Number of arrivals in all."""
    placed: int
    waiting: int
    """Pending pods."""
    over: int
    """Arrivals that have left or finished."""


@dataclass(slots=True)
class _Open:
    """An arrival whose objects exist."""

    arrival: Arrival
    running: set[ObjectKey]
    """Its pods that have not ended."""


class WorkloadPlayer:
    """Plays arrivals in the order of their times. Deletes those that are over."""

    def __init__(self, world: World, arrivals: Iterable[Arrival], on_progress: Callable[[PlayProgress], None]) -> None:
        self._world = world
        self._coming = sorted(arrivals, key=lambda one: one.at)
        self._on_progress = on_progress
        self._open: dict[int, _Open] = {}
        self._leaving: list[tuple[float, int]] = []
        self._by_pod: dict[ObjectKey, int] = {}
        self._arrived = 0
        self._over = 0
        self._steps = 0
        self._all_over = asyncio.Event()
        world.observers.mirror.pod_listeners.append(self._pod_changed)

    async def play(self, until: float | None) -> bool:
        """Play until everything is over, nothing happens any more, or `until`. True if nothing happened any more.

        Raises UserError for objects the server rejects.
        """
        at_rest = False
        limit = float("inf") if until is None else until
        while (instant := self._next_instant()) is not None and instant <= limit:
            await self._world.sleep_until(instant)
            self._leave_due()
            self._arrive_due()
            self._report()
        if until is not None:
            await self._world.sleep_until(until)
        else:
            at_rest = await self._last()
        self._report()
        return at_rest

    def progress(self) -> PlayProgress:
        sheet = self._world.observers.scorer.sheet
        return PlayProgress(
            elapsed=self._world.elapsed,
            arrived=self._arrived,
            expected=len(self._coming),
            placed=sheet.pods["placed"],
            waiting=sheet.waiting,
            over=self._over,
        )

    def _report(self) -> None:
        self._on_progress(self.progress())

    def _next_instant(self) -> float | None:
        arrives = self._coming[self._arrived].at if self._arrived < len(self._coming) else None
        leaves = self._leaving[0][0] if self._leaving else None
        return min((one for one in (arrives, leaves) if one is not None), default=None)

    def _arrive_due(self) -> None:
        while self._arrived < len(self._coming) and self._coming[self._arrived].at <= self._world.elapsed:
            number, arrival = self._arrived, self._coming[self._arrived]
            self._arrived += 1
            pods = {_key(one) for one in arrival.objects if resource_of(one) is PODS}
            self._open[number] = _Open(arrival, pods)
            if arrival.tidy:
                self._by_pod.update(dict.fromkeys(pods, number))
            try:
                self._world.submit(arrival)
            except ApiError as error:
                raise UserError(f"the simulated cluster refuses what arrives at {arrival.at:g} s: {error}") from error
            scorer = self._world.observers.scorer
            scorer.advance()
            scorer.sheet.arrived()
            if arrival.leaves_at is not None:
                heapq.heappush(self._leaving, (arrival.leaves_at, number))

    def _leave_due(self) -> None:
        while self._leaving and self._leaving[0][0] <= self._world.elapsed:
            self._leave(heapq.heappop(self._leaving)[1])

    def _leave(self, number: int) -> None:
        found = self._open.pop(number, None)
        if found is None:
            return
        for manifest in reversed(found.arrival.objects):
            if resource_of(manifest) is PODS:
                self._by_pod.pop(_key(manifest), None)
            self._world.hand.delete(manifest)
        self._over += 1
        if not self._open and self._arrived == len(self._coming):
            self._all_over.set()

    def _pod_changed(self, step: ObjectChange[StoredPod]) -> None:
        self._steps += 1
        number = self._by_pod.get(step.fact.key)
        if number is None or (step.after is not None and not step.after.over):
            return
        found = self._open.get(number)
        if found is not None:
            if found.arrival.again and _evicted(step):
                if step.after is None:
                    asyncio.get_running_loop().call_soon(self._make_again, number, step.fact.key)
                return
            found.running.discard(step.fact.key)
            if not found.running:
                # Listeners of the store must not write: the write follows in the next iteration of the loop.
                asyncio.get_running_loop().call_soon(self._leave, number)

    def _make_again(self, number: int, pod: ObjectKey) -> None:
        found = self._open.get(number)
        if found is not None:  # else it has left meanwhile
            manifest = next(one for one in found.arrival.objects if resource_of(one) is PODS and _key(one) == pod)
            self._world.hand.create(manifest)

    async def _last(self) -> bool:
        """Wait for the remaining arrivals after the last one, as long as anything still changes or will end.

        True if some are left that nothing will ever happen to.
        """
        patience = PATIENCE_SECONDS
        while self._open and not self._all_over.is_set():
            steps = self._steps
            try:
                async with asyncio.timeout(patience):
                    await self._all_over.wait()
            except TimeoutError:
                self._report()
                if steps != self._steps:
                    patience = PATIENCE_SECONDS
                elif any(map(self._will_end, self._open.values())):
                    patience *= 2  # pods that work for years are not looked at every day
                else:
                    return True
        return False

    def _will_end(self, open_: _Open) -> bool:
        """True if one of its pods is on a node and has a finite run time."""
        pods = self._world.observers.mirror.pods
        finite = {_key(one) for one in open_.arrival.objects if DURATION in (one["metadata"].get("annotations") or {})}
        return any((pod := pods.get(key)) is not None and pod.holds for key in finite & open_.running)


def _evicted(step: ObjectChange[StoredPod]) -> bool:
    """True if a pod that has ended or is gone was disrupted before its work was done."""
    last = step.after or step.before
    return last is not None and bool(last.disrupted) and last.phase != "Succeeded"


def _key(manifest: dict[str, object]) -> ObjectKey:
    meta = manifest["metadata"]
    if not isinstance(meta, dict):
        raise UserError("a manifest without metadata")
    return ObjectKey(meta.get("namespace", "default"), meta["name"])
