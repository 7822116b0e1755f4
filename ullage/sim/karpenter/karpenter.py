"""Simulated Karpenter: batches pending pods, creates NodeClaims and their Nodes, and removes empty nodes.

Times are those measured on a real Karpenter with its kwok provider. It uses nothing of this project but the API, and
keeps nothing that a restart would lose but the time of the last pod event.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from ullage.clock import Clock
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS
from ullage.kube.read import read_pod
from ullage.sim.karpenter.cluster_state import KarpenterClusterState, NodeClaimState
from ullage.sim.karpenter.disruption import EmptinessDisruption
from ullage.sim.karpenter.lifecycle import NodeClaimLifecycle
from ullage.sim.karpenter.provisioning import KarpenterEvents, NodeClaimProvisioner
from ullage.sim.karpenter.solver import InstanceType
from ullage.sim.karpenter.timings import KarpenterTimings
from ullage.watch.informer import Informer, InformerSpec, run_all, wait_all_synced


class SimulatedKarpenter:
    """Simulated Karpenter of one API server. `run` until cancelled."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        types: Sequence[InstanceType],
        *,
        timings: KarpenterTimings = KarpenterTimings(),  # noqa: B008 - frozen
        seed: int = 0,
        on_node: Callable[[str, InstanceType], None] = lambda _name, _kind: None,
    ) -> None:
        """`on_node` is called for every node that registers; the caller starts its agent."""
        self.types = list(types)
        self._api = api
        self._clock = clock
        self._rng = random.Random(seed)
        self._cluster = KarpenterClusterState(clock, self.types, pod_event_dedup=timings.pod_event_dedup)
        events = KarpenterEvents(api, clock)
        self._provisioner = NodeClaimProvisioner(api, clock, self._cluster, events, timings, self._rng)
        self._lifecycle = NodeClaimLifecycle(api, clock, self._cluster, events, timings, on_node)
        self._disruption = EmptinessDisruption(api, self._cluster, timings)
        self._terminating: set[str] = set()

    async def run(self) -> None:
        """Run until cancelled."""
        sources: list[InformerSpec[Any, Any]] = [
            InformerSpec(PODS, read_pod),
            *(_whole_objects(one) for one in (NODES, NODE_CLAIMS, NODE_POOLS)),
        ]
        observe = self._cluster.observe
        informers = [Informer(self._api, one, observe, rng=self._rng, clock=self._clock) for one in sources]
        async with asyncio.TaskGroup() as group:

            def serve(claim: NodeClaimState, is_new: bool) -> None:
                name = claim.fact.name
                if claim.fact.deleting and claim.fact.uid not in self._terminating:
                    self._terminating.add(claim.fact.uid)
                    group.create_task(self._lifecycle.terminate(claim), name=f"terminate {name}")
                elif is_new:
                    group.create_task(self._lifecycle.live(claim), name=f"nodeclaim {name}")

            def node_gone(claim: NodeClaimState) -> None:
                group.create_task(self._lifecycle.abandon(claim), name=f"abandon {claim.fact.name}")

            self._cluster.on_claim, self._cluster.on_node_gone = serve, node_gone
            group.create_task(run_all(*informers), name="karpenter informers")
            await wait_all_synced(*informers)
            group.create_task(self._provisioner.run(), name="karpenter provisioner")
            group.create_task(self._disruption.run(group.create_task), name="karpenter disruption")


def _whole_objects(resource: Resource[Any]) -> InformerSpec[Any, Any]:
    """Objects as JSON. Items of a list do not say their kind."""
    return InformerSpec(resource.whole(), lambda raw: {**raw, "kind": resource.kind})
