"""Kinds of the Prometheus operator, with the fields that our objects use: its own definitions are no pinned module."""

import json
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
GROUP = "monitoring.coreos.com"
TEXT: dict[str, Any] = {"type": "string"}
TEXTS: Schema = {"type": "object", "additionalProperties": TEXT}
DURATION: Schema = {"type": "string", "pattern": "^(0|(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"}


def an_object(*required: str, **properties: Schema) -> Schema:
    return {"type": "object", "required": list(required), "properties": properties}


def a_kind(kind: str, short: str, spec: Schema) -> dict[str, Any]:
    """CustomResourceDefinition of a namespaced kind."""
    singular = kind.lower()
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": f"{singular}s", "singular": singular, "shortNames": [short]},
            "versions": [version | {"schema": {"openAPIV3Schema": an_object("spec", spec=spec)}}],
        },
    }


ENDPOINT = an_object(port=TEXT, path=TEXT, interval=DURATION)
SERVICE_MONITOR = a_kind(
    "ServiceMonitor",
    "smon",
    an_object(
        "endpoints",
        "selector",
        endpoints={"type": "array", "items": ENDPOINT},
        selector=an_object(matchLabels=TEXTS),
    ),
)
RULE = an_object(
    "expr",
    alert=TEXT,
    expr={"x-kubernetes-int-or-string": True},
    labels=TEXTS,
    annotations=TEXTS,
    **{"for": DURATION},
)
RULE_GROUP = an_object("name", name=TEXT | {"minLength": 1}, rules={"type": "array", "items": RULE})
PROMETHEUS_RULE = a_kind(
    "PrometheusRule",
    "promrule",
    an_object(
        groups={
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": RULE_GROUP,
        }
    ),
)
OPERATOR_KINDS = "\n---\n".join(json.dumps(kind) for kind in (SERVICE_MONITOR, PROMETHEUS_RULE))
