"""Plans of the simulated VM controller for one VirtualMachine and one VirtualMachineMigration. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ullage.clock import Instant
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import PODS, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.vm import KubeVirtualMachine, KubeVirtualMachineMigration
from ullage.kube.read.vm import read_vm
from ullage.model.quantity import bytes_text, cores_text
from ullage.model.vm import VM_NAME, MigrationPhase, VmPhase
from ullage.sim.controllers.objects import ActorPod
from ullage.sim.controllers.ownership import controller_of, controller_reference
from ullage.sim.controllers.podstate import has_ended, is_terminating
from ullage.sim.controllers.writes import (
    NOTHING,
    ControllerPlan,
    CreateObject,
    MergeObject,
    Write,
    delete_exactly,
    merge_status,
)

_RUNNER = {"cpu": "100m", "memory": "64Mi"}
"""Requests of the container around the machine. The machine itself is counted by the VM ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HypervisorTimings:
    """Seconds things take."""

    hotplug: float = 1.0
    migration: float = 20.0


def vm_plan(
    vm: KubeVirtualMachine,
    pods: Sequence[ActorPod],
    resized_at: Instant,
    timings: HypervisorTimings,
    *,
    now: Instant,
    migrating: bool = True,
) -> ControllerPlan:
    """Keep a pod for the VM, and its status true. `resized_at` is when its present size was first seen.

    `migrating`: a migration of the VM is there and not over. One that somebody deletes is given up.
    """
    if vm.metadata.deletion_timestamp is not None:
        return NOTHING
    mine = [pod for pod in pods if _lives(pod) and _is_controlled_by(pod, vm.metadata)]
    if not mine:
        return ControllerPlan((_runner_pod(vm, pods),))
    pod = next((one for one in mine if one.metadata.name == vm.status.pod_name), mine[0])
    running = pod.status.phase == "Running"
    said: JsonObject = {"podName": pod.metadata.name, "node": pod.spec.node_name}
    if not (VmPhase(vm.status.phase).migrating and migrating):
        said["phase"] = (VmPhase.RUNNING if running else VmPhase.PENDING).value
    plugged_at = Instant(resized_at + timings.hotplug)
    if running and now >= plugged_at:
        use = read_vm(vm).use
        said |= {"cpus": cores_text(use.cpu), "memorySize": bytes_text(use.memory)}
    status = vm.status
    known = {
        "podName": status.pod_name,
        "node": status.node,
        "phase": status.phase,
        "cpus": status.cpus,
        "memorySize": status.memory_size,
    }
    wake = plugged_at if now < plugged_at else None
    if all(known[name] == value for name, value in said.items()):
        return ControllerPlan(wake_at=wake)
    return ControllerPlan((merge_status(VIRTUAL_MACHINES, vm.metadata, said),), wake)


_LONG_NAME = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRun:
    """A migration whose memory is being copied."""

    since: Instant
    fails: bool


def migration_plan(
    migration: KubeVirtualMachineMigration,
    vm: KubeVirtualMachine | None,
    pods: Sequence[ActorPod],
    run: MigrationRun | None,
    timings: HypervisorTimings,
    *,
    now: Instant,
) -> ControllerPlan:
    """The next step of a migration. `run` is there while its phase is Running."""
    phase = MigrationPhase(migration.status.phase)
    if phase.over or migration.metadata.deletion_timestamp is not None:
        return NOTHING
    source = _named(pods, migration.status.source_pod_name or (vm.status.pod_name if vm is not None else ""))
    if vm is None or source is None or not _lives(source):
        return ControllerPlan(_failed(migration, vm, pods))
    if phase is MigrationPhase.NEW:
        return _begun(migration, vm, source)
    target = _named(pods, migration.status.target_pod_name)
    if target is None and phase is MigrationPhase.PENDING:
        return ControllerPlan((_target_pod(migration, vm, source),))
    if target is None or not _lives(target):
        return ControllerPlan(_failed(migration, vm, pods))
    if phase is MigrationPhase.PENDING:
        return _copying(migration, vm, target) if target.status.phase == "Running" else NOTHING
    if run is None:
        return NOTHING
    ends = Instant(run.since + timings.migration)
    if now < ends:
        return ControllerPlan(wake_at=ends)
    return ControllerPlan(_failed(migration, vm, pods) if run.fails else _succeeded(migration, vm, source, target))


def _begun(migration: KubeVirtualMachineMigration, vm: KubeVirtualMachine, source: ActorPod) -> ControllerPlan:
    if source.status.phase != "Running":
        return NOTHING
    said = {
        "phase": MigrationPhase.PENDING.value,
        "sourcePodName": source.metadata.name,
        "sourceNode": source.spec.node_name,
        "targetPodName": _target_name(migration, vm),
    }
    return ControllerPlan(
        (
            _vm_status(vm, {"phase": VmPhase.PRE_MIGRATING.value}),
            merge_status(VIRTUAL_MACHINE_MIGRATIONS, migration.metadata, said),
        )
    )


