"""Asks pods to leave a node, each in a task of its own, and waits until they have. Whom to ask is decided elsewhere.

All goes through the Eviction API, which keeps to disruption budgets: "too many requests" means later, not no.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ullage import errors
from ullage.act.together import each
from ullage.act.until import until_all
from ullage.clock import Clock
from ullage.kube.api import Deletion, KubeApi, Selection
from ullage.kube.objects.pod import Pod as KubePod
from ullage.kube.resources import PODS
from ullage.model.drain_outcome import EvictionResult
from ullage.model.pod import Pod

_FOR_GOOD = (errors.Forbidden, errors.Unauthorized, errors.Invalid, errors.BadRequest)
"""Answers that will be the same the next time."""
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionPace:
    """How long pods are asked, and waited for. Seconds."""

    deadline: float = 120.0
    """How long a pod is asked again that may not go yet."""
    most_grace: float = 600.0
    """Pods that want longer to end are given so long."""
    headroom: float = 30.0
    """Beyond its grace a pod is waited for so much longer."""
    daemons_wait: float = 10.0
    """Pods of DaemonSets are waited for so long at most."""
    at_once: int = 64
    """Pods of one node asked at the same time."""

    def grace(self, pod: Pod) -> float:
        return min(pod.marks.grace, self.most_grace)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one pod."""

    pod: Pod
    result: EvictionResult
    detail: str = ""
    asked: bool = True
    """False if it was going already, whoever had told it."""


@dataclass(slots=True)
class _Asking:
    """Shared by those who ask for one node: when one pod stays for good, the others need not go in vain."""

    deadline: float
    hopeless: bool = field(default=False)


class PodMover:
    """Moves pods off nodes. `on_evicted` hears of every pod that was told to go, at once."""

    def __init__(
        self, api: KubeApi, clock: Clock, pace: EvictionPace, on_evicted: Callable[[Pod], None] = lambda _: None
    ) -> None:
        self._api = api
        self._clock = clock
        self._pace = pace
        self.on_evicted = on_evicted

    async def evict(self, pods: Sequence[Pod]) -> tuple[Answer, ...]:
        """Ask all of them, as they were read a moment ago. In the order given."""
        asking = _Asking(self._clock.steady() + self._pace.deadline)
        return await each(pods, lambda pod: self._evict(pod, asking), at_once=self._pace.at_once)

    async def gone(self, node: str, pods: Sequence[Pod]) -> list[Pod]:
        """Wait until these have left the node, as long as they may take. Those that have not."""
        leaving = {pod.uid: pod for pod in pods if pod.node == node}
        if not leaving:
            return []
        longest = max(self._pace.grace(pod) for pod in leaving.values())
        return await self._left(node, leaving, longest + self._pace.headroom)

    async def evict_daemons(self, node: str, pods: Sequence[Pod]) -> None:
        """Pods that go with their node are told to, once, and get a moment to end. Nothing depends on it."""
        if not pods:
            return
        asked = {pod.uid: pod for pod in pods}
        await each(pods, self._evict_once, at_once=self._pace.at_once)
        longest = max(self._pace.grace(pod) for pod in pods)
        await self._left(node, asked, min(longest, self._pace.daemons_wait))

    async def _left(self, node: str, leaving: Mapping[str, Pod], seconds: float) -> list[Pod]:
        """Those that are still there when the time is over."""
        there = dict(leaving)

        def nobody(found: Mapping[str, KubePod]) -> bool | None:
            for uid in there.keys() - found.keys():
                del there[uid]
            return None if there else True

        try:
            async with asyncio.timeout(seconds):
                await until_all(self._api, PODS, Selection(fields=f"spec.nodeName={node}"), nobody)
        except TimeoutError:
            return sorted(there.values(), key=lambda pod: pod.key)
        return []

    async def _evict(self, pod: Pod, asking: _Asking) -> Answer:
        if pod.deleting:
            return Answer(pod, EvictionResult.EVICTED, asked=False)
        wait, told = _FIRST_WAIT, False
        while True:
            pause = wait
            try:
                if told or await self._ask(pod):
                    return Answer(pod, EvictionResult.EVICTED)
                trouble, result = "it is there, and its eviction was refused as another pod's", EvictionResult.FAILED
            except _FOR_GOOD as error:
                asking.hopeless = True
                return Answer(pod, EvictionResult.REFUSED, error.message)
            except errors.TooManyRequests as error:
                trouble, result = error.message, EvictionResult.REFUSED
                pause = max(wait, min(error.retry_after or 0.0, _LONGEST_WAIT))
            except errors.ServerFailure as error:
                trouble, result = error.message, EvictionResult.REFUSED
            except errors.ApiError as error:
                trouble, result = error.message, EvictionResult.FAILED
            if asking.hopeless or self._clock.steady() + pause > asking.deadline:
                asking.hopeless = True
                return Answer(pod, result, trouble)
            await asyncio.sleep(pause)
            wait = min(wait * 2, _LONGEST_WAIT)
            told = await self._is_going(pod)

    async def _ask(self, pod: Pod) -> bool:
        """Whether it goes: it was told to, or is not there any more. Otherwise somebody must look."""
        grace = None if pod.marks.grace <= self._pace.most_grace else int(self._pace.most_grace)
        try:
            await self._api.evict(pod.key.name, pod.key.namespace, how=Deletion(uid=pod.uid, grace_seconds=grace))
        except errors.NotFound:
            return True
        except errors.Conflict:
            return await self._is_going(pod)
        self.on_evicted(pod)
        return True

    async def _is_going(self, pod: Pod) -> bool:
        """Whether this very pod is gone or going, as far as anybody answers: before it is asked once more.

        Another pod of its name must not cost a budget anything: the API server charges it before it looks at the uid.
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
            self.on_evicted(pod)  # the answer to our asking was lost
        return True

    async def _evict_once(self, pod: Pod) -> None:
        try:
            await self._ask(pod)
        except errors.ApiError:
            return
