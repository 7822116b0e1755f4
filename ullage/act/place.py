"""Performs a placement: get the volumes ready, hold the GPUs, then bind; or give everything back."""

from dataclasses import replace

from ullage import errors
from ullage.act.bind import Binder, holder_of
from ullage.act.leases import Holding, LeaseBook, Taken, Want
from ullage.act.volumes import VOLUME_WAIT, VolumeSelector
from ullage.kube.api import KubeApi
from ullage.model.action import Place
from ullage.model.outcome import NotPlaced, PlaceOutcome, Setback

MOST_RETRIES = 2
"""For pods that somebody wrote to between decision and bind."""


class Placer:
    """Hands for `Place`. Safe to run for many pods at once, and twice for the same pod."""

    def __init__(self, api: KubeApi, book: LeaseBook, *, volume_wait: float = VOLUME_WAIT) -> None:
        self._book = book
        self._binder = Binder(api, book)
        self._volumes = VolumeSelector(api, wait=volume_wait)

    async def perform(self, action: Place) -> PlaceOutcome:
        """Every way this can end is an outcome."""
        unready = await self._volumes.prepare(action)
        if unready is not None:
            return unready
        return await self.persist(action, await self._try(action))

    async def persist(self, action: Place, outcome: PlaceOutcome) -> PlaceOutcome:
        """What comes of it in the end, where it failed only because somebody wrote on the pod that waits."""
        for _ in range(MOST_RETRIES):
            if not isinstance(outcome, NotPlaced) or not outcome.again_as:
                break
            # GPUs are held anew after the pod was looked at: whoever takes them away writes on the pod first.
            outcome = await self._try(replace(action, resource_version=outcome.again_as))
        return replace(outcome, action=action)

    async def _try(self, action: Place) -> PlaceOutcome:
        holdings = await self._hold(action)
        if isinstance(holdings, NotPlaced):
            return holdings
        return await self._binder.bind(action, holdings)

    async def _hold(self, action: Place) -> tuple[Holding, ...] | NotPlaced:
        if not action.devices:
            return ()
        try:
            reserved = await self._book.reserve(holder_of(action), Want(action.node, action.devices, action.milli))
        except errors.ApiError as error:
            return NotPlaced(action, Setback.API_FAILED, str(error), leaked=True)
        return taken(action, reserved) if isinstance(reserved, Taken) else reserved.holdings


def taken(action: Place, device: Taken) -> NotPlaced:
    """A GPU that was to be this pod's is another's."""
    words = f"GPU {device.device} is held by {device.by}"
    return NotPlaced(action, Setback.GPU_TAKEN, words, device=device.device)
