"""Holding GPUs: one Lease per device in one namespace, taken all or none, and let go only when it is safe.

The holder of a Lease is a pod's uid, not a scheduler: whoever schedules that pod may go on with what another began. So
a Lease found to be this pod's is *adopted by a write*; its resourceVersion changes, and whoever held it by the old one
can no longer let it go. Letting go needs a fresh look at the pod: what its bound allocation names is never released;
and of what was adopted, whoever held it before may be about to bind the pod to it, so that bind is fenced off first.
Shared devices keep their shares in an annotation, changed by compare-and-swap. Nothing is decided here.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ullage import errors
from ullage.act.fence import fence, look
from ullage.clock import Clock
from ullage.kube.api import Deletion, KubeApi
from ullage.kube.moment import write_micro_time
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.policy import Lease, LeaseSpec
from ullage.kube.resources import LEASES
from ullage.model.allocation import ALLOCATED, lease_name, parse_allocation
from ullage.model.device import MILLI_GPU
from ullage.model.event import ObjectKey

MANAGED = "gpu.scheduling/managed"
NODE = "gpu.scheduling/node"
DEVICE = "gpu.scheduling/device"
POD = "gpu.scheduling/pod"
SHARES = "gpu.scheduling/shares"
STAMPS = "gpu.scheduling/share-stamps"
"""By pod uid, which write its share is from: the Lease's resourceVersion changes with every neighbour's."""
SHARED_HOLDER = "shared"

_UNSETTLED = (errors.Unreachable, errors.ServerFailure, errors.Unreadable)
"""Answers after which a write may or may not have happened."""
_SWAPS = 8
_decode_numbers = msgspec.json.Decoder(dict[str, int]).decode


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds: a pod, and that very one."""

    pod: ObjectKey
    uid: str


@dataclass(frozen=True, slots=True)
class Holding:
    """A Lease as last written for its holder. Only as such may it be let go: another write has adopted it."""

    node: str
    device: int
    resource_version: str
    milli: int = MILLI_GPU
    stamp: int = 0
    """Of a share, instead of the resourceVersion; see `STAMPS`."""
    adopted: bool = False
    """It was this pod's before: somebody else may count on it."""

    @property
    def name(self) -> str:
        return lease_name(self.node, self.device)


