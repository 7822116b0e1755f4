"""Evict pods of a node, each in its own task, and wait until they have left. The removal plan decides which pods.

All evictions go through the Eviction API, which keeps to disruption budgets. "Too many requests" means try again later.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ullage import errors
from ullage.act.concurrency import each
from ullage.act.wait_for import until_all
from ullage.clock import Clock
from ullage.config.settings import DrainingSettings
from ullage.kube.client.api import Deletion, KubeApi, ListSelector
from ullage.kube.client.resources import PODS
from ullage.kube.objects.pod import KubePod
from ullage.model.outcomes import EvictionResult
from ullage.model.pod import Pod

_FOR_GOOD = (errors.Forbidden, errors.Unauthorized, errors.Invalid, errors.BadRequest)
"""Errors that a retry does not change."""
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 10.0
_USUAL = DrainingSettings()

Accepted = Callable[[Pod], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionPace:
    """Time limits of evictions, in seconds, and their concurrency."""

    deadline: float = _USUAL.max_pod_eviction_time
    """Time for which refused evictions are retried."""
    max_grace_period: float = _USUAL.max_graceful_termination
    """Upper bound on a pod's grace period."""
    headroom: float = 30.0
    """Time to wait for a pod beyond its grace period."""
    daemons_wait: float = 10.0
    """Longest wait for pods of DaemonSets."""
    at_once: int = 64
    """Concurrent evictions of one node."""

    def grace_period(self, pod: Pod) -> float:
        return min(pod.marks.grace_period, self.max_grace_period)


@dataclass(frozen=True, slots=True)
class EvictionAnswer:
    """Result of one eviction."""

    pod: Pod
    result: EvictionResult
    detail: str = ""
    asked: bool = True
    """False if the pod was being deleted already, and no eviction was sent."""


@dataclass(slots=True)
class _Asking:
    """State shared by the evictions of one node: once one pod stays for good, the others are not retried."""

    deadline: float
    accepted: Accepted
    pointless: bool = field(default=False)


class PodEvictor:
    """Evicts pods through one API."""

    def __init__(self, api: KubeApi, clock: Clock, pace: EvictionPace) -> None:
        self._api = api
        self._clock = clock
        self.pace = pace

    async def evict(self, pods: Sequence[Pod], accepted: Accepted) -> tuple[EvictionAnswer, ...]:
        """Evict all of these pods, which were just read. Answers in the order given.

        `accepted` is called at once for every pod whose eviction was accepted: others still wait for theirs.
        """
        asking = _Asking(self._clock.steady() + self.pace.deadline, accepted)
        return await each(pods, lambda pod: self._evict(pod, asking), at_once=self.pace.at_once)

    async def gone(self, node: str, pods: Sequence[Pod]) -> list[Pod]:
        """Wait until these pods have left the node, up to their grace and headroom. Returns those that have not."""
        leaving = {pod.uid: pod for pod in pods if pod.node == node}
        if not leaving:
            return []
        longest = max(self.pace.grace_period(pod) for pod in leaving.values())
        return await self._left(node, leaving, longest + self.pace.headroom)

    async def evict_daemons(self, node: str, pods: Sequence[Pod], accepted: Accepted) -> None:
        """Evict pods that leave with the node, once each, and wait a moment. Errors are ignored."""
        if not pods:
            return
        asked = {pod.uid: pod for pod in pods}
        await each(pods, lambda pod: self._evict_once(pod, accepted), at_once=self.pace.at_once)
        longest = max(self.pace.grace_period(pod) for pod in pods)
        await self._left(node, asked, min(longest, self.pace.daemons_wait))

    async def _left(self, node: str, leaving: Mapping[str, Pod], seconds: float) -> list[Pod]:
        """Wait until these pods have left. Returns those still there after `seconds`, by name."""
        there = dict(leaving)

        def nobody(found: Mapping[str, KubePod]) -> bool | None:
            for uid in there.keys() - found.keys():
                del there[uid]
            return None if there else True

        try:
            async with asyncio.timeout(seconds):
                await until_all(self._api, PODS, ListSelector(fields=f"spec.nodeName={node}"), nobody)
        except TimeoutError:
            return sorted(there.values(), key=lambda pod: pod.key)
        return []

    async def _evict(self, pod: Pod, asking: _Asking) -> EvictionAnswer:
        if pod.deleting:
            return EvictionAnswer(pod, EvictionResult.EVICTED, asked=False)
        wait, told = _FIRST_WAIT, False
        while True:
            pause = wait
            try:
                if told or await self._ask(pod, asking.accepted):
                    return EvictionAnswer(pod, EvictionResult.EVICTED)
                trouble, result = "it is there, and its eviction was refused as another pod's", EvictionResult.FAILED
            except _FOR_GOOD as error:
                asking.pointless = True
                return EvictionAnswer(pod, EvictionResult.REFUSED, error.message)
            except errors.TooManyRequests as error:
                trouble, result = error.message, EvictionResult.REFUSED
                pause = max(wait, min(error.retry_after or 0.0, _LONGEST_WAIT))
            except errors.ServerFailure as error:
                trouble, result = error.message, EvictionResult.REFUSED
            except errors.ApiError as error:
                trouble, result = error.message, EvictionResult.FAILED
            if asking.pointless or self._clock.steady() + pause > asking.deadline:
                asking.pointless = True
                return EvictionAnswer(pod, result, trouble)
            await asyncio.sleep(pause)
            wait = min(wait * 2, _LONGEST_WAIT)
            told = await self._is_going(pod, asking.accepted)

    async def _ask(self, pod: Pod, accepted: Accepted) -> bool:
        """Send one eviction. True if it was accepted, or the pod is gone or being deleted; False if it stays."""
        grace_period = None if pod.marks.grace_period <= self.pace.max_grace_period else int(self.pace.max_grace_period)
        try:
            await self._api.evict(
                pod.key.name, pod.key.namespace, how=Deletion(uid=pod.uid, grace_seconds=grace_period)
            )
        except errors.NotFound as error:
            # Also the answer for a budget that was deleted during the call: the pod may still be there.
            if error.kind != PODS.plural and not await self._is_going(pod, accepted):
                raise
            return True
        except errors.Conflict:
            return await self._is_going(pod, accepted)
        accepted(pod)
        return True

    async def _is_going(self, pod: Pod, accepted: Accepted) -> bool:
        """True if the pod of this uid is gone or being deleted; False also if the API does not answer.

        Read before an eviction is sent again: the API server charges the budget before it compares the uid, so another
        pod of the same name would cost the budget an eviction.
        """
        try:
            found = await self._api.get(PODS, pod.key.name, pod.key.namespace)
        except errors.NotFound:
            return True
        except errors.ApiError:
            return False
        if found.metadata.uid == pod.uid and found.metadata.deletion_timestamp is None:
            return False
        if found.metadata.uid == pod.uid:
            accepted(pod)  # the response to our eviction was lost
        return True

    async def _evict_once(self, pod: Pod, accepted: Accepted) -> None:
        try:
            await self._ask(pod, accepted)
        except errors.ApiError:
            return
