"""Service accounts, roles and bindings made from the declared rules."""

from collections.abc import Collection, Sequence

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
