"""Perform evictions of the scheduler: for a pod of higher priority, and of a partial gang.

All go through the Eviction API, which keeps to disruption budgets. Each victim is read first: a pod being deleted needs
no eviction, and another pod of the same name would cost the budget an eviction (the API server charges the budget
before it compares the uid). The SchedulerCore decides which pods are evicted.
"""

from msgspec.structs import replace

from ullage import errors
from ullage.act.concurrency import each
from ullage.act.pod_status import PodStatusUnwritten, write_status
from ullage.clock import Clock
from ullage.kube.client.api import Deletion, KubeApi
from ullage.kube.client.edit import edit
from ullage.kube.client.resources import PODS
from ullage.kube.objects.meta import Condition
from ullage.kube.objects.pod import KubePod
from ullage.kube.timestamps import write_time
from ullage.kube.write import conditions
from ullage.model.intents import EvictGang, Preempt, Victim
from ullage.model.outcomes import EvictGangOutcome, EvictionFailure, PreemptOutcome

DISRUPTION_TARGET = "DisruptionTarget"
BY_SCHEDULER = "PreemptionByScheduler"
"""Reason that kube-scheduler writes. Job failure policies match on the condition."""

_LOST_ANSWER = (errors.Unreachable, errors.ServerFailure, errors.Unreadable)


class PreemptionActuator:
    """Actuator of `Preempt` and `EvictGang`. `scheduler` is the name in the victims' conditions."""

    def __init__(self, api: KubeApi, clock: Clock, *, scheduler: str, gang_at_once: int = 16) -> None:
        self._api = api
        self._clock = clock
        self._message = f"{scheduler}: preempting to accommodate a higher priority pod"
        self._at_once = gang_at_once

    async def perform(self, action: Preempt) -> PreemptOutcome:
        """Nominate the pod, then evict victims one by one. Stops at a victim that stays: others would go in vain."""
        told = await write_status(self._api, action.pod, action.uid, lambda pod: _nominated(pod, action.node))
        if isinstance(told, PodStatusUnwritten):
            return PreemptOutcome(action, nominated=False, setback=told.setback)
        evicted: list[Victim] = []
        refused: list[tuple[Victim, EvictionFailure]] = []
        for victim in action.victims:
            refusal = await self._evict(victim)
            if refusal is None:
                evicted.append(victim)
                await self._say_why(victim)
                continue
            refused.append((victim, refusal))
            if refusal is not EvictionFailure.REPLACED:
                break
        return PreemptOutcome(action, tuple(evicted), tuple(refused))

    async def evict_gang(self, action: EvictGang) -> EvictGangOutcome:
        """Evict all victims. A failure does not stop the others: a partial gang is of no use."""
        refusals = await each(action.victims, self._evict, at_once=self._at_once)
        results = list(zip(action.victims, refusals, strict=True))
        return EvictGangOutcome(
            action,
            evicted=tuple(victim for victim, refusal in results if refusal is None),
            refused=tuple((victim, refusal) for victim, refusal in results if refusal is not None),
        )

    async def _evict(self, victim: Victim) -> EvictionFailure | None:
        """Evict one victim. None if it is gone or being deleted, whichever client did it."""
        try:
            stays = await self._stays(victim)
            if stays is None:
                return EvictionFailure.REPLACED
            return await self._ask(victim) if stays else None
        except errors.Forbidden:
            return EvictionFailure.FORBIDDEN
        except errors.ApiError:
            return EvictionFailure.API_FAILED

    async def _ask(self, victim: Victim, *, again: bool = True) -> EvictionFailure | None:
        try:
            await self._api.evict(victim.pod.name, victim.pod.namespace, how=Deletion(uid=victim.uid))
        except errors.NotFound as error:
            if error.kind == PODS.plural or not await self._stays(victim):
                return None
            # A budget was deleted during the call: the next call is without it.
            return await self._ask(victim, again=False) if again else EvictionFailure.API_FAILED
        except errors.TooManyRequests:
            return EvictionFailure.BUDGET_SPENT
        except errors.Conflict:
            return EvictionFailure.REPLACED
        except _LOST_ANSWER:
            return EvictionFailure.API_FAILED if await self._stays(victim) else None
        return None

    async def _stays(self, victim: Victim) -> bool | None:
        """True if the pod of this uid is there and not being deleted; None if another pod has its name."""
        try:
            pod = await self._api.get(PODS, victim.pod.name, victim.pod.namespace)
        except errors.NotFound:
            return False
        return None if pod.metadata.uid != victim.uid else pod.metadata.deletion_timestamp is None

    async def _say_why(self, victim: Victim) -> None:
        """Write kube-scheduler's reason into the DisruptionTarget condition of a victim being deleted.

        Not before the eviction: the Eviction API would overwrite it, and a pod that stays must not have the condition.
        """
        now = write_time(self._clock.now())
        try:
            await edit(
                self._api,
                PODS,
                victim.pod.name,
                victim.pod.namespace,
                lambda pod: _marked(pod, victim.uid, self._message, now),
                subresource="status",
            )
        except errors.ApiError:
            return  # the pod is deleted all the same


def _nominated(pod: KubePod, node: str) -> KubePod:
    return replace(pod, status=replace(pod.status, nominated_node_name=node))


def _marked(pod: KubePod, uid: str, message: str, now: str) -> KubePod:
    if pod.metadata.uid != uid or pod.metadata.deletion_timestamp is None:
        return pod
    before = conditions.found(pod.status.conditions, DISRUPTION_TARGET)
    mark = Condition(
        type=DISRUPTION_TARGET,
        status="True",
        reason=BY_SCHEDULER,
        message=message,
        observed_generation=pod.metadata.generation,
        last_transition_time=conditions.since(before, "True", now),
    )
    return replace(pod, status=replace(pod.status, conditions=conditions.put(pod.status.conditions, mark)))
