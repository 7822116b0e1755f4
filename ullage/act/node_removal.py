"""NodeRemover: taint a node, evict its pods, delete its instance and its Node. Knows no rules.

`control/draining/removal.py` says in which order and whether to go on.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import structlog

from ullage import errors
from ullage.act.instance_deletes import InstanceDeleter
from ullage.act.node_taints import NodeTaints
from ullage.act.pod_eviction import EvictionPace, PodEvictor
from ullage.act.vm_moves import VmMovePace, VmMover
from ullage.clock import Clock
from ullage.cloud.api import CloudProvider
from ullage.config.settings import DrainingSettings
from ullage.kube.client.api import Deletion, KubeApi
from ullage.kube.client.resources import NODES
from ullage.kube.read import read_node
from ullage.model.node import Node
from ullage.model.removal_plan import RemovalPlan

_log = structlog.get_logger("draining")

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0
_USUAL, _MOVES = DrainingSettings(), VmMovePace()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPace:
    """Time limits of the steps of a removal, in seconds."""

    after_taint: float = _USUAL.node_delete_delay_after_taint
    """Wait after the taint, until every scheduler has observed it."""
    delete_deadline: float = _USUAL.max_delete_time
    """Time for which a delete call is retried while the cloud does not confirm it."""
    evictions: EvictionPace = field(default_factory=EvictionPace)

    @classmethod
    def of(cls, settings: DrainingSettings) -> "DrainPace":
        """Time limits of these settings."""
        return cls(
            after_taint=settings.node_delete_delay_after_taint,
            delete_deadline=settings.max_delete_time,
            evictions=EvictionPace(
                deadline=settings.max_pod_eviction_time, max_grace_period=settings.max_graceful_termination
            ),
        )


@dataclass(frozen=True, slots=True)
class MachineRef:
    """Cloud instance of a node, with its provider."""

    provider: CloudProvider
    instance: str


def retry_waits() -> Iterator[float]:
    """Seconds to wait after each failed attempt: 1 s, doubling to 30 s."""
    wait = _FIRST_WAIT
    while True:
        yield wait
        wait = min(wait * 2, _LONGEST_WAIT)


class NodeRemover:
    """Steps of removals, through one API. What must be written in the end is retried until it is."""

    def __init__(self, api: KubeApi, clock: Clock, pace: EvictionPace, moves: VmMovePace = _MOVES) -> None:
        self.taints = NodeTaints(api)
        self.evictor = PodEvictor(api, clock, pace)
        self.mover = VmMover(api, clock, moves)
        self._deleter = InstanceDeleter(clock)
        self._api = api
        self._clock = clock

    async def taint(self, plan: RemovalPlan) -> Node | None:
        """Write the draining taint. Returns the Node as it is then, None if it is gone. Raises ApiError."""
        node = await self.taints.begin(plan.node, plan.uid, self._clock.now())
        return None if node is None else read_node(node)

    async def delete_machine(self, machine: MachineRef) -> None:
        """Delete an instance, in one call with those that other removals delete now. Raises CloudError."""
        await self._deleter.delete(machine.provider, machine.instance)

    async def delete_node(self, node: str, uid: str) -> None:
        """Delete a Node whose instance is gone, retrying until done."""
        await self._persist(lambda: self._delete_node(node, uid))

    async def leave_to_owner(self, node: str, uid: str) -> None:
        """Cordon an empty node and remove our taints, retrying until written."""
        await self._persist(lambda: self.taints.leave_to_owner(node, uid))

    async def release(self, node: str, uid: str, *, still_candidate: bool) -> None:
        """Untaint the node, retrying until written: no taint of ours may stay on a node without a removal."""
        await self._persist(lambda: self.taints.release(node, uid, still_candidate=still_candidate))

    async def _delete_node(self, node: str, uid: str) -> None:
        try:
            await self._api.delete(NODES, node, how=Deletion(uid=uid))
        except (errors.NotFound, errors.Conflict):
            return  # it is gone, or another one has its name

    async def _persist(self, attempt: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Retry until the API server has done it."""
        for wait in retry_waits():
            try:
                await attempt()
            except errors.ApiError as error:
                _log.warning("not written, and tried again", error=error.message, seconds=wait)
                await asyncio.sleep(wait)
            else:
                return
