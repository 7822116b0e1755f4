"""Objects a simulator needs to continue from a cluster: those that placement, pools and controllers read."""

from collections.abc import Callable, Sequence
from typing import Any

from ullage.errors import Forbidden, NotFound
from ullage.kube.client import resources as known
from ullage.kube.client.api import EVERYTHING, KubeApi, ListSelector
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.watch_decoder import closed_after
from ullage.kube.manifests.pruning import pruned
from ullage.kube.read.leases import OUR_LEASES

KINDS: Sequence[tuple[Resource[Any], ListSelector]] = (
    (known.NAMESPACES, EVERYTHING),
    (known.PRIORITY_CLASSES, EVERYTHING),
    (known.STORAGE_CLASSES, EVERYTHING),
    (known.PERSISTENT_VOLUMES, EVERYTHING),
    (known.NODE_PROVISIONERS, EVERYTHING),
    (known.NODES, EVERYTHING),
    (known.GPU_NODE_STATUSES, EVERYTHING),
    (known.GPU_QUOTAS, EVERYTHING),
    (known.VOLUME_CLAIMS, EVERYTHING),
    (known.BUDGETS, EVERYTHING),
    (known.POD_GROUPS, EVERYTHING),
    (known.DEPLOYMENTS, EVERYTHING),
    (known.REPLICA_SETS, EVERYTHING),
    (known.STATEFUL_SETS, EVERYTHING),
    (known.DAEMON_SETS, EVERYTHING),
    (known.JOBS, EVERYTHING),
    (known.VIRTUAL_MACHINES, EVERYTHING),
    (known.VIRTUAL_MACHINE_MIGRATIONS, EVERYTHING),
    (known.LEASES, OUR_LEASES),
    (known.GPU_CLAIMS, EVERYTHING),
    (known.PODS, EVERYTHING),
)
"""In an order in which each finds what it refers to."""


async def read_objects(api: KubeApi, on_missing: Callable[[str], None]) -> list[JsonObject]:
    """Read all objects of these kinds, pruned. `on_missing` is called for kinds that cannot be listed."""
    found: list[JsonObject] = []
    for resource, selection in KINDS:
        try:
            found += [
                pruned({"apiVersion": resource.api_version, "kind": resource.kind, **item})
                for item in await _all(api, resource.whole(), selection)
            ]
        except NotFound:
            continue
        except Forbidden as error:
            on_missing(error.message)
    return found


async def _all(api: KubeApi, resource: Resource[JsonObject], selection: ListSelector) -> list[JsonObject]:
    items: list[JsonObject] = []
    async with closed_after(api.pages(resource, selection=selection)) as pages:
        async for page in pages:
            items += page.items
    return items
