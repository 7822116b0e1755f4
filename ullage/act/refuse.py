"""Mark pods unschedulable: write condition PodScheduled with the reason, and set or clear the nominated node.

Nothing is written where the pod says so already: each write would wake every watcher of pods. All other conditions and
fields of the status are left as they are. A pod that was bound, replaced or deleted meanwhile is not written.
"""

from msgspec.structs import replace

from ullage.act.waiting_pod import PodStatusUnwritten, write_status
from ullage.clock import Clock
from ullage.kube.client.api import KubeApi
from ullage.kube.objects.meta import Condition
from ullage.kube.objects.pod import KubePod
from ullage.kube.timestamps import write_time
from ullage.kube.write import conditions
from ullage.model.intents import MarkUnschedulable
from ullage.model.outcomes import PodMarked, PodNotMarked, RefuseOutcome

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
