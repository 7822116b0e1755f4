"""Lists: order, chunks of one moment, selectors, and moments that are gone."""

import asyncio

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import CONFIG_MAP, EVENT, NODE, POD, UNKNOWN, WIDGET, a_widget
from tests.contract.steps import ended, names, version, widgets_served
from tests.contract.worlds import Forget
from ullage.errors import BadRequest, Gone, NotFound
from ullage.kube.client.api import Binding, KubeApi, ListSelector, Page
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import PODS
from ullage.testing.builders import a_config_map, a_node, a_pod, an_event


async def some_config_maps(api: KubeApi, ns: str, count: int) -> list[str]:
    wanted = [f"item-{index}" for index in range(count)]
    for name in reversed(wanted):
        await api.create(CONFIG_MAP, a_config_map(name), ns)
    return wanted


async def test_list_has_everything_in_order_of_names(api: KubeApi, ns: str) -> None:
    wanted = await some_config_maps(api, ns, 4)
    assert names(await api.list(CONFIG_MAP, ns)) == wanted


async def test_empty_list_is_of_a_moment_too(api: KubeApi, ns: str) -> None:
    page = await api.list(CONFIG_MAP, ns)
    assert list(page.items) == []
    assert int(page.resource_version) > 0


async def test_list_is_as_new_as_the_last_write(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a"), ns)
    page = await api.list(CONFIG_MAP, ns)
    assert names(page) == ["a"]
    assert int(page.resource_version) >= int(version(made))


async def test_deletion_is_a_later_moment(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    before = await api.list(CONFIG_MAP, ns)
    await api.delete(CONFIG_MAP, "a", ns)
    after = await api.list(CONFIG_MAP, ns)
    assert names(after) == []
    assert int(after.resource_version) > int(before.resource_version)


async def test_list_of_a_missing_namespace_is_empty(api: KubeApi, ns: str) -> None:
    assert names(await api.list(CONFIG_MAP, f"{ns}-missing")) == []


async def test_list_without_a_namespace_has_all_of_them(api: KubeApi, ns: str) -> None:
    mark = {"contract": ns}
    await api.create(CONFIG_MAP, a_config_map("a", labels=mark), ns)
    await api.create(CONFIG_MAP, a_config_map(f"{ns}-b", labels=mark), "default")
    page = await api.list(CONFIG_MAP, selection=ListSelector(labels=f"contract={ns}"))
    await api.delete(CONFIG_MAP, f"{ns}-b", "default")
    places = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in page.items]
    assert places == sorted([(ns, "a"), ("default", f"{ns}-b")])


async def test_list_reads_as_the_struct_of_its_resource(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a", gpus=2), ns)
    page = await api.list(PODS, ns)
    assert [(pod.metadata.name, pod.spec.containers[0].resources.requests) for pod in page.items] == [
        ("a", {"nvidia.com/gpu": "2"})
    ]


async def test_list_of_a_kind_nobody_serves_is_not_found(api: KubeApi, ns: str) -> None:
    with refused(NotFound, reason=""):
        await api.list(UNKNOWN, ns)


async def test_chunks_add_up_and_say_how_much_is_left(api: KubeApi, ns: str) -> None:
    wanted = await some_config_maps(api, ns, 7)
    pages = [page async for page in api.pages(CONFIG_MAP, ns, chunk=3)]
    assert [(len(page.items), page.remaining) for page in pages] == [(3, 4), (3, 1), (1, 0)]
    assert [name for page in pages for name in names(page)] == wanted


async def test_list_asked_in_chunks_comes_in_one_piece(api: KubeApi, ns: str) -> None:
    wanted = await some_config_maps(api, ns, 5)
    assert names(await api.list(CONFIG_MAP, ns, chunk=2)) == wanted


async def test_chunk_as_large_as_the_list_is_the_last(api: KubeApi, ns: str) -> None:
    await some_config_maps(api, ns, 2)
    pages = [page async for page in api.pages(CONFIG_MAP, ns, chunk=2)]
    assert [(len(page.items), page.remaining) for page in pages] == [(2, 0)]


async def test_all_chunks_show_one_moment(api: KubeApi, ns: str) -> None:
    wanted = await some_config_maps(api, ns, 4)
    pages: list[Page[JsonObject]] = []
    async for page in api.pages(CONFIG_MAP, ns, chunk=2):
        if not pages:
            await api.delete(CONFIG_MAP, "item-3", ns)
            await api.create(CONFIG_MAP, a_config_map("item-9"), ns)
        pages.append(page)
    assert [name for page in pages for name in names(page)] == wanted
    assert len({page.resource_version for page in pages}) == 1


async def test_chunks_of_a_selection_do_not_know_how_much_is_left(api: KubeApi, ns: str) -> None:
    await some_config_maps(api, ns, 3)
    pages = [page async for page in api.pages(CONFIG_MAP, ns, chunk=2, selection=ListSelector(labels="!x"))]
    assert [(len(page.items), page.remaining) for page in pages] == [(2, 0), (1, 0)]


async def test_chunks_are_of_what_is_selected(api: KubeApi, ns: str) -> None:
    for index in range(6):
        parity = "even" if index % 2 == 0 else "odd"
        await api.create(CONFIG_MAP, a_config_map(f"item-{index}", labels={"parity": parity}), ns)
    pages = [page async for page in api.pages(CONFIG_MAP, ns, chunk=2, selection=ListSelector(labels="parity=odd"))]
    assert [names(page) for page in pages] == [["item-1", "item-3"], ["item-5"]]


async def test_chunks_run_through_namespaces(api: KubeApi, ns: str) -> None:
    mark = {"contract": ns}
    for name in ("a", "b"):
        await api.create(CONFIG_MAP, a_config_map(name, labels=mark), ns)
    await api.create(CONFIG_MAP, a_config_map(f"{ns}-c", labels=mark), "default")
    page = await api.list(CONFIG_MAP, chunk=1, selection=ListSelector(labels=f"contract={ns}"))
    await api.delete(CONFIG_MAP, f"{ns}-c", "default")
    assert sorted(names(page)) == sorted(["a", "b", f"{ns}-c"])


async def some_widgets(api: KubeApi, ns: str, count: int) -> None:
    await widgets_served(api)
    for index in range(count):
        await api.create(WIDGET, a_widget(f"item-{index}"), ns)


async def test_list_whose_moment_is_forgotten_is_gone(api: KubeApi, ns: str, forget_history: Forget) -> None:
    await some_widgets(api, ns, 4)
    async with ended(api.pages(WIDGET, ns, chunk=2)) as pages:
        assert names(await anext(pages)) == ["item-0", "item-1"]
        await api.delete(WIDGET, "item-3", ns)
        await forget_history()
        with refused(Gone, reason="Expired", says="The provided continue parameter is too old"):
            await anext(pages)


async def test_new_list_works_after_history_is_forgotten(api: KubeApi, ns: str, forget_history: Forget) -> None:
    await some_widgets(api, ns, 3)
    await forget_history()
    assert names(await api.list(WIDGET, ns, chunk=2)) == ["item-0", "item-1", "item-2"]


@pytest.mark.parametrize("at_least", ["0", "1"])
async def test_older_moment_is_good_enough_if_we_say_so(api: KubeApi, ns: str, at_least: str) -> None:
    page = await anext(api.pages(CONFIG_MAP, ns, at_least=at_least))
    assert int(page.resource_version) > 0


async def test_list_is_never_older_than_asked(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a"), ns)
    page = await anext(api.pages(CONFIG_MAP, ns, at_least=version(made)))
    assert names(page) == ["a"]
    assert int(page.resource_version) >= int(version(made))


async def test_moment_that_is_no_number_is_refused(api: KubeApi, ns: str) -> None:
    with refused(BadRequest, reason="BadRequest", says='parsing "abc": invalid syntax'):
        await anext(api.pages(CONFIG_MAP, ns, at_least="abc"))


LABELLED = {
    "a": {"app": "web", "tier": "front"},
    "b": {"app": "web", "tier": "back", "track": "canary"},
    "c": {"app": "db", "size": "3"},
    "d": {},
}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param("app=web", "ab", id="equal"),
        pytest.param("app==web", "ab", id="double-equal"),
        pytest.param("app!=web", "cd", id="unequal-or-absent"),
        pytest.param("app in (web, db)", "abc", id="one-of"),
        pytest.param("app notin (web)", "cd", id="none-of-or-absent"),
        pytest.param("tier", "ab", id="present"),
        pytest.param("!tier", "cd", id="absent"),
        pytest.param("app=web,tier!=front", "b", id="all-must-hold"),
        pytest.param("app in (web),!track", "a", id="mixed"),
        pytest.param("track=", "", id="equal-to-empty-is-not-absent"),
        pytest.param("size>2", "c", id="greater"),
        pytest.param("size<2", "", id="less"),
        pytest.param("app=cache", "", id="nothing-matches"),
    ],
)
async def test_label_selectors(api: KubeApi, ns: str, selector: str, expected: str) -> None:
    bodies = [a_config_map(name, labels=labels) for name, labels in LABELLED.items()]
    await asyncio.gather(*(api.create(CONFIG_MAP, body, ns) for body in bodies))
    assert names(await api.list(CONFIG_MAP, ns, selection=ListSelector(labels=selector))) == list(expected)


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param("a b c", id="words"),
        pytest.param("a in", id="unfinished"),
        pytest.param("a=b=c", id="two-equals"),
        pytest.param("-a=b", id="bad-key"),
        pytest.param("a=b c", id="bad-value"),
    ],
)
async def test_selector_nobody_understands_is_refused(api: KubeApi, ns: str, selector: str) -> None:
    with refused(BadRequest, reason="BadRequest"):
        await api.list(CONFIG_MAP, ns, selection=ListSelector(labels=selector))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param("metadata.name=a", "a", id="name"),
        pytest.param("metadata.name!=a", "bcd", id="not-that-name"),
        pytest.param("spec.nodeName={node}", "b", id="on-a-node"),
        pytest.param("spec.nodeName=", "acd", id="on-no-node"),
        pytest.param("spec.nodeName!=", "b", id="on-any-node"),
        pytest.param("spec.schedulerName=gpu-scheduler", "c", id="scheduler"),
        pytest.param("status.phase=Pending", "abcd", id="phase"),
        pytest.param("status.phase!=Pending", "", id="other-phases"),
        pytest.param("spec.restartPolicy=Never", "d", id="restart-policy"),
        pytest.param("spec.nodeName=,spec.schedulerName=default-scheduler", "ad", id="both-must-hold"),
    ],
)
async def test_field_selectors_of_pods(api: KubeApi, ns: str, node: str, selector: str, expected: str) -> None:
    bodies = [
        a_pod("a"),
        a_pod("b"),
        a_pod("c", schedulerName="gpu-scheduler"),
        a_pod("d", restartPolicy="Never"),
    ]
    await asyncio.gather(*(api.create(POD, body, ns) for body in bodies))
    await api.bind("b", ns, Binding(node))
    chosen = ListSelector(fields=selector.format(node=node))
    assert names(await api.list(POD, ns, selection=chosen)) == list(expected)


