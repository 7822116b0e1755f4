"""Plain Kubernetes manifests, as people keep them and `kubectl get -o yaml|json` prints them, to the facts in them.

Several documents in a file, Lists, folders and standard input. What the API server would have filled in is filled in
here. What cannot be read raises UserError with the file, the document and the field; kinds that say nothing about
placement are counted and left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ullage.errors import Unreadable, UserError
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import (
    BUDGETS,
    CONFIG_MAPS_READ,
    GPU_CLAIMS,
    GPU_NODE_STATUSES,
    GPU_QUOTAS,
    JOBS,
    KUBE_POD_GROUPS,
    NAMESPACES,
    NODE_CLAIMS,
    NODE_POOLS,
    NODE_PROVISIONERS,
    NODES,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VIRTUAL_MACHINE_MIGRATIONS,
    VIRTUAL_MACHINES,
    VOLUME_CLAIMS,
)
from ullage.kube.manifests.budget_filling import counted
from ullage.kube.manifests.documents import ManifestDocument, documents
from ullage.kube.manifests.filling import PriorityClasses, filled_node, filled_pod, lenient
from ullage.kube.manifests.owner_defaulting import Owners
from ullage.kube.manifests.unknown_fields import unknown_fields
from ullage.kube.objects import config_map, dra, gpu, karpenter, node, pod, policy, provisioner, storage, vm, workload
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.read import (
    read_budget,
    read_device_claim,
    read_device_slice,
    read_namespace,
    read_node,
    read_pod,
    read_storage_class,
    read_volume,
    read_volume_claim,
)
from ullage.kube.read.gpu import read_claim, read_group, read_inventory, read_kube_group, read_quota
from ullage.kube.read.karpenter import read_handover_node, read_node_claim, read_node_pool, read_smart_pod
from ullage.kube.read.provisioner import read_provisioner
from ullage.kube.read.vm import read_vm, read_vm_migration
from ullage.kube.read.vm_config import CONFIG_MAP, read_vm_nodes
from ullage.kube.read.workload import read_workload
from ullage.model.draining import WorkloadReplicas
from ullage.model.fact_event import Added, ObjectKey, Synced, Updated
from ullage.model.karpenter import REQUEST_LABEL, HandoverNode, NodeClaim, NodePool, SmartPod, is_smart_pod
from ullage.model.provisioner import Provisioner
from ullage.model.vm_config import VM_SOURCES
from ullage.state.cluster import ClusterState

KarpenterObject = SmartPod | NodeClaim | NodePool | HandoverNode
_MOST_NAMED = 3
"""Of things that are alike, so many are named in a warning; the rest are counted."""


@dataclass(frozen=True, slots=True)
class _Kind:
    resource: Resource[Any]
    struct: type[msgspec.Struct]
    read: Any
    """Reader of the fact; None for a kind that only affects other objects."""

    @property
    def spec(self) -> type[msgspec.Struct] | None:
        """Struct of the spec of a kind of ours, which has every field there is; None for kinds of others."""
        return _SPECS.get(self.resource.id)


_KINDS: Mapping[tuple[str, str], _Kind] = {
    (kind.resource.api_version, kind.resource.kind): kind
    for kind in (
        _Kind(NODES, node.KubeNode, read_node),
        _Kind(PODS, pod.KubePod, read_pod),
        _Kind(NAMESPACES, policy.KubeNamespace, read_namespace),
        _Kind(BUDGETS, policy.KubePodDisruptionBudget, read_budget),
        _Kind(PERSISTENT_VOLUMES, storage.KubePersistentVolume, read_volume),
        _Kind(VOLUME_CLAIMS, storage.KubePersistentVolumeClaim, read_volume_claim),
        _Kind(STORAGE_CLASSES, storage.KubeStorageClass, read_storage_class),
        _Kind(GPU_NODE_STATUSES, gpu.GpuNodeStatus, read_inventory),
        _Kind(GPU_CLAIMS, gpu.GpuClaim, read_claim),
        _Kind(GPU_QUOTAS, gpu.GpuQuota, read_quota),
        _Kind(POD_GROUPS, gpu.CoschedulingPodGroup, read_group),
        *(_Kind(groups, gpu.KubePodGroup, read_kube_group) for groups in KUBE_POD_GROUPS),
        _Kind(VIRTUAL_MACHINES, vm.KubeVirtualMachine, read_vm),
        _Kind(VIRTUAL_MACHINE_MIGRATIONS, vm.KubeVirtualMachineMigration, read_vm_migration),
        _Kind(CONFIG_MAPS_READ, config_map.KubeConfigMap, read_vm_nodes),
        *(_Kind(claims, dra.KubeResourceClaim, read_device_claim) for claims in RESOURCE_CLAIMS),
        *(_Kind(slices, dra.KubeResourceSlice, read_device_slice) for slices in RESOURCE_SLICES),
        _Kind(PRIORITY_CLASSES, policy.PriorityClass, None),
        _Kind(NODE_PROVISIONERS, provisioner.NodeProvisioner, None),
        _Kind(NODE_CLAIMS, karpenter.KubeNodeClaim, None),
        _Kind(NODE_POOLS, karpenter.KubeNodePool, None),
        _Kind(REPLICA_SETS, workload.KubeWorkload, None),
        _Kind(STATEFUL_SETS, workload.KubeWorkload, None),
        _Kind(JOBS, workload.KubeJob, None),
    )
}


_SPECS: Mapping[str, type[msgspec.Struct]] = {
    GPU_CLAIMS.id: gpu.GpuClaimSpec,
    GPU_QUOTAS.id: gpu.GpuQuotaSpec,
    NODE_PROVISIONERS.id: provisioner.NodeProvisionerSpec,
}
_MAKERS = (REPLICA_SETS, STATEFUL_SETS, JOBS)
_WITH_OWNERS = (PODS, *_MAKERS)


@dataclass(frozen=True, slots=True)
class Manifests:
    """Facts read from manifests, with warnings."""

    state: ClusterState
    unreadable_claims: Mapping[ObjectKey, str] = field(default_factory=dict)
    """GpuClaims that break a rule, with the rule."""
    warnings: tuple[str, ...] = ()
    provisioners: tuple[Provisioner, ...] = ()
    """Pools of nodes, by name. Where pods go does not depend on them."""
    workloads: tuple[WorkloadReplicas, ...] = ()
    """Controllers that make pods again, as far as the files have them."""
    karpenter: tuple[KarpenterObject, ...] = ()
    """Smart pods, NodeClaims, NodePools, and nodes bought for requests."""


@dataclass(frozen=True, slots=True)
class _Found:
    """One object of a kind we know."""

    document: ManifestDocument
    kind: _Kind
    key: ObjectKey
    raw: Any
    counted: bool = True
    """True if a disruption budget's status says how many evictions it allows."""
    unknown: tuple[str, ...] = ()
    """Sentences on fields that its kind does not have."""

    @property
    def name(self) -> str:
        return f"{self.kind.resource.kind} {self.key}"

    def wrong(self, problem: str) -> UserError:
        return UserError(f"{self.document}: {self.name}: {problem}")


