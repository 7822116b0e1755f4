"""VMs, their pods and their migrations as they were last heard of, found by name, by VM and by node.

A fact that is older than the one known changes nothing: a watch may be behind what was read or written here.
"""

from typing import TypeVar

import msgspec

from ullage.model.fact_event import ObjectKey
from ullage.model.vm import Vm, VmMigration, VmPod
from ullage.state.forking import Forkable

K = TypeVar("K")


class VmFacts(Forkable):
    """Facts about VMs. Judges none of them."""

    def __init__(self) -> None:
        self._vms: dict[ObjectKey, Vm] = {}
        self._pods: dict[ObjectKey, VmPod] = {}
        self._migrations: dict[ObjectKey, VmMigration] = {}
        self._pods_on: dict[str, set[ObjectKey]] = {}
        self._pods_of: dict[ObjectKey, set[ObjectKey]] = {}
        self._migrations_of: dict[ObjectKey, set[ObjectKey]] = {}
        self._newest: dict[str, VmPod] = {}
        """By uid: each pod as it was last written, read or observed, also while it is lifted out."""

    def put_vm(self, vm: Vm) -> bool:
        """Take in a VirtualMachine. False if it is older than the one known."""
        known = self._vms.get(vm.key)
        if known is not None and known.uid == vm.uid and is_older(vm.resource_version, known.resource_version):
            return False
        self._vms[vm.key] = vm
        return True

    def drop_vm(self, key: ObjectKey) -> None:
        self._vms.pop(key, None)

    def newest(self, pod: VmPod) -> VmPod:
        """The pod, or what is known of it where that is newer; noted as the newest."""
        known = self._newest.get(pod.uid)
        if known is not None and is_older(pod.resource_version, known.resource_version):
            pod = msgspec.structs.replace(known, node=pod.node)
        self._newest[pod.uid] = pod
        return pod

    def forget_newest(self, uid: str) -> None:
        self._newest.pop(uid, None)

    def put_pod(self, pod: VmPod) -> None:
        """Have a pod hold room on its node. It must be lifted out before."""
        self._pods[pod.key] = pod
        self._pods_on.setdefault(pod.node, set()).add(pod.key)
        self._pods_of.setdefault(pod.vm_key, set()).add(pod.key)

    def lift_pod(self, key: ObjectKey) -> VmPod | None:
        """Take a pod's room away. Returns the pod, if it was known."""
        pod = self._pods.pop(key, None)
        if pod is not None:
            discard(self._pods_on, pod.node, key)
            discard(self._pods_of, pod.vm_key, key)
        return pod

    def put_migration(self, migration: VmMigration) -> None:
        self.drop_migration(migration.key)
        self._migrations[migration.key] = migration
        self._migrations_of.setdefault(migration.vm_key, set()).add(migration.key)

    def drop_migration(self, key: ObjectKey) -> VmMigration | None:
        migration = self._migrations.pop(key, None)
        if migration is not None:
            discard(self._migrations_of, migration.vm_key, key)
        return migration

    def vm(self, key: ObjectKey) -> Vm | None:
        return self._vms.get(key)

    def vms(self) -> tuple[Vm, ...]:
        return tuple(self._vms[key] for key in sorted(self._vms))

    def pod(self, key: ObjectKey) -> VmPod | None:
        return self._pods.get(key)

    def pods(self) -> tuple[VmPod, ...]:
        return tuple(self._pods[key] for key in sorted(self._pods))

    def has_pods(self, node: str) -> bool:
        return node in self._pods_on

    def pods_on(self, node: str) -> tuple[VmPod, ...]:
        return tuple(self._pods[key] for key in sorted(self._pods_on.get(node, ())))

    def pods_of(self, vm: ObjectKey) -> tuple[VmPod, ...]:
        return tuple(self._pods[key] for key in sorted(self._pods_of.get(vm, ())))

    def migrations(self) -> tuple[VmMigration, ...]:
        return tuple(self._migrations[key] for key in sorted(self._migrations))

    def migrating(self, pod: VmPod) -> bool:
        """Source of a migration that is not over."""
        if pod.incoming:
            return False
        mine = (self._migrations[key] for key in self._migrations_of.get(pod.vm_key, ()))
        return any(not one.phase.over and one.source_pod in ("", pod.key.name) for one in mine)


def is_older(one: str, other: str) -> bool:
    """Compare resourceVersions, which count up. Versions that are no numbers are never older."""
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)


def discard(index: dict[K, set[ObjectKey]], name: K, key: ObjectKey) -> None:
    """Remove a member from an index, and its name with the last one."""
    members = index.get(name, set())
    members.discard(key)
    if not members:
        index.pop(name, None)
