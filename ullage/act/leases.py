"""GPU Leases: one Lease per device in one namespace, taken all or none, and released only when that is safe.

The holder of a Lease is a pod's uid, not a scheduler: another scheduler may continue with the same pod. So a Lease that
is this pod's already is *adopted by a write*. Its resourceVersion changes, and a process that knows the old one can no
longer release it. A release reads the pod afresh: devices in its bound allocation are never released. The earlier
holder of an adopted Lease may be about to bind the pod, so that bind is fenced first. Shared devices keep their shares
and MIG instances in annotations, changed by compare-and-swap. Nothing is decided here.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from ullage import errors
from ullage.act.fence import fence, look
from ullage.clock import Clock
from ullage.kube.client.api import Deletion, KubeApi
from ullage.kube.client.resources import LEASES
from ullage.kube.objects.policy import Lease
from ullage.kube.read.leases import (
    SHARED_HOLDER,
    kept_from,
    new_lease,
    parts_of,
    read_holder,
    renewed,
    stamps_of,
    with_parts,
)
from ullage.kube.timestamps import write_micro_time
from ullage.model.allocation import Allocation, lease_name
from ullage.model.device import MILLI_GPU
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import BindPod
from ullage.model.lease import HolderPod, LeaseHold
from ullage.model.units import Milli

_UNSETTLED = (errors.Unreachable, errors.ServerFailure, errors.Unreadable)
"""Errors after which a write may or may not have happened."""
_SWAPS = 8


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """Holder of a Lease: a pod, by key and uid."""

    pod: ObjectKey
    uid: str


@dataclass(frozen=True, slots=True)
class HeldLease:
    """Lease as last written for its holder. A later write is an adoption: this record can no longer release it."""

    node: str
    device: int
    resource_version: str
    milli: int = MILLI_GPU
    stamp: int = 0
    """Stamp of shares and MIG instances, checked instead of the resourceVersion; see `STAMPS`."""
    adopted: bool = False
    """The Lease was this pod's before: another process may be about to bind with it."""
    instances: tuple[str, ...] = ()
    """UUIDs of held MIG instances, where instances are held instead of the device."""

    @property
    def whole(self) -> bool:
        return self.milli == MILLI_GPU and not self.instances

    @property
    def name(self) -> str:
        return lease_name(self.node, self.device)


@dataclass(frozen=True, slots=True)
class LeasesAcquired:
    """All requested devices are held."""

    holdings: tuple[HeldLease, ...]


@dataclass(frozen=True, slots=True)
class DeviceTaken:
    """No device is held: this one has another holder, or too little of it is left."""

    device: int
    by: str


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """Request for devices of one node with the share of each, or for MIG instances with their devices."""

    node: str
    devices: tuple[int, ...]
    milli: int = MILLI_GPU
    instances: tuple[str, ...] = ()
    """UUIDs in the order of `devices`, where instances are requested. A device with several is repeated."""

    @classmethod
    def of(cls, action: BindPod) -> "LeaseRequest":
        """Lease request of a bind."""
        return cls(action.node, action.devices, action.milli, action.instances)

    @property
    def leases(self) -> tuple[int, ...]:
        """Devices whose Leases are taken, each once."""
        return tuple(dict.fromkeys(self.devices))

    def parts(self, uid: str, device: int) -> tuple[LeaseHold, ...]:
        """Shares or MIG instances this pod requests of one device. Empty where it requests the whole device."""
        if self.instances:
            named = zip(self.devices, self.instances, strict=True)
            return tuple(LeaseHold(uid, Milli(0), instance) for one, instance in named if one == device)
        return () if self.milli == MILLI_GPU else (LeaseHold(uid, Milli(self.milli)),)


