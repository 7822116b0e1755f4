"""The five workload controllers, put together: the ControllerSpec of each (`tending`), and what else wakes it."""

from collections.abc import Sequence

from ullage.clock import Clock, Instant
from ullage.kube.client.api import KubeApi
from ullage.kube.objects.meta import PartialObject
from ullage.kube.objects.workload import KubeWorkload
from ullage.kube.read import read_selector
from ullage.model.selector import Selector
from ullage.sim.controllers.daemonset import plan_daemon_set
from ullage.sim.controllers.deployment import plan_deployment
from ullage.sim.controllers.job import newly_ended, plan_job
from ullage.sim.controllers.job_pods import EndedJobPod
from ullage.sim.controllers.object_cache import ObjectCache
from ullage.sim.controllers.objects import (
    ActorJob,
    ActorNode,
    ActorPod,
    ControllerRevision,
    DaemonSet,
    Deployment,
    StatefulSet,
)
from ullage.sim.controllers.owner_controller import ControllerSpec, OwnerController
from ullage.sim.controllers.ownership import controller_of
from ullage.sim.controllers.replicaset import manage_replicas, replica_status
from ullage.sim.controllers.statefulset import plan_stateful_set
from ullage.sim.controllers.writes import ControllerPlan


def _of_workload(owner: KubeWorkload | Deployment | DaemonSet) -> Selector | None:
    return read_selector(owner.spec.selector)


def tend_replica_sets(
    api: KubeApi, clock: Clock, replica_sets: ObjectCache[KubeWorkload], pods: ObjectCache[ActorPod]
) -> OwnerController[KubeWorkload, ActorPod]:
    """Woken by ReplicaSets and pods."""

    def look(owner: KubeWorkload, children: Sequence[ActorPod], settled: bool, now: Instant) -> ControllerPlan:
        related = _siblings_pods(owner, replica_sets, pods)
        steps = manage_replicas(owner, children, related, now=now) if settled else ()
        return ControllerPlan(steps).then(replica_status(owner, children, now=now))

    def failed(owner: KubeWorkload, children: Sequence[ActorPod], why: str, now: Instant) -> ControllerPlan:
        return replica_status(owner, children, why, now=now)

    spec: ControllerSpec[KubeWorkload, ActorPod] = ControllerSpec("replicaset", look, _of_workload, failed)
    return OwnerController(api, clock, spec, replica_sets, pods)


def _siblings_pods(
    owner: KubeWorkload, replica_sets: ObjectCache[KubeWorkload], pods: ObjectCache[ActorPod]
) -> list[ActorPod]:
    """Pods of all ReplicaSets of the same Deployment: they decide which node is crowded."""
    controller = controller_of(owner.metadata)
    if controller is None:
        return pods.having("controller", owner.metadata.uid)
    siblings = replica_sets.having("controller", controller.uid)
    return [pod for each in siblings for pod in pods.having("controller", each.metadata.uid)]


def tend_deployments(
    api: KubeApi,
    clock: Clock,
    deployments: ObjectCache[Deployment],
    replica_sets: ObjectCache[KubeWorkload],
    pods: ObjectCache[ActorPod],
) -> OwnerController[Deployment, KubeWorkload]:
    """Woken by Deployments, ReplicaSets, and deleted pods (new ones may be waiting for that)."""

    def look(owner: Deployment, children: Sequence[KubeWorkload], settled: bool, now: Instant) -> ControllerPlan:
        if not settled:
            return ControllerPlan()
        own = [pod for each in children for pod in pods.having("controller", each.metadata.uid)]
        ours = {each.metadata.name for each in children}
        there = replica_sets.having("namespace", owner.metadata.namespace)
        taken = frozenset(each.metadata.name for each in there if each.metadata.name not in ours)
        return plan_deployment(owner, children, own, taken, now=now)

    spec: ControllerSpec[Deployment, KubeWorkload] = ControllerSpec("deployment", look, _of_workload)
    owner_controller = OwnerController(api, clock, spec, deployments, replica_sets)

    def pod_changed(old: ActorPod | None, new: ActorPod | None) -> None:
        if old is not None and new is None:
            controller = controller_of(old.metadata)
            for each in replica_sets.having("uid", controller.uid) if controller is not None else ():
                owner_controller.wake_controller_of(each.metadata)

    pods.listen(pod_changed)
    return owner_controller


