"""The HTTP side against a real kube-apiserver: who may come in, what is said otherwise, and how it bears a crash."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from ullage import errors
from ullage.kube.auth.connect import connect, find_access, open_api
from ullage.kube.client.api import EVERYTHING, KubeApi, ListSelector, WatchEventType
from ullage.kube.client.calling import RetryPolicy
from ullage.kube.client.edit import edit
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import CONFIG_MAPS, LEASES, NAMESPACES, NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from ullage.kube.client.transport import Request
from ullage.kube.http.http import HttpTransport
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.pod import Container, KubePod, PodSpec, SchedulingGate, TopologySpreadConstraint
from ullage.testing.controlplane import EXPIRED, ControlPlane, ControlPlaneSpec, GoProgram, StaticToken

pytestmark = pytest.mark.real

StartControlPlane = Callable[[ControlPlaneSpec], ControlPlane]


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncGenerator[KubeApi, None]:
    api = connect(kubeconfig, seed=1)
    try:
        yield api
    finally:
        await api.close()


@pytest.fixture
async def api(control_plane: ControlPlane) -> AsyncGenerator[KubeApi, None]:
    async with connected(control_plane.kubeconfig) as connection:
        yield connection


@pytest.fixture
async def namespace(api: KubeApi) -> str:
    made = await api.create(NAMESPACES, {"metadata": {"generateName": "http-"}})
    return made.metadata.name


async def test_discovery_knows_our_resources(api: KubeApi) -> None:
    served = await api.discover()
    assert served.server_version.startswith("v1.")
    for resource in (PODS, NODES, LEASES, CONFIG_MAPS):
        assert resource in served


async def test_a_forbidden_resource_is_named_with_verb_and_user(control_plane: ControlPlane) -> None:
    async with connected(control_plane.kubeconfig_for("mallory")) as api:
        for call, verb in (
            (api.list(SECRETS), "list"),
            (api.get(SECRETS, "s", "default"), "get"),
            (_first(api), "watch"),
            (api.delete(SECRETS, "s", "default"), "delete"),
        ):
            with pytest.raises(errors.Forbidden, match=rf'User "mallory" cannot {verb} resource "secrets"'):
                await call


async def test_an_expired_client_certificate_is_said_to_be_expired(control_plane: ControlPlane) -> None:
    path = control_plane.kubeconfig_for("jane", ["system:masters"], EXPIRED)
    async with connected(path) as api:
        with pytest.raises(errors.Unauthorized, match=r"client certificate expired on 20\d\d-") as caught:
            await api.list(PODS)
    assert str(path) in str(caught.value)


async def test_a_wrong_token_is_said_to_be_refused(control_plane: ControlPlane) -> None:
    path = control_plane.kubeconfig_with_token("wrong")
    async with connected(path) as api:
        with pytest.raises(errors.Unauthorized, match="does not accept the credentials of user") as caught:
            await api.list(PODS)
        with pytest.raises(errors.Unauthorized):
            await _first(api)
    assert str(path) in str(caught.value)


async def test_an_unknown_authority_is_named(control_plane: ControlPlane, tmp_path: Path) -> None:
    content = yaml.safe_load(control_plane.kubeconfig.read_text())
    del content["clusters"][0]["cluster"]["certificate-authority-data"]
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(content))
    api = open_api(find_access(path), patience=RetryPolicy(attempts=1))
    with pytest.raises(errors.Unreachable, match="not in this machine's trusted certificates"):
        await api.list(PODS)
    await api.close()


async def test_a_service_accounts_token_and_its_rotation(
    api: KubeApi, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """A tokenFile is a service account's way in; the first token is wrong, the second is what was mounted since."""
    content = yaml.safe_load(control_plane.kubeconfig_with_token("").read_text())
    user = content["users"][0]["user"]
    user.clear()
    user["tokenFile"] = "token"
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(content))
    (tmp_path / "token").write_text("not yet")
    async with connected(path) as mounted:
        with pytest.raises(errors.Unauthorized):
            await mounted.list(PODS)
        (tmp_path / "token").write_text(await _service_account_token(control_plane, api))
        with pytest.raises(errors.Forbidden, match="system:serviceaccount:default:http-test"):
            await mounted.list(PODS)


