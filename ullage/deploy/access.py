"""Service accounts, roles and bindings made from the declared rules; and what roles in a cluster lack of them."""

from collections.abc import Collection, Mapping, Sequence

from ullage.deploy.component import ComponentSpec, Feature, RbacRule, RuleScope
from ullage.deploy.labels import metadata
from ullage.kube.client.resource import JsonObject

_RBAC = "rbac.authorization.k8s.io"


def granted(spec: ComponentSpec, features: Collection[Feature], scope: RuleScope) -> list[RbacRule]:
    """Rules of a component that these features need, of one scope."""
    return [one for one in spec.rules if one.scope is scope and (one.feature is None or one.feature in features)]


def access_objects(spec: ComponentSpec, namespace: str, features: Collection[Feature]) -> list[JsonObject]:
    """ServiceAccount, ClusterRole, Role and their bindings. A role without rules is left out."""
    account: JsonObject = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(spec.name, spec.component, namespace),
    }
    found = [account]
    for scope, where, kind in ((RuleScope.CLUSTER, "", "ClusterRole"), (RuleScope.NAMESPACE, namespace, "Role")):
        rules = granted(spec, features, scope)
        if rules:
            meta = metadata(spec.name, spec.component, where)
            found.append({"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": meta, "rules": written_rules(rules)})
            found.append(_binding(kind, meta, spec.name, namespace))
    return found


def written_rules(rules: Sequence[RbacRule]) -> list[JsonObject]:
    """Rules as Kubernetes writes them."""
    return [written_rule(one) for one in rules]


def written_rule(rule: RbacRule) -> JsonObject:
    names = {"resourceNames": list(rule.names)} if rule.names else {}
    return {"apiGroups": [rule.group], "resources": list(rule.resources), **names, "verbs": list(rule.verbs)}


def _binding(kind: str, meta: JsonObject, account: str, namespace: str) -> JsonObject:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": meta,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": meta["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def missing_rights(spec: ComponentSpec, given: Mapping[RuleScope, Sequence[JsonObject]]) -> list[str]:
    """Rights of a component that the rules in a cluster do not give it, as `create pods/binding`.

    A feature was installed if one of the rights is there that only this feature needs.
    """
    features = {one.feature for one in spec.rules if one.feature is not None}
    installed = {one for one in features if any(_gives(given, *right) for right in _only_of(spec, one))}
    wanted = [one for one in spec.rules if one.feature is None or one.feature in installed]
    missing = (
        f"{verb} {resource}{rule.group and '.'}{rule.group}"
        for rule in wanted
        for resource in rule.resources
        for verb in rule.verbs
        if not _gives(given, rule, resource, verb)
    )
    return list(dict.fromkeys(missing))


def _only_of(spec: ComponentSpec, feature: Feature) -> list[tuple[RbacRule, str, str]]:
    """Rights that no rule of anything else has."""
    rights = [(rule, resource, verb) for rule in spec.rules for resource in rule.resources for verb in rule.verbs]
    others = {(rule.group, resource, verb) for rule, resource, verb in rights if rule.feature is not feature}
    mine = [right for right in rights if right[0].feature is feature]
    return [right for right in mine if (right[0].group, right[1], right[2]) not in others]


def _gives(given: Mapping[RuleScope, Sequence[JsonObject]], rule: RbacRule, resource: str, verb: str) -> bool:
    """True if a role has this right. One of the whole cluster also holds in the namespace."""
    scopes = (RuleScope.CLUSTER,) if rule.scope is RuleScope.CLUSTER else (RuleScope.NAMESPACE, RuleScope.CLUSTER)
    return any(
        _has(one.get("apiGroups"), rule.group)
        and _has(one.get("resources"), resource)
        and _has(one.get("verbs"), verb)
        and (not one.get("resourceNames") or (rule.names and set(rule.names) <= set(one["resourceNames"])))
        for scope in scopes
        for one in given.get(scope, ())
    )


def _has(words: Sequence[str] | None, word: str) -> bool:
    return words is not None and (word in words or "*" in words)
