"""Removes a node: taint, wait, look again, evict, look again, delete. Never decides; what does not hold is given up.

Everything that is looked at is read from the API server: what was heard may be old, and a pod may have come meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from ullage import errors
from ullage.act.drain_pods import Answer, EvictionPace, PodMover
from ullage.act.drain_taints import DrainTaints
from ullage.act.together import Turnstile
from ullage.clock import Clock
from ullage.cloud.api import CloudError, CloudProvider, Refused
from ullage.kube.api import Deletion, KubeApi, Selection
from ullage.kube.read import read_budget, read_node, read_pod
from ullage.kube.resources import BUDGETS, NODES, PODS
from ullage.model.budget import Budget
from ullage.model.drain_outcome import (
    DrainOutcome,
    DrainSetback,
    Eviction,
    EvictionResult,
    NodeGone,
    NodeStays,
)
from ullage.model.drain_promise import Objection, Promise
from ullage.model.event import ObjectKey
from ullage.model.node import Node
from ullage.model.pod import Pod

_log = structlog.get_logger("draining")

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0
_WORDS = {
    EvictionResult.REFUSED: DrainSetback.EVICTION_REFUSED,
    EvictionResult.REMAINS: DrainSetback.PODS_REMAIN,
    EvictionResult.FAILED: DrainSetback.API_FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPace:
    """How long each step may take. Seconds."""

    after_taint: float = 5.0
    """Until every scheduler has heard of the taint."""
    delete_deadline: float = 60.0
    """How long a cloud is asked again that may or may not have deleted a machine."""
    evictions: EvictionPace = field(default_factory=EvictionPace)


@dataclass(frozen=True, slots=True)
class Machine:
    """What is under a node, and whose it is."""

    provider: CloudProvider
    instance: str


class Judge(Protocol):
    """Whether what was promised still holds, of things that were read a moment ago."""

    def node(self, promise: Promise, node: Node | None) -> Objection | None: ...

    def pods(self, promise: Promise, pods: Iterable[Pod], *, evicted: bool = False) -> Objection | None:
        """`evicted`: nobody may be there any more who matters."""
        ...

    def gangs(
        self, promise: Promise, members: Mapping[ObjectKey, Pod], budgets: Iterable[Budget]
    ) -> Objection | None: ...

    def room(self, promise: Promise) -> Objection | None:
        """Whether those who leave still have a place elsewhere."""
        ...

    def leaving(self, promise: Promise, pods: Iterable[Pod]) -> list[Pod]:
        """Those that have to be evicted or waited for."""
        ...

    def following(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those that go with their node, and can be told so."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a removal asks for when it comes to that, and whom it tells."""

    machine_of: Callable[[str], Machine | None]
    judge: Judge
    coming: Callable[[str], Awaitable[ObjectKey | None]]
    """Who holds something of a node already and is about to be bound to it."""
    on_eviction: Callable[[Eviction], None] = lambda _: None
    on_evicted: Callable[[Pod], None] = lambda _: None
    """As soon as a pod was told to go."""


class _Stopped(Exception):
    """A removal does not go on."""

    def __init__(self, objection: Objection, evicted: int = 0, *, machine_unknown: bool = False) -> None:
        super().__init__(objection.detail)
        self.objection = objection
        self.evicted = evicted
        self.machine_unknown = machine_unknown
        """Nobody knows whether there still is a machine: the node must not take pods before somebody does."""


