"""Leader election by a Lease, with the fields and rules of client-go: both can share one.

Another candidate's Lease has expired when its record has not changed for its duration *on our clock*; the times in it
are for people to read. Every write is conditional on the resourceVersion, so of two candidates that take over at once
only one succeeds.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ullage.clock import Clock
from ullage.control.leader.leadership import ElectionTiming, Leadership
from ullage.errors import AlreadyExists, ApiError, Conflict, LeadershipLost, NotFound
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import LEASES
from ullage.kube.timestamps import write_micro_time

_LEASES = LEASES.whole()
_RELEASE_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class ElectionLease:
    """The Lease, and our identity: `identity` must differ each time a process starts."""

    namespace: str
    name: str
    identity: str


@dataclass(frozen=True, slots=True)
class _Sighting:
    """Record of another candidate, and the time of its first observation."""

    spec: JsonObject
    at: float


@dataclass(frozen=True, slots=True)
class ElectionState:
    """Reason why a candidate does not lead."""

    leader: str = ""
    """Identity of the leader; empty if unknown."""
    trouble: str = ""
    """Problem that keeps the candidate from standing for election; empty if there is none."""


class LeaderElector:
    """One candidate. Its API client must be its own: not queued behind other calls, not guarded by its own term."""

    def __init__(
        self,
        api: KubeApi,
        lease: ElectionLease,
        *,
        clock: Clock,
        rng: random.Random,
        timing: ElectionTiming = ElectionTiming(),  # noqa: B008 - frozen
        on_wait: Callable[[ElectionState], None] = lambda _: None,
    ) -> None:
        """`on_wait` gets the reason why it does not lead, each time that changes."""
        self._api = api
        self._name = lease
        self._clock = clock
        self._rng = rng
        self._timing = timing
        self._on_wait = on_wait
        self._said = ElectionState()
        self._seen: _Sighting | None = None
        self._lease: JsonObject | None = None
        self.trouble: ApiError | TimeoutError | None = None
        """Error of the last attempt; None if the server answered."""

    async def acquire(self) -> Leadership:
        """Try until the lease is ours."""
        while True:
            try:
                async with asyncio.timeout(self._timing.renew_deadline):
                    leadership = await self._try_acquire()
                self.trouble = None
            except (ApiError, TimeoutError) as error:
                self.trouble, leadership = error, None
            if leadership is not None:
                self._said = ElectionState()
                return leadership
            self._say()
            await asyncio.sleep(self._timing.retry * self._rng.uniform(1.0, 2.2))

    def _say(self) -> None:
        """Report why this candidate does not lead, unless that was the last report."""
        if self.trouble is not None:
            state = ElectionState(trouble=str(self.trouble) or "no answer")
        else:
            state = ElectionState(leader="" if self._seen is None else self._seen.spec.get("holderIdentity") or "")
        if state != self._said:
            self._said = state
            self._on_wait(state)

    async def keep(self, leadership: Leadership) -> None:
        """Renew every `retry` seconds. Returns when another candidate has the Lease, or a renewal was too late."""
        while (left := self._time_to_renew(leadership)) > 0:
            await asyncio.sleep(min(self._timing.retry, left))
            try:
                async with asyncio.timeout(self._time_to_renew(leadership)):
                    await self._renew(leadership)
                self.trouble = None
            except LeadershipLost:
                return
            except (ApiError, TimeoutError) as error:
                self.trouble = error

    async def release(self, leadership: Leadership) -> None:
        """Empty the lease, unless a write of this term may still take effect."""
        try:
            async with asyncio.timeout(max(0.0, leadership.valid_until - self._clock.steady())):
                if await leadership.settled(within=self._timing.duration):
                    await self._empty()
        except (ApiError, TimeoutError) as error:
            self.trouble = error

    async def close(self) -> None:
        """Close the connection. Idempotent."""
        await self._api.close()

    async def _try_acquire(self) -> Leadership | None:
        try:
            lease = await self._read()
        except NotFound:
            # Deleted under a leader, it would be ours while the leader still acts on it: wait as if it were there.
            return await self._create() if self._is_free() else None
        spec = lease.get("spec", {})
        mine = spec.get("holderIdentity") == self._name.identity
        if not self._is_free():
            return None
        term = int(spec.get("leaseTransitions") or 0) + (not mine)
        record = self._record(term) | ({"acquireTime": spec.get("acquireTime")} if mine else {})
        return await self._write(lease, record, term)

    async def _create(self) -> Leadership | None:
        sent = self._clock.steady()
        term = 0 if self._seen is None else int(self._seen.spec.get("leaseTransitions") or 0) + 1
        meta = {"namespace": self._name.namespace, "name": self._name.name}
        try:
            self._note(await self._api.create(_LEASES, {"metadata": meta, "spec": self._record(term)}))
        except AlreadyExists:
            return None
        return self._elected(term, sent)

    async def _write(self, lease: JsonObject, record: JsonObject, term: int) -> Leadership | None:
        sent = self._clock.steady()
        try:
            self._note(await self._api.replace(_LEASES, lease | {"spec": lease.get("spec", {}) | record}))
        except (Conflict, NotFound):
            return None
        return self._elected(term, sent)

    def _elected(self, term: int, sent: float) -> Leadership:
        leadership = Leadership(self._name.identity, term, self._clock, self._timing.margin)
        leadership.extend(sent + self._timing.duration)
        return leadership

    async def _renew(self, leadership: Leadership) -> None:
        """Write without a read: unless another candidate wrote, the Lease is unchanged. Raises LeadershipLost."""
        try:
            try:
                await self._renew_as_known(leadership)
            except Conflict:
                await self._read()
                await self._renew_as_known(leadership)
        except NotFound as error:
            raise LeadershipLost("the lease was deleted") from error

    async def _renew_as_known(self, leadership: Leadership) -> None:
        lease = self._lease or await self._read()
        spec = lease.get("spec", {})
        if spec.get("holderIdentity") != self._name.identity:
            raise LeadershipLost(f"the lease is held by {spec.get('holderIdentity')!r}")
        sent = self._clock.steady()
        record = self._record(leadership.term) | {"acquireTime": spec.get("acquireTime")}
        self._note(await self._api.replace(_LEASES, lease | {"spec": spec | record}))
        leadership.extend(sent + self._timing.duration)

    async def _empty(self) -> None:
        for _ in range(_RELEASE_ATTEMPTS):
            lease = await self._read()
            spec = lease.get("spec", {})
            if spec.get("holderIdentity") != self._name.identity:
                return
            empty = spec | self._record(int(spec.get("leaseTransitions") or 0)) | {"leaseDurationSeconds": 1}
            del empty["holderIdentity"]  # nobody: as client-go writes it
            try:
                await self._api.replace(_LEASES, lease | {"spec": empty})
            except Conflict:
                continue
            return

    async def _read(self) -> JsonObject:
        return self._note(await self._api.get(_LEASES, self._name.name, self._name.namespace))

    def _note(self, lease: JsonObject) -> JsonObject:
        """Remember the lease, and since when its record stands as it does."""
        spec = lease.get("spec", {})
        if self._seen is None or self._seen.spec != spec:
            self._seen = _Sighting(spec, self._clock.steady())
        self._lease = lease
        return lease

    def _is_free(self) -> bool:
        """True if no other candidate holds the Lease, as far as our own clock can tell."""
        if self._seen is None or self._seen.spec.get("holderIdentity") in (None, "", self._name.identity):
            return True
        duration: float = self._seen.spec.get("leaseDurationSeconds") or self._timing.duration
        return self._clock.steady() >= self._seen.at + duration

    def _time_to_renew(self, leadership: Leadership) -> float:
        renewed = leadership.valid_until - self._timing.duration
        return max(0.0, renewed + self._timing.renew_deadline - self._clock.steady())

    def _record(self, term: int) -> dict[str, Any]:
        now = write_micro_time(self._clock.now())
        return {
            "holderIdentity": self._name.identity,
            "leaseDurationSeconds": self._timing.duration,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": term,
        }
