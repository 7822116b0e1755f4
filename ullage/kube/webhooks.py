"""The two webhook configurations: which writes the API server asks us about, and how it reaches us.

The conditions are CEL and run inside the API server. They keep everything away that is none of our business, so that
a webhook that is down stops nothing but what it is there to judge.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ullage.kube.resource import JsonObject, Resource
from ullage.kube.resources import GPU_CLAIMS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from ullage.model.admission import INPUTS, OUTPUTS

MUTATING_NAME = "ullage-pods"
GUARD_NAME = "ullage-guard"
MUTATE_PATH, VALIDATE_PATH = "/mutate", "/validate"

_PREFIX = "gpu.scheduling/"
_TIMEOUT_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Reach:
    """How the API server reaches the webhook: by a service, or by a URL where it is given."""

    namespace: str = "ullage-system"
    service: str = "ullage-webhook"
    port: int = 443
    url: str = ""

    def client_config(self, path: str, trusted: bytes | None) -> JsonObject:
        """Without `trusted`, caBundle is somebody else's to fill in."""
        bundle = {} if trusted is None else {"caBundle": b64encode(trusted).decode()}
        if self.url:
            return {"url": self.url.rstrip("/") + path} | bundle
        service = {"namespace": self.namespace, "name": self.service, "port": self.port, "path": path}
        return {"service": service} | bundle


@dataclass(frozen=True, slots=True)
class Configuration:
    """One of the two, as it is written."""

    resource: Resource[JsonObject]
    body: JsonObject

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


def configurations(reach: Reach, trusted: bytes | None, identities: Sequence[str]) -> tuple[Configuration, ...]:
    """Both. `identities` are the users whose writes are not asked about, except for pods they create."""
    mutating = [
        _webhook(
            "pods.gpu.scheduling",
            reach.client_config(MUTATE_PATH, trusted),
            [_rule(["CREATE"], ["pods"]), _rule(["UPDATE"], ["pods/ephemeralcontainers"])],
            {"has-our-annotation": _any_of_ours("object")},
        )
        | {"reinvocationPolicy": "IfNeeded"}
    ]
    foreign = {"not-the-scheduler": f"!(request.userInfo.username in {_texts(identities)})"}
    validate = reach.client_config(VALIDATE_PATH, trusted)
    guarding = [
        _webhook(
            "new-pods.gpu.scheduling",
            validate,
            [_rule(["CREATE"], ["pods"])],
            {"has-our-annotation": _any_of_ours("object")},
        ),
        _webhook(
            "changed-pods.gpu.scheduling",
            validate,
            [_rule(["UPDATE"], ["pods", "pods/status", "pods/ephemeralcontainers"])],
            foreign | {"guarded-annotation-changed": _any_differs([*OUTPUTS, *INPUTS])},
        ),
        _webhook(
            "bindings.gpu.scheduling",
            validate,
            [_rule(["CREATE"], ["pods/binding", "bindings"])],
            foreign | {"has-our-annotation": _any_of_ours("object")},
        ),
        _webhook(
            "claims.gpu.scheduling",
            validate,
            [_rule(["CREATE", "UPDATE"], [GPU_CLAIMS.plural], group=GPU_CLAIMS.group)],
            foreign | {"spec-is-new": "request.operation == 'CREATE' || object.spec != oldObject.spec"},
        ),
    ]
    return (
        _configuration(MUTATING_WEBHOOKS, MUTATING_NAME, mutating),
        _configuration(VALIDATING_WEBHOOKS, GUARD_NAME, guarding),
    )


def bundles(configuration: JsonObject) -> list[str]:
    """The caBundle of each webhook of a configuration, as it is written; empty where there is none."""
    hooks = configuration.get("webhooks") or ()
    return [str((hook.get("clientConfig") or {}).get("caBundle") or "") for hook in hooks]


def _configuration(resource: Resource[JsonObject], name: str, webhooks: list[JsonObject]) -> Configuration:
    labels = {"app.kubernetes.io/name": "ullage", "app.kubernetes.io/component": "webhook"}
    return Configuration(resource, {"metadata": {"name": name, "labels": labels}, "webhooks": webhooks})


def _webhook(
    name: str, client_config: JsonObject, rules: list[JsonObject], conditions: dict[str, str]
) -> dict[str, Any]:
    return {
        "name": name,
        "clientConfig": client_config,
        "rules": rules,
        "matchConditions": [{"name": key, "expression": expression} for key, expression in conditions.items()],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }


def _rule(operations: list[str], resources: list[str], group: str = "") -> JsonObject:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": operations,
        "resources": resources,
        "scope": "Namespaced",
    }


def _any_of_ours(thing: str) -> str:
    notes = f"{thing}.metadata.annotations"
    return f"has({notes}) && {notes}.exists(key, key.startsWith('{_PREFIX}'))"


def _any_differs(keys: Sequence[str]) -> str:
    return f"{_texts(keys)}.exists(key, {_value('object')} != {_value('oldObject')})"


def _value(thing: str) -> str:
    """The annotation `key` as a list of one, or an empty one: what is not there differs from every value."""
    notes = f"{thing}.metadata.annotations"
    return f"(has({notes}) && key in {notes} ? [{notes}[key]] : [])"


def _texts(words: Sequence[str]) -> str:
    """A list of texts in CEL."""
    return "[" + ", ".join("'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'" for word in words) + "]"
