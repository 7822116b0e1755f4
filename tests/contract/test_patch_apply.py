"""Server-side apply: fields have owners; what an owner no longer names goes."""

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import CONFIG_MAP, LEASE, NODE, POD, WIDGET, a_widget
from tests.contract.steps import version, widgets_served
from ullage.errors import BadRequest, Conflict, Invalid
from ullage.kube.client.api import Apply, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.testing.builders import a_config_map, a_lease, a_node, a_pod, with_meta


async def test_apply_creates_what_is_not_there(api: KubeApi, ns: str) -> None:
    made = await api.patch(CONFIG_MAP, "a", Apply(a_config_map("a", x="1"), manager="us"), ns)
    assert made["data"] == {"x": "1"}
    assert made["metadata"]["uid"]
    assert await api.get(CONFIG_MAP, "a", ns) == made


async def test_applying_the_same_again_is_no_write(api: KubeApi, ns: str) -> None:
    made = await api.patch(CONFIG_MAP, "a", Apply(a_config_map("a", x="1"), manager="us"), ns)
    again = await api.patch(CONFIG_MAP, "a", Apply(a_config_map("a", x="1"), manager="us"), ns)
    assert version(again) == version(made)


async def test_what_its_owner_no_longer_names_goes(api: KubeApi, ns: str) -> None:
    body = a_config_map("a", labels={"keep": "1", "drop": "1"}, x="1", y="1")
    await api.patch(CONFIG_MAP, "a", Apply(body, manager="us"), ns)
    less = a_config_map("a", labels={"keep": "1"}, x="1")
    applied = await api.patch(CONFIG_MAP, "a", Apply(less, manager="us"), ns)
    assert (applied["data"], applied["metadata"]["labels"]) == ({"x": "1"}, {"keep": "1"})


