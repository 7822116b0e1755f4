"""Performs a refusal: the pod's condition PodScheduled says why it has no place, and its nomination is set or cleared.

Nothing is written where the pod says so already: each write would wake everybody who watches pods. All other conditions
and fields of the status are left as they are. A pod that was bound, replaced or deleted meanwhile is left alone.
"""

from msgspec.structs import replace

from ullage import errors
from ullage.clock import Clock
from ullage.kube.api import KubeApi
from ullage.kube.edit import edit
from ullage.kube.moment import write_time
from ullage.kube.objects.meta import Condition
from ullage.kube.objects.pod import Pod
from ullage.kube.resources import PODS
from ullage.model.refusal import NotRefused, NotTold, Refuse, Refused, RefuseOutcome

SCHEDULED = "PodScheduled"
_LONGEST_MESSAGE = 8192


class _LeaveAlone(Exception):
    """The pod is none of our business any more."""

    def __init__(self, setback: NotTold, detail: str) -> None:
        super().__init__(detail)
        self.setback = setback


class Refuser:
    """Hands for `Refuse`. Safe to run for many pods at once."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    async def perform(self, action: Refuse) -> RefuseOutcome:
        """Every way this can end is an outcome."""
        written = False

        def tell(pod: Pod) -> Pod:
            nonlocal written
            _check(pod, action)
            told = _told(pod, action, write_time(self._clock.now()))
            written = told != pod
            return told

        try:
            await edit(self._api, PODS, action.pod.name, action.pod.namespace, tell, subresource="status")
        except _LeaveAlone as alone:
            return NotRefused(action, alone.setback, str(alone))
        except errors.NotFound as error:
            return NotRefused(action, NotTold.POD_GONE, str(error))
        except errors.ApiError as error:
            return NotRefused(action, NotTold.API_FAILED, str(error))
        return Refused(action, written)


def _check(pod: Pod, action: Refuse) -> None:
    if pod.metadata.uid != action.uid:
        raise _LeaveAlone(NotTold.POD_GONE, "another pod has its name now")
    if pod.metadata.deletion_timestamp is not None:
        raise _LeaveAlone(NotTold.POD_GONE, "it is being deleted")
    if pod.spec.node_name:
        raise _LeaveAlone(NotTold.POD_BOUND, f"it is on {pod.spec.node_name}")


def _told(pod: Pod, action: Refuse, now: str) -> Pod:
    """The pod as it is to be. Equal to the pod as it is where it says so already."""
    status = pod.status
    before = next((one for one in status.conditions if one.type == SCHEDULED), None)
    condition = _condition(pod, action, before, now)
    if before is None:
        conditions = (*status.conditions, condition)
    else:
        conditions = tuple(condition if one.type == SCHEDULED else one for one in status.conditions)
    nominated = status.nominated_node_name if action.nominated is None else action.nominated
    return replace(pod, status=replace(status, conditions=conditions, nominated_node_name=nominated))


def _condition(pod: Pod, action: Refuse, before: Condition | None, now: str) -> Condition:
    reason, message = action.why.waiting.value, action.why.message[:_LONGEST_MESSAGE]
    if before is not None and (before.status, before.reason, before.message) == ("False", reason, message):
        return before
    since = before.last_transition_time if before is not None and before.status == "False" else None
    return Condition(
        type=SCHEDULED,
        status="False",
        reason=reason,
        message=message,
        observed_generation=pod.metadata.generation,
        last_transition_time=since or now,
    )
