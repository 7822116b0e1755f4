"""Waiting for a moment in what is recorded, so that a test can step in exactly then."""

import asyncio
from collections.abc import Callable

from ullage.kube.objects.node import KubeNode
from ullage.kube.objects.pod import KubePod
from ullage.model.draining import DRAINING_TAINT
from ullage.testing.checks.disruption import Change, DisruptionHistory

Wanted = Callable[[Change], bool]


async def seen(history: DisruptionHistory, wanted: Wanted, seconds: float, *, since: int = 0) -> Change:
    """The first such moment among those recorded from a place in the list on, as soon as it is there."""
    place = since
    async with asyncio.timeout(seconds):
        while True:
            while place < len(history.changes):
                if wanted(history.changes[place]):
                    return history.changes[place]
                place += 1
            history.check()
            await history.noted()


def is_draining(node: str) -> Wanted:
    return lambda change: _is(change, node) and DRAINING_TAINT in taints(change)


def is_free_again(node: str) -> Wanted:
    """It is there, and has not the taint of nodes being removed."""
    return lambda change: _is(change, node) and not change.gone and DRAINING_TAINT not in taints(change)


def is_gone(node: str) -> Wanted:
    return lambda change: _is(change, node) and change.gone


def begins_to_leave(node: str) -> Wanted:
    """A pod on it is being deleted."""

    def leaves(change: Change) -> bool:
        pod = change.fact
        if not isinstance(pod, KubePod) or pod.spec.node_name != node:
            return False
        return change.gone or pod.metadata.deletion_timestamp is not None

    return leaves


def taints(change: Change) -> dict[str, str]:
    return {one.key: one.value for one in change.fact.spec.taints} if isinstance(change.fact, KubeNode) else {}


def _is(change: Change, node: str) -> bool:
    return isinstance(change.fact, KubeNode) and change.fact.metadata.name == node
