"""Lives of certificates in virtual time: two replicas, one Secret, and nothing served that is not trusted.

Lives are counted in hours here: watches are renewed every few minutes, and years of that say nothing new.
"""

import asyncio
import random
from base64 import b64decode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from ullage.certs.authority import is_issued_by, span_of
from ullage.certs.rotator import CertRotator, SecretName
from ullage.certs.serving import CertificateBundle
from ullage.certs.tls_secret import CertIssuer, read_tls_secret
from ullage.clock import Clock
from ullage.decide.certs.rotation import CertLifetimes
from ullage.errors import Unreachable
from ullage.kube.admission.webhook_configs import MUTATING_NAME, WebhookEndpoint, bundles
from ullage.kube.client.api import DELETE_NOW, KubeApi
from ullage.kube.client.resources import CRDS, MUTATING_WEBHOOKS, NAMESPACES, SECRETS, VALIDATING_WEBHOOKS
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.install import _established
from ullage.model.units import Seconds
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import Latency, NetworkConditions
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_crd, a_namespace
from ullage.watch.informer import run_all
from ullage.webhook.registration import WebhookRegistrar

pytestmark = pytest.mark.story

MINUTE, HOUR = 60.0, 3600.0
LIVES = CertLifetimes(
    authority=Seconds(30 * HOUR), serving=Seconds(3 * HOUR), overlap=Seconds(10 * MINUTE), backdated=Seconds(5 * MINUTE)
)
NAMES = ("ullage-webhook.ullage-system.svc",)
FOOTER = "-----END CERTIFICATE-----\n"


@dataclass
class Replica:
    """A keeper at work: what it serves now, and how often that changed."""

    keeper: CertRotator
    registrar: WebhookRegistrar
    served: list[CertificateBundle] = field(default_factory=list)

    def serve(self, served: CertificateBundle) -> None:
        if not self.served or self.served[-1].pair != served.pair:
            self.served.append(served)

    async def run(self, clock: Clock, seed: int) -> None:
        self.serve(await self.keeper.open())
        rng = random.Random(seed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.keeper.run(self.serve))
            group.create_task(run_all(*self.registrar.informers(self.keeper.wake, rng=rng, clock=clock)))


@dataclass(frozen=True)
class Stage:
    api: KubeApi
    clock: Clock
    replicas: list[Replica]

    async def trusted(self) -> list[bytes]:
        """The certificates the API server trusts now, one by one."""
        found = await self.api.get(MUTATING_WEBHOOKS, MUTATING_NAME)
        (bundle,) = set(bundles(found))
        return [(text + FOOTER).encode() for text in b64decode(bundle).decode().split(FOOTER) if text.strip()]

    async def sound(self) -> None:
        """Everybody serves something that is good now, by somebody who is trusted."""
        authorities = await self.trusted()
        for replica in self.replicas:
            certificate = replica.served[-1].pair.certificate
            span = span_of(certificate)
            assert span.start <= self.clock.now() < span.end
            assert any(is_issued_by(certificate, one) for one in authorities)


def an_api(server: SimulatedApiServer, seed: int) -> RestApi:
    return RestApi(
        InMemoryTransport(server, network=NetworkConditions(seed=seed, latency=Latency())),
        rng=random.Random(seed),
    )


