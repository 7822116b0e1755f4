"""Facts of a removal, read from the API server: observed facts may be stale, and a pod may have been bound meanwhile.

Reads only. `decide/draining/recheck.py` checks what is read here.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from ullage.act.concurrency import each
from ullage.act.lease_release import LeaseReleaser
from ullage.act.node_removal import MachineRef
from ullage.clock import Clock
from ullage.control.provisioning.instance_lists import InstanceLists
from ullage.control.provisioning.statuses import ProvisionerStatuses
from ullage.decide.draining.core import DrainCore, UnplaceablePods
from ullage.decide.draining.parallelism import pool_of
from ullage.decide.draining.recheck import RemovalFacts, budget_namespaces
from ullage.decide.draining.rules import DrainContext
from ullage.decide.provisioning.pool_nodes import with_their_nodes
from ullage.errors import NotFound
from ullage.kube.client.api import KubeApi, ListSelector
from ullage.kube.client.resources import BUDGETS, NODES, PODS
from ullage.kube.read import read_budget, read_node, read_pod
from ullage.model.allocation import lease_name
from ullage.model.disruption_budget import PodDisruptionBudget
from ullage.model.fact_event import ObjectKey
from ullage.model.instance import Instance
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.removal_plan import RemovalPlan
from ullage.model.units import Seconds
from ullage.runtime import drive
from ullage.state.snapshot import ClusterSnapshot

_AT_ONCE = 8
UNPLACEABLE_HOLDS = Seconds(0.5)
"""Seconds for which an answer about places elsewhere is reused."""


class IncomingPods:
    """Pods that hold GPUs of a node and are not bound yet: its taint does not stop their bind any more.

    The scheduler takes the Leases of GPUs before it binds, those of a whole gang before its first bind. They are always
    read from the API server: an incoming pod may be one that no watch has delivered yet.
    """

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        known: Callable[[Collection[str]], Mapping[str, ObjectKey]],
        devices: Callable[[str], Sequence[int]],
    ) -> None:
        """`known`: names of observed pods by uid. `devices`: the GPUs of a node."""
        self._known = known
        self._devices = devices
        self._releaser = LeaseReleaser(api, namespace)

    async def first(self, node: str, here: Collection[str]) -> ObjectKey | None:
        """First incoming pod by name. `here`: uids of the pods just read from the node. Raises ApiError."""
        names = [lease_name(node, device) for device in self._devices(node)]
        leases = [lease for lease in await each(names, self._releaser.lease, at_once=_AT_ONCE) if lease is not None]
        holders: dict[str, ObjectKey | None] = {}
        for lease in leases:
            holders.update({hold.uid: lease.pod for hold in lease.holds if hold.uid not in here})
        named = {uid: key for uid, key in sorted(holders.items()) if key is not None}
        nameless = holders.keys() - named.keys()
        if nameless:
            named |= await self._find(nameless)
        coming = await each(sorted(named.items()), lambda one: self._comes(*one, node), at_once=_AT_ONCE)
        return min((key for key in coming if key is not None), default=None)

    async def _find(self, uids: Collection[str]) -> dict[str, ObjectKey]:
        """Names of pods by uid: shared Leases hold only uids. All pods are listed only if some were never observed."""
        found = dict(self._known(uids))
        unobserved = set(uids) - found.keys()
        return {**found, **await self._releaser.find(unobserved)} if unobserved else found

    async def _comes(self, uid: str, key: ObjectKey, node: str) -> ObjectKey | None:
        """Key of the pod if it is pending, or was bound to this node since its pods were read; else None."""
        pod = await self._releaser.pod(key)
        if pod is None or pod.uid != uid or pod.over:
            return None
        return key if pod.node in ("", node) else None


@dataclass(frozen=True, slots=True)
class FleetSources:
    """State shared with the provisioner: one snapshot, one list of instances, one writer of statuses."""

    snapshot: ClusterSnapshot
    statuses: ProvisionerStatuses
    clouds: InstanceLists

    def instances(self) -> list[Instance]:
        """Instances of all providers, with the names of their nodes."""
        return with_their_nodes(self.clouds.instances(), self.snapshot)

    def machine_of(self, node: str) -> MachineRef | None:
        """Instance of a node of a pool, if its provider lists one."""
        pool = self.statuses.provisioners.get(pool_of(self.snapshot.state.nodes.get(node)))
        found = next((one for one in self.instances() if one.node == node), None)
        if pool is None or found is None:
            return None
        return MachineRef(self.clouds.provider(pool.provider), found.id)


class RemovalFactsReader:
    """Reads the facts of a removal's next step, all of them before they are checked. Raises ApiError."""

    def __init__(
        self,
        api: KubeApi,
        incoming: IncomingPods,
        core: DrainCore,
        machine_of: Callable[[str], MachineRef | None],
        clock: Clock,
    ) -> None:
        """`machine_of`: instance of a node, by the last list of its provider."""
        self._api = api
        self._incoming = incoming
        self._core = core
        self.machine_of = machine_of
        self._clock = clock
        self._asking = asyncio.Lock()
        self._answer = UnplaceablePods()
        self._answered_at = -inf

    async def before_taint(self, plan: RemovalPlan) -> RemovalFacts:
        """Pods on the node, and their disruption budgets."""
        pods = await self._pods_on(plan.node)
        context = self._context()
        return RemovalFacts(context=context, pods=pods, budgets=await self._budgets(plan, pods, context))

    def after_taint(self, node: Node | None) -> RemovalFacts:
        """The Node as the taint's write left it."""
        return RemovalFacts(context=self._context(), node=node)

    async def before_eviction(self, plan: RemovalPlan) -> RemovalFacts:
        """Everything a removal depends on."""
        node, pods = await self._node(plan.node), await self._pods_on(plan.node)
        incoming = await self._incoming.first(plan.node, frozenset(pod.uid for pod in pods))
        here = {pod.key for pod in pods if plan.knows(pod)}
        unplaceable = await self._unplaceable(plan.node) if here else None
        members = await self._members(plan, here)
        context = self._context()
        budgets = await self._budgets(plan, (*pods, *members.values()), context)
        return RemovalFacts(
            context=context,
            node=node,
            pods=pods,
            gang_members=members,
            budgets=budgets,
            incoming=incoming,
            unplaceable=unplaceable,
        )

    async def before_deletion(self, plan: RemovalPlan) -> RemovalFacts:
        """The node, its pods, and pods that are about to be bound to it."""
        node, pods = await self._node(plan.node), await self._pods_on(plan.node)
        incoming = await self._incoming.first(plan.node, frozenset(pod.uid for pod in pods))
        return RemovalFacts(context=self._context(), node=node, pods=pods, incoming=incoming)

    async def node_exists(self, node: str) -> bool:
        return await self._node(node) is not None

    async def _unplaceable(self, node: str) -> ObjectKey | None:
        """Pod of the node that fits nowhere else any more. One answer serves removals that began together."""
        async with self._asking:
            began = self._clock.steady()
            if began - self._answered_at > UNPLACEABLE_HOLDS or node not in self._answer.nodes:
                steps = self._core.unplaceable(now=self._clock.now())
                self._answer = await drive(steps, self._clock, budget=inf)
                self._answered_at = began
            return self._answer.by_node.get(node)

    def _context(self) -> DrainContext:
        return self._core.context(now=self._clock.now())

    async def _node(self, name: str) -> Node | None:
        try:
            return read_node(await self._api.get(NODES, name))
        except NotFound:
            return None

    async def _pods_on(self, node: str) -> tuple[Pod, ...]:
        on_it = ListSelector(fields=f"spec.nodeName={node}")
        return tuple(read_pod(raw) for raw in (await self._api.list(PODS, selection=on_it)).items)

    async def _members(self, plan: RemovalPlan, here: Collection[ObjectKey]) -> dict[ObjectKey, Pod]:
        """Pods of the plan on other nodes: members of gangs that move whole."""
        found: dict[ObjectKey, Pod] = {}
        for key in sorted(plan.pods.keys() - here):
            try:
                pod = read_pod(await self._api.get(PODS, key.name, key.namespace))
            except NotFound:
                continue
            if plan.knows(pod):
                found[key] = pod
        return found

    async def _budgets(
        self, plan: RemovalPlan, pods: Iterable[Pod], context: DrainContext
    ) -> tuple[PodDisruptionBudget, ...]:
        names = budget_namespaces(plan, pods, context)
        return tuple([read_budget(raw) for name in names for raw in (await self._api.list(BUDGETS, name)).items])