class DrainHands:
    """Acts through one API and the providers of the pools."""

    def __init__(self, api: KubeApi, clock: Clock, pace: DrainPace, around: Around) -> None:
        self.taints = DrainTaints(api)
        self._api = api
        self._clock = clock
        self._pace = pace
        self._around = around
        self._gangs = Turnstile()
        self._mover = PodMover(api, clock, pace.evictions, around.on_evicted)

    async def begin(self, promise: Promise) -> Objection | None:
        """Taint the node. Why it is to be given up, if it is."""
        try:
            node = await self.taints.begin(promise.node, promise.uid, self._clock.now())
        except errors.ApiError as error:
            return Objection(DrainSetback.API_FAILED, error.message)
        return self._around.judge.node(promise, None if node is None else read_node(node))

    async def remove(self, promise: Promise) -> DrainOutcome:
        """All that follows the taint."""
        evicted = 0
        try:
            await asyncio.sleep(self._pace.after_taint)
            # Members of one gang may be on several nodes that go: who comes second finds them gone or going.
            async with self._gangs.through(sorted(promise.gangs)):
                answers = await self._mover.evict(await self._look_again(promise))
            evicted = await self._emptied(promise, answers)
            return await self._deleted(promise, evicted)
        except _Stopped as stopped:
            evicted = evicted or stopped.evicted
            if stopped.machine_unknown:
                return _stays(promise, stopped.objection, evicted)
            return await self.give_up(promise, stopped.objection, evicted)
        except errors.ApiError as error:
            return await self.give_up(promise, Objection(DrainSetback.API_FAILED, error.message), evicted)

    async def give_up(self, promise: Promise, objection: Objection, evicted: int = 0) -> NodeStays:
        """Take the taints off, whatever it takes, and say why."""
        await self.let_go(promise.node, promise.uid, still_candidate=False)
        return _stays(promise, objection, evicted)

    async def finish(self, node: str, uid: str) -> None:
        """Delete a Node whose machine is gone already, for as long as it takes."""
        await self._persist(lambda: self._delete_node(node, uid))

    async def let_go(self, node: str, uid: str, *, still_candidate: bool) -> None:
        """The node takes pods again, whatever it takes: nothing of ours is left on a node nobody works on."""
        await self._persist(lambda: self.taints.let_go(node, uid, still_candidate=still_candidate))

    async def _look_again(self, promise: Promise) -> list[Pod]:
        """Pods that have to be evicted, as they are now; members of their gangs on other nodes last."""
        leaving = self._around.judge.leaving(promise, await self._checked(promise))
        if leaving and (objection := self._around.judge.room(promise)) is not None:
            raise _Stopped(objection)
        return leaving + await self._companions(promise, {pod.key: pod for pod in leaving})

    async def _checked(self, promise: Promise, *, evicted: bool = False) -> list[Pod]:
        """Everybody on the node. Raises _Stopped where the promise does not hold."""
        try:
            node = read_node(await self._api.get(NODES, promise.node))
        except errors.NotFound:
            node = None
        on_it = Selection(fields=f"spec.nodeName={promise.node}")
        pods = [read_pod(raw) for raw in (await self._api.list(PODS, selection=on_it)).items]
        judge = self._around.judge
        objection = judge.node(promise, node) or judge.pods(promise, pods, evicted=evicted)
        if objection is None and (coming := await self._around.coming(promise.node)) is not None:
            objection = Objection(DrainSetback.OCCUPIED, f"{coming} holds GPUs of it and is about to come", coming)
        if objection is not None:
            raise _Stopped(objection)
        return sorted(pods, key=lambda pod: pod.key)

    async def _companions(self, promise: Promise, here: dict[ObjectKey, Pod]) -> list[Pod]:
        """Members of gangs that move whole, on whatever nodes; and whether all of them may go."""
        others: dict[ObjectKey, Pod] = {}
        for key in sorted(promise.pods.keys() - here.keys()):
            try:
                found = read_pod(await self._api.get(PODS, key.name, key.namespace))
            except errors.NotFound:
                continue
            if promise.knows(found) and not found.phase.over:
                others[key] = found
        judge = self._around.judge
        objection = judge.pods(promise, others.values())
        if promise.gangs and objection is None:
            namespaces = sorted({gang.namespace for gang in promise.gangs})
            raw = [one for name in namespaces for one in (await self._api.list(BUDGETS, name)).items]
            objection = judge.gangs(promise, here | others, map(read_budget, raw))
        if objection is not None:
            raise _Stopped(objection)
        return list(others.values())

    async def _emptied(self, promise: Promise, answers: Sequence[Answer]) -> int:
        """Everybody who had to has left: how many were evicted. Raises _Stopped."""
        told = [one.pod for one in answers if one.result is EvictionResult.EVICTED]
        asked = sum(one.asked for one in answers if one.result is EvictionResult.EVICTED)
        staying = [one for one in answers if one.result is not EvictionResult.EVICTED]
        remaining = [] if staying else await self._mover.gone(promise.node, told)
        late = {pod.uid for pod in remaining}
        for answer in answers:
            if not answer.asked and answer.pod.uid not in late:
                continue
            result = EvictionResult.REMAINS if answer.pod.uid in late else answer.result
            self._around.on_eviction(
                Eviction(pod=answer.pod.key, uid=answer.pod.uid, node=promise.node, result=result, detail=answer.detail)
            )
        if staying:
            first = staying[0]
            why = Objection(_WORDS[first.result], f"{first.pod.key}: {first.detail}", first.pod.key)
            raise _Stopped(why, asked)
        if remaining:
            pod = remaining[0]
            detail = f"{pod.key} was evicted and is not gone after {self._pace.evictions.grace(pod):g} s and some more"
            raise _Stopped(Objection(DrainSetback.PODS_REMAIN, detail, pod.key), asked)
        return asked

    async def _deleted(self, promise: Promise, evicted: int) -> NodeGone:
        """Nobody is there who matters: the machine goes, and its Node. Raises _Stopped."""
        if promise.pods:
            here = await self._checked(promise, evicted=True)
            await self._mover.evict_daemons(promise.node, self._around.judge.following(here))
        if not promise.owned:
            await self._checked(promise, evicted=True)
            await self._persist(lambda: self.taints.leave_to_owner(promise.node, promise.uid))
            return NodeGone(action=promise.action, uid=promise.uid, left_to_owner=True, evicted=evicted)
        instance = await self._delete_machine(promise)
        await self.finish(promise.node, promise.uid)
        return NodeGone(action=promise.action, uid=promise.uid, instance=instance, evicted=evicted)

    async def _delete_machine(self, promise: Promise) -> str:
        """The instance that is gone. Each attempt looks again first: somebody may have come while nobody answered."""
        machine = self._around.machine_of(promise.node)
        if machine is None:
            raise _Stopped(Objection(DrainSetback.NO_INSTANCE, "no machine is known for it"))
        await self._checked(promise, evicted=True)
        deadline, wait = self._clock.steady() + self._pace.delete_deadline, _FIRST_WAIT
        while True:
            try:
                await machine.provider.delete([machine.instance])
            except CloudError as error:
                pause = max(wait, error.retry_after)
                refused = isinstance(error, Refused)
                if refused or self._clock.steady() + pause > deadline:
                    why = Objection(DrainSetback.CLOUD_FAILED, error.message)
                    raise _Stopped(why, machine_unknown=not refused) from error
            else:
                return machine.instance
            await asyncio.sleep(pause)
            wait = min(wait * 2, _LONGEST_WAIT)
            # Where the Node went with its machine, only the machine is left to be asked for.
            if await self._is_there(promise.node):
                await self._checked(promise, evicted=True)

    async def _is_there(self, node: str) -> bool:
        try:
            await self._api.get(NODES, node)
        except errors.NotFound:
            return False
        return True

    async def _delete_node(self, node: str, uid: str) -> None:
        try:
            await self._api.delete(NODES, node, how=Deletion(uid=uid))
        except (errors.NotFound, errors.Conflict):
            return  # it is gone, or another one has its name

    async def _persist(self, attempt: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Until the API server has done it."""
        wait = _FIRST_WAIT
        while True:
            try:
                await attempt()
            except errors.ApiError as error:
                _log.warning("not written, and tried again", error=error.message, seconds=wait)
                await asyncio.sleep(wait)
                wait = min(wait * 2, _LONGEST_WAIT)
            else:
                return


def _stays(promise: Promise, objection: Objection, evicted: int) -> NodeStays:
    return NodeStays(
        action=promise.action,
        uid=promise.uid,
        setback=objection.setback,
        detail=objection.detail,
        pod=objection.pod,
        evicted=evicted,
    )
