"""Permissions as declared, beside those the audit log shows in use."""

from collections.abc import Iterable
from dataclasses import dataclass

from ullage.deploy.component import ComponentSpec, Feature, RuleScope
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
