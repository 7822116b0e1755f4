"""Write the status of a pending pod: only on the pod of this uid, and only while it is pending."""

from collections.abc import Callable
from dataclasses import dataclass

from ullage import errors
from ullage.kube.client.api import KubeApi
from ullage.kube.client.edit import edit
from ullage.kube.client.resources import PODS
from ullage.kube.objects.pod import KubePod
from ullage.model.fact_event import ObjectKey
from ullage.model.outcomes import MarkFailure


@dataclass(frozen=True, slots=True)
class PodStatusUnwritten:
    """The status was not written, as far as is known."""

    setback: MarkFailure
    detail: str


class _LeaveAlone(Exception):
    """The pod must not be written: it is bound, being deleted or replaced."""

    def __init__(self, setback: MarkFailure, detail: str) -> None:
        super().__init__(detail)
        self.setback = setback


async def write_status(
    api: KubeApi, key: ObjectKey, uid: str, change: Callable[[KubePod], KubePod]
) -> bool | PodStatusUnwritten:
    """Write the changed status. Returns whether there was anything to write, or why nothing was written."""
    written = False

    def checked(pod: KubePod) -> KubePod:
        nonlocal written
        _check(pod, uid)
        changed = change(pod)
        written = changed != pod
        return changed

    try:
        await edit(api, PODS, key.name, key.namespace, checked, subresource="status")
    except _LeaveAlone as alone:
        return PodStatusUnwritten(alone.setback, str(alone))
    except errors.NotFound as error:
        return PodStatusUnwritten(MarkFailure.POD_GONE, str(error))
    except errors.ApiError as error:
        return PodStatusUnwritten(MarkFailure.API_FAILED, str(error))
    return written


def _check(pod: KubePod, uid: str) -> None:
    if pod.metadata.uid != uid:
        raise _LeaveAlone(MarkFailure.POD_GONE, "another pod has its name now")
    if pod.metadata.deletion_timestamp is not None:
        raise _LeaveAlone(MarkFailure.POD_GONE, "it is being deleted")
    if pod.spec.node_name:
        raise _LeaveAlone(MarkFailure.POD_BOUND, f"it is on {pod.spec.node_name}")
