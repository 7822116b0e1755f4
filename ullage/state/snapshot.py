"""Cluster snapshot: observed facts, assumed pods, and the undo journal of what-if trials.

`apply(event)` takes in what was observed, `assume` and `forget` what is assumed, `put_node` and `add_bulk` what is only
supposed; `what_if` undoes what was tried. Columns, counts, ports and claims change with every step: filters read them
and never count pods.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import msgspec

from ullage.errors import InvariantBroken
from ullage.model.device import MILLI_GPU, Inventory
from ullage.model.dra import ResourceClaim, ResourceSlice
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Synced, Updated
from ullage.model.lease import GpuLease
from ullage.model.namespace import Namespace
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.model.units import Milli
from ullage.model.vm_config import VM_SOURCES
from ullage.model.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from ullage.state.cluster import ClusterState, Fact
from ullage.state.dra_allocations import DraAllocations, holder_key
from ullage.state.external_leases import ExternalLeases
from ullage.state.forking import forked
from ullage.state.journal import BulkAdded, Entry, NodeBefore, PodBefore, Trial
from ullage.state.label_columns import LabelColumns
from ullage.state.node_columns import PODS, NodeColumns
from ullage.state.placed_pods import PlacedPods, same_to_others
from ullage.state.pod_counts import Filters, RowCounts
from ullage.state.storage import AssumedVolume, Storage
from ullage.state.vm_room import VmRoom


class ClusterSnapshot:
    """ClusterSnapshot: every pod that holds room, on the row of its node."""

    def __init__(self, state: ClusterState | None = None, *, vms_changed: Callable[[], None] = lambda: None) -> None:
        """`vms_changed`: called when a number of the VM ledger may be another one. Forks do not call it."""
        self.state = ClusterState() if state is None else state
        self.columns = NodeColumns()
        self.labels = LabelColumns(self.columns)
        self.placed = PlacedPods(self.columns, self.state.namespace_labels)
        self.vms = VmRoom(self.columns, vms_changed)
        self.storage = Storage(self.state)
        self.volumes_version = 0
        """Grows when anything about volumes changes, observed or assumed."""
        self._intended: dict[str, dict[ObjectKey, None]] = {}
        """By namespace: pods that hold room and are not observed on a node yet."""
        self._journal: list[Entry] = []
        self._trials = 0
        for node in self.state.nodes.values():
            self._node_appeared(node)
        for pod in self.state.pods.values():
            if pod.holds_room:
                self._set(pod)
        self.device_claims = DraAllocations(self.state.device_claims.values(), self.state.device_slices.values())
        """GPUs that Dynamic Resource Allocation gave away."""
        for name in self.device_claims.nodes:
            self._hold_for_claims(name)
        self._apply_vms_of_state()
        self.leases = ExternalLeases(self)
        """GPUs leased to pods that the snapshot does not account for."""

    def fork(self) -> "ClusterSnapshot":
        """Return an independent copy that shares frozen facts. Not inside a what-if: a trial is not a fact."""
        self._outside("a snapshot was forked")
        twin = object.__new__(ClusterSnapshot)
        twin.state = state = self.state.fork()
        twin.columns = self.columns.fork()
        twin.labels = self.labels.fork_for(twin.columns)
        twin.placed = self.placed.fork_for(twin.columns, state.namespace_labels)
        twin.storage = self.storage.fork_for(state)
        twin.vms = self.vms.fork_for(twin.columns)
        twin.leases = self.leases.fork_for(twin)
        for name in vars(self).keys() - vars(twin).keys():
            setattr(twin, name, forked(getattr(self, name)))
        return twin

    @property
    def trying(self) -> bool:
        """True inside a what-if."""
        return self._trials > 0

    def _outside(self, what: str) -> None:
        if self._trials:
            raise InvariantBroken(f"{what} inside a what-if: it must not live that long")

    @property
    def pods(self) -> Mapping[ObjectKey, Pod]:
        """Pods that hold room, observed or assumed, each with the node it is on."""
        return MappingProxyType(self.placed.by_key)

    def pods_on(self, node: str) -> Mapping[ObjectKey, Pod]:
        return MappingProxyType(self.placed.on_node.get(node) or {})

    def claim_users(self, claim: ObjectKey) -> Mapping[ObjectKey, None]:
        """Pods on known nodes that mount this claim."""
        return MappingProxyType(self.placed.claim_users.get(claim) or {})

    def holders(self, claim: ObjectKey) -> list[ObjectKey]:
        """Pods that hold room and name this GpuClaim as their own, the oldest first."""
        return self.placed.by_gpu_claim.of(claim)

    def has_intentions(self, namespace: str) -> bool:
        """True if room is assumed for pods of this namespace that are not observed as bound yet."""
        return namespace in self._intended

    def counts(self, filters: Filters) -> RowCounts:
        """Pods on known nodes that match all these filters, by row."""
        return self.placed.tallies.of(filters, self.placed.with_rows)

    def apply(self, event: FactEvent[Fact]) -> None:
        """Take in one event. An observed pod replaces what was assumed for it."""
        self._outside("something was observed")
        self.state.apply(event)
        match event:
            case Added(new=new):
                self._fact_changed(None, new)
            case Updated(old=old, new=new):
                self._fact_changed(old, new)
            case Deleted(old=old):
                self._fact_changed(old, None)
            case Synced(source=source):
                self.leases.apply_synced()
                if source in VM_SOURCES:
                    self._count_vms()

    def assume(
        self,
        pod: Pod,
        node: str,
        gpu_ids: tuple[int, ...] = (),
        gpu_share: Milli = MILLI_GPU,
        volumes: tuple[AssumedVolume, ...] = (),
    ) -> None:
        """The pod is to go on this node, with these GPUs and volumes. If it is somewhere already, it moves."""
        self._intend(
            pod.key,
            msgspec.structs.replace(pod, node=node, gpu_ids=gpu_ids, gpu_share=gpu_share if gpu_ids else MILLI_GPU),
            volumes,
        )

    def forget(self, key: ObjectKey) -> None:
        """The pod is to go, or never came. Nothing happens if it holds nothing."""
        self._intend(key, None)

    def put_node(self, node: Node, inventory: Inventory | None = None) -> None:
        """Suppose a node that does not exist, or other facts of one that does. Only inside a what-if.

        Without an inventory the node's last one stays.
        """
        self._inside("a node was supposed")
        name, known = node.name, self.state.inventories.get(node.name)
        self._journal.append(NodeBefore(name, self.state.nodes.get(name), known))
        self._write_node(name, node, known if inventory is None else inventory)

    def add_bulk(self, row: int, shape: Shape, pods: int) -> None:
        """Count pods of this shape on a row without naming them; below zero they leave. Only inside a what-if.

        Right for pods that take up room and are counted by no other pod's rule.
        """
        self._inside("pods were counted in bulk")
        self._journal.append(BulkAdded(row, shape, pods))
        self._count_bulk(row, shape, pods)

    def _inside(self, what: str) -> None:
        if not self._trials:
            raise InvariantBroken(f"{what} outside of a what-if: nothing would undo it")

    @contextmanager
    def what_if(self) -> Iterator[Trial]:
        """Undo what is changed inside the block at its end, unless the trial is kept. Trials nest.

        It must not live across an await: nothing may be observed meanwhile. Supposed nodes and pods in bulk can be
        kept by an inner trial only.
        """
        mark, trial = len(self._journal), Trial(self._journal, self._undo_to)
        self._trials += 1
        try:
            yield trial
        finally:
            self._trials -= 1
            if not trial.kept:
                self._undo_to(mark)
            if not self._trials:
                self._journal.clear()

    def _undo_to(self, mark: int) -> None:
        journal = self._journal
        while len(journal) > mark:
            match journal.pop():
                case PodBefore(key, pod, volumes):
                    self._replace(key, pod, volumes)
                case BulkAdded(row, shape, pods):
                    self._count_bulk(row, shape, -pods)
                case NodeBefore(name, node, inventory):
                    self._write_node(name, node, inventory)

    def _count_bulk(self, row: int, shape: Shape, pods: int) -> None:
        self.columns.count(row, shape, pods)
        self.vms.add_bulk(self.columns.names[row], shape, pods)
        self.columns.touch(row)

    def _write_node(self, name: str, node: Node | None, inventory: Inventory | None) -> None:
        """Write facts of a node in place, without an event. None: there is no such fact."""
        before, stays = self.state.nodes.get(name), name in self.columns.rows and node is not None
        reported = self.state.write_inventory(name, inventory)
        self.state.write_node(name, node)
        self._node_changed(before, node, name)
        if reported and stays:
            self._inventory_changed(name)
        elif reported:
            self._hold_for_claims(name)

    def _intend(self, key: ObjectKey, pod: Pod | None, volumes: tuple[AssumedVolume, ...] = ()) -> None:
        if self._trials:
            self._journal.append(PodBefore(key, self.placed.by_key.get(key), self.storage.of(key)))
        self._replace(key, pod, volumes)

    def _replace(self, key: ObjectKey, pod: Pod | None, volumes: tuple[AssumedVolume, ...] = ()) -> None:
        before = self.placed.by_key.get(key)
        if before is not None:
            self._unset(before)
        if pod is not None:
            self._set(pod)
        if self.storage.assume(key, volumes):
            self.volumes_version += 1

    def _fact_changed(self, old: Fact | None, new: Fact | None) -> None:
        match new if new is not None else old:
            case Pod() as pod:
                self._pod_changed(old, new)
                self.leases.observe_pod(pod, gone=new is None)
            case GpuLease():
                before, after = (one if isinstance(one, GpuLease) else None for one in (old, new))
                self.leases.renew(before, after)
            case Node(name=name):
                self._node_changed(old, new, name)
            case Inventory(node=name):
                self._inventory_changed(name)
            case Namespace():
                self.placed.tallies.forget_by_namespace()
            case PersistentVolume() | PersistentVolumeClaim() | StorageClass():
                self.volumes_version += 1
            case ResourceClaim() | ResourceSlice():
                self._resource_claim_changed(old, new)
            case _:
                self.vms.apply(old, new)

    def _apply_vms_of_state(self) -> None:
        for fact in (*self.state.vms.values(), *self.state.vm_migrations.values()):
            self.vms.apply(None, fact)
        for document in self.state.vm_nodes.values():
            self.vms.configure(document)
        self._count_vms()

    def _count_vms(self) -> None:
        """Begin to count VMs once both they and the node configuration are known."""
        if self.state.synced.issuperset(VM_SOURCES):
            self.vms.activate(self.state.nodes.values(), self.placed.by_key.values())

    def _inventory_changed(self, name: str) -> None:
        if name in self.columns.rows:
            self._report(self.state.nodes[name])
        self._hold_for_claims(name)

    def _resource_claim_changed(self, old: Fact | None, new: Fact | None) -> None:
        before, after = (one if isinstance(one, ResourceClaim) else None for one in (old, new))
        said, says = (one if isinstance(one, ResourceSlice) else None for one in (old, new))
        for node in (*self.device_claims.renew(before, after), *self.device_claims.renew_slice(said, says)):
            self._hold_for_claims(node)

    def _hold_for_claims(self, node: str) -> None:
        """Hold the node's GPUs that Dynamic Resource Allocation gave away, as far as they are known now."""
        holder = self.device_claims.holder(node, self.state.inventories.get(node))
        if holder != self.placed.by_key.get(holder_key(node)):
            self._replace(holder_key(node), holder)

    def _pod_changed(self, old: Fact | None, new: Fact | None) -> None:
        if isinstance(new, Pod) and new.holds_room:
            self._hold(new)
        elif isinstance(new, Pod) and not new.phase.over and not (isinstance(old, Pod) and old.holds_room):
            pass  # still waiting: what is intended for it stays
        elif isinstance(new, Pod):
            self._replace(new.key, None)
            self.vms.gone(new)
        elif isinstance(old, Pod):
            self._replace(old.key, None)
            self.vms.gone(old)

    def _hold(self, pod: Pod) -> None:
        """Take in a pod that holds room; most events of it do not change that."""
        known = self.placed.by_key.get(pod.key)
        if known is not None and same_to_others(known, pod):
            self.placed.renew(pod)
            self._came_true(pod.key)
            if pod.vm is not None:
                self.vms.set(pod)
        else:
            # Volumes assigned to a pod's node are observed later than the pod, if at all.
            same_place = known is not None and known.node == pod.node
            self._replace(pod.key, pod, self.storage.of(pod.key) if same_place else ())

    def _node_changed(self, old: Fact | None, new: Fact | None, name: str) -> None:
        if not isinstance(new, Node):
            if name in self.columns.rows:
                self._node_vanished(name)
        elif name not in self.columns.rows:
            self._node_appeared(new)
        elif new != old:
            self._offered(new)
            row = self.columns.renew(new)
            if not isinstance(old, Node) or new.labels != old.labels:
                self.labels.put(row, new.labels)
                self._report(new)
            self.vms.put_node(new)

    def _offered(self, node: Node) -> None:
        """Count the use of resources that no node was known to offer before."""
        new = self.columns.offer(name for name in node.allocatable if name != PODS)
        if new:
            for pod, row in self.placed.with_rows():
                self.columns.use(row, [asked for asked in pod.shape.requests if asked[0] in new], +1)

    def _node_appeared(self, node: Node) -> None:
        self._offered(node)
        row = self.columns.add(node)
        self.labels.put(row, node.labels)
        self._report(node)
        self.vms.put_node(node)
        for pod in self.pods_on(node.name).values():
            self.placed.count(pod, row, +1)

    def _node_vanished(self, name: str) -> None:
        row = self.columns.rows[name]
        for pod in self.pods_on(name).values():
            self.placed.count(pod, row, -1)
        self.labels.put(row, {})
        self.vms.drop_node(name)
        self.columns.drop(name)

    def _report(self, node: Node) -> None:
        row = self.columns.rows[node.name]
        self.columns.gpus.report(row, self.state.inventories.get(node.name), node.labels)
        self.columns.touch(row)

    def _set(self, pod: Pod) -> None:
        observed = self.state.pods.get(pod.key)
        if observed is None or not observed.holds_room:
            self._intended.setdefault(pod.key.namespace, {})[pod.key] = None
        self.vms.set(pod)
        self.placed.put(pod)

    def _came_true(self, key: ObjectKey) -> None:
        """Forget that a placement was assumed: the pod was observed on a node, or holds nothing."""
        intended = self._intended.get(key.namespace)
        if intended is not None and intended.pop(key, 0) is None and not intended:
            del self._intended[key.namespace]

    def _unset(self, pod: Pod) -> None:
        self._came_true(pod.key)
        self.vms.unset(pod)
        self.placed.drop(pod)