class LeaseClient:
    """Takes and releases Leases through the API. Keeps no state: the Leases on the API server are the state."""

    def __init__(self, api: KubeApi, namespace: str, clock: Clock) -> None:
        self._api = api
        self._namespace = namespace
        self.namespace = namespace
        self._clock = clock

    async def reserve(self, holder: LeaseHolder, want: LeaseRequest) -> LeasesAcquired | DeviceTaken:
        """Take all devices or none. Raises ApiError where the API could not be reached.

        Leases that could not be released after a failure are adopted by this pod's next attempt, or freed by the
        LeaseGarbageCollector.
        """
        if len(want.leases) == 1:  # the usual case: no concurrency, and nothing to release
            one = await self.take(holder, want, want.leases[0])
            return one if isinstance(one, DeviceTaken) else LeasesAcquired((one,))
        taking = (self.take(holder, want, device) for device in want.leases)
        results = await asyncio.gather(*taking, return_exceptions=True)
        held = tuple(result for result in results if isinstance(result, HeldLease))
        if len(held) == len(want.leases):
            return LeasesAcquired(held)
        failures = [result for result in results if isinstance(result, BaseException)]
        try:
            await self.release(holder, held)
        except errors.ApiError as error:
            failures.append(error)
        if failures:
            raise failures[0]
        return next(result for result in results if isinstance(result, DeviceTaken))

    async def take(self, holder: LeaseHolder, want: LeaseRequest, device: int) -> HeldLease | DeviceTaken:
        """Take one device. After an ApiError its Lease may exist or not."""
        parts = want.parts(holder.uid, device)
        if parts:
            return await self._take_parts(want.node, device, parts)
        return await self._take_whole(holder, want.node, device)

    async def release(self, holder: LeaseHolder, holdings: Sequence[HeldLease]) -> tuple[HeldLease, ...]:
        """Release Leases that the pod's bound allocation does not name. Idempotent. Returns those that were kept.

        A Lease that another process has written since is kept, too: that process releases it.
        """
        if not holdings:
            return ()
        pod = await self._bound(holder, closing=any(holding.adopted for holding in holdings))
        kept = [holding for holding in holdings if pod is not None and _is_named(holding, pod)]
        free = [holding for holding in holdings if holding not in kept]
        gone = await asyncio.gather(*(self._let_go(holder, holding) for holding in free))
        return (*kept, *(holding for holding, done in zip(free, gone, strict=True) if not done))

    async def _bound(self, holder: LeaseHolder, *, closing: bool) -> HolderPod | None:
        """The pod, read afresh, if it is bound; None if it is gone, replaced, finished, or not bound.

        With `closing`, a pod that is not bound is fenced: no bind decided so far can succeed.
        """
        pod = await look(self._api, holder.pod)
        if closing and pod is not None and pod.metadata.uid == holder.uid and not pod.spec.node_name:
            pod = await fence(self._api, holder.pod, holder.uid, f"release@{pod.metadata.resource_version}")
        found = None if pod is None else read_holder(pod)
        return None if found is None or found.uid != holder.uid or not found.node or found.over else found

    async def _take_whole(self, holder: LeaseHolder, node: str, device: int) -> HeldLease | DeviceTaken:
        lease = new_lease(self._namespace, Allocation(node, (device,)), holder.uid, self._now(), holder.pod)
        try:
            made = await self._api.create(LEASES, lease, self._namespace)
            return HeldLease(node, device, made.metadata.resource_version)
        except (errors.AlreadyExists, *_UNSETTLED) as error:
            return await self._adopt(holder, node, device, error)

    async def _adopt(
        self, holder: LeaseHolder, node: str, device: int, because: errors.ApiError
    ) -> HeldLease | DeviceTaken:
        """Adopt a Lease that exists or may exist: if it is this pod's, renew it by a write."""
        for _ in range(_SWAPS):
            try:
                there = await self._api.get(LEASES, lease_name(node, device), self._namespace)
            except errors.NotFound:
                raise because from None
            if there.spec.holder_identity != holder.uid:
                return DeviceTaken(device, there.spec.holder_identity or "")
            try:
                mine = await self._api.replace(LEASES, renewed(there, self._now()))
                return HeldLease(node, device, mine.metadata.resource_version, adopted=True)
            except (errors.Conflict, errors.NotFound) as error:
                because = error
        raise because

    async def _take_parts(self, node: str, device: int, parts: tuple[LeaseHold, ...]) -> HeldLease | DeviceTaken:
        """Add these shares or MIG instances to the device's Lease, if they are free."""
        refusal: errors.ApiError = errors.Conflict(f"lease {lease_name(node, device)}: others were always faster")
        for _ in range(_SWAPS):
            there = await self._find(lease_name(node, device))
            by = None if there is None else kept_from(there, parts)
            if by is not None:
                return DeviceTaken(device, by)
            mine = {hold.part for hold in parts}
            adopted = there is not None and any(hold.part in mine for hold in parts_of(there))
            try:
                written = await self._write_parts(node, device, parts, there)
                version, stamp = written.metadata.resource_version, written.spec.lease_transitions or 0
                instances = tuple(hold.instance for hold in parts if hold.instance)
                return HeldLease(node, device, version, parts[0].milli, stamp, adopted, instances)
            except (errors.Conflict, errors.AlreadyExists, errors.NotFound, *_UNSETTLED) as error:
                refusal = error
        raise refusal

    async def _find(self, name: str) -> Lease | None:
        try:
            return await self._api.get(LEASES, name, self._namespace)
        except errors.NotFound:
            return None

    async def _write_parts(self, node: str, device: int, parts: tuple[LeaseHold, ...], there: Lease | None) -> Lease:
        if there is None:
            lease = new_lease(self._namespace, Allocation(node, (device,)), SHARED_HOLDER, self._now())
            return await self._api.create(LEASES, with_parts(lease, parts), self._namespace)
        return await self._api.replace(LEASES, with_parts(renewed(there, self._now()), parts))

    async def _let_go(self, holder: LeaseHolder, holding: HeldLease) -> bool:
        if not holding.whole:
            return await self._let_go_parts(holder, holding)
        try:
            await self._api.delete(
                LEASES, holding.name, self._namespace, how=Deletion(resource_version=holding.resource_version)
            )
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        return True

    async def _let_go_parts(self, holder: LeaseHolder, holding: HeldLease) -> bool:
        """Remove this pod's shares or MIG instances from the Lease; with none left, delete it."""
        for _ in range(_SWAPS):
            try:
                there = await self._api.get(LEASES, holding.name, self._namespace)
                held, names = parts_of(there), holding.instances or (holder.uid,)
                mine = {hold.part for hold in held if hold.uid == holder.uid and hold.part in names}
                if not mine:
                    return True
                stamps = stamps_of(there)
                if any(stamps.get(part) != holding.stamp for part in mine):
                    return False
                if len(held) > len(mine):
                    await self._api.replace(LEASES, with_parts(renewed(there, self._now()), without=mine))
                else:
                    how = Deletion(resource_version=there.metadata.resource_version)
                    await self._api.delete(LEASES, holding.name, self._namespace, how=how)
                return True
            except errors.NotFound:
                return True
            except errors.Conflict:
                continue
        return False

    def _now(self) -> str:
        return write_micro_time(self._clock.now())


def _is_named(holding: HeldLease, pod: HolderPod) -> bool:
    """True if the bound allocation names the held device or instances, or cannot be read."""
    if pod.devices is None:
        return True
    names = holding.instances or ("",)
    return pod.node == holding.node and any(pod.was_given(holding.device, name) for name in names)
