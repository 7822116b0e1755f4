"""Status of a pending pod: condition PodScheduled with the reason, and the nominated node set or cleared.

Written only on the pod of this uid while it is pending: a pod that was bound, replaced or deleted meanwhile is left
alone. Nothing is written where the pod says so already: each write would wake every watcher of pods. All other
conditions and fields of the status stay.
"""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from ullage import errors
from ullage.clock import Clock
from ullage.kube.client.api import KubeApi
from ullage.kube.client.edit import edit
from ullage.kube.client.resources import PODS
from ullage.kube.objects.meta import Condition
from ullage.kube.objects.pod import KubePod
from ullage.kube.timestamps import write_time
from ullage.kube.write import conditions
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import MarkUnschedulable
from ullage.model.outcomes import MarkFailure, PodMarked, PodNotMarked, RefuseOutcome


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
    api: KubeApi, key: ObjectKey, uid: str, change: Callable[[KubePod], KubePod], *, bound_too: bool = False
) -> bool | PodStatusUnwritten:
    """Write the changed status. Returns whether there was anything to write, or why nothing was written.

    The status of a pod on a node is kubelet's, and is left alone unless `bound_too`.
    """
    written = False

    def checked(pod: KubePod) -> KubePod:
        nonlocal written
        _check(pod, uid, bound_too=bound_too)
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


def _check(pod: KubePod, uid: str, *, bound_too: bool) -> None:
    if pod.metadata.uid != uid:
        raise _LeaveAlone(MarkFailure.POD_GONE, "another pod has its name now")
    if pod.metadata.deletion_timestamp is not None:
        raise _LeaveAlone(MarkFailure.POD_GONE, "it is being deleted")
    if pod.spec.node_name and not bound_too:
        raise _LeaveAlone(MarkFailure.POD_BOUND, f"it is on {pod.spec.node_name}")


SCHEDULED = "PodScheduled"
_LONGEST_MESSAGE = 8192


class PodConditionWriter:
    """Actuator of `MarkUnschedulable`. Safe to run for many pods at once."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    async def perform(self, action: MarkUnschedulable) -> RefuseOutcome:
        """Write the condition. Every end is an outcome."""
        now = write_time(self._clock.now())
        written = await write_status(self._api, action.pod, action.uid, lambda pod: _marked(pod, action, now))
        if isinstance(written, PodStatusUnwritten):
            return PodNotMarked(action, written.setback, written.detail)
        return PodMarked(action, written)


def _marked(pod: KubePod, action: MarkUnschedulable, now: str) -> KubePod:
    """Wanted state of the pod. Equal to the pod itself where it says so already."""
    status = pod.status
    condition = _condition(pod, action, conditions.found(status.conditions, SCHEDULED), now)
    said = conditions.put(status.conditions, condition)
    nominated = status.nominated_node_name if action.nominated is None else action.nominated
    return replace(pod, status=replace(status, conditions=said, nominated_node_name=nominated))


def _condition(pod: KubePod, action: MarkUnschedulable, before: Condition | None, now: str) -> Condition:
    reason, message = action.why.waiting.value, action.why.message[:_LONGEST_MESSAGE]
    if before is not None and (before.status, before.reason, before.message) == ("False", reason, message):
        return before
    return Condition(
        type=SCHEDULED,
        status="False",
        reason=reason,
        message=message,
        observed_generation=pod.metadata.generation,
        last_transition_time=conditions.since(before, "False", now),
    )
