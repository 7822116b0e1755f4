"""Disruption of the simulated Karpenter: nodes that have been empty for long enough are tainted and deleted."""

import asyncio
from collections.abc import Callable, Coroutine

from ullage.errors import ApiError
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import NODE_CLAIMS
from ullage.sim.karpenter.cluster_state import KarpenterClusterState
from ullage.sim.karpenter.lifecycle import taint_disrupted
from ullage.sim.karpenter.timings import KarpenterTimings


class EmptinessDisruption:
    """Polls for empty nodes, and deletes those that are still empty after the validation."""

    def __init__(self, api: KubeApi, cluster: KarpenterClusterState, timings: KarpenterTimings) -> None:
        self._api = api
        self._cluster = cluster
        self._timings = timings

    async def run(self, spawn: Callable[[Coroutine[None, None, None]], object]) -> None:
        """Poll until cancelled. `spawn` starts the validation of one node beside the poll."""
        while True:
            await asyncio.sleep(self._timings.disruption_poll)
            for name, claim in sorted(self._cluster.claims.items()):
                if not claim.fact.deleting and not claim.condemned and self._cluster.is_empty(claim):
                    claim.condemned = True
                    spawn(self._validate(name))

    async def _validate(self, name: str) -> None:
        await asyncio.sleep(self._timings.validation)
        claim = self._cluster.claims.get(name)
        if claim is None:
            return
        if not self._cluster.is_empty(claim):
            claim.condemned = False
            return
        try:
            await taint_disrupted(self._api, claim.fact.node)
            await self._api.delete(NODE_CLAIMS, name)
        except ApiError:
            claim.condemned = False
