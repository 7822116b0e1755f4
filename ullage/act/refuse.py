"""Performs a refusal: the pod's condition PodScheduled says why it has no place, and its nomination is set or cleared.

Nothing is written where the pod says so already: each write would wake everybody who watches pods. All other conditions
and fields of the status are left as they are. A pod that was bound, replaced or deleted meanwhile is left alone.
"""

from msgspec.structs import replace

from ullage.act import conditions
from ullage.act.waiting_pod import Unwritten, write_status
from ullage.clock import Clock
from ullage.kube.api import KubeApi
from ullage.kube.moment import write_time
from ullage.kube.objects.meta import Condition
from ullage.kube.objects.pod import Pod
from ullage.model.refusal import NotRefused, Refuse, Refused, RefuseOutcome

SCHEDULED = "PodScheduled"
_LONGEST_MESSAGE = 8192


class Refuser:
    """Hands for `Refuse`. Safe to run for many pods at once."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    async def perform(self, action: Refuse) -> RefuseOutcome:
        """Every way this can end is an outcome."""
        now = write_time(self._clock.now())
        written = await write_status(self._api, action.pod, action.uid, lambda pod: _told(pod, action, now))
        if isinstance(written, Unwritten):
            return NotRefused(action, written.setback, written.detail)
        return Refused(action, written)


def _told(pod: Pod, action: Refuse, now: str) -> Pod:
    """The pod as it is to be. Equal to the pod as it is where it says so already."""
    status = pod.status
    condition = _condition(pod, action, conditions.found(status.conditions, SCHEDULED), now)
    said = conditions.put(status.conditions, condition)
    nominated = status.nominated_node_name if action.nominated is None else action.nominated
    return replace(pod, status=replace(status, conditions=said, nominated_node_name=nominated))


def _condition(pod: Pod, action: Refuse, before: Condition | None, now: str) -> Condition:
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
