"""Writes on the status of a pod that waits for a place: on that very pod, and only while it still waits."""

from collections.abc import Callable
from dataclasses import dataclass

from ullage import errors
from ullage.kube.api import KubeApi
from ullage.kube.edit import edit
from ullage.kube.objects.pod import Pod
from ullage.kube.resources import PODS
from ullage.model.event import ObjectKey
from ullage.model.refusal import NotTold


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Nothing was written, as far as we know."""

    setback: NotTold
    detail: str


class _LeaveAlone(Exception):
    """The pod is none of our business any more."""

    def __init__(self, setback: NotTold, detail: str) -> None:
        super().__init__(detail)
        self.setback = setback


async def write_status(api: KubeApi, key: ObjectKey, uid: str, change: Callable[[Pod], Pod]) -> bool | Unwritten:
    """Whether there was anything to write. Every other way this can end is an outcome, too."""
    written = False

    def checked(pod: Pod) -> Pod:
        nonlocal written
        _check(pod, uid)
        changed = change(pod)
        written = changed != pod
        return changed

    try:
        await edit(api, PODS, key.name, key.namespace, checked, subresource="status")
    except _LeaveAlone as alone:
        return Unwritten(alone.setback, str(alone))
    except errors.NotFound as error:
        return Unwritten(NotTold.POD_GONE, str(error))
    except errors.ApiError as error:
        return Unwritten(NotTold.API_FAILED, str(error))
    return written


def _check(pod: Pod, uid: str) -> None:
    if pod.metadata.uid != uid:
        raise _LeaveAlone(NotTold.POD_GONE, "another pod has its name now")
    if pod.metadata.deletion_timestamp is not None:
        raise _LeaveAlone(NotTold.POD_GONE, "it is being deleted")
    if pod.spec.node_name:
        raise _LeaveAlone(NotTold.POD_BOUND, f"it is on {pod.spec.node_name}")
