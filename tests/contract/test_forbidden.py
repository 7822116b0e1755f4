"""A user whom nobody has given a role: known, and refused in words that name the role to give."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import CONFIG_MAP, DEPLOYMENT, LEASE, NODE, POD
from tests.contract.steps import read_watch
from tests.contract.worlds import World
from ullage.errors import Forbidden
from ullage.kube.client.api import Binding, KubeApi, MergePatch
from ullage.kube.client.resources import PODS
from ullage.testing.builders import a_config_map, a_lease, a_pod, with_meta

Attempt = Callable[[KubeApi, str], Awaitable[object]]


@pytest.fixture
async def stranger(world: World) -> AsyncIterator[KubeApi]:
    entered = world.enter_as("stranger")
    yield entered
    await entered.close()


@pytest.mark.parametrize(
    ("attempt", "thing", "missing"),
    [
        pytest.param(
            lambda api, ns: api.get(POD, "a", ns), 'pods "a"', 'get resource "pods" in API group ""', id="get"
        ),
        pytest.param(lambda api, ns: api.list(POD, ns), "pods", 'list resource "pods" in API group ""', id="list"),
        pytest.param(
            lambda api, ns: read_watch(api, POD, ns, "0", count=1),
            "pods",
            'watch resource "pods" in API group ""',
            id="watch",
        ),
        pytest.param(
            lambda api, ns: api.create(LEASE, a_lease("a"), ns),
            "leases.coordination.k8s.io",
            'create resource "leases" in API group "coordination.k8s.io"',
            id="create",
        ),
        pytest.param(
            lambda api, ns: api.replace(CONFIG_MAP, with_meta(a_config_map("a"), namespace=ns)),
            'configmaps "a"',
            'update resource "configmaps" in API group ""',
            id="replace",
        ),
        pytest.param(
            lambda api, ns: api.patch(POD, "a", MergePatch({}), ns),
            'pods "a"',
            'patch resource "pods" in API group ""',
            id="patch",
        ),
        pytest.param(
            lambda api, ns: api.patch(POD, "a", MergePatch({}), ns, subresource="status"),
            'pods "a"',
            'patch resource "pods/status" in API group ""',
            id="patch-of-the-status",
        ),
        pytest.param(
            lambda api, ns: api.delete(POD, "a", ns), 'pods "a"', 'delete resource "pods" in API group ""', id="delete"
        ),
        pytest.param(
            lambda api, ns: api.bind("a", ns, Binding("n1")),
            'pods "a"',
            'create resource "pods/binding" in API group ""',
            id="bind",
        ),
        pytest.param(
            lambda api, ns: api.evict("a", ns),
            'pods "a"',
            'create resource "pods/eviction" in API group ""',
            id="evict",
        ),
        pytest.param(
            lambda api, ns: api.scale(DEPLOYMENT, "a", ns, 1),
            'deployments.apps "a"',
            'patch resource "deployments/scale" in API group "apps"',
            id="scale",
        ),
    ],
)
async def test_refusal_names_verb_and_resource(
    stranger: KubeApi, ns: str, attempt: Attempt, thing: str, missing: str
) -> None:
    says = f'{thing} is forbidden: User "stranger" cannot {missing} in the namespace "{ns}"'
    with refused(Forbidden, reason="Forbidden", says=says):
        await attempt(stranger, ns)


async def test_refusal_names_the_cluster_where_there_is_no_namespace(stranger: KubeApi) -> None:
    says = 'nodes is forbidden: User "stranger" cannot list resource "nodes" in API group "" at the cluster scope'
    with refused(Forbidden, reason="Forbidden", says=says):
        await stranger.list(NODE)


async def test_all_namespaces_are_the_cluster(stranger: KubeApi) -> None:
    says = 'pods is forbidden: User "stranger" cannot list resource "pods" in API group "" at the cluster scope'
    with refused(Forbidden, reason="Forbidden", says=says):
        await stranger.list(PODS)


async def test_refused_write_changes_nothing(api: KubeApi, stranger: KubeApi, ns: str) -> None:
    made = await api.create(POD, a_pod("a"), ns)
    with refused(Forbidden, reason="Forbidden"):
        await stranger.bind("a", ns, Binding("n1"))
    assert await api.get(POD, "a", ns) == made


async def test_everybody_may_discover(stranger: KubeApi) -> None:
    assert PODS in await stranger.discover()