def read_manifests(paths: Sequence[str], *, stdin: bytes | None = None, namespace: str = "default") -> Manifests:
    """Everything in these files and folders; `-` is `stdin`. Objects that say no namespace are in this one."""
    ignored: dict[str, int] = {}
    found: dict[tuple[str, ObjectKey], _Found] = {}
    repeated: list[str] = []
    for document in documents(paths, stdin):
        for one in _objects(document, namespace, ignored):
            place = (one.kind.resource.kind, one.key)
            if place in found:
                repeated.append(f"{one.name} is in {found[place].document} and again in {one.document}")
            found[place] = one
    unknown = [f"{one.document}: {one.name}: {said}" for one in found.values() for said in one.unknown]
    warnings = [
        *_listed(unknown, ""),
        *_listed(repeated, "; the later is taken"),
        *([f"ignored {', '.join(f'{n} {kind}' for kind, n in sorted(ignored.items()))}"] if ignored else []),
    ]
    return _facts(list(found.values()), warnings)


def _objects(document: ManifestDocument, namespace: str, ignored: dict[str, int]) -> Iterator[_Found]:
    for place, body in _flat(document, document.body):
        version, kind_name = _text(place, body, "apiVersion"), _text(place, body, "kind")
        kind = _KINDS.get((version, kind_name))
        if kind is None or (kind.resource is CONFIG_MAPS_READ and not _is_vm_nodes(body)):
            ignored[kind_name] = ignored.get(kind_name, 0) + 1
        else:
            yield _decoded(place, kind, body, namespace)


