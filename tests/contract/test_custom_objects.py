"""Custom objects: schema, defaults, pruning, status and scale."""

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import GADGET, WIDGET, a_widget
from tests.contract.steps import gadgets_served, names, version, widgets_served
from ullage.errors import BadRequest, Conflict, Invalid, NotFound
from ullage.kube.client.api import JsonPatch, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.testing.builders import with_meta

INVALID, TYPE, REQUIRED = "FieldValueInvalid", "FieldValueTypeInvalid", "FieldValueRequired"
UNSUPPORTED, DUPLICATE = "FieldValueNotSupported", "FieldValueDuplicate"


@pytest.fixture(autouse=True)
async def served(api: KubeApi) -> None:
    await widgets_served(api)


async def test_defaults_are_filled_in_deeply(api: KubeApi, ns: str) -> None:
    made = await api.create(WIDGET, a_widget("a", parts=[{"name": "x"}, {"name": "y", "count": 5}]), ns)
    assert made["spec"] == {
        "size": 1,
        "color": "red",
        "nested": {"depth": 3},
        "parts": [{"name": "x", "count": 1}, {"name": "y", "count": 5}],
    }


async def test_what_is_said_is_not_overwritten_by_defaults(api: KubeApi, ns: str) -> None:
    made = await api.create(WIDGET, a_widget("a", color="green", nested={"depth": 0}), ns)
    assert (made["spec"]["color"], made["spec"]["nested"]) == ("green", {"depth": 0})


async def test_null_where_nothing_may_be_null_takes_the_default(api: KubeApi, ns: str) -> None:
    assert (await api.create(WIDGET, a_widget("a", color=None), ns))["spec"]["color"] == "red"


async def test_null_where_it_may_be_stays(api: KubeApi, ns: str) -> None:
    assert (await api.create(WIDGET, a_widget("a", remark=None), ns))["spec"]["remark"] is None


async def test_unknown_fields_are_pruned(api: KubeApi, ns: str) -> None:
    body = a_widget("a", junk=1, nested={"depth": 1, "junk": 2}, parts=[{"name": "x", "junk": 3}]) | {"junk": 4}
    made = await api.create(WIDGET, body, ns)
    assert "junk" not in made
    assert "junk" not in made["spec"]
    assert (made["spec"]["nested"], made["spec"]["parts"]) == ({"depth": 1}, [{"name": "x", "count": 1}])


async def test_unknown_fields_stay_where_they_may(api: KubeApi, ns: str) -> None:
    free = {"any": [1, {"thing": None}], "goes": "here"}
    assert (await api.create(WIDGET, a_widget("a", free=free), ns))["spec"]["free"] == free


async def test_patched_result_is_pruned_and_defaulted_too(api: KubeApi, ns: str) -> None:
    await api.create(WIDGET, a_widget("a", color="green"), ns)
    patched = await api.patch(WIDGET, "a", MergePatch({"spec": {"junk": 1, "color": None}}), ns)
    assert patched["spec"] == {"size": 1, "color": "red", "nested": {"depth": 3}}


