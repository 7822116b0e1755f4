"""Keeps the status of PodDisruptionBudgets true. Woken by budgets and the pods they select.

A change of replicas alone does not wake it: as in Kubernetes, the first pod that follows does."""

from collections.abc import Sequence

from ullage.clock import Clock, Instant
from ullage.errors import BadRequest, NotFound
from ullage.kube.client.api import KubeApi
from ullage.kube.objects.meta import OwnerReference
from ullage.kube.objects.policy import KubePodDisruptionBudget
from ullage.kube.objects.workload import KubeWorkload
from ullage.kube.read import read_selector
from ullage.model.fact_event import ObjectKey
from ullage.model.selector import Selector
from ullage.sim.controllers.controller_loop import ControllerLoop
from ullage.sim.controllers.disruption import ScaleTarget, plan_budget
from ullage.sim.controllers.object_cache import ObjectCache, key_of
from ullage.sim.controllers.objects import ActorPod, AnyResource, Deployment, StatefulSet
from ullage.sim.controllers.ownership import controller_of
from ullage.sim.controllers.replicaset import wanted
from ullage.sim.controllers.statefulset import replicas_of
from ullage.sim.controllers.writes import perform


class ScaleTargets:
    """Controllers of pods, and the replicas each is asked for."""

    def __init__(
        self,
        api: KubeApi,
        replica_sets: ObjectCache[KubeWorkload],
        deployments: ObjectCache[Deployment],
        stateful_sets: ObjectCache[StatefulSet],
        scalable: Sequence[AnyResource] = (),
    ) -> None:
        self._api = api
        self._replica_sets = replica_sets
        self._deployments = deployments
        self._stateful_sets = stateful_sets
        self._scalable = {(resource.api_version, resource.kind): resource for resource in scalable}

    async def of(self, namespace: str, owner: OwnerReference) -> ScaleTarget | None:
        """The scale of a pod's controller; a ReplicaSet's Deployment stands for it."""
        key = ObjectKey(namespace, owner.name)
        if owner.kind == "ReplicaSet":
            found = self._replica_sets.get(key)
            if found is None or found.metadata.uid != owner.uid:
                return None
            above = controller_of(found.metadata)
            if above is None or above.kind != "Deployment":
                return ScaleTarget(owner.uid, wanted(found))
            deployment = self._deployments.get(ObjectKey(namespace, above.name))
            if deployment is None or deployment.metadata.uid != above.uid:
                return None
            return ScaleTarget(above.uid, 1 if deployment.spec.replicas is None else deployment.spec.replicas)
        if owner.kind == "StatefulSet":
            stateful = self._stateful_sets.get(key)
            same = stateful is not None and stateful.metadata.uid == owner.uid
            return ScaleTarget(owner.uid, replicas_of(stateful)) if stateful is not None and same else None
        return await self._asked(namespace, owner)

    async def _asked(self, namespace: str, owner: OwnerReference) -> ScaleTarget | None:
        resource = self._scalable.get((owner.api_version, owner.kind))
        if resource is None:
            return None
        try:
            return ScaleTarget(owner.uid, await self._api.read_scale(resource, owner.name, namespace))
        except (NotFound, BadRequest):
            return None


class DisruptionController:
    """One key per budget."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        budgets: ObjectCache[KubePodDisruptionBudget],
        pods: ObjectCache[ActorPod],
        scales: ScaleTargets,
    ) -> None:
        self._api = api
        self._clock = clock
        self._budgets = budgets
        self._pods = pods
        self._scales = scales
        self._selectors: dict[ObjectKey, tuple[str, Selector | None]] = {}
        self.actor: ControllerLoop[ObjectKey] = ControllerLoop("disruption", self._sync, clock)
        budgets.listen(self._budget_changed)
        pods.listen(self._pod_changed)

    async def _sync(self, key: ObjectKey) -> Instant | None:
        budget = self._budgets.get(key)
        if budget is None:
            return None
        selector = self._selector(budget)
        pods = [
            pod
            for pod in self._pods.having("namespace", key.namespace)
            if selector is not None and selector.matches(pod.metadata.labels)
        ]
        scales: dict[str, ScaleTarget] = {}
        for pod in pods:
            owner = controller_of(pod.metadata)
            if owner is not None and owner.uid not in scales:
                scale = await self._scales.of(key.namespace, owner)
                if scale is not None:
                    scales[owner.uid] = scale
        plan = plan_budget(budget, pods, scales, now=self._clock.now())
        await perform(self._api, plan.writes)
        return plan.wake_at

    def _selector(self, budget: KubePodDisruptionBudget) -> Selector | None:
        key, version = key_of(budget), budget.metadata.resource_version
        known = self._selectors.get(key)
        if known is None or known[0] != version:
            known = self._selectors[key] = (version, read_selector(budget.spec.selector))
        return known[1]

    def _budget_changed(self, old: KubePodDisruptionBudget | None, new: KubePodDisruptionBudget | None) -> None:
        changed = new or old
        if changed is None:
            return
        if new is None:
            self._selectors.pop(key_of(changed), None)
        self.actor.queue.add(key_of(changed))

    def _pod_changed(self, old: ActorPod | None, new: ActorPod | None) -> None:
        for pod in (old, new):
            if pod is None or (pod is old and new is not None and old.metadata.labels == new.metadata.labels):
                continue
            for budget in self._budgets.having("namespace", pod.metadata.namespace):
                selector = self._selector(budget)
                if selector is not None and selector.matches(pod.metadata.labels):
                    self.actor.queue.add(key_of(budget))