async def test_labels_and_fields_select_together(api: KubeApi, ns: str, node: str) -> None:
    await api.create(POD, a_pod("a", labels={"app": "x"}), ns)
    await api.create(POD, a_pod("b", labels={"app": "x"}, nodeName=node), ns)
    await api.create(POD, a_pod("c", nodeName=node), ns)
    chosen = ListSelector(labels="app=x", fields=f"spec.nodeName={node}")
    assert names(await api.list(POD, ns, selection=chosen)) == ["b"]


async def test_cordoned_nodes_can_be_selected(api: KubeApi, ns: str) -> None:
    await api.create(NODE, a_node(f"{ns}-a", labels={"contract": ns}))
    await api.create(NODE, a_node(f"{ns}-b", labels={"contract": ns}, unschedulable=True))
    chosen = ListSelector(labels=f"contract={ns}", fields="spec.unschedulable=true")
    assert names(await api.list(NODE, selection=chosen)) == [f"{ns}-b"]


async def test_custom_objects_are_selected_by_name(api: KubeApi, ns: str) -> None:
    await widgets_served(api)
    for name in ("a", "b"):
        await api.create(WIDGET, a_widget(name), ns)
    assert names(await api.list(WIDGET, ns, selection=ListSelector(fields="metadata.name=b"))) == ["b"]


