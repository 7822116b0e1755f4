"""Webhook configurations, mutating and validating: the writes that are reviewed, and the webhook's address.

The match conditions are CEL and run inside the API server. They exclude every write that need not be reviewed, so that
a webhook that is down blocks only the writes it has to review.
"""

from base64 import b64encode
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from ullage.kube.admission.confinement import CDI, DEVICE_MOUNTS, VENDOR, VISIBLE
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import GPU_CLAIMS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from ullage.model.admission import INPUTS, LEASED_TAINT, OUTPUTS
from ullage.model.lease import LEASE_NAMESPACE

MUTATING_NAME = "ullage-pods"
GUARD_NAME = "ullage-guard"
MUTATE_PATH, VALIDATE_PATH = "/mutate", "/validate"

UNCONFINED = "gpu.scheduling/unconfined"
"""Label of a namespace whose pods may see all GPUs, because they manage them."""

_PREFIX = "gpu.scheduling/"
_TIMEOUT_SECONDS = 5


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """Address at which the API server reaches the webhook: `url` where it is given, else the service."""

    namespace: str = LEASE_NAMESPACE
    service: str = "ullage-webhook"
    port: int = 443
    url: str = ""

    def client_config(self, path: str, trusted: bytes | None) -> JsonObject:
        """clientConfig of one webhook. Without `trusted`, caBundle is left out, for another component to fill in."""
        bundle = {} if trusted is None else {"caBundle": b64encode(trusted).decode()}
        if self.url:
            return {"url": self.url.rstrip("/") + path} | bundle
        service = {"namespace": self.namespace, "name": self.service, "port": self.port, "path": path}
        return {"service": service} | bundle


@dataclass(frozen=True, slots=True)
class WebhookConfiguration:
    """One webhook configuration with its resource."""

    resource: Resource[JsonObject]
    body: JsonObject

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


def _texts(words: Sequence[str]) -> str:
    """Return a CEL list of strings."""
    return "[" + ", ".join("'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'" for word in words) + "]"


def _tolerates(thing: str) -> str:
    one = f"(!has(t.key) || t.key in ['', '{LEASED_TAINT}']) && (!has(t.effect) || t.effect in ['', 'NoSchedule'])"
    return f"has({thing}.spec.tolerations) && {thing}.spec.tolerations.exists(t, {one})"


def _has_claim(thing: str) -> str:
    notes = f"{thing}.metadata.annotations"
    return f"has({notes}) && {_texts(INPUTS)}.exists(key, key in {notes})"


_OF_VENDOR = f"exists(name, name.startsWith('{VENDOR}'))"
_GPU_CONTAINER = (
    "has(c.resources) && (has(c.resources.limits) && c.resources.limits."
    f"{_OF_VENDOR} || has(c.resources.requests) && c.resources.requests.{_OF_VENDOR})"
    f" || has(c.env) && c.env.exists(e, e.name == '{VISIBLE}' && !(has(e.value) && e.value in ['void', 'none']))"
    f" || has(c.volumeMounts) && c.volumeMounts.exists(m, m.mountPath.startsWith('{DEVICE_MOUNTS}'))"
)
_ASKS_FOR_GPUS = (
    f"has(object.metadata.annotations) && object.metadata.annotations.exists(key, key.startsWith('{CDI}'))"
    f" || object.spec.containers.exists(c, {_GPU_CONTAINER})"
    f" || has(object.spec.initContainers) && object.spec.initContainers.exists(c, {_GPU_CONTAINER})"
)
_UNCLAIMED = {"tolerates-leased": _tolerates("object"), "has-no-claim": f"!({_has_claim('object')})"}


def configurations(
    reach: WebhookEndpoint, trusted: bytes | None, identities: Sequence[str]
) -> tuple[WebhookConfiguration, ...]:
    """Return both configurations. Writes of users in `identities` are not reviewed, except for pods they create."""
    mutating = _mutating(reach.client_config(MUTATE_PATH, trusted), _guarded_namespaces(reach))
    foreign = {"not-the-scheduler": f"!(request.userInfo.username in {_texts(identities)})"}
    validate = reach.client_config(VALIDATE_PATH, trusted)
    guarding = [*_pod_guards(validate, _guarded_namespaces(reach)), *_write_guards(validate, foreign)]
    return (
        _configuration(MUTATING_WEBHOOKS, MUTATING_NAME, mutating),
        _configuration(VALIDATING_WEBHOOKS, GUARD_NAME, guarding),
    )


