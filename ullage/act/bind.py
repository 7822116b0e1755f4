"""Bind a pod: prepare its volumes, take the Leases of its GPUs, then bind; on failure release the Leases.

`BindStep` is the half that gangs share. The bind and the annotations that name the GPUs are one write. A bind whose
response was lost is not undone on suspicion: the pod is fenced first, so that a bind still under way fails on its
resourceVersion. Then the pod is read, and its state decides.
"""

from collections.abc import Sequence
from dataclasses import replace

from ullage import errors
from ullage.act.claim_protection import ClaimProtection
from ullage.act.device_reservations import DeviceReservations
from ullage.act.fence import fence, look
from ullage.act.leases import DeviceTaken, HeldLease, LeaseClient, LeaseHolder, LeaseRequest
from ullage.act.volumes import VolumeBinder, prepare_volumes
from ullage.kube.client.api import Binding, KubeApi
from ullage.kube.objects.pod import KubePod
from ullage.kube.write.vm import approval_annotations
from ullage.model.allocation import ALLOCATED, MIG_UUID, SHARE, VISIBLE_DEVICES, VISIBLE_INDICES
from ullage.model.device import MILLI_GPU
from ullage.model.intents import BindPod
from ullage.model.outcomes import BindFailure, PlaceOutcome, PodBound, PodNotBound
from ullage.observe.traces import PlacementStep, step

_LOST_ANSWER = (errors.Unreachable, errors.ServerFailure, errors.Unreadable)


class BindStep:
    """Second half of a placement. Safe to run for many pods at once."""

    def __init__(self, api: KubeApi, book: LeaseClient, protection: ClaimProtection | None = None) -> None:
        self._api = api
        self._protection = ClaimProtection(api) if protection is None else protection
        self._book = book
        self._reservations = DeviceReservations(api, book.namespace)

    async def secure(self, action: BindPod, holdings: Sequence[HeldLease]) -> PodNotBound | None:
        """Protect the pod's claim against deletion, and withhold its GPUs from kube-scheduler. None once both hold."""
        return await self._protect(action) or await self._withhold(action, holdings)

    async def _protect(self, action: BindPod) -> PodNotBound | None:
        if action.claim is None:
            return None
        try:
            await self._protection.ensure(action.claim)
        except (errors.NotFound, errors.Conflict) as error:
            return PodNotBound(action, BindFailure.CLAIM_CHANGED, str(error))
        except errors.ApiError as error:
            return PodNotBound(action, api_setback(error), f"its claim cannot be protected against deletion: {error}")
        return None

    async def _withhold(self, action: BindPod, holdings: Sequence[HeldLease]) -> PodNotBound | None:
        """Withhold leased GPUs from kube-scheduler's DRA allocation. None once they are withheld."""
        try:
            other = await self._reservations.withhold(action.node, action.withheld, holdings)
        except errors.ApiError as error:
            return PodNotBound(
                action, BindFailure.API_FAILED, f"its GPUs cannot be withheld from ResourceClaims: {error}"
            )
        if other is None:
            return None
        return PodNotBound(action, BindFailure.GPU_TAKEN, f"a GPU of its node was given to ResourceClaim {other}")

    async def bind(self, action: BindPod, holdings: Sequence[HeldLease]) -> PlaceOutcome:
        """Bind the pod. Every end is an outcome. On failure its Leases are released where that is safe."""
        with step(PlacementStep.BIND, pod=str(action.pod)):
            setback = await self._bind(action)
        if setback is None:
            return PodBound(action)
        if setback.leaked:
            return setback  # the pod may still become bound, with exactly these GPUs
        return await self.give_back(setback, holdings)

    async def give_back(self, setback: PodNotBound, holdings: Sequence[HeldLease]) -> PodNotBound:
        """Release the Leases. Returns the same failure, with `leaked` set if Leases may be left."""
        try:
            kept = await self._book.release(holder_of(setback.action), holdings)
        except errors.ApiError:
            return replace(setback, leaked=True)
        return replace(setback, leaked=setback.leaked or bool(kept))

    async def _bind(self, action: BindPod) -> PodNotBound | None:
        """Send the bind. None if the pod is bound as asked."""
        try:
            await self._api.bind(action.pod.name, action.pod.namespace, _binding(action))
        except errors.NotFound as error:
            return PodNotBound(action, BindFailure.POD_GONE, str(error))
        except errors.Conflict as error:
            return await self._settle(action, BindFailure.POD_CHANGED, str(error))
        except _LOST_ANSWER as error:
            return await self._settle(action, BindFailure.API_FAILED, str(error), closing=True)
        except errors.Forbidden as error:
            return PodNotBound(action, BindFailure.FORBIDDEN, str(error))
        except errors.ApiError as error:
            return PodNotBound(action, BindFailure.REFUSED, str(error))
        return None

    async def _settle(
        self, action: BindPod, setback: BindFailure, why: str, *, closing: bool = False
    ) -> PodNotBound | None:
        """Read the pod to settle an unclear bind. Bound as asked is success, also if another client did it.

        With `closing`, fence the pod first.
        """
        mark = f"{action.node}@{action.resource_version}"
        try:
            pod = await (fence(self._api, action.pod, action.uid, mark) if closing else look(self._api, action.pod))
        except errors.ApiError as error:
            return PodNotBound(action, BindFailure.API_FAILED, f"{why}; and then: {error}", leaked=True)
        if pod is None:
            return PodNotBound(action, BindFailure.POD_GONE, f"pod {action.pod} is gone")
        if pod.metadata.uid != action.uid:
            return PodNotBound(action, BindFailure.POD_GONE, "another pod has its name now")
        if _is_as_asked(pod, action):
            return None
        written_to = setback is BindFailure.POD_CHANGED and _waits(pod)
        return PodNotBound(action, setback, why, again_as=pod.metadata.resource_version if written_to else "")

    async def as_it_is(self, action: BindPod) -> BindPod | PodNotBound:
        """The same action with the pod's current resourceVersion; or a failure if the pod is not pending any more.

        Most writes on a pending pod do not affect its placement.
        A bind uses only a resourceVersion read before its Leases were taken: a client that takes them away later writes
        on the pod first.
        """
        try:
            pod = await look(self._api, action.pod)
        except errors.ApiError as error:
            return PodNotBound(action, BindFailure.API_FAILED, str(error))
        if pod is None or pod.metadata.uid != action.uid:
            return PodNotBound(action, BindFailure.POD_GONE, f"pod {action.pod} is gone")
        if _waits(pod):
            return replace(action, resource_version=pod.metadata.resource_version)
        return (
            action if _is_as_asked(pod, action) else PodNotBound(action, BindFailure.POD_CHANGED, "it no longer waits")
        )


