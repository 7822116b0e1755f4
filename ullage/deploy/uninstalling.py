"""Remove an installation: admission first, then workloads, marks on nodes, kinds and the namespace.

Every step looks again at what there is, so a removal that was cut off goes on with the next call. Pods that run keep
running.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from ullage.deploy.kinds import ACCESS, ADMISSION, REST, WORKLOADS
from ullage.deploy.labels import NAME_LABEL, PART, is_our_definition
from ullage.errors import Conflict, NotFound, UserError
from ullage.kube.client.api import Deletion, KubeApi, ListSelector, MergePatch, Propagation
from ullage.kube.client.edit import edit
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import (
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    GPU_CLAIMS,
    JOBS,
    NAMESPACES,
    NODE_POOLS,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
)
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.node import KubeNode
from ullage.kube.read.dra import RESERVATION_FINALIZER
from ullage.kube.read.karpenter import read_handover_node
from ullage.kube.write.node_pool import conditions_patch
from ullage.model.claim import PROTECTION
from ullage.model.device import KIND_LABEL
from ullage.model.karpenter import COMPONENT_LABEL, DO_NOT_DISRUPT, SMART_SCHEDULER
from ullage.model.resources import GPU
from ullage.watch.sources import is_served

Say = Callable[[str], None]
OUR_PREFIXES = ("gpu.scheduling/", "tensor-fusion.ai/")
"""Prefixes of labels, annotations and taints that are ours."""
_SMART = ListSelector(labels=f"{COMPONENT_LABEL}={SMART_SCHEDULER}")
"""Smart pods, and the namespace that the controller made for them."""
USED_BY_PEOPLE: tuple[Resource[Any], ...] = (
    PODS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    JOBS,
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    VOLUME_CLAIMS,
)
"""Kinds of objects that keep a namespace."""
IN_EVERY_NAMESPACE = ("kube-root-ca.crt",)
_OURS_BY_LABEL = ListSelector(labels=f"{NAME_LABEL}={PART}")
_LOOK_SECONDS = 0.5


class Uninstaller:
    """Removes one installation, step by step."""

    def __init__(self, api: KubeApi, namespace: str, say: Say, *, seconds: float = 120.0) -> None:
        self._api = api
        self._namespace = namespace
        self._say = say
        self._seconds = seconds

    async def run(self, *, keep_definitions: bool = False) -> None:
        """Remove everything. Raises UserError if something does not go in time."""
        await self._delete_all(ADMISSION)
        await self._delete_all(WORKLOADS)
        await self._gone("pods of Ullage", partial(self._any_left, PODS, self._namespace, _OURS_BY_LABEL))
        await self._delete_smart_pods()
        await self._delete_their_namespaces()
        await self._clean_nodes()
        await self._clean_node_pools()
        if not keep_definitions:
            await self._release_claims()
            await self._delete_definitions()
        await self._delete_all((*REST, *ACCESS))
        await self._release_reservations()
        await self._delete(NAMESPACES, self._namespace)
        await self._gone(f"namespace {self._namespace}", partial(self._namespace_left, self._namespace))

    async def _delete_all(self, resources: Sequence[Resource[JsonObject]]) -> None:
        for resource in resources:
            if not await is_served(self._api, resource):
                continue
            where = self._namespace if resource.namespaced else ""
            found = await self._api.list(resource, where, selection=_OURS_BY_LABEL)
            for one in found.items:
                await self._delete(resource, one["metadata"]["name"], where)

    async def _delete(self, resource: Resource[object], name: str, namespace: str = "") -> None:
        try:
            await self._api.delete(resource, name, namespace, how=Deletion(propagation=Propagation.BACKGROUND))
        except NotFound:
            return
        self._say(f"deleted {resource.kind} {name}")

    async def _gone(self, what: str, left: Callable[[], Awaitable[bool]]) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._seconds
        while await left():
            if loop.time() > ends:
                raise UserError(
                    f"{what} did not go within {self._seconds:g} s; see what holds it, then uninstall again"
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def _namespace_left(self, name: str) -> bool:
        try:
            await self._api.get(NAMESPACES, name)
        except NotFound:
            return False
        return True

    async def _delete_smart_pods(self) -> None:
        """Delete the pods that made Karpenter buy nodes."""
        for pod in (await self._api.list(PODS, selection=_SMART)).items:
            await self._delete(PODS, pod.metadata.name, pod.metadata.namespace)

    async def _delete_their_namespaces(self) -> None:
        """Delete the namespaces that controllers made for smart pods, unless others use them."""
        for namespace in (await self._api.list(NAMESPACES, selection=_SMART)).items:
            name = namespace.metadata.name
            await self._gone(f"smart pods in {name}", partial(self._any_left, PODS, name, _SMART))
            used = [one.kind for one in USED_BY_PEOPLE if await self._is_used(one, name)]
            if used:
                self._say(f"kept Namespace {name}: there are objects of others ({', '.join(used)})")
                continue
            await self._delete(NAMESPACES, name)
            await self._gone(f"namespace {name}", partial(self._namespace_left, name))

    async def _any_left(self, resource: Resource[Any], namespace: str, chosen: ListSelector) -> bool:
        return bool((await self._api.list(resource, namespace, selection=chosen)).items)

    async def _is_used(self, resource: Resource[Any], namespace: str) -> bool:
        found = (await self._api.list(resource.whole(), namespace)).items
        return any(one["metadata"]["name"] not in IN_EVERY_NAMESPACE for one in found)

    async def _clean_nodes(self) -> None:
        """Take our labels, annotations and taints off every node, and the GPUs that an agent advertised."""
        for node in (await self._api.list(NODES)).items:
            name = node.metadata.name
            if node.metadata.labels.get(KIND_LABEL) == "leased":
                nothing = {"capacity": {GPU: None}, "allocatable": {GPU: None}}
                await self._api.patch(NODES, name, MergePatch({"status": nothing}), subresource="status")
            if cleaned(node) != node:
                await edit(self._api, NODES, name, "", cleaned)
                self._say(f"cleaned Node {name}")

    async def _clean_node_pools(self) -> None:
        """Take our condition off Karpenter's NodePools."""
        if not await is_served(self._api, NODE_POOLS):
            return
        for pool in (await self._api.list(NODE_POOLS.whole())).items:
            patch = conditions_patch(pool, ())
            if patch is not None:
                name = pool["metadata"]["name"]
                await self._api.patch(NODE_POOLS, name, patch, subresource="status")
                self._say(f"cleaned NodePool {name}")

    async def _release_claims(self) -> None:
        """Take our finalizer off claims: nobody is left who would."""
        with suppress(NotFound):  # their definition is gone, or goes now
            for claim in (await self._api.list(GPU_CLAIMS)).items:
                await self._release(GPU_CLAIMS, claim.metadata, PROTECTION)

    async def _release_reservations(self) -> None:
        """Take our finalizer off the ResourceClaims beside Leases, which go with the namespace."""
        served = await self._api.discover()
        for resource in [one for one in RESOURCE_CLAIMS if one in served][:1]:
            for claim in (await self._api.list(resource, self._namespace)).items:
                await self._release(resource, claim.metadata, RESERVATION_FINALIZER)

    async def _release(self, resource: Resource[Any], meta: ObjectMeta, finalizer: str) -> None:
        if finalizer in meta.finalizers:
            others = [one for one in meta.finalizers if one != finalizer]
            body = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": others}}
            with suppress(NotFound, Conflict):  # it is gone, or looked at again
                await self._api.patch(resource, meta.name, MergePatch(body), meta.namespace)

    async def _delete_definitions(self) -> None:
        names = [definition.resource.id for definition in OURS]
        if await self._may_take_pod_group():
            names.append(POD_GROUP.resource.id)
        for name in names:
            await self._delete(CRDS, name)

        async def left() -> bool:
            await self._release_claims()  # a scheduler outside of the cluster may have protected them again
            served = {one["metadata"]["name"] for one in (await self._api.list(CRDS)).items}
            return bool(served & set(names))

        await self._gone("definitions of our kinds", left)

    async def _may_take_pod_group(self) -> bool:
        """True if we brought the definition of PodGroup and nobody uses it."""
        try:
            body = await self._api.get(CRDS, POD_GROUP.resource.id)
        except NotFound:
            return False
        ours = is_our_definition(body)
        used = bool((await self._api.list(POD_GROUP.resource.whole())).items)
        if ours and used:
            self._say("kept CustomResourceDefinition podgroups.scheduling.x-k8s.io: there are PodGroups")
        return ours and not used


def cleaned(node: KubeNode) -> KubeNode:
    """The node without labels, annotations and taints of ours; do-not-disrupt goes where a hand-over set it."""
    meta = node.metadata
    labels = {key: value for key, value in meta.labels.items() if not key.startswith(OUR_PREFIXES)}
    handover = read_handover_node(node).handover
    kept_by_us = (DO_NOT_DISRUPT,) if handover is not None and not handover.was_kept else ()
    notes = {
        key: value
        for key, value in meta.annotations.items()
        if not key.startswith(OUR_PREFIXES) and key not in kept_by_us
    }
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(OUR_PREFIXES))
    return msgspec.structs.replace(
        node,
        metadata=msgspec.structs.replace(meta, labels=labels, annotations=notes),
        spec=msgspec.structs.replace(node.spec, taints=taints),
    )
