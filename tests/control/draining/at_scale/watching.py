"""Waiting for a moment in what is recorded, so that a test can step in exactly then."""

import asyncio
from collections.abc import Callable

from ullage.kube.objects.node import KubeNode
from ullage.kube.objects.pod import KubePod
from ullage.model.draining import DRAINING_TAINT
from ullage.testing.checks.disruption import DisruptionHistory, Moment

Wanted = Callable[[Moment], bool]


async def seen(history: DisruptionHistory, wanted: Wanted, seconds: float, *, since: int = 0) -> Moment:
    """The first such moment among those recorded from a place in the list on, as soon as it is there."""
    place = since
    async with asyncio.timeout(seconds):
        while True:
            while place < len(history.moments):
                if wanted(history.moments[place]):
                    return history.moments[place]
                place += 1
            history.check()
            await history.noted()


def is_draining(node: str) -> Wanted:
    return lambda moment: _is(moment, node) and DRAINING_TAINT in taints(moment)


def is_free_again(node: str) -> Wanted:
    """It is there, and has not the taint of nodes being removed."""
    return lambda moment: _is(moment, node) and not moment.gone and DRAINING_TAINT not in taints(moment)


def is_gone(node: str) -> Wanted:
    return lambda moment: _is(moment, node) and moment.gone


def begins_to_leave(node: str) -> Wanted:
    """A pod on it is being deleted."""

    def leaves(moment: Moment) -> bool:
        pod = moment.fact
        if not isinstance(pod, KubePod) or pod.spec.node_name != node:
            return False
        return moment.gone or pod.metadata.deletion_timestamp is not None

    return leaves


def taints(moment: Moment) -> dict[str, str]:
    return {one.key: one.value for one in moment.fact.spec.taints} if isinstance(moment.fact, KubeNode) else {}


def _is(moment: Moment, node: str) -> bool:
    return isinstance(moment.fact, KubeNode) and moment.fact.metadata.name == node