async def test_events_are_selected_by_what_they_are_about(api: KubeApi, ns: str) -> None:
    for name in ("a", "b"):
        about = {"kind": "Pod", "namespace": ns, "name": name}
        await api.create(EVENT, an_event(f"event-{name}", about), ns)
    chosen = ListSelector(fields="regarding.name=b,reason=Scheduled")
    assert names(await api.list(EVENT, ns, selection=chosen)) == ["event-b"]


async def test_unknown_field_of_a_pod_cannot_be_selected(api: KubeApi, ns: str) -> None:
    with refused(BadRequest, reason="BadRequest", says="field label not supported: spec.color"):
        await api.list(POD, ns, selection=ListSelector(fields="spec.color=red"))


async def test_other_kinds_are_selected_by_name_only(api: KubeApi, ns: str) -> None:
    says = '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    with refused(BadRequest, reason="BadRequest", says=says):
        await api.list(CONFIG_MAP, ns, selection=ListSelector(fields="data.x=1"))


async def test_unknown_field_of_a_custom_object_cannot_be_selected(api: KubeApi, ns: str) -> None:
    await widgets_served(api)
    with refused(BadRequest, reason="BadRequest", says="field label not supported: spec.size"):
        await api.list(WIDGET, ns, selection=ListSelector(fields="spec.size=1"))


async def test_field_selector_needs_a_comparison(api: KubeApi, ns: str) -> None:
    with refused(BadRequest, reason="BadRequest", says="invalid selector: 'spec.nodeName'"):
        await api.list(POD, ns, selection=ListSelector(fields="spec.nodeName"))
