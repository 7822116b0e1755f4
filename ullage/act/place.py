"""Bind a pod: prepare its volumes, take the Leases of its GPUs, then bind; on failure release the Leases."""

from dataclasses import replace

from ullage import errors
from ullage.act.bind import BindStep, holder_of
from ullage.act.leases import DeviceTaken, HeldLease, LeaseClient, LeaseRequest
from ullage.act.volumes import VolumeBinder, prepare_volumes
from ullage.kube.client.api import KubeApi
from ullage.model.intents import BindPod
from ullage.model.outcomes import BindFailure, PlaceOutcome, PodNotBound
from ullage.observe.traces import PlacementStep, step

MOST_RETRIES = 2
"""Retries of a bind that failed because the pod was written between decision and bind."""


class PodBinder:
    """Actuator of `BindPod`. Safe to run for many pods at once, and twice for the same pod."""

    def __init__(self, api: KubeApi, book: LeaseClient, volumes: VolumeBinder | None = None) -> None:
        """Without `volumes`, pods whose volumes wait for their first consumer cannot be bound."""
        self._book = book
        self._binder = BindStep(api, book)
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
        open_to_others = await self._binder.withhold(action, holdings)
        if open_to_others is not None:
            return await self._binder.give_back(open_to_others, holdings)
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