@pytest.mark.parametrize(
    ("spec", "causes", "says"),
    [
        pytest.param(
            {"size": "big"},
            [("spec.size", TYPE)],
            'Invalid value: "string": spec.size in body must be of type integer: "string"',
            id="text-for-a-number",
        ),
        pytest.param({"size": 0}, [("spec.size", INVALID)], "should be greater than or equal to 1", id="too-small"),
        pytest.param({"size": 11}, [("spec.size", INVALID)], "should be less than or equal to 10", id="too-large"),
        pytest.param({"size": None}, [("spec.size", REQUIRED)], "spec.size: Required value", id="required"),
        pytest.param(
            {"color": "blue"},
            [("spec.color", UNSUPPORTED)],
            'Unsupported value: "blue": supported values: "red", "green"',
            id="not-in-the-list",
        ),
        pytest.param({"code": "ABC"}, [("spec.code", INVALID)], "should match '^[a-z]+$'", id="pattern"),
        pytest.param({"code": "a"}, [("spec.code", INVALID)], "should be at least 2 chars long", id="too-short"),
        pytest.param(
            {"code": "abcdef"},
            [("spec.code", "FieldValueTooLong")],
            "Too long: may not be more than 5 bytes",
            id="too-long",
        ),
        pytest.param(
            {"tags": ["a", "b", "c"]},
            [("spec.tags", "FieldValueTooMany")],
            "Too many: 3: must have at most 2 items",
            id="too-many",
        ),
        pytest.param({"tags": ["a", "a"]}, [("spec.tags[1]", DUPLICATE)], 'Duplicate value: "a"', id="twice-in-a-set"),
        pytest.param(
            {"parts": [{"name": "a"}, {"name": "a"}]},
            [("spec.parts[1]", DUPLICATE)],
            'Duplicate value: {"name":"a"}',
            id="key-twice-in-a-map",
        ),
        pytest.param({"parts": [{"count": 1}]}, [("spec.parts[0].name", REQUIRED)], "", id="required-in-a-list"),
        pytest.param(
            {"settings": {"a": 1}},
            [("spec.settings.a", TYPE)],
            'spec.settings.a in body must be of type string: "integer"',
            id="wrong-type-in-a-map",
        ),
        pytest.param(
            {"port": True}, [("spec.port", TYPE)], "must be of type integer,string", id="neither-number-nor-text"
        ),
        pytest.param({"since": "yesterday"}, [("spec.since", TYPE)], "must be of type date-time", id="no-time"),
        pytest.param({"ratio": "half"}, [("spec.ratio", TYPE)], "must be of type number", id="text-for-a-ratio"),
        pytest.param({"enabled": "yes"}, [("spec.enabled", TYPE)], "must be of type boolean", id="text-for-a-truth"),
        pytest.param({"nested": "x"}, [("spec.nested", TYPE)], "must be of type object", id="text-for-an-object"),
        pytest.param({"tags": "x"}, [("spec.tags", TYPE)], "must be of type array", id="text-for-a-list"),
        pytest.param(
            {"size": 0, "color": "blue"},
            [("spec.color", UNSUPPORTED), ("spec.size", INVALID)],
            'Widget.contract.ullage.dev "a" is invalid: [',
            id="two-objections",
        ),
    ],
)
async def test_schema_refuses_by_field(
    api: KubeApi, ns: str, spec: JsonObject, causes: list[tuple[str, str]], says: str
) -> None:
    with refused(Invalid, reason="Invalid", says=says, causes=causes):
        await api.create(WIDGET, a_widget("a", **spec), ns)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"port": 80}, id="number-for-number-or-text"),
        pytest.param({"port": "http"}, id="text-for-number-or-text"),
        pytest.param({"ratio": 1}, id="whole-ratio"),
        pytest.param({"since": "2030-01-01T00:00:00Z"}, id="time"),
        pytest.param({"tags": []}, id="empty-list"),
        pytest.param({"enabled": False}, id="false"),
    ],
)
async def test_schema_takes(api: KubeApi, ns: str, spec: JsonObject) -> None:
    made = await api.create(WIDGET, a_widget("a", **spec), ns)
    assert {key: made["spec"][key] for key in spec} == spec


async def test_change_is_held_against_the_schema(api: KubeApi, ns: str) -> None:
    made = await api.create(WIDGET, a_widget("a"), ns)
    with refused(Invalid, reason="Invalid", causes=[("spec.size", INVALID)]):
        await api.replace(WIDGET, made | {"spec": {"size": 99}})
    with refused(Invalid, reason="Invalid", causes=[("spec.size", TYPE)]):
        operation = {"op": "replace", "path": "/spec/size", "value": "big"}
        await api.patch(WIDGET, "a", JsonPatch([operation]), ns)
    assert await api.get(WIDGET, "a", ns) == made


async def test_kind_must_be_its_own(api: KubeApi, ns: str) -> None:
    with refused(Invalid, reason="Invalid", says="must be Widget", causes=[("kind", INVALID)]):
        await api.create(WIDGET, a_widget("a") | {"kind": "Gizmo"}, ns)


async def test_version_of_the_api_must_be_its_own(api: KubeApi, ns: str) -> None:
    says = "the API version in the data (contract.ullage.dev/v2) does not match the expected API version"
    with refused(BadRequest, reason="BadRequest", says=says):
        await api.create(WIDGET, a_widget("a") | {"apiVersion": "contract.ullage.dev/v2"}, ns)


async def test_custom_object_is_never_replaced_blindly(api: KubeApi, ns: str) -> None:
    made = await api.create(WIDGET, a_widget("a"), ns)
    causes = [("metadata.resourceVersion", INVALID)]
    with refused(Invalid, reason="Invalid", says="must be specified for an update", causes=causes):
        await api.replace(WIDGET, with_meta(a_widget("a", size=2), namespace=ns))
    await api.replace(WIDGET, made | {"spec": {"size": 2}})
    with refused(Conflict, reason="Conflict", says='on widgets.contract.ullage.dev "a": the object has been modified'):
        await api.replace(WIDGET, made | {"spec": {"size": 3}})


async def test_generation_counts_everything_but_metadata_and_status(api: KubeApi, ns: str) -> None:
    await api.create(WIDGET, a_widget("a"), ns)
    patches = [
        (MergePatch({"metadata": {"labels": {"a": "b"}}}), ""),
        (MergePatch({"status": {"phase": "Ready"}}), "status"),
        (MergePatch({"spec": {"size": 2}}), ""),
    ]
    seen = [await api.patch(WIDGET, "a", patch, ns, subresource=part) for patch, part in patches]
    assert [one["metadata"]["generation"] for one in seen] == [1, 1, 2]


