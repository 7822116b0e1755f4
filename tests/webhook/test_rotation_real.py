"""Certificates on the real control plane: replicas that agree, rotation under load, trust that is put back."""

import asyncio
import ssl
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from tests.certs.test_files import write
from tests.contract.expect import eventually
from tests.webhook.programs import Site
from ullage.certs.rotator import SecretName
from ullage.certs.serving import ReloadingTlsContext
from ullage.certs.tls_secret import CertIssuer, read_tls_secret
from ullage.clock import WallClock
from ullage.decide.admission.policy import AdmissionPolicy
from ullage.decide.certs.rotation import CertLifetimes
from ullage.errors import ApiError, Unreadable, UserError
from ullage.kube.admission.webhook_configs import GUARD_NAME, MUTATING_NAME, WebhookEndpoint, bundles
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import MUTATING_WEBHOOKS, PODS, SECRETS, VALIDATING_WEBHOOKS
from ullage.model.allocation import CLAIM
from ullage.model.units import Seconds
from ullage.observe.probes import ListenAddress
from ullage.testing.builders import a_pod
from ullage.webhook.registration import WebhookRegistrar
from ullage.webhook.wiring import Webhook, WebhookSettings

pytestmark = pytest.mark.real

FAST = CertLifetimes(authority=Seconds(18.0), serving=Seconds(6.0), overlap=Seconds(3.0), backdated=Seconds(60.0))
"""A certificate lives for 4 s; after 12 s another authority is trusted, after 15 s it is used."""
WHOLE = PODS.whole()


def settings(site: Site, secret: str, lifetimes: CertLifetimes | None = None) -> WebhookSettings:
    port = site.port()
    return WebhookSettings(
        policy=AdmissionPolicy(),
        listen=ListenAddress("127.0.0.1", port),
        reach=WebhookEndpoint(url=f"https://127.0.0.1:{port}"),
        secret=SecretName(name=secret),
        lifetimes=lifetimes or CertLifetimes(),
        drain=0.0,
    )


@asynccontextmanager
async def serving(site: Site, settings: WebhookSettings, seed: int = 1) -> AsyncIterator[Webhook]:
    """A replica in this process, ready; over connections of its own."""
    api = connect(site.plane.kubeconfig)
    await WebhookRegistrar(api, settings.reach, settings.policy.identities).install()
    webhook = Webhook(api, settings, WallClock(), seed=seed)
    running = asyncio.ensure_future(webhook.run())
    try:
        async with asyncio.timeout(30):
            await asyncio.wait({running, asyncio.ensure_future(webhook.wait_ready())}, return_when="FIRST_COMPLETED")
            if running.done():
                await running
        yield webhook
    finally:
        running.cancel()
        await asyncio.wait({running})
        await api.close()


@pytest.fixture(autouse=True)
async def _unregistered_afterwards(api: KubeApi) -> AsyncIterator[None]:
    yield
    await WebhookRegistrar(api, WebhookEndpoint(), ()).remove()


async def trusted(api: KubeApi) -> set[str]:
    """What the API server trusts now, of all webhooks of both configurations."""
    both = [await api.get(MUTATING_WEBHOOKS, MUTATING_NAME), await api.get(VALIDATING_WEBHOOKS, GUARD_NAME)]
    return {bundle for configuration in both for bundle in bundles(configuration)}


async def data_of(api: KubeApi, secret: str) -> dict[str, bytes]:
    found = await api.get(SECRETS, secret, "ullage-system")
    return {key: b64decode(value) for key, value in found["data"].items()}


