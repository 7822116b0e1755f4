"""Karpenter's kinds for a simulated API server: served with their status, their fields taken as they come."""

from collections.abc import Sequence
from typing import Any

from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import NODE_CLAIMS, NODE_POOLS

ANYTHING: JsonObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def karpenter_definitions() -> Sequence[JsonObject]:
    """CustomResourceDefinitions of NodePools and NodeClaims."""
    return [_definition(one) for one in (NODE_POOLS, NODE_CLAIMS)]


def _definition(resource: Resource[Any]) -> JsonObject:
    names = {"plural": resource.plural, "singular": resource.kind.lower(), "kind": resource.kind}
    schema = {"type": "object", "properties": {"spec": ANYTHING, "status": ANYTHING}}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "metadata": {"name": resource.id},
        "spec": {
            "group": resource.group,
            "scope": "Cluster",
            "names": names | {"listKind": f"{resource.kind}List"},
            "versions": [version],
        },
    }