async def test_status_is_written_apart(api: KubeApi, ns: str) -> None:
    made = await api.create(WIDGET, a_widget("a") | {"status": {"phase": "Ready"}}, ns)
    assert "status" not in made
    assert await api.patch(WIDGET, "a", MergePatch({"status": {"phase": "Ready"}}), ns) == made
    body = {"status": {"phase": "Ready", "junk": 1}, "spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}}
    patched = await api.patch(WIDGET, "a", MergePatch(body), ns, subresource="status")
    assert patched["status"] == {"phase": "Ready"}
    assert patched["spec"] == made["spec"]
    assert "labels" not in patched["metadata"], "unlike those of pods"


async def test_status_is_held_against_the_schema(api: KubeApi, ns: str) -> None:
    await api.create(WIDGET, a_widget("a"), ns)
    with refused(Invalid, reason="Invalid", causes=[("status.phase", TYPE)]):
        await api.patch(WIDGET, "a", MergePatch({"status": {"phase": 3}}), ns, subresource="status")


async def test_status_is_replaced_conditionally(api: KubeApi, ns: str) -> None:
    made = await api.create(WIDGET, a_widget("a"), ns)
    written = await api.replace(WIDGET, made | {"status": {"phase": "Ready"}}, subresource="status")
    assert written["status"] == {"phase": "Ready"}
    with refused(Conflict, reason="Conflict", says="the object has been modified"):
        await api.replace(WIDGET, made | {"status": {"phase": "Late"}}, subresource="status")


async def test_writing_the_same_again_is_no_write(api: KubeApi, ns: str) -> None:
    made = await api.create(WIDGET, a_widget("a", size=3), ns)
    assert version(await api.patch(WIDGET, "a", MergePatch({"spec": {"size": 3, "junk": 1}}), ns)) == version(made)


async def test_scale_of_a_custom_object(api: KubeApi, ns: str) -> None:
    await api.create(WIDGET, a_widget("a", replicas=2), ns)
    assert await api.read_scale(WIDGET, "a", ns) == 2
    await api.scale(WIDGET, "a", ns, 4)
    scaled = await api.get(WIDGET, "a", ns)
    assert (scaled["spec"]["replicas"], scaled["metadata"]["generation"]) == (4, 2)


async def test_scale_of_a_custom_object_may_not_be_negative(api: KubeApi, ns: str) -> None:
    await api.create(WIDGET, a_widget("a", replicas=2), ns)
    says = "should be a non-negative integer"
    with refused(Invalid, reason="Invalid", says=says, causes=[(".spec.replicas", INVALID)]):
        await api.scale(WIDGET, "a", ns, -1)


async def test_missing_custom_object_is_named_with_its_group(api: KubeApi, ns: str) -> None:
    with refused(NotFound, reason="NotFound", says='widgets.contract.ullage.dev "missing" not found'):
        await api.get(WIDGET, "missing", ns)


async def test_custom_objects_have_finalizers_and_preconditions_too(api: KubeApi, ns: str) -> None:
    made = await api.create(WIDGET, with_meta(a_widget("a"), finalizers=["ullage.dev/hold"]), ns)
    await api.delete(WIDGET, "a", ns)
    going = await api.get(WIDGET, "a", ns)
    assert going["metadata"]["deletionTimestamp"]
    assert going["metadata"]["generation"] == made["metadata"]["generation"] + 1
    await api.patch(WIDGET, "a", MergePatch({"metadata": {"finalizers": []}}), ns)
    with refused(NotFound, reason="NotFound"):
        await api.get(WIDGET, "a", ns)


async def test_cluster_scoped_custom_object(api: KubeApi, ns: str) -> None:
    await gadgets_served(api)
    made = await api.create(GADGET, {"metadata": {"name": f"{ns}-a"}, "spec": {"size": 1}})
    assert "namespace" not in made["metadata"]
    assert f"{ns}-a" in names(await api.list(GADGET))
    await api.delete(GADGET, f"{ns}-a")


async def test_without_the_subresource_status_is_a_field_like_any(api: KubeApi, ns: str) -> None:
    await gadgets_served(api)
    body = {"metadata": {"name": f"{ns}-a"}, "status": {"phase": "New"}}
    made = await api.create(GADGET, body)
    assert made["status"] == {"phase": "New"}
    patched = await api.patch(GADGET, f"{ns}-a", MergePatch({"status": {"phase": "Old"}}))
    assert (patched["status"], patched["metadata"]["generation"]) == ({"phase": "Old"}, 2)
    with refused(NotFound, reason="NotFound", says=f'gadgets.contract.ullage.dev "{ns}-a" not found'):
        await api.patch(GADGET, f"{ns}-a", MergePatch({"status": {"phase": "x"}}), subresource="status")
    await api.delete(GADGET, f"{ns}-a")