async def test_pages_of_a_list_show_one_moment(api: KubeApi, namespace: str) -> None:
    for number in range(7):
        await api.create(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}}, namespace)
    versions: set[str] = set()
    names: list[str] = []
    remaining: list[int] = []
    async for page in api.pages(CONFIG_MAPS, namespace, chunk=3):
        if not names:
            await api.create(CONFIG_MAPS, {"metadata": {"name": "late"}}, namespace)
        versions.add(page.resource_version)
        names += [item["metadata"]["name"] for item in page.items]
        remaining.append(page.remaining)
    assert names == [f"c{number}" for number in range(7)]
    assert len(versions) == 1
    assert remaining == [4, 1, 0]
    seen = await api.list(CONFIG_MAPS, namespace, selection=ListSelector(fields="metadata.name=late"))
    assert len(seen.items) == 1
    async for page in api.pages(CONFIG_MAPS, namespace, at_least=seen.resource_version, chunk=100):
        assert len(page.items) == 8


async def test_a_watch_shows_what_happens_and_can_be_resumed(api: KubeApi, namespace: str) -> None:
    start = (await api.list(CONFIG_MAPS, namespace)).resource_version
    big = {"metadata": {"name": "c"}, "data": {"k": "x" * 1_000_000}}
    await api.create(CONFIG_MAPS, big, namespace)
    await api.delete(CONFIG_MAPS, "c", namespace)
    events = await _events(api, namespace, start, 2)
    assert [change for change, _ in events] == [WatchEventType.ADDED, WatchEventType.DELETED]
    resumed = await _events(api, namespace, events[0][1], 1)
    assert resumed == events[1:]


async def test_a_bookmark_moves_a_quiet_watch_past_what_happens_elsewhere(api: KubeApi, namespace: str) -> None:
    async def create_elsewhere() -> JsonObject:
        await asyncio.sleep(0.5)
        return await api.create(CONFIG_MAPS, {"metadata": {"generateName": "elsewhere-"}}, "default")

    start = (await api.list(CONFIG_MAPS, namespace)).resource_version
    other = asyncio.create_task(create_elsewhere())
    seen = [event async for batch in api.watch(CONFIG_MAPS, namespace, since=start, seconds=5) for event in batch]
    elsewhere = await other
    assert {(event.change, event.object) for event in seen} == {(WatchEventType.BOOKMARK, None)}
    assert int(seen[-1].resource_version) >= int(elsewhere["metadata"]["resourceVersion"])


async def test_a_struct_can_be_created_and_its_unknown_fields_survive_an_edit(api: KubeApi, namespace: str) -> None:
    spread = TopologySpreadConstraint(topology_key="zone")
    pod = KubePod(
        metadata=ObjectMeta(name="p", labels={"a": "b"}),
        spec=PodSpec(
            containers=(Container(name="c", image="i"),),
            scheduling_gates=(SchedulingGate(name="x.io/one"), SchedulingGate(name="x.io/two")),
            topology_spread_constraints=(spread,),
        ),
    )
    made = await api.create(PODS, pod, namespace)
    assert made.spec.topology_spread_constraints[0].max_skew == 1
    before = await api.get(PODS.whole(), "p", namespace)

    def open_gate(found: KubePod) -> KubePod:
        labels = found.metadata.labels | {"c": "d"}
        gates = found.spec.scheduling_gates[1:]
        return replace(
            found,
            metadata=replace(found.metadata, labels=labels),
            spec=replace(found.spec, scheduling_gates=gates),
        )

    await edit(api, PODS, "p", namespace, open_gate)
    after = await api.get(PODS.whole(), "p", namespace)
    assert after["metadata"]["labels"] == {"a": "b", "c": "d"}
    assert after["spec"] == before["spec"] | {"schedulingGates": [{"name": "x.io/two"}]}