def tend_stateful_sets(
    api: KubeApi,
    clock: Clock,
    stateful_sets: ObjectCache[StatefulSet],
    pods: ObjectCache[ActorPod],
    revisions: ObjectCache[ControllerRevision],
    claims: ObjectCache[PartialObject],
) -> OwnerController[StatefulSet, ActorPod]:
    """Woken by StatefulSets, pods and the revisions of their templates."""

    def look(owner: StatefulSet, children: Sequence[ActorPod], settled: bool, now: Instant) -> ControllerPlan:
        if not settled:
            return ControllerPlan()
        names = frozenset(each.metadata.name for each in claims.having("namespace", owner.metadata.namespace))
        own = revisions.having("controller", owner.metadata.uid)
        return plan_stateful_set(owner, own, children, names, now=now)

    spec: ControllerSpec[StatefulSet, ActorPod] = ControllerSpec("statefulset", look, _of_workload)
    owner_controller = OwnerController(api, clock, spec, stateful_sets, pods)

    def revision_changed(old: ControllerRevision | None, new: ControllerRevision | None) -> None:
        changed = new or old
        if changed is not None:
            owner_controller.wake_controller_of(changed.metadata)

    revisions.listen(revision_changed)
    return owner_controller


def tend_daemon_sets(
    api: KubeApi,
    clock: Clock,
    daemon_sets: ObjectCache[DaemonSet],
    pods: ObjectCache[ActorPod],
    nodes: ObjectCache[ActorNode],
) -> OwnerController[DaemonSet, ActorPod]:
    """Woken by DaemonSets, pods, and nodes that are added, deleted, or change labels or taints."""

    def look(owner: DaemonSet, children: Sequence[ActorPod], settled: bool, now: Instant) -> ControllerPlan:
        return plan_daemon_set(owner, nodes.all(), children, now=now) if settled else ControllerPlan()

    spec: ControllerSpec[DaemonSet, ActorPod] = ControllerSpec("daemonset", look, _of_workload)
    owner_controller = OwnerController(api, clock, spec, daemon_sets, pods)

    def node_changed(old: ActorNode | None, new: ActorNode | None) -> None:
        if old is None or new is None or _place_differs(old, new):
            owner_controller.wake_all()

    nodes.listen(node_changed)
    return owner_controller


def _place_differs(old: ActorNode, new: ActorNode) -> bool:
    return old.metadata.labels != new.metadata.labels or old.spec.taints != new.spec.taints


def tend_jobs(
    api: KubeApi, clock: Clock, jobs: ObjectCache[ActorJob], pods: ObjectCache[ActorPod]
) -> OwnerController[ActorJob, ActorPod]:
    """Woken by Jobs and pods. Jobs that name another controller are left to it."""
    ended: dict[str, dict[str, EndedJobPod]] = {}

    def look(owner: ActorJob, children: Sequence[ActorPod], settled: bool, now: Instant) -> ControllerPlan:
        if owner.spec.managed_by not in ("", "kubernetes.io/job-controller"):
            return ControllerPlan()
        known = ended.setdefault(owner.metadata.uid, {})
        known |= newly_ended(owner, children)
        return plan_job(owner, children, known.values(), settled=settled, now=now)

    def forget(old: ActorJob | None, new: ActorJob | None) -> None:
        if old is not None and new is None:
            ended.pop(old.metadata.uid, None)

    jobs.listen(forget)
    spec: ControllerSpec[ActorJob, ActorPod] = ControllerSpec("job", look, lambda job: read_selector(job.spec.selector))
    return OwnerController(api, clock, spec, jobs, pods)
