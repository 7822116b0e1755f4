"""Laws between fields: rules in a kind's schema, in the language both servers must agree on to the word."""

from typing import Any

import pytest

from tests.contract.expect import eventually, refused
from tests.contract.kinds import CRD, GROUP
from tests.contract.steps import is_served
from tests.kube.crds.bad_objects import CLAIMS, NODES, QUOTAS, Bad
from tests.kube.crds.bad_provisioners import BY_RULE, BY_SCHEMA
from ullage.errors import Invalid
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import GPU_CLAIMS
from ullage.kube.crds.install import install
from ullage.testing.builders import a_crd, with_meta

LAW = Resource[JsonObject](GROUP, "v1", "laws", "Law", True, dict)
RULES = "x-kubernetes-validations"
ITEM = {
    "type": "object",
    "required": ["n"],
    "properties": {
        "n": {"type": "string", "maxLength": 10},
        "v": {
            "type": "integer",
            RULES: [{"rule": "self > 0", "message": "positive"}, {"rule": "self >= oldSelf", "message": "grows"}],
        },
    },
}
SPEC: JsonObject = {
    "type": "object",
    RULES: [
        {"rule": "!has(self.a) || self.a < 10"},
        {"rule": "!has(self.a) || self.a != 5", "messageExpression": "self.a == 5 ? 'a is five' : 'a is odd'"},
        {"rule": "!has(self.m) || self.m['x'] == 1"},
        {"rule": "!has(self.a) || !has(oldSelf.a) || self.a >= oldSelf.a", "message": "a only grows"},
        {"rule": "!has(self.q) || self.q.all(k, self.q.exists_one(o, o == k))", "message": "once", "fieldPath": ".q"},
        {
            "rule": "!has(self.a) || self.a % 2 == 1 || 'even' in self.m",
            "message": "odd",
            "reason": "FieldValueForbidden",
        },
    ],
    "properties": {
        "a": {"type": "integer"},
        "m": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer"}},
        "q": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 5}},
        "s": {
            "type": "string",
            "maxLength": 20,
            RULES: [
                {"rule": "self.startsWith('k') && size(self) < 9", "message": "k first"},
                {"rule": "self == oldSelf", "message": "fixed"},
            ],
        },
        "l": {
            "type": "array",
            "maxItems": 5,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["n"],
            "items": ITEM,
        },
        "r": {
            "type": "string",
            "maxLength": 9,
            RULES: [{"rule": "self.size() < 3", "message": "short", "reason": "FieldValueDuplicate"}],
        },
        "e": {"type": "string", "enum": ["one", "two"]},
        "x-y": {"type": "integer", RULES: [{"rule": "self != 1", "message": "not one"}]},
    },
}
LAW_CRD = a_crd(LAW, {"spec": SPEC})
LAW_CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"][RULES] = [
    {"rule": "self.metadata.name != 'bad'"},
    {"rule": "self.metadata.name.size() < 20 && self.kind == 'Law'", "message": "too long a name"},
    {"rule": "!has(self.spec.x__dash__y) || self.spec.x__dash__y > 0", "message": "x-y is positive"},
]


@pytest.fixture
async def laws(api: KubeApi) -> KubeApi:
    """A server that knows the kind."""
    if not await is_served(api, LAW):
        await api.create(CRD, LAW_CRD)
        await eventually(lambda: is_served(api, LAW), until=bool)
    return api


def a_law(name: str, **spec: Any) -> JsonObject:
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("law", "says", "field", "reason"),
    [
        pytest.param(
            a_law("bad"), "<nil>: Invalid value: failed rule: self.metadata.name != 'bad'", "<nil>", "", id="root"
        ),
        pytest.param(a_law("x" * 20), "<nil>: Invalid value: too long a name", "<nil>", "", id="name"),
        pytest.param(
            a_law("x", a=11),
            "spec: Invalid value: failed rule: !has(self.a) || self.a < 10",
            "spec",
            "",
            id="no-message",
        ),
        pytest.param(a_law("x", a=5), "spec: Invalid value: a is five", "spec", "", id="message-worked-out"),
        pytest.param(
            a_law("x", m={"y": 1}),
            "spec: Invalid value: \"object\": no such key: x evaluating rule: !has(self.m) || self.m['x'] == 1",
            "spec",
            "",
            id="rule-without-a-value",
        ),
        pytest.param(a_law("x", m={"x": 2}), "spec: Invalid value: failed rule: ", "spec", "", id="index"),
        pytest.param(a_law("x", q=["a", "b", "a"]), "spec.q: Invalid value: once", "spec.q", "", id="macros"),
        pytest.param(
            a_law("x", a=2, m={"x": 1}), "spec: Forbidden: odd", "spec", "FieldValueForbidden", id="another-reason"
        ),
        pytest.param(a_law("x", s="no"), 'spec.s: Invalid value: "no": k first', "spec.s", "", id="scalar"),
        pytest.param(
            a_law("x", l=[{"n": "a", "v": 1}, {"n": "b", "v": 0}]),
            "spec.l[1].v: Invalid value: 0: positive",
            "spec.l[1].v",
            "",
            id="item-of-a-list",
        ),
        pytest.param(
            a_law("x", r="abcd"), 'spec.r: Duplicate value: "abcd"', "spec.r", "FieldValueDuplicate", id="duplicate"
        ),
        pytest.param(a_law("x", **{"x-y": 0}), "<nil>: Invalid value: x-y is positive", "<nil>", "", id="escaped-name"),
        pytest.param(a_law("x", **{"x-y": 1}), "spec.x-y: Invalid value: 1: not one", "spec.x-y", "", id="odd-name"),
    ],
)
async def test_broken_laws_are_told(
    laws: KubeApi, ns: str, law: JsonObject, says: str, field: str, reason: str
) -> None:
    causes = [(field, reason or "FieldValueInvalid")]
    name = law["metadata"]["name"]
    with refused(Invalid, reason="Invalid", says=f'Law.{GROUP} "{name}" is invalid: {says}', causes=causes):
        await laws.create(LAW, law, ns)