async def serve_configurations(api: KubeApi) -> None:
    """The simulated API server has no webhook configurations of its own: any kind with these names will do."""
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        hooks = {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        await api.create(CRDS, a_crd(resource, {"webhooks": hooks}))
        await _established(api, resource.id)


def play(story: Callable[[Stage], Awaitable[None]], *, replicas: int = 2, lifetimes: CertLifetimes = LIVES) -> None:
    async def live() -> None:
        clock = loop_clock()
        server = SimulatedApiServer(clock, seed=7)
        api = an_api(server, 7)
        await serve_configurations(api)
        await api.create(NAMESPACES, a_namespace("ullage-system"))
        await WebhookRegistrar(api, WebhookEndpoint(), ("scheduler",)).install()
        cast: list[Replica] = []
        for number in range(replicas):
            own = an_api(server, number)
            registrar = WebhookRegistrar(own, WebhookEndpoint(), ("scheduler",))
            issuer = CertIssuer(NAMES, lifetimes)
            cast.append(Replica(CertRotator(own, SecretName(), issuer, registrar, clock, number), registrar))
        work = [asyncio.ensure_future(replica.run(clock, number)) for number, replica in enumerate(cast)]
        await asyncio.sleep(5)
        try:
            await story(Stage(api, clock, cast))
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    run_virtual(live())


def test_three_authorities_without_a_moment_of_distrust() -> None:
    async def story(stage: Stage) -> None:
        authorities: set[bytes] = set()
        for _ in range(50 * 3):
            await asyncio.sleep(20 * MINUTE)
            await stage.sound()
            authorities.update(await stage.trusted())
        assert len(authorities) == 3
        one, two = stage.replicas
        assert 23 <= len(one.served) <= 28, "about every two hours"
        assert [served.pair for served in one.served] == [served.pair for served in two.served]

    play(story)


def test_a_new_authority_is_trusted_before_it_is_used() -> None:
    async def story(stage: Stage) -> None:
        await asyncio.sleep(20 * HOUR - MINUTE)
        old = stage.replicas[0].served[-1].pair.certificate
        assert len(await stage.trusted()) == 1
        await asyncio.sleep(2 * MINUTE)
        trusted = await stage.trusted()
        assert len(trusted) == 2
        assert is_issued_by(stage.replicas[0].served[-1].pair.certificate, trusted[0])
        await asyncio.sleep(10 * MINUTE)
        for replica in stage.replicas:
            new = replica.served[-1].pair.certificate
            assert new != old
            assert is_issued_by(new, trusted[1])
        assert sorted(await stage.trusted()) == sorted(trusted)
        await asyncio.sleep(10 * HOUR)
        assert await stage.trusted() == [trusted[1]]

    play(story)


def test_a_secret_that_is_deleted_is_made_anew_and_all_follow() -> None:
    async def story(stage: Stage) -> None:
        before = stage.replicas[0].served[-1]
        await stage.api.delete(SECRETS, "ullage-webhook-tls", "ullage-system", how=DELETE_NOW)
        await asyncio.sleep(5)
        await stage.sound()
        assert stage.replicas[0].served[-1] != before
        data = (await stage.api.get(SECRETS, "ullage-webhook-tls", "ullage-system"))["data"]
        tls_secret = read_tls_secret({key: b64decode(value) for key, value in data.items()})
        assert {replica.served[-1].pair for replica in stage.replicas} == {tls_secret.serving}

    play(story)


def test_other_names_mean_another_certificate_by_the_same_authority() -> None:
    async def story(stage: Stage) -> None:
        before, trusted = stage.replicas[0].served[-1], await stage.trusted()
        issuer = CertIssuer(("another.name",))
        registrar = WebhookRegistrar(stage.api, WebhookEndpoint(), ("scheduler",))
        keeper = CertRotator(stage.api, SecretName(), issuer, registrar, stage.clock, 9)
        served = await keeper.open()
        assert served.pair != before.pair
        assert is_issued_by(served.pair.certificate, trusted[0])

    play(story, replicas=1)


class Mute:
    """A registry nobody can reach."""

    async def trust(self, trusted: bytes | None) -> None:  # noqa: ARG002 - nobody hears it
        raise Unreachable("no API server")


def test_an_authority_nobody_could_be_told_of_is_not_used() -> None:
    async def live() -> None:
        clock = loop_clock()
        server = SimulatedApiServer(clock, seed=7)
        api = an_api(server, 7)
        await api.create(NAMESPACES, a_namespace("ullage-system"))
        lifetimes = CertLifetimes(
            authority=Seconds(6 * HOUR),
            serving=Seconds(HOUR),
            overlap=Seconds(10 * MINUTE),
            backdated=Seconds(5 * MINUTE),
        )
        keeper = CertRotator(api, SecretName(), CertIssuer(NAMES, lifetimes), Mute(), clock, 1)
        first = await keeper.open()
        served: list[CertificateBundle] = []
        running = asyncio.ensure_future(keeper.run(served.append))
        await asyncio.sleep(5.8 * HOUR)
        last = served[-1].pair.certificate
        assert is_issued_by(last, first.trusted or b"")
        assert span_of(last).end > clock.now(), "the serving certificate is renewed all the same"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_virtual(live())
