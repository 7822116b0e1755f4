"""The resources the contract speaks of, read whole: every field the server returns is there to be compared."""

from ullage.kube.client import resources
from ullage.kube.client.resource import JsonObject, Resource
from ullage.testing.builders import a_crd

POD = resources.PODS.whole()
NODE = resources.NODES.whole()
NAMESPACE = resources.NAMESPACES.whole()
CONFIG_MAP = resources.CONFIG_MAPS
SECRET = resources.SECRETS
LEASE = resources.LEASES.whole()
BUDGET = resources.BUDGETS.whole()
PRIORITY_CLASS = resources.PRIORITY_CLASSES
EVENT = resources.EVENTS
DEPLOYMENT = resources.DEPLOYMENTS.whole()
REPLICA_SET = resources.REPLICA_SETS.whole()
STATEFUL_SET = resources.STATEFUL_SETS.whole()
DAEMON_SET = resources.DAEMON_SETS.whole()
JOB = resources.JOBS.whole()
CRD = resources.CRDS

GROUP = "contract.ullage.dev"
WIDGET = Resource[JsonObject](GROUP, "v1", "widgets", "Widget", True, dict)
"""A custom kind with a schema, a status of its own and a scale."""
GADGET = Resource[JsonObject](GROUP, "v1", "gadgets", "Gadget", False, dict)
"""A custom kind without namespaces and without subresources."""
UNKNOWN = Resource[JsonObject]("nowhere.ullage.dev", "v1", "things", "Thing", True, dict)

_PART = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}},
}
_CONDITION = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
}


def _map_by(key: str, item: JsonObject) -> JsonObject:
    return {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key],
    }


WIDGET_SPEC: JsonObject = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "replicas": {"type": "integer"},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "code": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "ratio": {"type": "number"},
        "enabled": {"type": "boolean"},
        "port": {"x-kubernetes-int-or-string": True},
        "since": {"type": "string", "format": "date-time"},
        "remark": {"type": "string", "nullable": True},
        "tags": {"type": "array", "maxItems": 2, "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "steps": {"type": "array", "items": {"type": "string"}},
        "parts": _map_by("name", _PART),
        "nested": {"type": "object", "default": {}, "properties": {"depth": {"type": "integer", "default": 3}}},
        "settings": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
WIDGET_STATUS: JsonObject = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "phase": {"type": "string"},
        "conditions": _map_by("type", _CONDITION),
    },
}
WIDGET_CRD = a_crd(WIDGET, {"spec": WIDGET_SPEC, "status": WIDGET_STATUS}, subresources=("status", "scale"))
GADGET_CRD = a_crd(
    GADGET,
    {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
)


def a_widget(name: str, **spec: object) -> JsonObject:
    """A valid widget unless told otherwise."""
    return {"metadata": {"name": name}, "spec": {"size": 1} | spec}
