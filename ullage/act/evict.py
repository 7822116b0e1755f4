"""Performs evictions: those that make room for a pod of higher priority, and those of a gang that is there in part.

All go through the Eviction API, which keeps to disruption budgets. Each victim is read first: a pod that is leaving
needs no eviction, and another pod of the same name must not cost a budget anything (the API server charges the budget
before it looks at the uid). Whom to evict is decided elsewhere.
"""

from msgspec.structs import replace

from ullage import errors
from ullage.act import conditions
from ullage.act.together import each
from ullage.act.waiting_pod import Unwritten, write_status
from ullage.clock import Clock
from ullage.kube.api import Deletion, KubeApi
from ullage.kube.edit import edit
from ullage.kube.moment import write_time
from ullage.kube.objects.meta import Condition
from ullage.kube.objects.pod import Pod
from ullage.kube.resources import PODS
from ullage.model.action import EvictGang, Preempt, Victim
from ullage.model.outcome import EvictGangOutcome, NotEvicted, PreemptOutcome

DISRUPTION_TARGET = "DisruptionTarget"
BY_SCHEDULER = "PreemptionByScheduler"
"""The reason kube-scheduler gives; those who count failures of jobs go by the condition."""

_LOST_ANSWER = (errors.Unreachable, errors.ServerFailure, errors.Unreadable)


class Preempter:
    """Hands for `Preempt` and `EvictGang`. `scheduler` is who says so on the victims."""

    def __init__(self, api: KubeApi, clock: Clock, *, scheduler: str, gang_at_once: int = 16) -> None:
        self._api = api
        self._clock = clock
        self._message = f"{scheduler}: preempting to accommodate a higher priority pod"
        self._at_once = gang_at_once

    async def perform(self, action: Preempt) -> PreemptOutcome:
        """Nominate, then evict one after the other. Whoever stays spares those after him: they would go in vain."""
        told = await write_status(self._api, action.pod, action.uid, lambda pod: _nominated(pod, action.node))
        if isinstance(told, Unwritten):
            return PreemptOutcome(action, nominated=False, setback=told.setback)
        evicted: list[Victim] = []
        refused: list[tuple[Victim, NotEvicted]] = []
        for victim in action.victims:
            refusal = await self._evict(victim)
            if refusal is None:
                evicted.append(victim)
                await self._say_why(victim)
                continue
            refused.append((victim, refusal))
            if refusal is not NotEvicted.REPLACED:
                break
        return PreemptOutcome(action, tuple(evicted), tuple(refused))

    async def evict_gang(self, action: EvictGang) -> EvictGangOutcome:
        """Every victim is tried: what is left of a gang is of no use, so nobody of it goes in vain."""
        refusals = await each(action.victims, self._evict, at_once=self._at_once)
        results = list(zip(action.victims, refusals, strict=True))
        return EvictGangOutcome(
            action,
            evicted=tuple(victim for victim, refusal in results if refusal is None),
            refused=tuple((victim, refusal) for victim, refusal in results if refusal is not None),
        )

    async def _evict(self, victim: Victim) -> NotEvicted | None:
        """None where it is gone or going, whoever did it."""
        try:
            stays = await self._stays(victim)
            if stays is None:
                return NotEvicted.REPLACED
            return await self._ask(victim) if stays else None
        except errors.Forbidden:
            return NotEvicted.FORBIDDEN
        except errors.ApiError:
            return NotEvicted.API_FAILED

    async def _ask(self, victim: Victim) -> NotEvicted | None:
        try:
            await self._api.evict(victim.pod.name, victim.pod.namespace, how=Deletion(uid=victim.uid))
        except errors.NotFound:
            return None
        except errors.TooManyRequests:
            return NotEvicted.BUDGET_SPENT
        except errors.Conflict:
            return NotEvicted.REPLACED
        except _LOST_ANSWER:
            return NotEvicted.API_FAILED if await self._stays(victim) else None
        return None

    async def _stays(self, victim: Victim) -> bool | None:
        """Whether this very pod is there and not leaving; None if another one has its name."""
        try:
            pod = await self._api.get(PODS, victim.pod.name, victim.pod.namespace)
        except errors.NotFound:
            return False
        return None if pod.metadata.uid != victim.uid else pod.metadata.deletion_timestamp is None

    async def _say_why(self, victim: Victim) -> None:
        """On a pod that is on its way out, the condition the Eviction API has set gets kube-scheduler's reason.

        Not before: the Eviction API would write over it, and a pod that stays must not claim to be disrupted.
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
            return  # it leaves all the same


def _nominated(pod: Pod, node: str) -> Pod:
    return replace(pod, status=replace(pod.status, nominated_node_name=node))


def _marked(pod: Pod, uid: str, message: str, now: str) -> Pod:
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