def _target_name(migration: KubeVirtualMachineMigration, vm: KubeVirtualMachine) -> str:
    """Name of the target pod. Not made of the migration's where that is long: it may be made of the source pod's."""
    name, uid = migration.metadata.name, migration.metadata.uid
    return f"{name}-target" if len(name) < _LONG_NAME else f"{vm.metadata.name}-{uid[-8:]}"


def _copying(migration: KubeVirtualMachineMigration, vm: KubeVirtualMachine, target: ActorPod) -> ControllerPlan:
    said = {"phase": MigrationPhase.RUNNING.value, "targetNode": target.spec.node_name}
    return ControllerPlan(
        (
            _vm_status(vm, {"phase": VmPhase.MIGRATING.value}),
            merge_status(VIRTUAL_MACHINE_MIGRATIONS, migration.metadata, said),
        )
    )


def _succeeded(
    migration: KubeVirtualMachineMigration, vm: KubeVirtualMachine, source: ActorPod, target: ActorPod
) -> tuple[Write, ...]:
    """The target becomes the VM's own pod before the source goes: the VM is never without one."""
    meta = target.metadata
    owned = {"metadata": {"ownerReferences": [controller_reference(VIRTUAL_MACHINES, vm.metadata)]}}
    moved = {"phase": VmPhase.RUNNING.value, "podName": meta.name, "node": target.spec.node_name}
    return (
        MergeObject(PODS, meta.namespace, meta.name, owned),
        _vm_status(vm, moved),
        merge_status(VIRTUAL_MACHINE_MIGRATIONS, migration.metadata, {"phase": MigrationPhase.SUCCEEDED.value}),
        delete_exactly(PODS, source.metadata),
    )


def _failed(
    migration: KubeVirtualMachineMigration, vm: KubeVirtualMachine | None, pods: Sequence[ActorPod]
) -> tuple[Write, ...]:
    """The VM stays where it is, and the target goes."""
    writes: list[Write] = []
    if vm is not None:
        writes.append(_vm_status(vm, {"phase": VmPhase.RUNNING.value}))
    failed = {"phase": MigrationPhase.FAILED.value}
    writes.append(merge_status(VIRTUAL_MACHINE_MIGRATIONS, migration.metadata, failed))
    target = _named(pods, migration.status.target_pod_name)
    if target is not None and _is_controlled_by(target, migration.metadata):
        writes.append(delete_exactly(PODS, target.metadata))
    return tuple(writes)


def _vm_status(vm: KubeVirtualMachine, said: JsonObject) -> MergeObject:
    """Without resourceVersion: the agent writes sizes beside it."""
    meta = vm.metadata
    return MergeObject(
        VIRTUAL_MACHINES, meta.namespace, meta.name, {"metadata": {"uid": meta.uid}, "status": said}, "status"
    )


def _runner_pod(vm: KubeVirtualMachine, pods: Iterable[ActorPod]) -> CreateObject:
    taken = {pod.metadata.name for pod in pods}
    name = next(name for number in range(len(taken) + 1) if (name := f"{vm.metadata.name}-{number}") not in taken)
    return _pod(vm, name, controller_reference(VIRTUAL_MACHINES, vm.metadata))


def _target_pod(migration: KubeVirtualMachineMigration, vm: KubeVirtualMachine, source: ActorPod) -> CreateObject:
    owner = controller_reference(VIRTUAL_MACHINE_MIGRATIONS, migration.metadata)
    away = {"key": "metadata.name", "operator": "NotIn", "values": [source.spec.node_name]}
    terms = {"nodeSelectorTerms": [{"matchFields": [away]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return _pod(vm, migration.status.target_pod_name, owner, affinity=affinity)


def _pod(vm: KubeVirtualMachine, name: str, owner: JsonObject, **spec: object) -> CreateObject:
    meta = vm.metadata
    body: JsonObject = {
        "metadata": {"name": name, "labels": {**meta.labels, VM_NAME: meta.name}, "ownerReferences": [owner]},
        "spec": {
            "schedulerName": vm.spec.scheduler_name or "default-scheduler",
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "runner",
                    "image": "example.com/runner:1",
                    "resources": {"requests": _RUNNER, "limits": _RUNNER},
                }
            ],
        }
        | spec,
    }
    return CreateObject(PODS, meta.namespace, body)


def _named(pods: Iterable[ActorPod], name: str) -> ActorPod | None:
    return next((pod for pod in pods if pod.metadata.name == name), None)


def _lives(pod: ActorPod) -> bool:
    return not has_ended(pod) and not is_terminating(pod)


def _is_controlled_by(pod: ActorPod, meta: ObjectMeta) -> bool:
    owner = controller_of(pod.metadata)
    return owner is not None and owner.uid == meta.uid