def _mutating(mutate: JsonObject, guarded: JsonObject) -> list[JsonObject]:
    """Webhooks that show pods their GPUs."""
    new_pods = [_rule(["CREATE"], ["pods"])]
    hooks = [
        _webhook(
            "pods.gpu.scheduling",
            mutate,
            [*new_pods, _rule(["UPDATE"], ["pods/ephemeralcontainers"])],
            {"has-our-annotation": _any_of_ours("object")},
        ),
        _webhook("unclaimed-pods.gpu.scheduling", mutate, new_pods, _UNCLAIMED | {"asks-for-gpus": _ASKS_FOR_GPUS})
        | guarded,
        # Pods of networks and logs are among these: they must start while the webhook is down.
        _webhook(
            "bystanders.gpu.scheduling", mutate, new_pods, _UNCLAIMED | {"asks-for-no-gpus": f"!({_ASKS_FOR_GPUS})"}
        )
        | {"failurePolicy": "Ignore"}
        | guarded,
    ]
    return [hook | {"reinvocationPolicy": "IfNeeded"} for hook in hooks]


def _pod_guards(validate: JsonObject, guarded: JsonObject) -> list[JsonObject]:
    """Webhooks that refuse pods which would see GPUs that are not theirs."""
    new_pods = [_rule(["CREATE"], ["pods"])]
    return [
        _webhook("new-pods.gpu.scheduling", validate, new_pods, {"has-our-annotation": _any_of_ours("object")}),
        _webhook("unclaimed-pods.gpu.scheduling", validate, new_pods, _UNCLAIMED | {"asks-for-gpus": _ASKS_FOR_GPUS})
        | guarded,
        _webhook(
            "tolerating-pods.gpu.scheduling",
            validate,
            [_rule(["UPDATE"], ["pods"])],
            _UNCLAIMED | {"did-not-before": f"!({_tolerates('oldObject')})"},
        )
        | guarded,
    ]


def _write_guards(validate: JsonObject, foreign: dict[str, str]) -> list[JsonObject]:
    """Webhooks that refuse what only the scheduler may write, and claims that make no sense."""
    return [
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


def _guarded_namespaces(reach: WebhookEndpoint) -> JsonObject:
    """Selector of the namespaces whose pods without a claim are kept from leased GPUs.

    All but kube-system, the webhook's own namespace and those labelled as unconfined.
    """
    own = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", reach.namespace]}
    return {"namespaceSelector": {"matchExpressions": [own, {"key": UNCONFINED, "operator": "DoesNotExist"}]}}


def bundles(configuration: JsonObject) -> list[str]:
    """Return the caBundle of each webhook of a configuration, as written; empty if it has none."""
    hooks = configuration.get("webhooks") or ()
    return [str((hook.get("clientConfig") or {}).get("caBundle") or "") for hook in hooks]


def asked(configuration: JsonObject) -> dict[str, tuple[list[str], list[str]]]:
    """Return the rules and match conditions of each webhook of a configuration, by name."""
    return {
        str(hook.get("name")): (
            [f"{rule.get('operations')} {rule.get('resources')}" for rule in hook.get("rules") or ()],
            [str(one.get("expression")) for one in hook.get("matchConditions") or ()],
        )
        for hook in configuration.get("webhooks") or ()
    }


def _configuration(resource: Resource[JsonObject], name: str, webhooks: list[JsonObject]) -> WebhookConfiguration:
    labels = {"app.kubernetes.io/name": "ullage", "app.kubernetes.io/component": "webhook"}
    # Parts that two webhooks share would be written as anchors of YAML.
    apart = [deepcopy(hook) for hook in webhooks]
    return WebhookConfiguration(resource, {"metadata": {"name": name, "labels": labels}, "webhooks": apart})


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
    """CEL for the annotation `key` as a list of one value, or an empty list, which differs from every value."""
    notes = f"{thing}.metadata.annotations"
    return f"(has({notes}) && key in {notes} ? [{notes}[key]] : [])"
