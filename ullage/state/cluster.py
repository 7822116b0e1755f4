"""State of the cluster. `apply(event)` takes in what was observed; everything else is read from it.

Sums over pods, by node, are the snapshot's.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ullage.model.claim import Claim
from ullage.model.device import Inventory
from ullage.model.disruption_budget import PodDisruptionBudget
from ullage.model.dra import ResourceClaim, ResourceSlice
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Synced, Updated
from ullage.model.gang import PodGroup
from ullage.model.lease import GpuLease
from ullage.model.namespace import Namespace, labels_of_unheard
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.model.quota import Quota
from ullage.model.vm import Vm, VmMigration
from ullage.model.vm_config import VmNodesDocument
from ullage.model.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from ullage.state.by_age import PodsByAge
from ullage.state.forking import Forkable, forked
from ullage.state.shared_rows import SharedRows

Fact = (
    Node
    | Pod
    | PodDisruptionBudget
    | Namespace
    | Inventory
    | Claim
    | Quota
    | PodGroup
    | PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
    | ResourceClaim
    | ResourceSlice
    | Vm
    | VmMigration
    | VmNodesDocument
    | GpuLease
)


_Named = Node | Namespace | PersistentVolume | StorageClass | GpuLease
"""Facts with a name that is unique in the cluster."""


class _Index(Forkable):
    """Members by the object they belong to, in the order they came."""

    def __init__(self) -> None:
        self._members: SharedRows[ObjectKey, dict[ObjectKey, None]] = SharedRows(dict)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._members

    def keys(self) -> Iterable[ObjectKey]:
        return self._members

    def of(self, key: ObjectKey) -> list[ObjectKey]:
        return list(self._members.get(key) or ())

    def add(self, key: ObjectKey, member: ObjectKey) -> None:
        self._members.own(key)[member] = None

    def drop(self, key: ObjectKey, member: ObjectKey) -> None:
        members = self._members.own(key)
        del members[member]
        if not members:
            self._members.drop(key)


class ClusterState(Forkable):
    """ClusterState: all facts as last observed."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._pools: dict[str, dict[str, Node]] = {}
        """Nodes by the label of their pool, and name."""
        self._tainted: dict[str, Node] = {}
        self._pods: dict[ObjectKey, Pod] = {}
        self._budgets: dict[ObjectKey, PodDisruptionBudget] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._inventories: dict[str, Inventory] = {}
        self._claims: dict[ObjectKey, Claim] = {}
        self._quotas: dict[ObjectKey, Quota] = {}
        self._groups: dict[ObjectKey, PodGroup] = {}
        self._volume_claims: dict[ObjectKey, PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._storage_classes: dict[str, StorageClass] = {}
        self._device_claims: dict[ObjectKey, ResourceClaim] = {}
        self._device_slices: dict[ObjectKey, ResourceSlice] = {}
        self._vms: dict[ObjectKey, Vm] = {}
        self._vm_migrations: dict[ObjectKey, VmMigration] = {}
        self._vm_nodes: dict[ObjectKey, VmNodesDocument] = {}
        self._leases: dict[str, GpuLease] = {}
        self._shelves = self._by_type()
        self._naming = _Index()
        self._waiting_for = PodsByAge()
        self._finished_with = PodsByAge()
        self._templated = _Index()
        self._of_gang = _Index()
        self._gang_sizes: dict[ObjectKey, Counter[int]] = {}
        self._synced: set[str] = set()

    def _by_type(self) -> dict[type[Fact], dict[Any, Any]]:
        """Tables of facts by their type."""
        return {
            Node: self._nodes,
            Pod: self._pods,
            PodDisruptionBudget: self._budgets,
            Namespace: self._namespaces,
            Inventory: self._inventories,
            Claim: self._claims,
            Quota: self._quotas,
            PodGroup: self._groups,
            PersistentVolumeClaim: self._volume_claims,
            PersistentVolume: self._volumes,
            StorageClass: self._storage_classes,
            ResourceClaim: self._device_claims,
            ResourceSlice: self._device_slices,
            Vm: self._vms,
            VmMigration: self._vm_migrations,
            VmNodesDocument: self._vm_nodes,
            GpuLease: self._leases,
        }

    def fork(self) -> "ClusterState":
        """Return an independent copy that shares the facts."""
        twin = object.__new__(ClusterState)
        for name, value in vars(self).items():
            if name != "_shelves":  # the same tables once more
                setattr(twin, name, forked(value))
        twin._shelves = twin._by_type()
        return twin

    @property
    def nodes(self) -> Mapping[str, Node]:
        return MappingProxyType(self._nodes)

    @property
    def tainted_nodes(self) -> Mapping[str, Node]:
        """Nodes with any taint, by name."""
        return self._tainted

    @property
    def pools(self) -> list[str]:
        """Pools whose label some node carries, in order."""
        return sorted(name for name, nodes in self._pools.items() if nodes)

    def nodes_of_pool(self, pool: str) -> Mapping[str, Node]:
        """Nodes that carry the pool's label, by name."""
        return self._pools.get(pool, {})

    @property
    def pods(self) -> Mapping[ObjectKey, Pod]:
        return MappingProxyType(self._pods)

    @property
    def budgets(self) -> Mapping[ObjectKey, PodDisruptionBudget]:
        return MappingProxyType(self._budgets)

    @property
    def namespaces(self) -> Mapping[str, Namespace]:
        return MappingProxyType(self._namespaces)

    @property
    def inventories(self) -> Mapping[str, Inventory]:
        """Inventories by node."""
        return MappingProxyType(self._inventories)

    @property
    def claims(self) -> Mapping[ObjectKey, Claim]:
        """GpuClaims."""
        return MappingProxyType(self._claims)

    @property
    def quotas(self) -> Mapping[ObjectKey, Quota]:
        """GpuQuotas."""
        return MappingProxyType(self._quotas)

    @property
    def groups(self) -> Mapping[ObjectKey, PodGroup]:
        """PodGroups: how many members gangs need."""
        return MappingProxyType(self._groups)

    @property
    def volume_claims(self) -> Mapping[ObjectKey, PersistentVolumeClaim]:
        return MappingProxyType(self._volume_claims)

    @property
    def volumes(self) -> Mapping[str, PersistentVolume]:
        return MappingProxyType(self._volumes)

    @property
    def storage_classes(self) -> Mapping[str, StorageClass]:
        return MappingProxyType(self._storage_classes)

    @property
    def device_claims(self) -> Mapping[ObjectKey, ResourceClaim]:
        """ResourceClaims."""
        return MappingProxyType(self._device_claims)

    @property
    def device_slices(self) -> Mapping[ObjectKey, ResourceSlice]:
        """ResourceSlices."""
        return MappingProxyType(self._device_slices)

    @property
    def vms(self) -> Mapping[ObjectKey, Vm]:
        """VirtualMachines."""
        return MappingProxyType(self._vms)

    @property
    def vm_migrations(self) -> Mapping[ObjectKey, VmMigration]:
        return MappingProxyType(self._vm_migrations)

    @property
    def vm_nodes(self) -> Mapping[ObjectKey, VmNodesDocument]:
        """Node configuration of VMs."""
        return MappingProxyType(self._vm_nodes)

    @property
    def leases(self) -> Mapping[str, GpuLease]:
        """Leases of GPUs, by name."""
        return MappingProxyType(self._leases)

    @property
    def synced(self) -> frozenset[str]:
        """Sources (resource ids) whose first list is complete."""
        return frozenset(self._synced)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Labels of a namespace; for one not observed, the label that every namespace of this name has."""
        known = self._namespaces.get(name)
        return labels_of_unheard(name) if known is None else known.labels

    def pods_naming(self, claim: ObjectKey) -> list[Pod]:
        """Pods that name this GpuClaim as their own, whatever their phase. A claim that is not there may be named."""
        return [self._pods[key] for key in self._naming.of(claim)]

    def oldest_naming(self, claim: ObjectKey) -> Pod | None:
        """The first of the pods that name this GpuClaim as their own, without those that are over or being deleted."""
        key = self._waiting_for.oldest(claim)
        return None if key is None else self._pods[key]

    def last_finished_with(self, claim: ObjectKey) -> Pod | None:
        """The youngest of those that named this GpuClaim as their own and are over."""
        key = self._finished_with.youngest(claim)
        return None if key is None else self._pods[key]

    def pods_from_template(self, claim: ObjectKey) -> list[Pod]:
        """Pods that ask for a copy of this GpuClaim, whatever their phase."""
        return [self._pods[key] for key in self._templated.of(claim)]

    def is_template(self, claim: ObjectKey) -> bool:
        """True if any pod asks for a copy of this GpuClaim."""
        return claim in self._templated

    @property
    def gangs(self) -> list[ObjectKey]:
        """Gangs that GpuClaims name, in order."""
        return sorted(self._of_gang.keys())

    def claims_of_gang(self, gang: ObjectKey) -> list[Claim]:
        """GpuClaims, templates among them, that name this gang."""
        return [self._claims[key] for key in self._of_gang.of(gang)]

    def gang_size(self, gang: ObjectKey) -> int:
        """The most members that one of its claims says it needs; 0 where none says."""
        return max(self._gang_sizes.get(gang, ()), default=0)

    def apply(self, event: FactEvent[Fact]) -> None:
        """Take in one event."""
        match event:
            case Added(new=new):
                self._put(new)
            case Updated(old=old, new=new):
                self._take(old)
                self._put(new)
            case Deleted(old=old):
                self._take(old)
            case Synced(source=source):
                self._synced.add(source)

    def write_node(self, name: str, node: Node | None) -> None:
        """Write a node of a what-if in place, or take it away: facts keep their order when it is undone."""
        before = self._nodes.get(name)
        if node is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = node
        self._index_node(before, node)

    def write_inventory(self, name: str, inventory: Inventory | None) -> bool:
        """Write an inventory of a what-if in place, or take it away. True if that changes anything."""
        before = self._inventories.get(name)
        if inventory is None:
            self._inventories.pop(name, None)
        else:
            self._inventories[name] = inventory
        return before is not inventory

    def _index_node(self, before: Node | None, after: Node | None) -> None:
        was, now = ("" if node is None else node.labels.get(PROVISIONER_LABEL, "") for node in (before, after))
        if before is not None and was and was != now:
            self._pools.get(was, {}).pop(before.name, None)
        if after is not None and now:
            self._pools.setdefault(now, {})[after.name] = after
        if after is not None and after.taints:
            self._tainted[after.name] = after
        elif before is not None:
            self._tainted.pop(before.name, None)

    def _shelf(self, fact: Fact) -> tuple[dict[Any, Any], ObjectKey | str]:
        """Return the table of facts of this kind, and the fact's key in it."""
        shelf = self._shelves[type(fact)]
        if isinstance(fact, Inventory):
            return shelf, fact.node
        return shelf, fact.name if isinstance(fact, _Named) else fact.key

    def _put(self, fact: Fact) -> None:
        shelf, key = self._shelf(fact)
        shelf[key] = fact
        if isinstance(fact, Pod):
            for index, named in self._named_by(fact):
                index.add(named, fact.key)
            self._in_line(fact, PodsByAge.add)
        elif isinstance(fact, Node):
            self._index_node(None, fact)
        elif isinstance(fact, Claim) and fact.gang:
            self._of_gang.add(_gang_of(fact), fact.key)
            self._gang_sizes.setdefault(_gang_of(fact), Counter())[fact.gang_min_member] += 1

    def _take(self, fact: Fact) -> None:
        shelf, key = self._shelf(fact)
        if shelf.pop(key, None) is None:
            return
        if isinstance(fact, Pod):
            for index, named in self._named_by(fact):
                index.drop(named, fact.key)
            self._in_line(fact, PodsByAge.drop)
        elif isinstance(fact, Node):
            self._index_node(fact, None)
        elif isinstance(fact, Claim) and fact.gang:
            self._of_gang.drop(_gang_of(fact), fact.key)
            self._forget_size(fact)

    def _named_by(self, pod: Pod) -> list[tuple[_Index, ObjectKey]]:
        """Indices that list this pod, each with the GpuClaim the pod names."""
        named = []
        if pod.claim:
            named.append((self._naming, ObjectKey(pod.key.namespace, pod.claim)))
        if pod.claim_template:
            named.append((self._templated, ObjectKey(pod.key.namespace, pod.claim_template)))
        return named

    def _in_line(self, pod: Pod, change: Callable[[PodsByAge, ObjectKey, Pod], None]) -> None:
        """A pod joins or leaves those that name its claim, in the order of their age."""
        if not pod.claim:
            return
        claim = ObjectKey(pod.key.namespace, pod.claim)
        if pod.phase.over:
            change(self._finished_with, claim, pod)
        elif not pod.deleting:
            change(self._waiting_for, claim, pod)

    def _forget_size(self, claim: Claim) -> None:
        sizes = self._gang_sizes[_gang_of(claim)]
        sizes[claim.gang_min_member] -= 1
        if not sizes[claim.gang_min_member]:
            del sizes[claim.gang_min_member]
        if not sizes:
            del self._gang_sizes[_gang_of(claim)]


def _gang_of(claim: Claim) -> ObjectKey:
    return ObjectKey(claim.key.namespace, claim.gang)