async def test_many_edits_at_once_lose_nothing(api: KubeApi, namespace: str) -> None:
    await api.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {}}, namespace)

    def add(key: str) -> Callable[[JsonObject], JsonObject]:
        return lambda config: config | {"data": config.get("data", {}) | {key: "1"}}

    await asyncio.gather(*(edit(api, CONFIG_MAPS, "c", namespace, add(f"k{number}")) for number in range(4)))
    found = await api.get(CONFIG_MAPS, "c", namespace)
    assert sorted(found["data"]) == ["k0", "k1", "k2", "k3"]


async def test_an_invalid_object_names_its_field(api: KubeApi, namespace: str) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await api.create(PODS, {"metadata": {"name": "p"}, "spec": {"containers": []}}, namespace)
    assert [cause.field for cause in caught.value.causes] == ["spec.containers"]


async def test_an_impersonated_user_is_who_the_server_sees(control_plane: ControlPlane, tmp_path: Path) -> None:
    content = yaml.safe_load(control_plane.kubeconfig.read_text())
    content["users"][0]["user"] |= {"as": "jane", "as-groups": ["a", "b"]}
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(content))
    async with connected(path) as api:
        with pytest.raises(errors.Forbidden, match='User "jane" cannot list'):
            await api.list(PODS)


@pytest.mark.fault
async def test_a_crash_of_the_server_in_the_middle_of_a_watch(start_control_plane: StartControlPlane) -> None:
    """The watch breaks, reads wait for the server to come back, and a moment it no longer remembers is gone."""
    spec = ControlPlaneSpec(tokens=[StaticToken(token="t0ken", user="jane", groups=("system:masters",))])
    plane = await asyncio.to_thread(start_control_plane, spec)
    api = open_api(
        find_access(plane.kubeconfig_with_token("t0ken")), seed=1, patience=RetryPolicy(attempts=30, longest_wait=1.0)
    )
    try:
        await api.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, "default")
        start = (await api.list(CONFIG_MAPS)).resource_version
        watch = asyncio.create_task(_first(api, start))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(plane.kill, GoProgram.APISERVER)
        with pytest.raises(errors.Unreachable):
            await watch
        # A kept connection whose end has not been noticed yet may take the first call with it.
        with pytest.raises(errors.Unreachable, match=r"closed the connection|refuses connections"):
            await api.create(CONFIG_MAPS, {"metadata": {"name": "never"}}, "default")
        with pytest.raises(errors.Unreachable, match="refuses connections; check that it runs"):
            await api.create(CONFIG_MAPS, {"metadata": {"name": "never"}}, "default")
        reading = asyncio.create_task(api.get(CONFIG_MAPS, "c", "default"))
        await asyncio.to_thread(plane.start, GoProgram.APISERVER)
        assert (await reading)["metadata"]["name"] == "c"
        # A server that has just started remembers no changes from before.
        with pytest.raises(errors.Gone, match="too old resource version"):
            await _events(api, "default", "1", 1)
    finally:
        await api.close()


async def _first(api: KubeApi, since: str = "") -> None:
    """Watch secrets until something other than a bookmark comes."""
    async for batch in api.watch(SECRETS, since=since, seconds=60):
        if any(event.change is not WatchEventType.BOOKMARK for event in batch):
            return


async def _events(api: KubeApi, namespace: str, since: str, count: int) -> list[tuple[WatchEventType, str]]:
    seen: list[tuple[WatchEventType, str]] = []
    async for batch in api.watch(CONFIG_MAPS, namespace, since=since, selection=EVERYTHING, seconds=30):
        seen += [
            (event.change, event.resource_version) for event in batch if event.change is not WatchEventType.BOOKMARK
        ]
        if len(seen) >= count:
            break
    return seen


async def _service_account_token(plane: ControlPlane, api: KubeApi) -> str:
    """A token as kubelet would mount it: by the TokenRequest API, which `KubeApi` has no need to know."""
    await api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "http-test"}}, "default")
    found = find_access(plane.kubeconfig)
    transport = HttpTransport(found.endpoint, found.credentials)
    try:
        path = SERVICE_ACCOUNTS.path("default", "http-test", "token")
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
        response = await transport.send(Request("POST", path, body=msgspec.json.encode(body)))
    finally:
        await transport.close()
    return str(msgspec.json.decode(response.body)["status"]["token"])
