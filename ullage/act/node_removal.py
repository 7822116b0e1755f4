"""Remove a node: taint, wait, recheck, evict, recheck, delete. Decides nothing; gives up a plan that fails a recheck.

Every recheck reads from the API server: observed facts may be stale, and a pod may have been bound meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from ullage import errors
from ullage.act.concurrency import KeyedLocks
from ullage.act.node_taints import NodeTaints
from ullage.act.pod_eviction import EvictionAnswer, EvictionPace, PodEvictor
from ullage.clock import Clock
from ullage.cloud.api import CloudError, CloudProvider, RequestRejected
from ullage.kube.client.api import Deletion, KubeApi, ListSelector
from ullage.kube.client.resources import BUDGETS, NODES, PODS
from ullage.kube.read import read_budget, read_node, read_pod
from ullage.model.disruption_budget import PodDisruptionBudget
from ullage.model.drain_outcome import (
    DrainOutcome,
    Eviction,
    EvictionResult,
    NodeNotRemoved,
    NodeRemoved,
    RemovalFailure,
)
from ullage.model.drain_promise import PlanViolation, RemovalPlan
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Node
from ullage.model.pod import Pod

_log = structlog.get_logger("draining")

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0
_WORDS = {
    EvictionResult.REFUSED: RemovalFailure.EVICTION_REFUSED,
    EvictionResult.REMAINS: RemovalFailure.PODS_REMAIN,
    EvictionResult.FAILED: RemovalFailure.API_FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPace:
    """Time limits of the steps of a removal, in seconds."""

    after_taint: float = 5.0
    """Wait after the taint, until every scheduler has observed it."""
    delete_deadline: float = 60.0
    """Time for which a delete call is retried while the cloud does not confirm it."""
    evictions: EvictionPace = field(default_factory=EvictionPace)


@dataclass(frozen=True, slots=True)
class MachineRef:
    """Cloud instance of a node, with its provider."""

    provider: CloudProvider
    instance: str


class Judge(Protocol):
    """Rechecks of a removal plan against objects just read."""

    def node(self, promise: RemovalPlan, node: Node | None) -> PlanViolation | None: ...

    def pods(self, promise: RemovalPlan, pods: Iterable[Pod], *, evicted: bool = False) -> PlanViolation | None:
        """Violation by the pods on the node. `evicted`: no pod that needs a place may be left."""
        ...

    def gangs(
        self, promise: RemovalPlan, members: Mapping[ObjectKey, Pod], budgets: Iterable[PodDisruptionBudget]
    ) -> PlanViolation | None: ...

    def guarded(self, pods: Iterable[Pod]) -> list[str]:
        """Namespaces in which known disruption budgets select some of these pods."""
        ...

    def budgets(self, pods: Iterable[Pod], budgets: Iterable[PodDisruptionBudget]) -> PlanViolation | None:
        """Violation by the first pod whose eviction is sure to be refused now."""
        ...

    def room(self, promise: RemovalPlan) -> PlanViolation | None:
        """Violation by a leaving pod that has no place elsewhere any more."""
        ...

    def leaving(self, promise: RemovalPlan, pods: Iterable[Pod]) -> list[Pod]:
        """Pods to be evicted or waited for."""
        ...

    def following(self, pods: Iterable[Pod]) -> list[Pod]:
        """Pods that leave with the node and can be evicted."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Collaborators of a removal: instance lookup, rechecks, incoming pods, and callbacks."""

    machine_of: Callable[[str], MachineRef | None]
    judge: Judge
    coming: Callable[[str, Collection[str]], Awaitable[ObjectKey | None]]
    """First pod that holds a GPU of the node and is not bound yet, pods of these uids left out."""
    on_eviction: Callable[[Eviction], None] = lambda _: None
    on_evicted: Callable[[Pod], None] = lambda _: None
    """Called as soon as an eviction is accepted."""


