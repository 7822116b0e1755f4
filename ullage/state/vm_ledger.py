"""VM ledger: reserved, buffer and pressure of each node, derived from nodes, VMs, pods and migrations.

A node's rows are summed anew from its pods after a fact of it has changed; nothing is counted up or down, so nothing
drifts. Grants and migrations are decided in `decide.vms`.

A fact that is older than the one known changes nothing: a watch may be behind what was read or written here.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from ullage.model.fact_event import ObjectKey
from ullage.model.vm import (
    NOTHING,
    LedgerRow,
    NodeLedger,
    OrdinaryPod,
    RestartRule,
    Vm,
    VmAccount,
    VmAmounts,
    VmMigration,
    VmPod,
)
from ullage.model.vm_config import NodeCapacity, VmConfig, node_capacity, ordinary_reserved
from ullage.state.forking import Forkable
from ullage.state.vm_maxima import VmMaxima

K = TypeVar("K")


class VmLedger(Forkable):
    """Ledger of all nodes. Facts are put and dropped; rows and accounts are read.

    `on_change` is called with the name of a node whose rows may be others now.
    """

    def __init__(
        self,
        config: VmConfig,
        restart: RestartRule = RestartRule.TRUST_APPROVED,
        on_change: Callable[[str], None] = lambda _node: None,
    ) -> None:
        self.config = config
        self._restart = restart
        self._on_change = on_change
        self._nodes: dict[str, VmAmounts] = {}
        self._vms: dict[ObjectKey, Vm] = {}
        self._maxima = VmMaxima()
        self._pods: dict[ObjectKey, VmPod] = {}
        self._ordinary: dict[ObjectKey, OrdinaryPod] = {}
        self._migrations: dict[ObjectKey, VmMigration] = {}
        self._pods_on: dict[str, set[ObjectKey]] = {}
        self._ordinary_on: dict[str, set[ObjectKey]] = {}
        self._pods_of: dict[ObjectKey, set[ObjectKey]] = {}
        self._migrations_of: dict[ObjectKey, set[ObjectKey]] = {}
        self._bulk: dict[str, tuple[VmAmounts, VmAmounts]] = {}
        """By node: amounts of VM pods and of ordinary pods that are counted without a name, in a trial."""
        self._assumed: dict[ObjectKey, VmAmounts] = {}
        self._reported: set[str] = set()
        self._silent: set[str] = set()
        self._newest: dict[str, VmPod] = {}
        """By uid: each pod as it was last written, read or observed, also while it is lifted out."""
        # Results, kept until a fact they are made of changes.
        self._accounts: dict[ObjectKey, VmAccount] = {}
        self._summed: dict[str, NodeLedger] = {}

    def fork_with(self, on_change: Callable[[str], None]) -> "VmLedger":
        """Return an independent copy that tells its changes to another reader."""
        twin = self.fork()
        twin._on_change = on_change
        return twin

    # Facts.

    def configure(self, config: VmConfig) -> None:
        """Take over another configuration. Reserved amounts stay; room and watermarks follow."""
        self.config = config
        for name in self._nodes:
            self._node_changed(name)

    def restarted(self, rule: RestartRule) -> None:
        """Treat approvals found on pods by this rule from now on."""
        if rule is not self._restart:
            self._restart = rule
            for key in self._pods:
                self._pod_changed(key)

    def put_node(self, name: str, allocatable: VmAmounts) -> None:
        self._nodes[name] = allocatable
        self._node_changed(name)

    def drop_node(self, name: str) -> None:
        self._nodes.pop(name, None)
        self._node_changed(name)

    def put_vm(self, vm: Vm) -> None:
        """A VirtualMachine, unless it is older than the one known."""
        known = self._vms.get(vm.key)
        if known is not None and known.uid == vm.uid and is_older(vm.resource_version, known.resource_version):
            return
        self._vms[vm.key] = vm
        self._maxima.changed(known, vm)
        for pod in self.pods_of(vm.key):
            self._maxima.read(vm, pod)
        self._vm_changed(vm.key)

    def drop_vm(self, key: ObjectKey) -> None:
        self._vms.pop(key, None)
        self._maxima.forget(key)
        self._vm_changed(key)

    def put_pod(self, pod: VmPod) -> None:
        """A VM pod that holds room on its node: bound, or assumed there until the bind is observed.

        Approvals of an older version of the pod than the one known count for nothing.
        """
        known = self._pods.get(pod.key)
        if known is not None and known.uid != pod.uid:
            self.drop_pod(pod.key)
        newest = self._newest.get(pod.uid)
        if newest is not None and is_older(pod.resource_version, newest.resource_version):
            pod = msgspec.structs.replace(newest, node=pod.node)
        self._newest[pod.uid] = pod
        self._unindex_pod(pod.key)
        self._pods[pod.key] = pod
        self._pods_on.setdefault(pod.node, set()).add(pod.key)
        self._pods_of.setdefault(pod.vm_key, set()).add(pod.key)
        vm = self._vms.get(pod.vm_key)
        if vm is not None:
            self._maxima.read(vm, pod)
        self._vm_changed(pod.vm_key)

    def lift_pod(self, key: ObjectKey) -> None:
        """Take a pod's room away, as in a trial: what its agent said and what was written for it is kept."""
        self._unindex_pod(key)

    def drop_pod(self, key: ObjectKey) -> None:
        """The pod is gone."""
        pod = self._unindex_pod(key)
        if pod is not None:
            self.forget_pod(key, pod.uid)

    def forget_pod(self, key: ObjectKey, uid: str) -> None:
        """Forget what was said and written about a pod that is gone."""
        self._assumed.pop(key, None)
        self._newest.pop(uid, None)
        self._reported.discard(uid)
        self._silent.discard(uid)

    def put_ordinary(self, pod: OrdinaryPod) -> None:
        self.drop_ordinary(pod.key)
        self._ordinary[pod.key] = pod
        self._ordinary_on.setdefault(pod.node, set()).add(pod.key)
        self._node_changed(pod.node)

    def drop_ordinary(self, key: ObjectKey) -> None:
        pod = self._ordinary.pop(key, None)
        if pod is not None:
            _discard(self._ordinary_on, pod.node, key)
            self._node_changed(pod.node)

    def add_bulk(self, node: str, *, vms: VmAmounts = NOTHING, ordinary: VmAmounts = NOTHING) -> None:
        """Count amounts of pods without naming them; negative ones leave."""
        before = self._bulk.get(node, (NOTHING, NOTHING))
        now = before[0].plus(vms), before[1].plus(ordinary)
        if now == (NOTHING, NOTHING):
            self._bulk.pop(node, None)
        else:
            self._bulk[node] = now
        self._node_changed(node)

    def put_migration(self, migration: VmMigration) -> None:
        self.drop_migration(migration.key)
        self._migrations[migration.key] = migration
        self._migrations_of.setdefault(migration.vm_key, set()).add(migration.key)
        self._vm_changed(migration.vm_key)

    def drop_migration(self, key: ObjectKey) -> None:
        migration = self._migrations.pop(key, None)
        if migration is not None:
            _discard(self._migrations_of, migration.vm_key, key)
            self._vm_changed(migration.vm_key)

    # Writes under way, and what agents say.

    def assume_approval(self, key: ObjectKey, approved: VmAmounts) -> None:
        """Count an approval that is being written: it raises the pod's account and never lowers it."""
        self._assumed[key] = approved
        self._pod_changed(key)

    def forget_approval(self, key: ObjectKey) -> None:
        """The write was observed on the pod, or was refused for certain."""
        self._assumed.pop(key, None)
        self._pod_changed(key)

    def report(self, key: ObjectKey) -> None:
        """The pod's agent spoke to this process: its approval is believed and its request counts."""
        pod = self._pods.get(key)
        if pod is not None:
            self._reported.add(pod.uid)
            self._silent.discard(pod.uid)
            vm = self._vms.get(pod.vm_key)
            if vm is not None:
                self._maxima.permitted(vm, pod.approved)
                for other in self.pods_of(vm.key):  # while it migrates, its other pod may hold more
                    self._maxima.read(vm, other)
            self._vm_changed(pod.vm_key)

    def silence(self, key: ObjectKey) -> None:
        """Note that the pod's agent has been silent for long: its request is no pressure, its approval stays."""
        pod = self._pods.get(key)
        if pod is not None:
            self._silent.add(pod.uid)
            self._pod_changed(key)

    # Reading.

    def nodes(self) -> Iterator[str]:
        yield from sorted(self._nodes)

    def knows(self, node: str) -> bool:
        return node in self._nodes

    def has_vms(self, node: str) -> bool:
        """True if a VM pod holds room there."""
        return node in self._pods_on

    def vm(self, key: ObjectKey) -> Vm | None:
        return self._vms.get(key)

    def vms(self) -> tuple[Vm, ...]:
        return tuple(self._vms[key] for key in sorted(self._vms))

    def pod(self, key: ObjectKey) -> VmPod | None:
        return self._pods.get(key)

    def pods_on(self, node: str) -> tuple[VmPod, ...]:
        return tuple(self._pods[key] for key in sorted(self._pods_on.get(node, ())))

    def pods_of(self, vm: ObjectKey) -> tuple[VmPod, ...]:
        return tuple(self._pods[key] for key in sorted(self._pods_of.get(vm, ())))

    def largest(self, vm: Vm) -> VmAmounts:
        """The VM's maximum, or a larger one it had, while its agent may still go by that."""
        return self._maxima.largest(vm)

    def admitted(self, vm: Vm, approved: VmAmounts | None) -> VmAmounts | None:
        """An approval of one of the VM's pods; None if the scheduler cannot have written it."""
        return self._maxima.admitted(vm, approved)

    def unreadable_approvals(self) -> tuple[VmPod, ...]:
        """Pods that count by their maximum because their approval is missing, malformed or more than is possible."""
        return tuple(
            pod
            for pod in (self._pods[key] for key in sorted(self._pods) if key not in self._assumed)
            if (vm := self._vms.get(pod.vm_key)) is not None and vm.scaling and self.admitted(vm, pod.approved) is None
        )

    def migrations(self) -> tuple[VmMigration, ...]:
        return tuple(self._migrations[key] for key in sorted(self._migrations))

    def ledger(self, node: str) -> NodeLedger:
        """Both rows of a node. One that is not known has room for nothing."""
        found = self._summed.get(node)
        if found is None:
            found = self._summed[node] = self._sum(node)
        return found

    def account(self, key: ObjectKey) -> VmAccount:
        """The pod's part of its node's ledger. The pod must be known."""
        found = self._accounts.get(key)
        if found is None:
            found = self._accounts[key] = self._account(self._pods[key])
        return found

    def migrating(self, pod: VmPod) -> bool:
        """Source of a migration that is not over."""
        if pod.incoming:
            return False
        mine = (self._migrations[key] for key in self._migrations_of.get(pod.vm_key, ()))
        return any(not one.phase.over and one.source_pod in ("", pod.key.name) for one in mine)

    def is_ordinary(self, key: ObjectKey) -> bool:
        """A pod of this name holds room, and is no VM's."""
        return key in self._ordinary

    def ordinary_on(self, node: str) -> VmAmounts:
        """Requests of the node's ordinary pods, before rounding."""
        named = _total(self._ordinary[key].amounts for key in self._ordinary_on.get(node, ()))
        return named.plus(self._bulk[node][1]) if node in self._bulk else named

    def margin(self, node: str) -> VmAmounts:
        """Part of a node's allocatable beyond whole slots: ordinary pods use it first."""
        allocatable, slot = self._nodes.get(node, NOTHING), self.config.slot
        return VmAmounts(allocatable.cpu % slot.cpu, allocatable.memory % slot.memory)

    def rounded(self, node: str, ordinary: VmAmounts) -> VmAmounts:
        """Amounts that ordinary pods with these requests together would reserve on the node."""
        margin, slot = self.margin(node), self.config.slot
        return VmAmounts(
            ordinary_reserved(ordinary.cpu, margin.cpu, slot.cpu),
            ordinary_reserved(ordinary.memory, margin.memory, slot.memory),
        )

    def _sum(self, node: str) -> NodeLedger:
        allocatable = self._nodes.get(node, NOTHING)
        config = self.config.for_node(node)
        accounts = [self.account(key) for key in self._pods_on.get(node, ())]
        cpu = node_capacity(allocatable.cpu, config.cpu, self.config.slot.cpu)
        memory = node_capacity(allocatable.memory, config.memory, self.config.slot.memory)
        reserved = _total(one.reserved for one in accounts).plus(self.rounded(node, self.ordinary_on(node)))
        reserved = reserved.plus(self._bulk[node][0]) if node in self._bulk else reserved
        sums = (
            reserved,
            _total(one.buffer for one in accounts),
            _total(one.capacity_pressure for one in accounts),
            _total(one.accounted_for for one in accounts),
        )
        return NodeLedger(_row(cpu, [one.cpu for one in sums]), _row(memory, [one.memory for one in sums]))

    def _account(self, pod: VmPod) -> VmAccount:
        vm = self._vms.get(pod.vm_key)
        assumed = self._assumed.get(pod.key, NOTHING)
        migrating = self.migrating(pod)
        if vm is None:
            reserved = (pod.approved or pod.requests).at_least(assumed)
            return VmAccount(reserved=reserved, migrating=migrating, known=pod.approved is not None)
        if not vm.scaling and pod.requested is None:
            return VmAccount(reserved=vm.use.at_least(assumed), migrating=migrating)
        # An agent that was told a permit may still apply it after autoscaling was switched off.
        approved = self.admitted(vm, pod.approved)
        known = approved is not None and self._believed(pod)
        reserved = vm.use.at_least(assumed).at_least(approved or NOTHING)
        buffer = NOTHING
        if not known:
            reserved = reserved.at_least(self.largest(vm))
            buffer = reserved.above(vm.use.at_least(assumed))
        wanted = pod.requested if pod.requested is not None and pod.uid not in self._silent else NOTHING
        return VmAccount(
            reserved=reserved,
            buffer=buffer,
            capacity_pressure=wanted.at_most(vm.maximum).above(reserved),
            migrating=migrating,
            known=known,
        )

    def _believed(self, pod: VmPod) -> bool:
        return self._restart is RestartRule.TRUST_APPROVED or pod.uid in self._reported

    def _unindex_pod(self, key: ObjectKey) -> VmPod | None:
        pod = self._pods.pop(key, None)
        if pod is not None:
            _discard(self._pods_on, pod.node, key)
            _discard(self._pods_of, pod.vm_key, key)
            self._accounts.pop(key, None)
            self._node_changed(pod.node)
        return pod

    def _pod_changed(self, key: ObjectKey) -> None:
        pod = self._pods.get(key)
        if pod is not None:
            self._accounts.pop(key, None)
            self._node_changed(pod.node)

    def _node_changed(self, name: str) -> None:
        self._summed.pop(name, None)
        self._on_change(name)

    def _vm_changed(self, vm: ObjectKey) -> None:
        for key in self._pods_of.get(vm, ()):
            self._pod_changed(key)


def is_older(one: str, other: str) -> bool:
    """Compare resourceVersions, which count up. Versions that are no numbers are never older."""
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)


def _row(capacity: NodeCapacity, sums: list[int]) -> LedgerRow:
    reserved, buffer, pressure, accounted = sums
    return LedgerRow(
        total=capacity.total,
        system=capacity.system,
        watermark=capacity.watermark,
        reserved=reserved,
        buffer=buffer,
        capacity_pressure=pressure,
        pressure_accounted_for=accounted,
    )


def _total(parts: Iterable[VmAmounts]) -> VmAmounts:
    cpu = memory = 0
    for part in parts:
        cpu += part.cpu
        memory += part.memory
    return VmAmounts(cpu, memory)


def _discard(index: dict[K, set[ObjectKey]], name: K, key: ObjectKey) -> None:
    members = index.get(name, set())
    members.discard(key)
    if not members:
        index.pop(name, None)
