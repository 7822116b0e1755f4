"""What RestApi asks and how it reads the answers, over a scripted transport in virtual time."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from tests.kube.scripted import ScriptedTransport, a_page, a_pod, api_over, says, status
from ullage.errors import BadRequest, Gone, NotFound, Unreadable
from ullage.kube.client.api import (
    Apply,
    Binding,
    Deletion,
    JsonPatch,
    KubeApi,
    ListSelector,
    MergePatch,
    Page,
    Propagation,
)
from ullage.kube.client.resources import BUDGETS, CONFIG_MAPS, DEPLOYMENTS, LEASES, NODES, PODS
from ullage.kube.objects.meta import LabelSelector, ObjectMeta
from ullage.kube.objects.pod import KubePod, PodSpec, TopologySpreadConstraint
from ullage.kube.objects.policy import DisruptionBudgetSpec, KubePodDisruptionBudget, Lease, LeaseSpec
from ullage.sim.virtual_time import run_virtual

Call = Callable[[KubeApi], Awaitable[object]]

CALLS = [
    pytest.param(lambda api: api.get(PODS, "p", "n"), "GET", "/api/v1/namespaces/n/pods/p", {}, None, id="get"),
    pytest.param(lambda api: api.get(NODES, "x"), "GET", "/api/v1/nodes/x", {}, None, id="get-cluster-scoped"),
    pytest.param(
        lambda api: api.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "b"}}, "n", dry_run=True),
        "POST",
        "/api/v1/namespaces/n/configmaps",
        {"fieldManager": "ullage", "dryRun": "All"},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}},
        id="create-says-what-it-is",
    ),
    pytest.param(
        lambda api: api.create(LEASES, Lease(metadata=ObjectMeta(name="l", namespace="n"))),
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/n/leases",
        {"fieldManager": "ullage"},
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "namespace": "n"}},
        id="create-a-struct-in-its-own-namespace",
    ),
    pytest.param(
        lambda api: api.replace(
            LEASES,
            Lease(
                metadata=ObjectMeta(name="l", namespace="n", resource_version="7"),
                spec=LeaseSpec(holder_identity="me", lease_transitions=0),
            ),
        ),
        "PUT",
        "/apis/coordination.k8s.io/v1/namespaces/n/leases/l",
        {"fieldManager": "ullage"},
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l", "namespace": "n", "resourceVersion": "7"},
            "spec": {"holderIdentity": "me", "leaseTransitions": 0},
        },
        id="replace-is-conditional-on-the-version-it-carries",
    ),
    pytest.param(
        lambda api: api.replace(PODS, a_pod("p"), subresource="status"),
        "PUT",
        "/api/v1/namespaces/n/pods/p/status",
        {"fieldManager": "ullage"},
        {"apiVersion": "v1", "kind": "Pod"} | a_pod("p"),
        id="replace-status",
    ),
    pytest.param(
        lambda api: api.patch(NODES, "x", MergePatch({"spec": {"unschedulable": None}})),
        "PATCH",
        "/api/v1/nodes/x",
        {"fieldManager": "ullage"},
        {"spec": {"unschedulable": None}},
        id="merge-patch-keeps-its-nulls",
    ),
    pytest.param(
        lambda api: api.patch(NODES, "x", JsonPatch([{"op": "remove", "path": "/spec"}]), subresource="status"),
        "PATCH",
        "/api/v1/nodes/x/status",
        {"fieldManager": "ullage"},
        [{"op": "remove", "path": "/spec"}],
        id="json-patch",
    ),
    pytest.param(
        lambda api: api.patch(NODES, "x", Apply({"metadata": {"name": "x"}}, "mine", force=False)),
        "PATCH",
        "/api/v1/nodes/x",
        {"fieldManager": "mine", "force": "false"},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}},
        id="apply-says-what-it-is",
    ),
    pytest.param(
        lambda api: api.delete(
            PODS, "p", "n", how=Deletion("u", "5", grace_seconds=0, propagation=Propagation.ORPHAN, dry_run=True)
        ),
        "DELETE",
        "/api/v1/namespaces/n/pods/p",
        {},
        {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u", "resourceVersion": "5"},
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Orphan",
            "dryRun": ["All"],
        },
        id="delete-with-everything",
    ),
    pytest.param(
        lambda api: api.bind("p", "n", Binding("node-a", uid="u", resource_version="5", annotations={"k": "v"})),
        "POST",
        "/api/v1/namespaces/n/pods/p/binding",
        {"fieldManager": "ullage"},
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": "p",
                "namespace": "n",
                "uid": "u",
                "resourceVersion": "5",
                "annotations": {"k": "v"},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node-a"},
        },
        id="bind",
    ),
    pytest.param(
        lambda api: api.evict("p", "n", how=Deletion(uid="u")),
        "POST",
        "/api/v1/namespaces/n/pods/p/eviction",
        {"fieldManager": "ullage"},
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "p", "namespace": "n"},
            "deleteOptions": {"preconditions": {"uid": "u"}},
        },
        id="evict",
    ),
    pytest.param(
        lambda api: api.scale(DEPLOYMENTS, "d", "n", 3),
        "PATCH",
        "/apis/apps/v1/namespaces/n/deployments/d/scale",
        {"fieldManager": "ullage"},
        {"spec": {"replicas": 3}},
        id="scale",
    ),
]


@pytest.mark.parametrize(("call", "method", "path", "query", "body"), CALLS)
def test_a_call_is_spelled_as_the_api_server_wants_it(
    call: Call, method: str, path: str, query: dict[str, str], body: Any
) -> None:
    transport = ScriptedTransport([says({})])
    run_virtual(_finish(call(api_over(transport))))
    (request,) = transport.requests
    assert (request.method, request.path, dict(request.query)) == (method, path, query)
    assert transport.last_body == body


@pytest.mark.parametrize(
    ("patch", "content_type"),
    [
        pytest.param(MergePatch({}), "application/merge-patch+json", id="merge"),
        pytest.param(JsonPatch([]), "application/json-patch+json", id="json"),
        pytest.param(Apply({}, "m"), "application/apply-patch+yaml", id="apply"),
    ],
)
def test_a_patch_says_of_which_kind_it_is(patch: Any, content_type: str) -> None:
    transport = ScriptedTransport([says({})])
    run_virtual(api_over(transport).patch(NODES, "x", patch))
    assert transport.requests[0].content_type == content_type


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "..%2fb"])
@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda api, name: api.delete(PODS, name, "n"), id="delete"),
        pytest.param(lambda api, name: api.get(PODS, name, "n"), id="get"),
        pytest.param(lambda api, name: api.replace(PODS, a_pod(name)), id="replace"),
        pytest.param(lambda api, name: api.evict(name, "n"), id="evict"),
    ],
)
def test_a_name_that_would_mean_another_path_is_never_sent(call: Callable[[KubeApi, str], Any], name: str) -> None:
    transport = ScriptedTransport()
    with pytest.raises(BadRequest, match="cannot be the name"):
        run_virtual(call(api_over(transport), name))
    assert transport.requests == []


def test_defaults_the_server_requires_are_written_and_empty_ones_are_not() -> None:
    spread = TopologySpreadConstraint(topology_key="zone", label_selector=LabelSelector())
    pod = KubePod(metadata=ObjectMeta(name="p", namespace="n"), spec=PodSpec(topology_spread_constraints=(spread,)))
    transport = ScriptedTransport([says({})])
    run_virtual(api_over(transport).create(PODS, pod))
    (written,) = transport.last_body["spec"]["topologySpreadConstraints"]
    assert written["maxSkew"] == 1
    assert written["whenUnsatisfiable"] == "DoNotSchedule"
    assert written["labelSelector"] == {}
    assert "minDomains" not in written
    assert "status" not in transport.last_body


def test_zero_is_written_where_it_is_not_the_default() -> None:
    budget = KubePodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="n"), spec=DisruptionBudgetSpec(min_available=0)
    )
    transport = ScriptedTransport([says({})])
    run_virtual(api_over(transport).create(BUDGETS, budget))
    assert transport.last_body["spec"] == {"minAvailable": 0}


def test_whole_objects_keep_fields_we_do_not_model() -> None:
    raw = a_pod("p") | {"spec": {"hostAliases": [{"ip": "1.2.3.4"}]}}
    transport = ScriptedTransport([says(raw), says(raw)])
    api = api_over(transport)
    assert run_virtual(api.get(PODS.whole(), "p", "n")) == raw
    assert run_virtual(api.get(PODS, "p", "n")) == msgspec.convert(raw, KubePod)


def test_a_list_joins_its_pages_and_shows_one_moment() -> None:
    transport = ScriptedTransport(
        [a_page([a_pod("a"), a_pod("b")], "9", "next", 1), a_page([a_pod("c")], "9")],
    )
    page = run_virtual(api_over(transport).list(PODS, "n", selection=ListSelector("x=y", "spec.nodeName="), chunk=2))
    assert [pod.metadata.name for pod in page.items] == ["a", "b", "c"]
    assert page.resource_version == "9"
    first, second = (dict(request.query) for request in transport.requests)
    assert first == {"limit": "2", "labelSelector": "x=y", "fieldSelector": "spec.nodeName="}
    assert second == first | {"continue": "next"}


def test_an_empty_list_may_be_null() -> None:
    transport = ScriptedTransport([says({"kind": "PodList", "metadata": {"resourceVersion": "3"}, "items": None})])
    assert run_virtual(api_over(transport).list(PODS)) == Page([], "3")


@pytest.mark.parametrize("body", [{}, {"error": "maintenance"}, {"kind": "Status"}, {"items": []}], ids=str)
def test_an_answer_that_is_no_list_is_not_an_empty_one(body: dict[str, Any]) -> None:
    with pytest.raises(Unreadable, match="list pods: the answer is not a list of Pod"):
        run_virtual(api_over(ScriptedTransport([says(body)])).list(PODS))


@pytest.mark.parametrize(
    ("at_least", "query"),
    [
        pytest.param(None, {"limit": "500"}, id="latest"),
        pytest.param("0", {"limit": "500", "resourceVersion": "0"}, id="whatever-is-at-hand"),
        pytest.param(
            "7",
            {"limit": "500", "resourceVersion": "7", "resourceVersionMatch": "NotOlderThan"},
            id="not-older-than-seen",
        ),
    ],
)
def test_pages_ask_for_a_moment_only_once(at_least: str | None, query: dict[str, str]) -> None:
    transport = ScriptedTransport([a_page([a_pod("a")], "9", "next", 1), a_page([], "9")])

    async def story() -> list[Page[KubePod]]:
        return [page async for page in api_over(transport).pages(PODS, at_least=at_least)]

    pages = run_virtual(story())
    assert [page.remaining for page in pages] == [1, 0]
    assert dict(transport.requests[0].query) == query
    assert dict(transport.requests[1].query) == {"limit": "500", "continue": "next"}


def test_a_list_compacted_away_between_pages_starts_again() -> None:
    gone = status(410, "Expired", "The provided continue parameter is too old")
    first = a_page([a_pod("old")], "5", "next", 1)
    transport = ScriptedTransport([first, gone, a_page([a_pod("new")], "9")])
    page = run_virtual(api_over(transport).list(PODS))
    assert [pod.metadata.name for pod in page.items] == ["new"]


def test_a_list_compacted_away_twice_is_asked_for_in_one_piece() -> None:
    gone = status(410, "Expired", "too old")
    first = a_page([a_pod("old")], "5", "next", 1)
    transport = ScriptedTransport([first, gone, first, gone, a_page([a_pod("new")], "9")])
    page = run_virtual(api_over(transport).list(PODS))
    assert [pod.metadata.name for pod in page.items] == ["new"]
    assert dict(transport.requests[-1].query) == {}


def test_pages_tell_their_reader_that_the_moment_is_gone() -> None:
    transport = ScriptedTransport([a_page([a_pod("a")], "5", "next", 1), status(410, "Expired", "too old")])

    async def story() -> None:
        async for _ in api_over(transport).pages(PODS):
            pass

    with pytest.raises(Gone):
        run_virtual(story())


@pytest.mark.parametrize(
    ("call", "text"),
    [
        pytest.param(lambda api: api.get(PODS, "p", "n"), "get pods n/p: .*not a readable Pod", id="get"),
        pytest.param(lambda api: api.list(PODS), "list pods: .*not a readable list of Pod", id="list"),
        pytest.param(lambda api: api.read_scale(DEPLOYMENTS, "d", "n"), "deployments.apps n/d", id="scale"),
    ],
)
@pytest.mark.parametrize("body", [b"<html>hello</html>", b'{"metadata": 3, "spec": 3, "items": 3}', b""])
def test_an_answer_that_is_not_what_was_asked_for_is_unreadable(call: Call, text: str, body: bytes) -> None:
    transport = ScriptedTransport([says({})])
    transport.answers = [type(says({}))(200, body)]
    with pytest.raises(Unreadable, match=text):
        run_virtual(_finish(call(api_over(transport))))


def test_discovery_finds_every_version_and_survives_a_dead_extension_server() -> None:
    groups = [
        {"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]},
        {"name": "dead.io", "versions": [{"groupVersion": "dead.io/v1", "version": "v1"}]},
    ]
    transport = ScriptedTransport(
        [
            says({"gitVersion": "v1.36.0"}),
            says({"versions": ["v1"]}),
            says({"groups": groups}),
            says({"resources": [{"name": "pods"}, {"name": "pods/status"}]}),
            says({"resources": [{"name": "deployments"}]}),
            status(404, "NotFound", "no such group"),
        ]
    )
    served = run_virtual(api_over(transport).discover())
    assert served.versions == {"pods": ("v1",), "deployments.apps": ("v1",)}
    assert served.server_version == "v1.36.0"
    assert PODS in served
    assert LEASES not in served


def test_read_scale_reads_what_is_asked_for() -> None:
    transport = ScriptedTransport([says({"spec": {"replicas": 4}, "status": {"replicas": 2}})])
    assert run_virtual(api_over(transport).read_scale(DEPLOYMENTS, "d", "n")) == 4


def test_closing_closes_the_transport() -> None:
    transport = ScriptedTransport()
    run_virtual(api_over(transport).close())
    assert transport.closed == 1


def test_not_found_says_what_is_not_there() -> None:
    transport = ScriptedTransport([status(404, "NotFound", 'pods "p" not found')])
    with pytest.raises(NotFound, match='pods "p" not found'):
        run_virtual(api_over(transport).get(PODS, "p", "n"))


async def _finish(call: Awaitable[object]) -> object:
    return await call