def _waits(pod: KubePod) -> bool:
    return not pod.spec.node_name and pod.metadata.deletion_timestamp is None


def holder_of(action: BindPod) -> LeaseHolder:
    return LeaseHolder(action.pod, action.uid)


def _binding(action: BindPod) -> Binding:
    notes: dict[str, str] = {}
    if action.allocation is not None:
        notes = {
            ALLOCATED: str(action.allocation),
            VISIBLE_DEVICES: ",".join(action.visible),
            VISIBLE_INDICES: _indices(action),
        }
        if action.milli != MILLI_GPU:
            notes[SHARE] = str(action.milli)
    if action.approved is not None:
        notes |= approval_annotations(action.approved)
    return Binding(action.node, uid=action.uid, resource_version=action.resource_version, annotations=notes)


def _indices(action: BindPod) -> str:
    """Device indices for programs that address GPUs by number. MIG instances have none: their UUIDs are used."""
    counted = not any(uuid.startswith(MIG_UUID) for uuid in action.visible)
    return ",".join(map(str, action.devices) if counted else action.visible)


def _is_as_asked(pod: KubePod, action: BindPod) -> bool:
    wanted = "" if action.allocation is None else str(action.allocation)
    return pod.spec.node_name == action.node and pod.metadata.annotations.get(ALLOCATED, "") == wanted


MOST_RETRIES = 2
"""Retries of a bind that failed because the pod was written between decision and bind."""


class PodBinder:
    """Actuator of `BindPod`. Safe to run for many pods at once, and twice for the same pod."""

    def __init__(
        self,
        api: KubeApi,
        book: LeaseClient,
        volumes: VolumeBinder | None = None,
        protection: ClaimProtection | None = None,
    ) -> None:
        """Without `volumes`, pods whose volumes wait for their first consumer cannot be bound."""
        self._book = book
        self._binder = BindStep(api, book, protection)
        self._volumes = volumes

    async def perform(self, action: BindPod) -> PlaceOutcome:
        """Bind the pod. Every end is an outcome."""
        unready = await prepare_volumes(self._volumes, action)
        if unready is not None:
            return unready
        return await self.persist(action, await self._try(action))

    async def persist(self, action: BindPod, outcome: PlaceOutcome) -> PlaceOutcome:
        """Retry while the bind failed only because the pending pod was written. Returns the last outcome."""
        for _ in range(MOST_RETRIES):
            if not isinstance(outcome, PodNotBound) or not outcome.again_as:
                break
            # Leases are taken anew after the pod was read: a component that takes them away writes on the pod first.
            outcome = await self._try(replace(action, resource_version=outcome.again_as))
        return replace(outcome, action=action)

    async def _try(self, action: BindPod) -> PlaceOutcome:
        holdings = await self._hold(action)
        if isinstance(holdings, PodNotBound):
            return holdings
        insecure = await self._binder.secure(action, holdings)
        if insecure is not None:
            return await self._binder.give_back(insecure, holdings)
        return await self._binder.bind(action, holdings)

    async def _hold(self, action: BindPod) -> tuple[HeldLease, ...] | PodNotBound:
        if not action.devices:
            return ()
        try:
            with step(PlacementStep.LEASE, gpus=len(action.devices)):
                reserved = await self._book.reserve(holder_of(action), LeaseRequest.of(action))
        except errors.ApiError as error:
            return PodNotBound(action, api_setback(error), str(error), leaked=True)
        return taken(action, reserved) if isinstance(reserved, DeviceTaken) else reserved.holdings


def api_setback(error: errors.ApiError) -> BindFailure:
    """Bind failure for an API error."""
    return BindFailure.FORBIDDEN if isinstance(error, errors.Forbidden) else BindFailure.API_FAILED


def taken(action: BindPod, device: DeviceTaken) -> PodNotBound:
    """Failure of a bind whose GPU is held by another pod."""
    words = f"GPU {device.device} is held by {device.by}"
    return PodNotBound(action, BindFailure.GPU_TAKEN, words, device=device.device)