def _is_vm_nodes(body: JsonObject) -> bool:
    """True for the ConfigMap of VM nodes: others say nothing about placement."""
    meta = body.get("metadata")
    return isinstance(meta, dict) and meta.get("name") == CONFIG_MAP


def _flat(document: ManifestDocument, body: Any) -> Iterator[tuple[ManifestDocument, JsonObject]]:
    """The objects of a document: itself, or the items of a List, which need not say their kind."""
    if not isinstance(body, dict):
        raise UserError(f"{document}: is {_spoken(body)} and not an object with apiVersion and kind")
    kind = body.get("kind")
    if not isinstance(kind, str) or not kind.endswith("List") or "items" not in body:
        yield document, body
        return
    items = body["items"] or []
    if not isinstance(items, list):
        raise UserError(f"{document}: items: is {_spoken(items)} and not a list")
    inherited = {"apiVersion": body.get("apiVersion"), "kind": kind.removesuffix("List")} if kind != "List" else {}
    for index, item in enumerate(items):
        inside = document.item(index, item)
        yield from _flat(inside, {**inherited, **item} if isinstance(item, dict) else item)


def _text(document: ManifestDocument, body: JsonObject, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise UserError(f"{document}: {name}: {'is missing' if value is None else 'must be a text'}")
    return value


def _decoded(document: ManifestDocument, kind: _Kind, body: JsonObject, namespace: str) -> _Found:
    try:
        raw: Any = lenient(body, kind.struct)
    except msgspec.ValidationError as error:
        raise UserError(f"{document}: {kind.resource.kind} {_called(body)}: {_field_first(str(error))}") from error
    meta: ObjectMeta = raw.metadata
    if not meta.name:
        raise UserError(f"{document}: {kind.resource.kind}: metadata.name: is missing")
    wanted = (meta.namespace or namespace) if kind.resource.namespaced else ""
    if meta.namespace != wanted:
        raw = _with_meta(raw, msgspec.structs.replace(meta, namespace=wanted))
    status = body.get("status")
    says = isinstance(status, dict) and "disruptionsAllowed" in status
    unknown = unknown_fields(body.get("spec"), kind.spec, "spec") if kind.spec is not None else []
    key = ObjectKey(wanted, meta.name)
    return _Found(document, kind, key, raw, says or kind.resource is not BUDGETS, tuple(unknown))


def _called(body: JsonObject) -> str:
    meta = body.get("metadata")
    names = [meta.get(part) for part in ("namespace", "name")] if isinstance(meta, dict) else []
    return "/".join(str(name) for name in names if name) or "without a name"


def _field_first(error: str) -> str:
    """Rewrite msgspec's ``what - at `$.spec.x` `` as `spec.x: what`, the form of all messages here."""
    problem, at, path = error.rpartition(" - at `")
    if not at:
        return error
    return f"{path.rstrip('`').removeprefix('$.').removeprefix('$')}: {problem[:1].lower()}{problem[1:]}"


def _facts(found: list[_Found], warnings: list[str]) -> Manifests:
    state = ClusterState()
    priorities = PriorityClasses(one.raw for one in found if one.kind.resource is PRIORITY_CLASSES)
    owners = Owners((one.kind.resource.kind, one.raw.metadata) for one in found if one.kind.resource in _WITH_OWNERS)
    bare: list[str] = []
    unreadable: dict[ObjectKey, str] = {}
    for one in found:
        raw = one.raw
        if one.kind.resource is PODS:
            raw = _with_meta(filled_pod(raw, priorities), owners.referring(raw.metadata))
        elif one.kind.resource is NODES:
            raw, says_pods = filled_node(raw)
            bare += [] if says_pods else [f"Node {one.key}"]
        if one.kind.read is not None:
            _take_in(state, one, raw, unreadable)
    warnings += _vms_known(state)
    warnings += _listed(unreadable.values(), "; pods that name it have no place")
    warnings += _listed(bare, ": no word on how many pods they take; kubelet's default of 110 is taken")
    warnings += _listed(priorities.unknown, ": there is no such PriorityClass; priority 0 is taken")
    pools = sorted(
        map(_pool, (one for one in found if one.kind.resource is NODE_PROVISIONERS)), key=lambda one: one.name
    )
    makers = ((one.raw, one.kind.resource.kind) for one in found if one.kind.resource in _MAKERS)
    workloads = tuple(read_workload(_with_meta(raw, owners.owning(kind, raw.metadata)), kind) for raw, kind in makers)
    _count_budgets(state, (one for one in found if not one.counted), {one.uid: one for one in workloads})
    bought = tuple(fact for one in found for fact in _karpenter(one))
    return Manifests(state, unreadable, tuple(warnings), tuple(pools), workloads, bought)


def _vms_known(state: ClusterState) -> Iterator[str]:
    """VMs count where the files have any. Yields what is wrong with their node configuration."""
    if state.vms or state.vm_migrations or state.vm_nodes:
        for source in sorted(VM_SOURCES):
            state.apply(Synced(source))
    for document in state.vm_nodes.values():
        if document.refusal is not None:
            yield f"ConfigMap {document.key}: {document.refusal}; the defaults are taken"


def _karpenter(one: _Found) -> Iterator[KarpenterObject]:
    labels, resource = one.raw.metadata.labels, one.kind.resource
    try:
        if resource is NODE_CLAIMS:
            yield read_node_claim(one.raw)
        elif resource is NODE_POOLS:
            yield read_node_pool(one.raw)
        elif resource is PODS and is_smart_pod(labels):
            yield read_smart_pod(one.raw)
        elif resource is NODES and REQUEST_LABEL in labels:
            yield read_handover_node(one.raw)
    except Unreadable as error:
        raise UserError(f"{one.document}: {error.message}") from error


def _count_budgets(state: ClusterState, bare: Iterable[_Found], makers: Mapping[str, WorkloadReplicas]) -> None:
    for one in bare:
        said = state.budgets[one.key]
        try:
            told = counted(said, one.raw.spec, state.pods.values(), makers)
        except ValueError as error:
            raise one.wrong(f"spec.minAvailable or maxUnavailable: {error}") from error
        state.apply(Updated(one.key, said, told))


def _with_meta(raw: Any, meta: ObjectMeta) -> Any:
    return raw if raw.metadata is meta else msgspec.structs.replace(raw, metadata=meta)


def _pool(one: _Found) -> Provisioner:
    try:
        return read_provisioner(one.raw)
    except Unreadable as error:
        raise UserError(f"{one.document}: {error.message}") from error


def _take_in(state: ClusterState, one: _Found, raw: Any, unreadable: dict[ObjectKey, str]) -> None:
    try:
        state.apply(Added(one.key, one.kind.read(raw)))
    except Unreadable as error:
        if one.kind.resource is not GPU_CLAIMS:
            raise UserError(f"{one.document}: {error.message}") from error
        # A bad claim concerns the pods that name it, and no others.
        unreadable[one.key] = f"{one.document}: {error.message}"


def _listed(things: Iterable[str], about: str) -> list[str]:
    """One warning for all of them."""
    named = list(things)
    if not named:
        return []
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return [f"{', '.join(named[:_MOST_NAMED])}{more}{about}"]


def _spoken(value: Any) -> str:
    return {list: "a list", str: "a text", type(None): "empty"}.get(type(value), "a number")