class _Stopped(Exception):
    """Stops a removal."""

    def __init__(self, objection: PlanViolation, evicted: int = 0, *, machine_unknown: bool = False) -> None:
        super().__init__(objection.detail)
        self.objection = objection
        self.evicted = evicted
        self.machine_unknown = machine_unknown
        """The cloud may have deleted the instance: the node keeps its taint until a list shows."""


class NodeRemover:
    """Actuator of removals, through one API and the providers of the pools."""

    def __init__(self, api: KubeApi, clock: Clock, pace: DrainPace, around: Around) -> None:
        self.taints = NodeTaints(api)
        self._api = api
        self._clock = clock
        self._pace = pace
        self._around = around
        self._gangs = KeyedLocks()
        self._mover = PodEvictor(api, clock, pace.evictions, around.on_evicted)

    async def begin(self, promise: RemovalPlan) -> PlanViolation | None:
        """Taint the node. Returns a violation if the plan must be given up; with `BUDGET_SPENT` nothing was written."""
        try:
            if promise.pods:
                pods = self._around.judge.leaving(promise, await self._pods_on(promise.node))
                if (objection := await self._sure_refusal(pods)) is not None:
                    return objection
            node = await self.taints.begin(promise.node, promise.uid, self._clock.now())
        except errors.ApiError as error:
            return PlanViolation(RemovalFailure.API_FAILED, error.message)
        return self._around.judge.node(promise, None if node is None else read_node(node))

    async def remove(self, promise: RemovalPlan) -> DrainOutcome:
        """Perform all steps after the taint."""
        evicted = 0
        try:
            await asyncio.sleep(self._pace.after_taint)
            # Members of one gang may be on several nodes being removed: the second removal finds them gone or leaving.
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
            return await self.give_up(promise, PlanViolation(RemovalFailure.API_FAILED, error.message), evicted)

    async def give_up(self, promise: RemovalPlan, objection: PlanViolation, evicted: int = 0) -> NodeNotRemoved:
        """Untaint the node, retrying until written, and return why. After `BUDGET_SPENT` the soft taint stays."""
        waits = objection.setback is RemovalFailure.BUDGET_SPENT
        await self.let_go(promise.node, promise.uid, still_candidate=waits)
        return _stays(promise, objection, evicted)

    async def finish(self, node: str, uid: str) -> None:
        """Delete a Node whose instance is gone already, retrying until done."""
        await self._persist(lambda: self._delete_node(node, uid))

    async def let_go(self, node: str, uid: str, *, still_candidate: bool) -> None:
        """Untaint the node, retrying until written: no taint of ours may stay on a node without a removal."""
        await self._persist(lambda: self.taints.let_go(node, uid, still_candidate=still_candidate))

    async def _look_again(self, promise: RemovalPlan) -> list[Pod]:
        """Recheck, and return the pods to evict as they are now; gang members on other nodes last. Raises _Stopped."""
        leaving = self._around.judge.leaving(promise, await self._checked(promise))
        if leaving and (objection := self._around.judge.room(promise)) is not None:
            raise _Stopped(objection)
        leaving += await self._companions(promise, {pod.key: pod for pod in leaving})
        if (objection := await self._sure_refusal(leaving)) is not None:
            raise _Stopped(objection)
        return leaving

    async def _checked(self, promise: RemovalPlan, *, evicted: bool = False) -> list[Pod]:
        """Pods on the node, by name. Raises _Stopped where the plan does not hold."""
        try:
            node = read_node(await self._api.get(NODES, promise.node))
        except errors.NotFound:
            node = None
        pods = await self._pods_on(promise.node)
        judge = self._around.judge
        objection = judge.node(promise, node) or judge.pods(promise, pods, evicted=evicted)
        here = frozenset(pod.uid for pod in pods)
        if objection is None and (coming := await self._around.coming(promise.node, here)) is not None:
            objection = PlanViolation(
                RemovalFailure.OCCUPIED, f"{coming} holds GPUs of it and is about to come", coming
            )
        if objection is not None:
            raise _Stopped(objection)
        return sorted(pods, key=lambda pod: pod.key)

    async def _pods_on(self, node: str) -> list[Pod]:
        on_it = ListSelector(fields=f"spec.nodeName={node}")
        return [read_pod(raw) for raw in (await self._api.list(PODS, selection=on_it)).items]

    async def _budgets(self, namespaces: Iterable[str]) -> list[PodDisruptionBudget]:
        return [read_budget(raw) for name in namespaces for raw in (await self._api.list(BUDGETS, name)).items]

    async def _sure_refusal(self, pods: Sequence[Pod]) -> PlanViolation | None:
        """Violation by a pod whose budget allows no eviction now, from a fresh read."""
        judge = self._around.judge
        namespaces = judge.guarded(pods)
        return judge.budgets(pods, await self._budgets(namespaces)) if namespaces else None

    async def _companions(self, promise: RemovalPlan, here: dict[ObjectKey, Pod]) -> list[Pod]:
        """Gang members on other nodes that move along. Raises _Stopped where one may not go."""
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
            budgets = await self._budgets(sorted({gang.namespace for gang in promise.gangs}))
            objection = judge.gangs(promise, here | others, budgets)
        if objection is not None:
            raise _Stopped(objection)
        return list(others.values())

    async def _emptied(self, promise: RemovalPlan, answers: Sequence[EvictionAnswer]) -> int:
        """Wait until all evicted pods have left. Returns the number evicted. Raises _Stopped."""
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
            why = PlanViolation(_WORDS[first.result], f"{first.pod.key}: {first.detail}", first.pod.key)
            raise _Stopped(why, asked)
        if remaining:
            pod = remaining[0]
            detail = f"{pod.key} was evicted and is not gone after {self._pace.evictions.grace(pod):g} s and some more"
            raise _Stopped(PlanViolation(RemovalFailure.PODS_REMAIN, detail, pod.key), asked)
        return asked

    async def _deleted(self, promise: RemovalPlan, evicted: int) -> NodeRemoved:
        """Delete an empty node's instance and its Node; or leave a node of no pool to its owner. Raises _Stopped."""
        if promise.pods:
            here = await self._checked(promise, evicted=True)
            await self._mover.evict_daemons(promise.node, self._around.judge.following(here))
        if not promise.owned:
            await self._checked(promise, evicted=True)
            await self._persist(lambda: self.taints.leave_to_owner(promise.node, promise.uid))
            return NodeRemoved(action=promise.action, uid=promise.uid, left_to_owner=True, evicted=evicted)
        instance = await self._delete_machine(promise)
        await self.finish(promise.node, promise.uid)
        return NodeRemoved(action=promise.action, uid=promise.uid, instance=instance, evicted=evicted)

    async def _delete_machine(self, promise: RemovalPlan) -> str:
        """Delete the instance and return its id. Attempts recheck first: a pod may have been bound meanwhile."""
        machine = self._around.machine_of(promise.node)
        if machine is None:
            raise _Stopped(PlanViolation(RemovalFailure.NO_INSTANCE, "no machine is known for it"))
        await self._checked(promise, evicted=True)
        deadline, wait = self._clock.steady() + self._pace.delete_deadline, _FIRST_WAIT
        while True:
            try:
                await machine.provider.delete([machine.instance])
            except CloudError as error:
                pause = max(wait, error.retry_after)
                refused = isinstance(error, RequestRejected)
                if refused or self._clock.steady() + pause > deadline:
                    why = PlanViolation(RemovalFailure.CLOUD_FAILED, error.message)
                    raise _Stopped(why, machine_unknown=not refused) from error
            else:
                return machine.instance
            await asyncio.sleep(pause)
            wait = min(wait * 2, _LONGEST_WAIT)
            # If the Node was deleted with its instance, only the instance is left to delete.
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
        """Retry until the API server has done it."""
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


def _stays(promise: RemovalPlan, objection: PlanViolation, evicted: int) -> NodeNotRemoved:
    return NodeNotRemoved(
        action=promise.action,
        uid=promise.uid,
        setback=objection.setback,
        detail=objection.detail,
        pod=objection.pod,
        evicted=evicted,
    )
