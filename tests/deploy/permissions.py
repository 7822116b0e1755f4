"""Permissions as declared, beside those the audit log shows in use."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ullage.deploy.component import Component, ComponentSpec, Feature, RuleScope
from ullage.deploy.components import COMPONENTS
from ullage.testing.controlplane.audit import AuditedRequest

CREATED = 201


@dataclass(frozen=True, slots=True, order=True)
class Permission:
    """One verb on one resource."""

    scope: str
    group: str
    resource: str
    verb: str


def declared(spec: ComponentSpec, features: Iterable[Feature], *, seldom: bool) -> set[Permission]:
    """Permissions of the rules these features need; `seldom` adds those of rare situations."""
    chosen = set(features)
    return {
        Permission(rule.scope.value, rule.group, resource, verb)
        for rule in spec.rules
        if (rule.feature is None or rule.feature in chosen) and (seldom or not rule.seldom)
        for resource in rule.resources
        for verb in rule.verbs
    }


def used(log: Iterable[AuditedRequest], account: str, namespace: str) -> set[Permission]:
    """Permissions an account used, each in the narrowest scope that covers it."""
    user = f"system:serviceaccount:{namespace}:{account}"
    return {
        Permission(scope.value, one.group, one.resource, verb)
        for one in log
        if one.user == user
        # A server-side apply of what was not there asks for both verbs.
        for verb in ((one.verb, "create") if one.verb == "patch" and one.code == CREATED else (one.verb,))
        for scope in RuleScope
        if scope is RuleScope.CLUSTER or one.namespace == namespace
    }


def denied(log: Iterable[AuditedRequest], namespace: str) -> list[AuditedRequest]:
    """Requests of our accounts that the authorizer refused."""
    ours = f"system:serviceaccount:{namespace}:ullage-"
    return [one for one in log if one.user.startswith(ours) and not one.allowed]


ALL_FEATURES = tuple(Feature)


def named(*rules: str) -> dict[str, set[Permission]]:
    """Declared permissions by component, from lines such as `scheduler get,list pods/status` or `... leases.GROUP`.

    Raises KeyError for one that no role has.
    """
    found: dict[str, set[Permission]] = {}
    for line in rules:
        component, verbs, resource = line.split()
        plural, _, group = resource.partition(".")
        spec = COMPONENTS[Component(component)]
        for verb in verbs.split(","):
            here = [
                one
                for one in declared(spec, ALL_FEATURES, seldom=True)
                if (one.group, one.resource, one.verb) == (group, plural, verb)
            ]
            if not here:
                raise KeyError(f"no role of {component} has {verb} {resource}")
            found.setdefault(component, set()).update(here)
    return found


def unused(log: Iterable[AuditedRequest], wanted: Mapping[str, set[Permission]], namespace: str) -> list[str]:
    """Those of `wanted` that the log does not show in use."""
    seen = list(log)
    return [
        f"{component} {one.verb} {one.resource}.{one.group}"
        for component, permissions in sorted(wanted.items())
        for one in sorted(permissions - used(seen, f"ullage-{component}", namespace))
    ]