async def test_what_others_wrote_stays(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a", x="theirs"), ns)
    await api.patch(CONFIG_MAP, "a", Apply(a_config_map("a", y="ours"), manager="us"), ns)
    applied = await api.patch(CONFIG_MAP, "a", Apply(a_config_map("a", z="ours"), manager="us"), ns)
    assert applied["data"] == {"x": "theirs", "z": "ours"}


async def test_another_managers_field_conflicts_without_force(api: KubeApi, ns: str) -> None:
    made = await api.patch(CONFIG_MAP, "a", Apply(a_config_map("a", x="theirs"), manager="them"), ns)
    with refused(Conflict, reason="Conflict", says='Apply failed with 1 conflict: conflict with "them": .data.x'):
        await api.patch(CONFIG_MAP, "a", Apply(a_config_map("a", x="ours"), manager="us", force=False), ns)
    assert await api.get(CONFIG_MAP, "a", ns) == made


async def test_agreeing_with_another_manager_is_no_conflict(api: KubeApi, ns: str) -> None:
    body = a_config_map("a", x="same")
    await api.patch(CONFIG_MAP, "a", Apply(body, manager="them"), ns)
    await api.patch(CONFIG_MAP, "a", Apply(body, manager="us", force=False), ns)
    left = await api.patch(CONFIG_MAP, "a", Apply(a_config_map("a"), manager="them", force=False), ns)
    assert left["data"] == {"x": "same"}, "still owned by us"


async def test_force_takes_the_field_over(api: KubeApi, ns: str) -> None:
    await api.patch(CONFIG_MAP, "a", Apply(a_config_map("a", x="theirs"), manager="them"), ns)
    taken = await api.patch(CONFIG_MAP, "a", Apply(a_config_map("a", x="ours"), manager="us"), ns)
    assert taken["data"] == {"x": "ours"}
    left = await api.patch(CONFIG_MAP, "a", Apply(a_config_map("a"), manager="them"), ns)
    assert left["data"] == {"x": "ours"}, "no longer theirs to remove"


async def test_version_makes_an_apply_conditional(api: KubeApi, ns: str) -> None:
    made = await api.create(LEASE, a_lease("a", "them"), ns)
    await api.patch(LEASE, "a", MergePatch({"spec": {"holderIdentity": "others"}}), ns)
    body = with_meta(a_lease("a", "us"), resourceVersion=version(made))
    with refused(Conflict, reason="Conflict", says="the object has been modified"):
        await api.patch(LEASE, "a", Apply(body, manager="us"), ns)


async def test_name_must_be_the_one_asked_for(api: KubeApi, ns: str) -> None:
    says = "the name of the object (b) does not match the name on the URL (a)"
    with refused(BadRequest, reason="BadRequest", says=says):
        await api.patch(CONFIG_MAP, "a", Apply(a_config_map("b"), manager="us"), ns)


async def test_bookkeeping_may_not_be_applied(api: KubeApi, ns: str) -> None:
    body = with_meta(a_config_map("a"), managedFields=[{"manager": "x", "operation": "Apply", "apiVersion": "v1"}])
    with refused(BadRequest, reason="BadRequest", says="metadata.managedFields must be nil"):
        await api.patch(CONFIG_MAP, "a", Apply(body, manager="us"), ns)


async def test_manager_must_have_a_name(api: KubeApi, ns: str) -> None:
    with refused(Invalid, reason="Invalid", causes=[("fieldManager", "FieldValueRequired")]):
        await api.patch(CONFIG_MAP, "a", Apply(a_config_map("a"), manager=""), ns)


async def test_labels_of_a_node_can_be_owned_apart(api: KubeApi, ns: str) -> None:
    name = f"{ns}-a"
    await api.create(NODE, a_node(name, labels={"zone": "z1"}, gpus=8))
    await api.patch(NODE, name, Apply({"metadata": {"name": name, "labels": {"us": "1"}}}, manager="us"))
    applied = await api.patch(NODE, name, Apply({"metadata": {"name": name}}, manager="us"))
    assert applied["metadata"]["labels"] == {"zone": "z1"}
    assert applied["status"]["capacity"]["nvidia.com/gpu"] == "8"


async def test_annotations_of_a_pod_can_be_owned_apart(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a", annotations={"theirs": "1"}), ns)
    body = {"metadata": {"name": "a", "annotations": {"ours": "1"}}}
    applied = await api.patch(POD, "a", Apply(body, manager="us"), ns)
    assert applied["metadata"]["annotations"] == {"theirs": "1", "ours": "1"}


async def test_finalizers_are_a_set_of_many_owners(api: KubeApi, ns: str) -> None:
    def wants(*finalizers: str) -> JsonObject:
        return with_meta(a_config_map("a"), finalizers=list(finalizers))

    await api.patch(CONFIG_MAP, "a", Apply(wants("ullage.dev/one"), manager="one"), ns)
    both = await api.patch(CONFIG_MAP, "a", Apply(wants("ullage.dev/two"), manager="two"), ns)
    assert sorted(both["metadata"]["finalizers"]) == ["ullage.dev/one", "ullage.dev/two"]
    left = await api.patch(CONFIG_MAP, "a", Apply(wants(), manager="one"), ns)
    assert left["metadata"]["finalizers"] == ["ullage.dev/two"]


async def test_list_that_is_a_map_merges_by_key(api: KubeApi, ns: str) -> None:
    await widgets_served(api)
    await api.patch(WIDGET, "a", Apply(a_widget("a", parts=[{"name": "x", "count": 2}]), manager="one"), ns)
    parts: JsonObject = {"metadata": {"name": "a"}, "spec": {"parts": [{"name": "y", "count": 3}]}}
    both = await api.patch(WIDGET, "a", Apply(parts, manager="two"), ns)
    assert both["spec"]["parts"] == [{"name": "x", "count": 2}, {"name": "y", "count": 3}]
    left = await api.patch(WIDGET, "a", Apply({"metadata": {"name": "a"}, "spec": {}}, manager="two"), ns)
    assert left["spec"]["parts"] == [{"name": "x", "count": 2}]


async def test_plain_list_is_owned_whole(api: KubeApi, ns: str) -> None:
    await widgets_served(api)
    await api.patch(WIDGET, "a", Apply(a_widget("a", steps=["one", "two"]), manager="us"), ns)
    applied = await api.patch(WIDGET, "a", Apply(a_widget("a", steps=["three"]), manager="us"), ns)
    assert applied["spec"]["steps"] == ["three"]


async def test_conditions_of_two_managers_live_side_by_side(api: KubeApi, ns: str) -> None:
    await widgets_served(api)
    await api.create(WIDGET, a_widget("a"), ns)

    async def states(manager: str, kind: str, status: str) -> JsonObject:
        body = {"metadata": {"name": "a"}, "status": {"conditions": [{"type": kind, "status": status}]}}
        return await api.patch(WIDGET, "a", Apply(body, manager=manager), ns, subresource="status")

    await states("one", "Ready", "False")
    await states("two", "Placed", "True")
    last = await states("one", "Ready", "True")
    assert last["status"]["conditions"] == [
        {"type": "Ready", "status": "True"},
        {"type": "Placed", "status": "True"},
    ]


async def test_applied_object_is_validated(api: KubeApi, ns: str) -> None:
    await widgets_served(api)
    with refused(Invalid, reason="Invalid", causes=[("spec.size", "FieldValueInvalid")]):
        await api.patch(WIDGET, "a", Apply(a_widget("a", size=400), manager="us"), ns)


@pytest.mark.parametrize("force", [True, False], ids=["forced", "asked"])
async def test_owner_may_change_its_own_field(api: KubeApi, ns: str, force: bool) -> None:
    await widgets_served(api)
    await api.patch(WIDGET, "a", Apply(a_widget("a", size=2), manager="us"), ns)
    applied = await api.patch(WIDGET, "a", Apply(a_widget("a", size=3), manager="us", force=force), ns)
    assert applied["spec"]["size"] == 3
    assert applied["metadata"]["generation"] == 2
