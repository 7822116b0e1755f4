"""The five workload controllers, put together: each a trade (`tending`), and what else wakes it."""

from collections.abc import Sequence

from ullage.clock import Clock, Instant
from ullage.kube.api import KubeApi
from ullage.kube.objects.meta import PartialObject
from ullage.kube.objects.workload import Workload
from ullage.kube.read import read_selector
from ullage.model.selector import Selector
from ullage.sim.actors.cache import Cache
from ullage.sim.actors.daemonset import plan_daemon_set
from ullage.sim.actors.deployment import plan_deployment
from ullage.sim.actors.job import newly_ended, plan_job
from ullage.sim.actors.job_pods import Ended
from ullage.sim.actors.ownership import controller_of
from ullage.sim.actors.replicaset import manage_replicas, replica_status
from ullage.sim.actors.shapes import (
    ActorJob,
    ActorNode,
    ActorPod,
    ControllerRevision,
    DaemonSet,
    Deployment,
    StatefulSet,
)
from ullage.sim.actors.statefulset import plan_stateful_set
from ullage.sim.actors.tending import Tending, Trade
from ullage.sim.actors.writes import Plan


def _of_workload(owner: Workload | Deployment | DaemonSet) -> Selector | None:
    return read_selector(owner.spec.selector)


def tend_replica_sets(
    api: KubeApi, clock: Clock, replica_sets: Cache[Workload], pods: Cache[ActorPod]
) -> Tending[Workload, ActorPod]:
    """Woken by ReplicaSets and pods."""

    def look(owner: Workload, children: Sequence[ActorPod], settled: bool, now: Instant) -> Plan:
        related = _siblings_pods(owner, replica_sets, pods)
        steps = manage_replicas(owner, children, related, now=now) if settled else ()
        return Plan(steps).then(replica_status(owner, children, now=now))

    def failed(owner: Workload, children: Sequence[ActorPod], why: str, now: Instant) -> Plan:
        return replica_status(owner, children, why, now=now)

    trade: Trade[Workload, ActorPod] = Trade("replicaset", look, _of_workload, failed)
    return Tending(api, clock, trade, replica_sets, pods)


def _siblings_pods(owner: Workload, replica_sets: Cache[Workload], pods: Cache[ActorPod]) -> list[ActorPod]:
    """Pods of all ReplicaSets of the same Deployment: they decide which node is crowded."""
    controller = controller_of(owner.metadata)
    if controller is None:
        return pods.having("controller", owner.metadata.uid)
    siblings = replica_sets.having("controller", controller.uid)
    return [pod for each in siblings for pod in pods.having("controller", each.metadata.uid)]


def tend_deployments(
    api: KubeApi,
    clock: Clock,
    deployments: Cache[Deployment],
    replica_sets: Cache[Workload],
    pods: Cache[ActorPod],
) -> Tending[Deployment, Workload]:
    """Woken by Deployments, ReplicaSets, and pods that are gone (new ones may be waiting for that)."""

    def look(owner: Deployment, children: Sequence[Workload], settled: bool, now: Instant) -> Plan:
        if not settled:
            return Plan()
        own = [pod for each in children for pod in pods.having("controller", each.metadata.uid)]
        ours = {each.metadata.name for each in children}
        there = replica_sets.having("namespace", owner.metadata.namespace)
        taken = frozenset(each.metadata.name for each in there if each.metadata.name not in ours)
        return plan_deployment(owner, children, own, taken, now=now)

    trade: Trade[Deployment, Workload] = Trade("deployment", look, _of_workload)
    tending = Tending(api, clock, trade, deployments, replica_sets)

    def pod_changed(old: ActorPod | None, new: ActorPod | None) -> None:
        if old is not None and new is None:
            controller = controller_of(old.metadata)
            for each in replica_sets.having("uid", controller.uid) if controller is not None else ():
                tending.wake_controller_of(each.metadata)

    pods.listen(pod_changed)
    return tending


def tend_stateful_sets(
    api: KubeApi,
    clock: Clock,
    stateful_sets: Cache[StatefulSet],
    pods: Cache[ActorPod],
    revisions: Cache[ControllerRevision],
    claims: Cache[PartialObject],
) -> Tending[StatefulSet, ActorPod]:
    """Woken by StatefulSets, pods and the revisions of their templates."""

    def look(owner: StatefulSet, children: Sequence[ActorPod], settled: bool, now: Instant) -> Plan:
        if not settled:
            return Plan()
        names = frozenset(each.metadata.name for each in claims.having("namespace", owner.metadata.namespace))
        own = revisions.having("controller", owner.metadata.uid)
        return plan_stateful_set(owner, own, children, names, now=now)

    trade: Trade[StatefulSet, ActorPod] = Trade("statefulset", look, _of_workload)
    tending = Tending(api, clock, trade, stateful_sets, pods)

    def revision_changed(old: ControllerRevision | None, new: ControllerRevision | None) -> None:
        changed = new or old
        if changed is not None:
            tending.wake_controller_of(changed.metadata)

    revisions.listen(revision_changed)
    return tending


def tend_daemon_sets(
    api: KubeApi, clock: Clock, daemon_sets: Cache[DaemonSet], pods: Cache[ActorPod], nodes: Cache[ActorNode]
) -> Tending[DaemonSet, ActorPod]:
    """Woken by DaemonSets, pods, and nodes that come, go, or change labels or taints."""

    def look(owner: DaemonSet, children: Sequence[ActorPod], settled: bool, now: Instant) -> Plan:
        return plan_daemon_set(owner, nodes.all(), children, now=now) if settled else Plan()

    trade: Trade[DaemonSet, ActorPod] = Trade("daemonset", look, _of_workload)
    tending = Tending(api, clock, trade, daemon_sets, pods)

    def node_changed(old: ActorNode | None, new: ActorNode | None) -> None:
        if old is None or new is None or _place_differs(old, new):
            tending.wake_all()

    nodes.listen(node_changed)
    return tending


def _place_differs(old: ActorNode, new: ActorNode) -> bool:
    return old.metadata.labels != new.metadata.labels or old.spec.taints != new.spec.taints


def tend_jobs(api: KubeApi, clock: Clock, jobs: Cache[ActorJob], pods: Cache[ActorPod]) -> Tending[ActorJob, ActorPod]:
    """Woken by Jobs and pods. Jobs that name another controller are left to it."""
    ended: dict[str, dict[str, Ended]] = {}

    def look(owner: ActorJob, children: Sequence[ActorPod], settled: bool, now: Instant) -> Plan:
        if owner.spec.managed_by not in ("", "kubernetes.io/job-controller"):
            return Plan()
        known = ended.setdefault(owner.metadata.uid, {})
        known |= newly_ended(owner, children)
        return plan_job(owner, children, known.values(), settled=settled, now=now)

    def forget(old: ActorJob | None, new: ActorJob | None) -> None:
        if old is not None and new is None:
            ended.pop(old.metadata.uid, None)

    jobs.listen(forget)
    trade: Trade[ActorJob, ActorPod] = Trade("job", look, lambda job: read_selector(job.spec.selector))
    return Tending(api, clock, trade, jobs, pods)
