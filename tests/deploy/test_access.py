"""Rights that roles in a cluster lack, beside the declared ones."""

from collections.abc import Mapping, Sequence
from copy import deepcopy

import pytest

from ullage.deploy.access import access_objects, missing_rights
from ullage.deploy.component import Component, Feature, RuleScope
from ullage.deploy.components import COMPONENTS
from ullage.kube.client.resource import JsonObject

SCOPES = {"ClusterRole": RuleScope.CLUSTER, "Role": RuleScope.NAMESPACE}


def rules(name: Component, *features: Feature) -> dict[RuleScope, list[JsonObject]]:
    """Rules as they are installed."""
    made = access_objects(COMPONENTS[name], "ullage-system", features)
    return {SCOPES[one["kind"]]: deepcopy(one["rules"]) for one in made if one["kind"] in SCOPES}


def without(given: Mapping[RuleScope, Sequence[JsonObject]], verb: str, resource: str) -> None:
    for one in (one for scope in given.values() for one in scope if resource in one["resources"]):
        one["verbs"] = [other for other in one["verbs"] if other != verb]


@pytest.mark.parametrize("name", [pytest.param(one, id=str(one)) for one in Component])
@pytest.mark.parametrize(
    "features",
    [pytest.param((), id="plain"), pytest.param(tuple(Feature), id="all")]
    + [pytest.param((one,), id=str(one)) for one in Feature],
)
def test_what_is_installed_lacks_nothing(name: Component, features: tuple[Feature, ...]) -> None:
    assert missing_rights(COMPONENTS[name], rules(name, *features)) == []


@pytest.mark.parametrize(
    ("name", "verb", "resource", "told"),
    [
        pytest.param("scheduler", "create", "pods/binding", "create pods/binding", id="binding"),
        pytest.param("scheduler", "patch", "virtualmachines", "patch virtualmachines.vm.neon.tech", id="of-a-feature"),
        pytest.param("webhook", "get", "secrets", "get secrets", id="by-name"),
        pytest.param("controller", "update", "nodes", "update nodes", id="controller"),
    ],
)
def test_a_verb_that_was_taken_away_is_named(name: str, verb: str, resource: str, told: str) -> None:
    given = rules(Component(name), Feature.VMS)
    without(given, verb, resource)
    assert missing_rights(COMPONENTS[Component(name)], given) == [told]


def test_roles_that_are_gone_or_wider() -> None:
    spec = COMPONENTS[Component.SCHEDULER]
    assert "create pods/binding" in missing_rights(spec, {})
    assert "virtualmachines" not in str(missing_rights(spec, {})), "nothing says that VMs were meant"
    everything: JsonObject = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    assert missing_rights(spec, {RuleScope.CLUSTER: [everything]}) == []
    one_name: JsonObject = {**everything, "resourceNames": ["x"]}
    assert "create pods/binding" in missing_rights(spec, {RuleScope.CLUSTER: [one_name]})
