"""Resources of the cluster snapshot, read once or watched for as long as a loop runs."""

import random
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from functools import partial
from typing import Any

import structlog

from ullage.clock import Clock
from ullage.errors import Forbidden, NotFound, Unreadable
from ullage.kube.client.api import KubeApi, ListSelector
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import (
    BUDGETS,
    CONFIG_MAPS_READ,
    GPU_CLAIMS,
    GPU_NODE_STATUSES,
    GPU_QUOTAS,
    KUBE_POD_GROUPS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    VIRTUAL_MACHINE_MIGRATIONS,
    VIRTUAL_MACHINES,
    VOLUME_CLAIMS,
)
from ullage.kube.client.watch_decoder import closed_after
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
from ullage.kube.read.vm import read_vm, read_vm_migration
from ullage.kube.read.vm_config import CONFIG_MAP, read_vm_nodes
from ullage.model.device import observed_inventory
from ullage.model.fact_event import Added, ObjectKey, Synced
from ullage.model.lease import LEASE_NAMESPACE
from ullage.state.cluster import ClusterState
from ullage.watch.informer import Informer, InformerSpec

_log = structlog.get_logger("watch")

SOURCES: Sequence[InformerSpec[Any, Any]] = (
    InformerSpec(NODES, read_node),
    InformerSpec(PODS, read_pod),
    InformerSpec(BUDGETS, read_budget),
    InformerSpec(NAMESPACES, read_namespace),
    InformerSpec(PERSISTENT_VOLUMES, read_volume),
    InformerSpec(VOLUME_CLAIMS, read_volume_claim),
    InformerSpec(STORAGE_CLASSES, read_storage_class),
    InformerSpec(GPU_NODE_STATUSES, read_inventory, observed=observed_inventory),
    InformerSpec(GPU_CLAIMS, read_claim),
    InformerSpec(GPU_QUOTAS, read_quota),
    InformerSpec(POD_GROUPS, read_group),
)
"""Our own kinds come last: a cluster may not have them."""

VM_KINDS: Sequence[InformerSpec[Any, Any]] = (
    InformerSpec(VIRTUAL_MACHINE_MIGRATIONS, read_vm_migration),
    InformerSpec(VIRTUAL_MACHINES, read_vm),
)
"""Kinds of a VM controller. They are looked for in discovery, not by a request: who may not list them must not fail
where they are not even installed."""


def _warn_of_vms(why: str) -> None:
    _log.warning("VMs are not counted", why=why)


async def sources_served(
    api: KubeApi,
    *,
    lease_namespace: str = LEASE_NAMESPACE,
    without_vms: Callable[[str], None] = _warn_of_vms,
) -> list[InformerSpec[Any, Any]]:
    """Sources this API server serves. Raises Unreadable if it has no nodes or no pods: then it is no Kubernetes.

    ResourceClaims of ours are in the namespace of the GPU Leases. `without_vms` gets the reason if VMs are served and
    may not be read.
    """
    served = await api.discover()
    for needed in (NODES, PODS):
        if needed not in served:
            raise Unreadable(f"the server answers, but does not serve {needed.id}")
    found = [source for source in SOURCES if source.resource in served or await is_served(api, source.resource)]
    if all(source.resource is not POD_GROUPS for source in found):
        found += [InformerSpec(groups, read_kube_group) for groups in KUBE_POD_GROUPS if groups in served][:1]
    if all(source.resource in served for source in VM_KINDS):
        vms = [vm_nodes(lease_namespace), *VM_KINDS]
        found += vms if await _may_be_read(api, vms, without_vms) else []
    for slices, claims in zip(RESOURCE_SLICES, RESOURCE_CLAIMS, strict=True):
        if slices in served and claims in served:
            read_device_claims = partial(read_device_claim, lease_namespace=lease_namespace)
            return [*found, InformerSpec(slices, read_device_slice), InformerSpec(claims, read_device_claims)]
    return found


def vm_nodes(namespace: str) -> InformerSpec[Any, Any]:
    """The node configuration of VMs. It comes first: slot sizes cannot change once VMs are counted."""
    selection = ListSelector(fields=f"metadata.name={CONFIG_MAP}")
    return InformerSpec(CONFIG_MAPS_READ, read_vm_nodes, namespace=namespace, selection=selection)


async def _may_be_read(api: KubeApi, sources: Sequence[InformerSpec[Any, Any]], refused: Callable[[str], None]) -> bool:
    """False where the rights are missing: everything else goes on without these kinds."""
    for source in sources:
        pages = api.pages(source.resource, source.namespace, selection=source.selection, chunk=1)
        try:
            async with closed_after(pages):
                await anext(aiter(pages), None)
        except Forbidden as error:
            refused(error.message)
            return False
    return True


def may_come_later(followed: Collection[str]) -> list[Resource[Any]]:
    """Kinds to look out for, beside those with these ids that are followed already."""
    missing = [source.resource for source in (*SOURCES, *VM_KINDS) if source.resource.id not in followed]
    groups = POD_GROUPS in missing and KUBE_POD_GROUPS[0].id not in followed
    return [*missing, *KUBE_POD_GROUPS] if groups else missing


async def any_served(api: KubeApi, resources: Collection[Resource[Any]]) -> bool:
    """True if the server serves one of these kinds, by its discovery."""
    served = await api.discover()
    return any(resource in served for resource in resources)


async def is_served(api: KubeApi, resource: Resource[Any]) -> bool:
    """True if the server serves this kind, found out by a list request.

    A server that has just started leaves kinds out of its discovery; but it says 503, not 404, when asked for them.
    """
    try:
        async with closed_after(api.pages(resource, chunk=1)) as pages:
            await anext(aiter(pages), None)
    except NotFound:
        return False
    return True


OnUnreadable = Callable[[Resource[Any], ObjectKey, Unreadable], None]


def _give_up(_resource: Resource[Any], _key: ObjectKey, error: Unreadable) -> None:
    raise error


async def read_cluster(api: KubeApi, on_unreadable: OnUnreadable = _give_up) -> ClusterState:
    """Read the cluster as it is now. Raises the first error, for callers that wait for an answer.

    An object that makes no sense is such an error, too, unless `on_unreadable` takes it.
    """
    state = ClusterState()
    unread: list[str] = []
    for source in await sources_served(api, without_vms=unread.append):
        async with closed_after(each(api, source)) as items:
            async for item in items:
                key = ObjectKey(item.metadata.namespace, item.metadata.name)
                try:
                    state.apply(Added(key, source.read(item)))
                except Unreadable as error:
                    on_unreadable(source.resource, key, error)
        state.apply(Synced(source.resource.id))
    for why in unread:  # at the end: a caller who may read nothing at all gets that error alone
        _warn_of_vms(why)
    return state


async def each(api: KubeApi, source: InformerSpec[Any, Any]) -> AsyncIterator[Any]:
    """Every object of one source there is now, not yet read."""
    pages = api.pages(source.resource, source.namespace, selection=source.selection, chunk=source.chunk)
    async with closed_after(pages):
        async for page in pages:
            for item in page.items:
                yield item


async def follow(api: KubeApi, state: ClusterState, *, rng: random.Random, clock: Clock) -> list[Informer[Any, Any]]:
    """Informers that keep `state` equal to the cluster while they run."""
    sources = await sources_served(api)
    return [Informer(api, source, state.apply, rng=rng, clock=clock) for source in sources]
