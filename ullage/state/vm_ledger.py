"""VM ledger: reserved, buffer and pressure of each node, derived from nodes, VMs, pods and migrations.

A node's rows are summed anew from its pods after a fact of it has changed; nothing is counted up or down, so nothing
drifts. Grants and migrations are decided in `decide.vms`.
"""

from collections.abc import Callable, Iterator

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
from ullage.state.ordinary_pods import OrdinaryPods, total
from ullage.state.vm_approvals import VmApprovals
from ullage.state.vm_facts import VmFacts


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
        self._on_change = on_change
        self._nodes: dict[str, VmAmounts] = {}
        self._facts = VmFacts()
        self._ordinary = OrdinaryPods()
        self._approvals = VmApprovals(restart)
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
        if rule is not self._approvals.restart:
            self._approvals.restart = rule
            for pod in self._facts.pods():
                self._pod_changed(pod)

    def put_node(self, name: str, allocatable: VmAmounts) -> None:
        self._nodes[name] = allocatable
        self._node_changed(name)

    def drop_node(self, name: str) -> None:
        self._nodes.pop(name, None)
        self._node_changed(name)

    def put_vm(self, vm: Vm) -> None:
        """A VirtualMachine, unless it is older than the one known."""
        known = self._facts.vm(vm.key)
        if not self._facts.put_vm(vm):
            return
        self._approvals.maxima.changed(known, vm)
        for pod in self.pods_of(vm.key):
            self._approvals.maxima.read(vm, pod)
        self._vm_changed(vm.key)

    def drop_vm(self, key: ObjectKey) -> None:
        self._facts.drop_vm(key)
        self._approvals.maxima.forget(key)
        self._vm_changed(key)

    def put_pod(self, pod: VmPod) -> None:
        """A VM pod that holds room on its node: bound, or assumed there until the bind is observed.

        Approvals of an older version of the pod than the one known count for nothing.
        """
        known = self._facts.pod(pod.key)
        if known is not None and known.uid != pod.uid:
            self.drop_pod(pod.key)
        pod = self._facts.newest(pod)
        self.lift_pod(pod.key)
        self._facts.put_pod(pod)
        vm = self._facts.vm(pod.vm_key)
        if vm is not None:
            self._approvals.maxima.read(vm, pod)
        self._vm_changed(pod.vm_key)

    def lift_pod(self, key: ObjectKey) -> VmPod | None:
        """Take a pod's room away, as in a trial: what its agent said and what was written for it is kept."""
        pod = self._facts.lift_pod(key)
        if pod is not None:
            self._pod_changed(pod)
        return pod

    def drop_pod(self, key: ObjectKey) -> None:
        """The pod is gone."""
        pod = self.lift_pod(key)
        if pod is not None:
            self.forget_pod(key, pod.uid)

    def forget_pod(self, key: ObjectKey, uid: str) -> None:
        """Forget what was said and written about a pod that is gone."""
        self._facts.forget_newest(uid)
        self._approvals.forget(key, uid)

    def put_ordinary(self, pod: OrdinaryPod) -> None:
        self.drop_ordinary(pod.key)
        self._ordinary.put(pod)
        self._node_changed(pod.node)

    def drop_ordinary(self, key: ObjectKey) -> None:
        pod = self._ordinary.drop(key)
        if pod is not None:
            self._node_changed(pod.node)

    def add_bulk(self, node: str, *, vms: VmAmounts = NOTHING, ordinary: VmAmounts = NOTHING) -> None:
        """Count amounts of pods without naming them; negative ones leave."""
        self._ordinary.add_bulk(node, vms=vms, ordinary=ordinary)
        self._node_changed(node)

    def put_migration(self, migration: VmMigration) -> None:
        self.drop_migration(migration.key)
        self._facts.put_migration(migration)
        self._vm_changed(migration.vm_key)

    def drop_migration(self, key: ObjectKey) -> None:
        migration = self._facts.drop_migration(key)
        if migration is not None:
            self._vm_changed(migration.vm_key)

    # Writes under way, and what agents say.

    def assume_approval(self, key: ObjectKey, approved: VmAmounts) -> None:
        """Count an approval that is being written: it raises the pod's account and never lowers it."""
        self._approvals.assume(key, approved)
        self._approval_changed(key)

    def forget_approval(self, key: ObjectKey) -> None:
        """The write was observed on the pod, or was refused for certain."""
        self._approvals.forget_assumed(key)
        self._approval_changed(key)

    def report(self, key: ObjectKey) -> None:
        """The pod's agent spoke to this process: its approval is believed and its request counts."""
        pod = self._facts.pod(key)
        if pod is not None:
            self._approvals.spoke(pod)
            vm = self._facts.vm(pod.vm_key)
            if vm is not None:
                self._approvals.maxima.permitted(vm, pod.approved)
                for other in self.pods_of(vm.key):  # while it migrates, its other pod may hold more
                    self._approvals.maxima.read(vm, other)
            self._vm_changed(pod.vm_key)

    def silence(self, key: ObjectKey) -> None:
        """Note that the pod's agent has been silent for long: its request is no pressure, its approval stays."""
        pod = self._facts.pod(key)
        if pod is not None:
            self._approvals.silent(pod)
            self._pod_changed(pod)

    # Reading.

    def nodes(self) -> Iterator[str]:
        yield from sorted(self._nodes)

    def knows(self, node: str) -> bool:
        return node in self._nodes

    def has_vms(self, node: str) -> bool:
        """True if a VM pod holds room there."""
        return self._facts.has_pods(node)

    def vm(self, key: ObjectKey) -> Vm | None:
        return self._facts.vm(key)

    def vms(self) -> tuple[Vm, ...]:
        return self._facts.vms()

    def pod(self, key: ObjectKey) -> VmPod | None:
        return self._facts.pod(key)

    def pods_on(self, node: str) -> tuple[VmPod, ...]:
        return self._facts.pods_on(node)

    def pods_of(self, vm: ObjectKey) -> tuple[VmPod, ...]:
        return self._facts.pods_of(vm)

    def largest(self, vm: Vm) -> VmAmounts:
        """The VM's maximum, or a larger one it had, while its agent may still go by that."""
        return self._approvals.maxima.largest(vm)

    def admitted(self, vm: Vm, approved: VmAmounts | None) -> VmAmounts | None:
        """An approval of one of the VM's pods; None if the scheduler cannot have written it."""
        return self._approvals.maxima.admitted(vm, approved)

    def unreadable_approvals(self) -> tuple[VmPod, ...]:
        """Pods that count by their maximum because their approval is missing, malformed or more than is possible."""
        return tuple(
            pod
            for pod in self._facts.pods()
            if not self._approvals.is_assumed(pod.key)
            and (vm := self._facts.vm(pod.vm_key)) is not None
            and vm.scaling
            and self.admitted(vm, pod.approved) is None
        )

    def migrations(self) -> tuple[VmMigration, ...]:
        return self._facts.migrations()

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
            pod = self._facts.pod(key)
            if pod is None:
                raise KeyError(key)
            vm = self._facts.vm(pod.vm_key)
            found = self._accounts[key] = self._approvals.account(pod, vm, migrating=self.migrating(pod))
        return found

    def migrating(self, pod: VmPod) -> bool:
        """Source of a migration that is not over."""
        return self._facts.migrating(pod)

    def is_ordinary(self, key: ObjectKey) -> bool:
        """A pod of this name holds room, and is no VM's."""
        return key in self._ordinary

    def ordinary_on(self, node: str) -> VmAmounts:
        """Requests of the node's ordinary pods, before rounding."""
        return self._ordinary.requests(node)

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
        accounts = [self.account(pod.key) for pod in self._facts.pods_on(node)]
        cpu = node_capacity(allocatable.cpu, config.cpu, self.config.slot.cpu)
        memory = node_capacity(allocatable.memory, config.memory, self.config.slot.memory)
        reserved = total(one.reserved for one in accounts).plus(self.rounded(node, self.ordinary_on(node)))
        reserved = reserved.plus(self._ordinary.unnamed_vms(node))
        sums = (
            reserved,
            total(one.buffer for one in accounts),
            total(one.capacity_pressure for one in accounts),
            total(one.accounted_for for one in accounts),
        )
        return NodeLedger(_row(cpu, [one.cpu for one in sums]), _row(memory, [one.memory for one in sums]))

    def _approval_changed(self, key: ObjectKey) -> None:
        pod = self._facts.pod(key)
        if pod is not None:
            self._pod_changed(pod)

    def _pod_changed(self, pod: VmPod) -> None:
        self._accounts.pop(pod.key, None)
        self._node_changed(pod.node)

    def _node_changed(self, name: str) -> None:
        self._summed.pop(name, None)
        self._on_change(name)

    def _vm_changed(self, vm: ObjectKey) -> None:
        for pod in self._facts.pods_of(vm):
            self._pod_changed(pod)


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