@dataclass(frozen=True, slots=True)
class Reserved:
    """All of them are held."""

    holdings: tuple[Holding, ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """None is held: this device has another holder, or too little of it is left."""

    device: int
    by: str


@dataclass(frozen=True, slots=True)
class Want:
    """Devices of one node, and how much of each."""

    node: str
    devices: tuple[int, ...]
    milli: int = MILLI_GPU


class LeaseBook:
    """Takes and releases Leases through the API. Keeps nothing in memory: the API server is the book."""

    def __init__(self, api: KubeApi, namespace: str, clock: Clock) -> None:
        self._api = api
        self._namespace = namespace
        self._clock = clock

    async def reserve(self, holder: Holder, want: Want) -> Reserved | Taken:
        """All devices or none. Raises ApiError where the API could not be asked.

        What could not be given back after a failure either is this pod's to adopt next time, or the sweeper's to free.
        """
        if len(want.devices) == 1:  # as most pods want: nothing to do side by side, and nothing to give back
            one = await self.take(holder, want, want.devices[0])
            return one if isinstance(one, Taken) else Reserved((one,))
        taking = (self.take(holder, want, device) for device in want.devices)
        results = await asyncio.gather(*taking, return_exceptions=True)
        held = tuple(result for result in results if isinstance(result, Holding))
        if len(held) == len(want.devices):
            return Reserved(held)
        failures = [result for result in results if isinstance(result, BaseException)]
        try:
            await self.release(holder, held)
        except errors.ApiError as error:
            failures.append(error)
        if failures:
            raise failures[0]
        return next(result for result in results if isinstance(result, Taken))

    async def take(self, holder: Holder, want: Want, device: int) -> Holding | Taken:
        """One device. After an ApiError its Lease may be there or not."""
        whole = want.milli == MILLI_GPU
        return await (self._take_whole if whole else self._take_share)(holder, want, device)

    async def release(self, holder: Holder, holdings: Sequence[Holding]) -> tuple[Holding, ...]:
        """Let go of what the pod's bound allocation does not name. Idempotent. Returns what had to be kept.

        Kept is also what somebody else has written since: it is theirs to let go now.
        """
        if not holdings:
            return ()
        named = await self._allocated(holder, closing=any(holding.adopted for holding in holdings))
        kept = [holding for holding in holdings if (holding.node, holding.device) in named]
        free = [holding for holding in holdings if (holding.node, holding.device) not in named]
        gone = await asyncio.gather(*(self._let_go(holder, holding) for holding in free))
        return (*kept, *(holding for holding, done in zip(free, gone, strict=True) if not done))

    async def _allocated(self, holder: Holder, *, closing: bool) -> frozenset[tuple[str, int]]:
        """What the pod, read afresh, is bound to. Nothing if it is gone, replaced, over, or not bound.

        With `closing`, it is not going to be bound by anything decided so far either.
        """
        pod = await look(self._api, holder.pod)
        if closing and pod is not None and pod.metadata.uid == holder.uid and not pod.spec.node_name:
            pod = await fence(self._api, holder.pod, holder.uid, f"release@{pod.metadata.resource_version}")
        if pod is None or pod.metadata.uid != holder.uid or not pod.spec.node_name:
            return frozenset()
        text = pod.metadata.annotations.get(ALLOCATED, "")
        if not text or pod.status.phase in ("Succeeded", "Failed"):
            return frozenset()
        allocation = parse_allocation(text)
        return frozenset((allocation.node, device) for device in allocation.devices)

    async def _take_whole(self, holder: Holder, want: Want, device: int) -> Holding | Taken:
        lease = self._lease(want.node, device, holder.uid, {POD: str(holder.pod)})
        try:
            made = await self._api.create(LEASES, lease, self._namespace)
            return Holding(want.node, device, made.metadata.resource_version)
        except (errors.AlreadyExists, *_UNSETTLED) as error:
            return await self._adopt(holder, want.node, device, error)

    async def _adopt(self, holder: Holder, node: str, device: int, because: errors.ApiError) -> Holding | Taken:
        """The Lease is there, or may be. If it is this pod's, make it ours by a write."""
        for _ in range(_SWAPS):
            try:
                there = await self._api.get(LEASES, lease_name(node, device), self._namespace)
            except errors.NotFound:
                raise because from None
            if there.spec.holder_identity != holder.uid:
                return Taken(device, there.spec.holder_identity or "")
            try:
                mine = await self._api.replace(LEASES, _renewed(there, self._now()))
                return Holding(node, device, mine.metadata.resource_version, adopted=True)
            except (errors.Conflict, errors.NotFound) as error:
                because = error
        raise because

    async def _take_share(self, holder: Holder, want: Want, device: int) -> Holding | Taken:
        """Add this pod's share to the device's Lease, if there is room for it."""
        name = lease_name(want.node, device)
        refusal: errors.ApiError = errors.Conflict(f"lease {name}: others were always faster")
        for _ in range(_SWAPS):
            try:
                there = await self._api.get(LEASES, name, self._namespace)
            except errors.NotFound:
                there = None
            shares = {} if there is None else read_shares(there)
            if there is not None and there.spec.holder_identity != SHARED_HOLDER:
                return Taken(device, there.spec.holder_identity or "")
            if sum(milli for uid, milli in shares.items() if uid != holder.uid) + want.milli > MILLI_GPU:
                return Taken(device, SHARED_HOLDER)
            try:
                written = await self._write_share(holder, want, device, there)
                version, stamp = written.metadata.resource_version, written.spec.lease_transitions or 0
                return Holding(want.node, device, version, want.milli, stamp, adopted=holder.uid in shares)
            except (errors.Conflict, errors.AlreadyExists, errors.NotFound, *_UNSETTLED) as error:
                refusal = error
        raise refusal

    async def _write_share(self, holder: Holder, want: Want, device: int, there: Lease | None) -> Lease:
        if there is None:
            lease = self._lease(want.node, device, SHARED_HOLDER, {})
            return await self._api.create(LEASES, _with_share(lease, holder.uid, want.milli), self._namespace)
        renewed = _renewed(there, self._now())
        return await self._api.replace(LEASES, _with_share(renewed, holder.uid, want.milli))

    async def _let_go(self, holder: Holder, holding: Holding) -> bool:
        if holding.milli != MILLI_GPU:
            return await self._let_go_share(holder, holding)
        try:
            await self._api.delete(
                LEASES, holding.name, self._namespace, how=Deletion(resource_version=holding.resource_version)
            )
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        return True

    async def _let_go_share(self, holder: Holder, holding: Holding) -> bool:
        """Take this pod's share out; the last one out deletes the Lease."""
        for _ in range(_SWAPS):
            try:
                there = await self._api.get(LEASES, holding.name, self._namespace)
                shares = read_shares(there)
                if holder.uid not in shares:
                    return True
                if _read(there, STAMPS).get(holder.uid) != holding.stamp:
                    return False
                if len(shares) > 1:
                    await self._api.replace(LEASES, _with_share(_renewed(there, self._now()), holder.uid, 0))
                else:
                    how = Deletion(resource_version=there.metadata.resource_version)
                    await self._api.delete(LEASES, holding.name, self._namespace, how=how)
                return True
            except errors.NotFound:
                return True
            except errors.Conflict:
                continue
        return False

    def _lease(self, node: str, device: int, holder: str, annotations: Mapping[str, str]) -> Lease:
        now = self._now()
        labels = {MANAGED: "true"}
        return Lease(
            metadata=ObjectMeta(
                name=lease_name(node, device),
                namespace=self._namespace,
                labels=labels,
                annotations={NODE: node, DEVICE: str(device), **annotations},
            ),
            spec=LeaseSpec(holder_identity=holder, acquire_time=now, renew_time=now, lease_transitions=0),
        )

    def _now(self) -> str:
        return write_micro_time(self._clock.now())


def read_shares(lease: Lease) -> dict[str, int]:
    """Milli-GPUs by pod uid. Raises Unreadable where somebody wrote something else there."""
    return _read(lease, SHARES)


def _read(lease: Lease, annotation: str) -> dict[str, int]:
    try:
        return _decode_numbers(lease.metadata.annotations.get(annotation, "{}"))
    except msgspec.DecodeError as error:
        raise errors.Unreadable(f"lease {lease.metadata.name}: annotation {annotation}: {error}") from error


def _write(numbers: Mapping[str, int]) -> str:
    return msgspec.json.encode(dict(sorted(numbers.items()))).decode()


def _renewed(lease: Lease, now: str) -> Lease:
    transitions = (lease.spec.lease_transitions or 0) + 1
    spec = msgspec.structs.replace(lease.spec, renew_time=now, lease_transitions=transitions)
    return msgspec.structs.replace(lease, spec=spec)


def _with_share(lease: Lease, uid: str, milli: int) -> Lease:
    """This pod's share is so large now, by this very write; 0 takes it out."""
    shares = {**read_shares(lease), uid: milli}
    shares = {holder: part for holder, part in shares.items() if part}
    stamps = {**_read(lease, STAMPS), uid: lease.spec.lease_transitions or 0}
    kept = {holder: stamp for holder, stamp in stamps.items() if holder in shares}
    annotations = {**lease.metadata.annotations, SHARES: _write(shares), STAMPS: _write(kept)}
    return msgspec.structs.replace(lease, metadata=msgspec.structs.replace(lease.metadata, annotations=annotations))
