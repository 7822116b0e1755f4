"""Config maps, secrets, events and disruption budgets: the rules each has of its own."""

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import BUDGET, CONFIG_MAP, EVENT, SECRET
from ullage.errors import BadRequest, Invalid
from ullage.kube.client.api import KubeApi, ListSelector, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import BUDGETS, RESOURCE_SLICES
from ullage.testing.builders import a_budget, a_config_map, a_meta, an_event

INVALID, REQUIRED, FORBIDDEN = "FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"data": {"x": "2"}}, "data", id="data"),
        pytest.param({"immutable": False}, "immutable", id="immutability"),
    ],
)
async def test_immutable_config_map_stays(api: KubeApi, ns: str, change: JsonObject, field: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a", x="1") | {"immutable": True}, ns)
    says = "field is immutable when `immutable` is set"
    with refused(Invalid, reason="Invalid", says=says, causes=[(field, FORBIDDEN)]):
        await api.patch(CONFIG_MAP, "a", MergePatch(change), ns)


async def test_immutable_config_map_can_be_labelled(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a", x="1") | {"immutable": True}, ns)
    patched = await api.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"labels": {"a": "b"}}}), ns)
    assert patched["metadata"]["labels"] == {"a": "b"}


async def test_keys_of_a_config_map_are_plain(api: KubeApi, ns: str) -> None:
    with refused(Invalid, reason="Invalid", says="a valid config key", causes=[("data[a b]", INVALID)]):
        await api.create(CONFIG_MAP, {"metadata": a_meta("a"), "data": {"a b": "1"}}, ns)


async def test_config_map_may_not_be_too_large(api: KubeApi, ns: str) -> None:
    says = "Too long: may not be more than 1048576 bytes"
    with refused(Invalid, reason="Invalid", says=says, causes=[("[]", "FieldValueTooLong")]):
        await api.create(CONFIG_MAP, a_config_map("a", x="x" * (1024 * 1024 + 1)), ns)


async def test_secret_takes_plain_text_and_keeps_it_encoded(api: KubeApi, ns: str) -> None:
    body = {"metadata": a_meta("a"), "stringData": {"a": "b"}, "data": {"c": "aGk="}}
    made = await api.create(SECRET, body, ns)
    assert (made["type"], made["data"]) == ("Opaque", {"a": "Yg==", "c": "aGk="})
    assert "stringData" not in made
    patched = await api.patch(SECRET, "a", MergePatch({"stringData": {"a": "new"}}), ns)
    assert patched["data"] == {"a": "bmV3", "c": "aGk="}


async def test_secret_must_be_encoded(api: KubeApi, ns: str) -> None:
    with refused(BadRequest, reason="BadRequest", says="illegal base64 data"):
        await api.create(SECRET, {"metadata": a_meta("a"), "data": {"a": "***"}}, ns)


async def test_type_of_a_secret_is_fixed(api: KubeApi, ns: str) -> None:
    await api.create(SECRET, {"metadata": a_meta("a"), "data": {}}, ns)
    with refused(Invalid, reason="Invalid", says="field is immutable", causes=[("type", INVALID)]):
        await api.patch(SECRET, "a", MergePatch({"type": "ullage.dev/other"}), ns)


def about(ns: str) -> JsonObject:
    return {"kind": "Pod", "namespace": ns, "name": "a"}


async def test_event_is_kept_as_written(api: KubeApi, ns: str) -> None:
    body = an_event("a", about(ns), note="placed on n1")
    made = await api.create(EVENT, body, ns)
    assert {key: made[key] for key in body if key != "metadata"} == {
        key: value for key, value in body.items() if key != "metadata"
    }


async def test_event_that_repeats_becomes_a_series(api: KubeApi, ns: str) -> None:
    await api.create(EVENT, an_event("a", about(ns)), ns)
    series = {"count": 2, "lastObservedTime": "2030-01-01T00:00:01.000000Z"}
    assert (await api.patch(EVENT, "a", MergePatch({"series": series}), ns))["series"] == series


async def test_told_event_is_not_rewritten(api: KubeApi, ns: str) -> None:
    await api.create(EVENT, an_event("a", about(ns)), ns)
    with refused(Invalid, reason="Invalid", says="field is immutable", causes=[("message", INVALID)]):
        await api.patch(EVENT, "a", MergePatch({"note": "otherwise"}), ns)