class Load:
    """Pods with claims, created one after another by several clients; and handshakes like those of API servers."""

    def __init__(self, site: Site, api: KubeApi) -> None:
        self._site = site
        self._api = api
        self.admitted = 0
        self.handshakes = 0
        self.certificates: set[bytes] = set()

    async def pods(self, client: int) -> None:
        """Dry runs: admission happens, nothing is stored."""
        api = connect(self._site.alice)
        try:
            while True:
                pod = a_pod(f"load-{client}", annotations={CLAIM: "c"})
                stored: JsonObject = await api.create(WHOLE, pod, "default", dry_run=True)
                assert stored["spec"]["schedulerName"] == "gpu-scheduler"
                self.admitted += 1
        finally:
            await api.close()

    async def calls(self, url: str, port: int) -> None:
        """An API server keeps its connections; this one makes a new one each time, trusting what is registered now."""
        while True:
            (bundle,) = set(bundles(await self._api.get(MUTATING_WEBHOOKS, MUTATING_NAME)))
            context = ssl.create_default_context(cadata=b64decode(bundle).decode())
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            self.certificates.add(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
            writer.close()
            await writer.wait_closed()
            async with (
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
                session.post(url, data=b"{}") as answer,
            ):
                assert answer.status == 400
            self.handshakes += 1
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("seconds", [20.0, pytest.param(90.0, marks=pytest.mark.full)])
async def test_certificates_and_authorities_change_under_load_without_a_failed_admission(
    site: Site, api: KubeApi, seconds: float
) -> None:
    first = settings(site, f"rotation-{seconds:.0f}", FAST)
    # The second replica shares the Secret and the name, and listens elsewhere.
    second = replace(first, listen=ListenAddress("127.0.0.1", site.port()))
    load = Load(site, api)
    async with AsyncExitStack() as replicas:
        one = await replicas.enter_async_context(serving(site, first, seed=1))
        two = await replicas.enter_async_context(serving(site, second, seed=2))
        authorities = {(await data_of(api, first.secret.name))["ca.crt"]}
        work = [asyncio.ensure_future(load.pods(client)) for client in range(4)]
        for replica in (one, two):
            assert replica.address is not None
            url = f"https://{replica.address}/mutate"
            work.append(asyncio.ensure_future(load.calls(url, replica.address.port)))
        until = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < until and not any(task.done() for task in work):
            await asyncio.sleep(0.5)
            authorities.add((await data_of(api, first.secret.name))["ca.crt"])
        for task in work:
            if not task.done():
                task.cancel()
        ended = await asyncio.gather(*work, return_exceptions=True)
    assert [error for error in ended if not isinstance(error, asyncio.CancelledError)] == []
    assert load.admitted > 3 * seconds
    assert load.handshakes > seconds / 2
    assert len(authorities) >= 2, "the authority did not change"
    assert len(load.certificates) >= seconds / 6, "the certificate did not change often"


async def test_two_replicas_make_one_secret(site: Site, api: KubeApi) -> None:
    one = settings(site, "shared")
    two = replace(one, listen=ListenAddress("127.0.0.1", site.port()))
    async with asyncio.TaskGroup() as group:
        stop = asyncio.Event()
        shown: list[ReloadingTlsContext] = []

        async def replica(chosen: WebhookSettings, seed: int) -> None:
            async with serving(site, chosen, seed) as webhook:
                shown.append(webhook._certificate)
                if len(shown) == 2:
                    stop.set()
                await stop.wait()

        group.create_task(replica(one, 1))
        group.create_task(replica(two, 2))
        await stop.wait()
    tls_secret = read_tls_secret(await data_of(api, "shared"))
    assert [one.current.pair for one in shown if one.current is not None] == [tls_secret.serving] * 2
    assert await trusted(api) == {b64encode(tls_secret.trusted).decode()}


async def test_what_is_trusted_is_put_back(site: Site, api: KubeApi) -> None:
    async with serving(site, settings(site, "drift")):
        good = await trusted(api)
        hooks = (await api.get(MUTATING_WEBHOOKS, MUTATING_NAME))["webhooks"]
        hooks[0]["clientConfig"]["caBundle"] = ""
        await api.patch(MUTATING_WEBHOOKS, MUTATING_NAME, MergePatch({"webhooks": hooks}))
        assert await trusted(api) != good
        await eventually(lambda: trusted(api), until=lambda now: now == good)


async def test_a_configuration_that_is_deleted_is_an_admins_to_install_again(site: Site, api: KubeApi) -> None:
    chosen = settings(site, "gone")
    async with serving(site, chosen):
        good = await trusted(api)
        await api.delete(VALIDATING_WEBHOOKS, GUARD_NAME)
        await asyncio.sleep(2)
        assert GUARD_NAME not in [one["metadata"]["name"] for one in (await api.list(VALIDATING_WEBHOOKS)).items]
        await WebhookRegistrar(api, chosen.reach, chosen.policy.identities).install()
        await eventually(lambda: trusted(api), until=lambda now: now == good)


async def test_a_secret_that_is_not_ours_is_left_alone(site: Site, api: KubeApi) -> None:
    foreign = {"metadata": {"name": "foreign", "namespace": "ullage-system"}, "data": {"ca.crt": "eA=="}}
    await api.create(SECRETS, foreign, "ullage-system")
    with pytest.raises(UserError, match="not ours"):
        async with serving(site, settings(site, "foreign")):
            pass
    assert await data_of(api, "foreign") == {"ca.crt": b"x"}


async def test_a_secret_of_ours_that_cannot_be_read_is_made_anew(site: Site, api: KubeApi) -> None:
    chosen = settings(site, "broken")
    async with serving(site, chosen):
        wrong = b64encode((await data_of(api, "broken"))["ca.key"]).decode()
        await api.patch(SECRETS, "broken", MergePatch({"data": {"tls.key": wrong}}), "ullage-system")

        async def readable() -> bool:
            try:
                read_tls_secret(await data_of(api, "broken"))
            except Unreadable:
                return False
            return True

        await eventually(readable, until=bool)

        async def call() -> bool:
            context = ssl.create_default_context(cadata=b64decode((await trusted(api)).pop()).decode())
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", chosen.listen.port, ssl=context)
            except ssl.SSLError:
                return False
            writer.close()
            return True

        await eventually(call, until=bool)


async def test_given_files_are_served_and_swapped(site: Site, api: KubeApi, tmp_path: Path) -> None:
    issuer = CertIssuer(("127.0.0.1",))
    first, second = issuer.start(WallClock().now()), issuer.start(WallClock().now())
    files = replace(write(tmp_path, first), look_every=0.2)
    chosen = replace(settings(site, "never-made"), files=files)
    pod = a_pod("given", annotations={CLAIM: "c"})
    async with serving(site, chosen):
        assert await trusted(api) == {b64encode(first.trusted).decode()}
        await api.create(PODS, pod, "default", dry_run=True)
        write(tmp_path, second)
        await eventually(lambda: trusted(api), until=lambda now: now == {b64encode(second.trusted).decode()})
        # The server has to load it, and the API server to hear of it: their order is nobody's promise.
        await eventually(lambda: _let_in(api, pod), until=bool, seconds=60)
    assert [one["metadata"]["name"] for one in (await api.list(SECRETS, "ullage-system")).items].count(
        "never-made"
    ) == 0


async def _let_in(api: KubeApi, pod: JsonObject) -> bool:
    try:
        await api.create(PODS, pod, "default", dry_run=True)
    except ApiError:
        return False
    return True
