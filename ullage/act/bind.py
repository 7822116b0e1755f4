"""Binds a pod that holds its GPUs, or gives them back. What one pod and a whole gang have in common.

Binding and telling the pod its GPUs is one write. A bind whose answer was lost is never undone on suspicion: the pod is
first written to, so that a bind still on its way must fail on its resourceVersion, and then read; what it says decides.
"""

from collections.abc import Sequence
from dataclasses import replace

from ullage import errors
from ullage.act.fence import fence, look
from ullage.act.leases import Holder, Holding, LeaseBook
from ullage.kube.api import Binding, KubeApi
from ullage.kube.objects.pod import Pod
from ullage.model.action import Place
from ullage.model.allocation import ALLOCATED, MIG_UUID, SHARE, VISIBLE_DEVICES, VISIBLE_INDICES
from ullage.model.device import MILLI_GPU
from ullage.model.outcome import NotPlaced, Placed, PlaceOutcome, Setback

_LOST_ANSWER = (errors.Unreachable, errors.ServerFailure, errors.Unreadable)


class Binder:
    """The second half of a placement. Safe to run for many pods at once."""

    def __init__(self, api: KubeApi, book: LeaseBook) -> None:
        self._api = api
        self._book = book

    async def bind(self, action: Place, holdings: Sequence[Holding]) -> PlaceOutcome:
        """Every way this can end is an outcome. Without success, what is held is given back where that is safe."""
        setback = await self._bind(action)
        if setback is None:
            return Placed(action)
        if setback.leaked:
            return setback  # it may be bound yet, to exactly these GPUs
        return await self.give_back(setback, holdings)

    async def give_back(self, setback: NotPlaced, holdings: Sequence[Holding]) -> NotPlaced:
        """The same setback, and whether leases may be left after it."""
        try:
            kept = await self._book.release(holder_of(setback.action), holdings)
        except errors.ApiError:
            return replace(setback, leaked=True)
        return replace(setback, leaked=setback.leaked or bool(kept))

    async def _bind(self, action: Place) -> NotPlaced | None:
        """None if the pod is bound as asked."""
        try:
            await self._api.bind(action.pod.name, action.pod.namespace, _binding(action))
        except errors.NotFound as error:
            return NotPlaced(action, Setback.POD_GONE, str(error))
        except errors.Conflict as error:
            return await self._settle(action, Setback.POD_CHANGED, str(error))
        except _LOST_ANSWER as error:
            return await self._settle(action, Setback.API_FAILED, str(error), closing=True)
        except errors.ApiError as error:
            return NotPlaced(action, Setback.REFUSED, str(error))
        return None

    async def _settle(self, action: Place, setback: Setback, why: str, *, closing: bool = False) -> NotPlaced | None:
        """Look at the pod itself. Bound as asked is success, whoever did it."""
        mark = f"{action.node}@{action.resource_version}"
        try:
            pod = await (fence(self._api, action.pod, action.uid, mark) if closing else look(self._api, action.pod))
        except errors.ApiError as error:
            return NotPlaced(action, Setback.API_FAILED, f"{why}; and then: {error}", leaked=True)
        if pod is None:
            return NotPlaced(action, Setback.POD_GONE, f"pod {action.pod} is gone")
        if pod.metadata.uid != action.uid:
            return NotPlaced(action, Setback.POD_GONE, "another pod has its name now")
        if _is_as_asked(pod, action):
            return None
        written_to = setback is Setback.POD_CHANGED and _waits(pod)
        return NotPlaced(action, setback, why, again_as=pod.metadata.resource_version if written_to else "")

    async def as_it_is(self, action: Place) -> Place | NotPlaced:
        """The same for the pod as it is now: most that is written on a waiting pod changes nothing about its place.

        To be asked before GPUs are held: whoever means to take them away after that, writes on the pod first.
        """
        try:
            pod = await look(self._api, action.pod)
        except errors.ApiError as error:
            return NotPlaced(action, Setback.API_FAILED, str(error))
        if pod is None or pod.metadata.uid != action.uid:
            return NotPlaced(action, Setback.POD_GONE, f"pod {action.pod} is gone")
        if _waits(pod):
            return replace(action, resource_version=pod.metadata.resource_version)
        return action if _is_as_asked(pod, action) else NotPlaced(action, Setback.POD_CHANGED, "it no longer waits")


def _waits(pod: Pod) -> bool:
    return not pod.spec.node_name and pod.metadata.deletion_timestamp is None


def holder_of(action: Place) -> Holder:
    return Holder(action.pod, action.uid)


def _binding(action: Place) -> Binding:
    notes = {}
    if action.allocation is not None:
        notes = {
            ALLOCATED: str(action.allocation),
            VISIBLE_DEVICES: ",".join(action.visible),
            VISIBLE_INDICES: _indices(action),
        }
        if action.milli != MILLI_GPU:
            notes[SHARE] = str(action.milli)
    return Binding(action.node, uid=action.uid, resource_version=action.resource_version, annotations=notes)


def _indices(action: Place) -> str:
    """What programs see that count GPUs. MIG instances cannot be counted: they go by UUID there, too."""
    counted = not any(uuid.startswith(MIG_UUID) for uuid in action.visible)
    return ",".join(map(str, action.devices) if counted else action.visible)


def _is_as_asked(pod: Pod, action: Place) -> bool:
    wanted = "" if action.allocation is None else str(action.allocation)
    return pod.spec.node_name == action.node and pod.metadata.annotations.get(ALLOCATED, "") == wanted