async def test_laws_are_not_asked_about_what_has_no_sound_shape(laws: KubeApi, ns: str) -> None:
    says = "some validation rules were not checked because the object was invalid"
    causes = [("spec.e", "FieldValueNotSupported"), ("<nil>", "FieldValueInvalid")]
    with refused(Invalid, reason="Invalid", says=says, causes=causes):
        await laws.create(LAW, a_law("x", e="three", a=11), ns)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"a": 1}, "spec: Invalid value: a only grows", id="object"),
        pytest.param({"s": "kk"}, 'spec.s: Invalid value: "kk": fixed', id="scalar"),
        pytest.param(
            {"l": [{"n": "z", "v": 1}, {"n": "q", "v": 3}]},
            "spec.l[1].v: Invalid value: 3: grows",
            id="item-by-its-key",
        ),
    ],
)
async def test_laws_about_change(laws: KubeApi, ns: str, change: JsonObject, says: str) -> None:
    await laws.create(LAW, a_law("x", a=3, s="k", l=[{"n": "q", "v": 4}]), ns)
    with refused(Invalid, reason="Invalid", says=says):
        await laws.patch(LAW, "x", MergePatch({"spec": change}), ns)
    grown = await laws.patch(LAW, "x", MergePatch({"spec": {"a": 7, "l": [{"n": "q", "v": 9}]}}), ns)
    assert grown["spec"]["a"] == 7


async def test_what_was_there_before_a_law_may_stay(api: KubeApi, ns: str) -> None:
    resource = Resource[JsonObject](GROUP, "v1", "latelaws", "LateLaw", True, dict)
    number = {"type": "integer"}
    spec = {"type": "object", "properties": {"a": number, "b": number}}
    if not await is_served(api, resource):
        await api.create(CRD, a_crd(resource, {"spec": spec}))
        await eventually(lambda: is_served(api, resource), until=bool)
    await api.create(resource, a_law("old", a=50), ns)
    strict = {**spec, "properties": {"a": {**number, RULES: [{"rule": "self < 10", "message": "small"}]}, "b": number}}
    versions = a_crd(resource, {"spec": strict})["spec"]["versions"]
    await api.patch(CRD, resource.id, MergePatch({"spec": {"versions": versions}}))

    async def in_force() -> bool:
        try:
            await api.create(resource, a_law("new", a=50), ns, dry_run=True)
        except Invalid:
            return True
        return False

    await eventually(in_force, until=bool)
    changed = await api.patch(resource, "old", MergePatch({"spec": {"b": 1}}), ns)
    assert changed["spec"] == {"a": 50, "b": 1}
    with refused(Invalid, reason="Invalid", says="spec.a: Invalid value: 60: small"):
        await api.patch(resource, "old", MergePatch({"spec": {"a": 60}}), ns)
    await api.delete(CRD, resource.id)


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        pytest.param("foo(self)", "undeclared reference to 'foo' (in container '')", id="unknown-function"),
        pytest.param("self.", "Syntax error", id="unfinished"),
        pytest.param("self.a == 'x", "Syntax error", id="open-string"),
    ],
)
async def test_a_rule_that_is_none_is_refused_with_its_definition(api: KubeApi, rule: str, problem: str) -> None:
    resource = Resource[JsonObject](GROUP, "v1", "nolaws", "NoLaw", True, dict)
    crd = a_crd(
        resource, {"spec": {"type": "object", "properties": {"a": {"type": "string"}}, RULES: [{"rule": rule}]}}
    )
    field = f"spec.validation.openAPIV3Schema.properties[spec].{RULES}[0].rule"
    with refused(Invalid, reason="Invalid", says=problem, causes=[(field, "FieldValueInvalid")]):
        await api.create(CRD, with_meta(crd))


@pytest.mark.parametrize("bad", [*CLAIMS, *QUOTAS, *NODES, *BY_SCHEMA, *BY_RULE])
async def test_bad_objects_of_our_kinds_are_refused(api: KubeApi, bad: Bad) -> None:
    if not await is_served(api, bad.resource):
        await install(api)
    namespace = "default" if bad.resource.namespaced else ""
    with pytest.raises(Invalid) as caught:
        await api.create(bad.resource.whole(), bad.body("x"), namespace, dry_run=True)
    assert bad.says in caught.value.message
    assert any(cause.field.startswith(bad.field) for cause in caught.value.causes), caught.value.causes


async def test_a_claim_that_holds_gpus_cannot_change(api: KubeApi, ns: str) -> None:
    await install(api)
    claim = GPU_CLAIMS.whole()
    await api.create(claim, a_law("a"), ns)
    await api.patch(claim, "a", MergePatch({"status": {"phase": "Bound"}}), ns, subresource="status")
    says = "spec: Forbidden: cannot change while the claim holds GPUs; delete its pod first"
    with refused(Invalid, reason="Invalid", says=says, causes=[("spec", "FieldValueForbidden")]):
        await api.patch(claim, "a", MergePatch({"spec": {"pool": "p"}}), ns)
    await api.patch(claim, "a", MergePatch({"metadata": {"labels": {"a": "b"}}}), ns)