@pytest.mark.parametrize(
    ("fields", "causes"),
    [
        pytest.param({"eventTime": None}, [("eventTime", REQUIRED)], id="no-time"),
        pytest.param({"type": "Weird"}, [("type", INVALID)], id="type-nobody-knows"),
        pytest.param({"note": "x" * 1025}, [("message", INVALID)], id="note-too-long"),
        pytest.param({"reason": ""}, [("reason", REQUIRED)], id="no-reason"),
        pytest.param({"action": ""}, [("action", REQUIRED)], id="no-action"),
        pytest.param({"reportingInstance": ""}, [("reportingInstance", REQUIRED)], id="no-instance"),
    ],
)
async def test_event_is_refused_by_field(
    api: KubeApi, ns: str, fields: JsonObject, causes: list[tuple[str, str]]
) -> None:
    with refused(Invalid, reason="Invalid", causes=causes):
        await api.create(EVENT, an_event("a", about(ns), **fields), ns)


@pytest.mark.parametrize(
    ("spec", "causes", "says"),
    [
        pytest.param(
            {"minAvailable": 1, "maxUnavailable": 1},
            [("spec", INVALID)],
            "minAvailable and maxUnavailable cannot be both set",
            id="both-bounds",
        ),
        pytest.param(
            {"minAvailable": -1},
            [("spec.minAvailable", INVALID)],
            "must be greater than or equal to 0",
            id="negative",
        ),
        pytest.param(
            {"minAvailable": "150%"}, [("spec.minAvailable", INVALID)], "must not be greater than 100%", id="too-much"
        ),
        pytest.param(
            {"maxUnavailable": "ten"}, [("spec.maxUnavailable", INVALID)], "a valid percent string", id="words"
        ),
        pytest.param(
            {"unhealthyPodEvictionPolicy": "Maybe"},
            [("spec.unhealthyPodEvictionPolicy", "FieldValueNotSupported")],
            'supported values: "AlwaysAllow", "IfHealthyBudget"',
            id="policy-nobody-knows",
        ),
    ],
)
async def test_budget_is_refused_by_field(
    api: KubeApi, ns: str, spec: JsonObject, causes: list[tuple[str, str]], says: str
) -> None:
    with refused(Invalid, reason="Invalid", says=says, causes=causes):
        await api.create(BUDGET, a_budget("a", {"app": "x"}, **spec), ns)


@pytest.mark.parametrize("bound", [2, "50%"], ids=["a-number", "a-percentage"])
async def test_bound_of_a_budget_is_a_number_or_a_percentage(api: KubeApi, ns: str, bound: int | str) -> None:
    made = await api.create(BUDGETS, a_budget("a", {"app": "x"}, maxUnavailable=bound), ns)
    assert made.spec.max_unavailable == bound
    assert made.metadata.generation == 1


async def test_budget_can_be_changed(api: KubeApi, ns: str) -> None:
    await api.create(BUDGET, a_budget("a", {"app": "x"}, minAvailable=1), ns)
    changed = {"minAvailable": None, "maxUnavailable": 1}
    patched = await api.patch(BUDGET, "a", MergePatch({"spec": changed}), ns)
    assert patched["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    assert patched["metadata"]["generation"] == 2


async def test_slices_are_chosen_by_node_and_driver(api: KubeApi, ns: str) -> None:
    for node, driver in ((f"{ns}-a", "gpu.nvidia.com"), (f"{ns}-b", "gpu.nvidia.com"), (f"{ns}-a", "nic.example")):
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": [{"name": "d-0"}]}
        await api.create(RESOURCE_SLICES[0], {"metadata": a_meta(f"{node}-{driver}"), "spec": spec})

    async def names(fields: str) -> set[str]:
        found = await api.list(RESOURCE_SLICES[0], selection=ListSelector(fields=fields))
        return {one.metadata.name for one in found.items if one.metadata.name.startswith(f"{ns}-")}

    assert await names(f"spec.nodeName={ns}-a") == {f"{ns}-a-gpu.nvidia.com", f"{ns}-a-nic.example"}
    assert await names("spec.driver=gpu.nvidia.com") == {f"{ns}-a-gpu.nvidia.com", f"{ns}-b-gpu.nvidia.com"}
