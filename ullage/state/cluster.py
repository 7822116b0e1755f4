"""One picture of the cluster. `apply(event)` is its only mutator; everything else is read from it.

Sums (what is used on a node) are kept beside the facts they come from and changed with them; `invariants.broken` adds
them up from nothing and compares.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ullage.model.budget import Budget
from ullage.model.claim import Claim
from ullage.model.device import Inventory
from ullage.model.device_claim import DeviceClaim, DeviceSlice
from ullage.model.event import Appeared, Changed, Event, ObjectKey, Synced, Vanished
from ullage.model.gang import PodGroup
from ullage.model.namespace import Namespace, labels_of_unheard
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.model.quota import Quota
from ullage.model.volume import StorageClass, Volume, VolumeClaim

Fact = (
    Node
    | Pod
    | Budget
    | Namespace
    | Inventory
    | Claim
    | Quota
    | PodGroup
    | VolumeClaim
    | Volume
    | StorageClass
    | DeviceClaim
    | DeviceSlice
)


class _Index:
    """Who belongs to whom, in the order they came."""

    def __init__(self) -> None:
        self._members: dict[ObjectKey, dict[ObjectKey, None]] = {}

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._members

    def keys(self) -> Iterable[ObjectKey]:
        return self._members.keys()

    def of(self, key: ObjectKey) -> list[ObjectKey]:
        return list(self._members.get(key, ()))

    def add(self, key: ObjectKey, member: ObjectKey) -> None:
        self._members.setdefault(key, {})[member] = None

    def drop(self, key: ObjectKey, member: ObjectKey) -> None:
        members = self._members[key]
        del members[member]
        if not members:
            del self._members[key]


class ClusterState:
    """Everything as last heard, and who is on which node."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._pools: dict[str, dict[str, Node]] = {}
        """Nodes by the label of their pool, and name."""
        self._tainted: dict[str, Node] = {}
        self._pods: dict[ObjectKey, Pod] = {}
        self._budgets: dict[ObjectKey, Budget] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._inventories: dict[str, Inventory] = {}
        self._claims: dict[ObjectKey, Claim] = {}
        self._quotas: dict[ObjectKey, Quota] = {}
        self._groups: dict[ObjectKey, PodGroup] = {}
        self._volume_claims: dict[ObjectKey, VolumeClaim] = {}
        self._volumes: dict[str, Volume] = {}
        self._storage_classes: dict[str, StorageClass] = {}
        self._device_claims: dict[ObjectKey, DeviceClaim] = {}
        self._device_slices: dict[ObjectKey, DeviceSlice] = {}
        self._shelves: dict[type[Fact], dict[Any, Any]] = {
            Node: self._nodes,
            Pod: self._pods,
            Budget: self._budgets,
            Namespace: self._namespaces,
            Inventory: self._inventories,
            Claim: self._claims,
            Quota: self._quotas,
            PodGroup: self._groups,
            VolumeClaim: self._volume_claims,
            Volume: self._volumes,
            StorageClass: self._storage_classes,
            DeviceClaim: self._device_claims,
            DeviceSlice: self._device_slices,
        }
        self._on_node: dict[str, dict[ObjectKey, Pod]] = {}
        self._used: dict[str, dict[str, int]] = {}
        self._naming = _Index()
        self._templated = _Index()
        self._of_gang = _Index()
        self._synced: set[str] = set()

    @property
    def nodes(self) -> Mapping[str, Node]:
        return MappingProxyType(self._nodes)

    @property
    def tainted_nodes(self) -> Mapping[str, Node]:
        """Those with any taint, by name."""
        return self._tainted

    def nodes_of_pool(self, pool: str) -> Mapping[str, Node]:
        """Those that carry its label, by name."""
        return self._pools.get(pool, {})

    @property
    def pods(self) -> Mapping[ObjectKey, Pod]:
        return MappingProxyType(self._pods)

    @property
    def budgets(self) -> Mapping[ObjectKey, Budget]:
        return MappingProxyType(self._budgets)

    @property
    def namespaces(self) -> Mapping[str, Namespace]:
        return MappingProxyType(self._namespaces)

    @property
    def inventories(self) -> Mapping[str, Inventory]:
        """By node."""
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
    def volume_claims(self) -> Mapping[ObjectKey, VolumeClaim]:
        return MappingProxyType(self._volume_claims)

    @property
    def volumes(self) -> Mapping[str, Volume]:
        return MappingProxyType(self._volumes)

    @property
    def storage_classes(self) -> Mapping[str, StorageClass]:
        return MappingProxyType(self._storage_classes)

    @property
    def device_claims(self) -> Mapping[ObjectKey, DeviceClaim]:
        """ResourceClaims."""
        return MappingProxyType(self._device_claims)

    @property
    def device_slices(self) -> Mapping[ObjectKey, DeviceSlice]:
        """ResourceSlices."""
        return MappingProxyType(self._device_slices)

    @property
    def synced(self) -> frozenset[str]:
        """The sources (resource ids) of which everything has been heard at least once."""
        return frozenset(self._synced)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Its labels; for one not heard of, those that every namespace of this name has."""
        known = self._namespaces.get(name)
        return labels_of_unheard(name) if known is None else known.labels

    def pods_on(self, node: str) -> Mapping[ObjectKey, Pod]:
        """Pods that hold something on this node, whether or not the node itself has been heard of."""
        return MappingProxyType(self._on_node.get(node, {}))

    def pods_naming(self, claim: ObjectKey) -> list[Pod]:
        """Pods that name this GpuClaim as their own, whatever their phase. A claim that is not there may be named."""
        return [self._pods[key] for key in self._naming.of(claim)]

    def pods_from_template(self, claim: ObjectKey) -> list[Pod]:
        """Pods that ask for a copy of this GpuClaim, whatever their phase."""
        return [self._pods[key] for key in self._templated.of(claim)]

    def is_template(self, claim: ObjectKey) -> bool:
        """Whether any pod asks for a copy of it."""
        return claim in self._templated

    @property
    def gangs(self) -> list[ObjectKey]:
        """Those that GpuClaims name, in order."""
        return sorted(self._of_gang.keys())

    def claims_of_gang(self, gang: ObjectKey) -> list[Claim]:
        """GpuClaims, templates among them, that name this gang."""
        return [self._claims[key] for key in self._of_gang.of(gang)]

    def used_on(self, node: str) -> Mapping[str, int]:
        """What they hold together, in thousandths. A name without a holder is left out."""
        return MappingProxyType(self._used.get(node, {}))

    def free_on(self, node: str) -> dict[str, int]:
        """What is left of what the node offers; below zero where it was promised twice."""
        used, offered = self._used.get(node, {}), self._nodes[node].allocatable
        left = {name: amount - used.get(name, 0) for name, amount in offered.items()}
        return left | {name: -amount for name, amount in used.items() if name not in offered}

    def apply(self, event: Event[Fact]) -> None:
        """Take in one thing that was heard."""
        match event:
            case Appeared(new=new):
                self._put(new)
            case Changed(old=old, new=new):
                self._take(old)
                self._put(new)
            case Vanished(old=old):
                self._take(old)
            case Synced(source=source):
                self._synced.add(source)

    def _shelf(self, fact: Fact) -> tuple[dict[Any, Any], ObjectKey | str]:
        """Where such facts are kept, and under what."""
        shelf = self._shelves[type(fact)]
        if isinstance(fact, Inventory):
            return shelf, fact.node
        return shelf, fact.name if isinstance(fact, Node | Namespace | Volume | StorageClass) else fact.key

    def _put(self, fact: Fact) -> None:
        shelf, key = self._shelf(fact)
        shelf[key] = fact
        if isinstance(fact, Pod):
            for index, named in self._named_by(fact):
                index.add(named, fact.key)
            if fact.holds_room:
                self._on_node.setdefault(fact.node, {})[fact.key] = fact
                self._count(fact, +1)
        elif isinstance(fact, Node):
            if pool := fact.labels.get(PROVISIONER_LABEL):
                self._pools.setdefault(pool, {})[fact.name] = fact
            if fact.taints:
                self._tainted[fact.name] = fact
        elif isinstance(fact, Claim) and fact.gang:
            self._of_gang.add(_gang_of(fact), fact.key)

    def _take(self, fact: Fact) -> None:
        shelf, key = self._shelf(fact)
        if shelf.pop(key, None) is None:
            return
        if isinstance(fact, Pod):
            for index, named in self._named_by(fact):
                index.drop(named, fact.key)
            if fact.holds_room:
                del self._on_node[fact.node][fact.key]
                self._count(fact, -1)
        elif isinstance(fact, Node):
            if pool := fact.labels.get(PROVISIONER_LABEL):
                self._pools.get(pool, {}).pop(fact.name, None)
            self._tainted.pop(fact.name, None)
        elif isinstance(fact, Claim) and fact.gang:
            self._of_gang.drop(_gang_of(fact), fact.key)

    def _named_by(self, pod: Pod) -> list[tuple[_Index, ObjectKey]]:
        """Where a pod is to be found by what it names."""
        named = []
        if pod.claim:
            named.append((self._naming, ObjectKey(pod.key.namespace, pod.claim)))
        if pod.claim_template:
            named.append((self._templated, ObjectKey(pod.key.namespace, pod.claim_template)))
        return named

    def _count(self, pod: Pod, sign: int) -> None:
        used = self._used.setdefault(pod.node, {})
        for name, amount in pod.shape.requests:
            used[name] = used.get(name, 0) + sign * amount
            if not used[name]:
                del used[name]
        if not self._on_node[pod.node]:
            del self._on_node[pod.node], self._used[pod.node]


def _gang_of(claim: Claim) -> ObjectKey:
    return ObjectKey(claim.key.namespace, claim.gang)
