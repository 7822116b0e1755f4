"""Puts the webhook together: claims, certificates, the server, its registration and its probes."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import structlog
from prometheus_client import CollectorRegistry

from ullage.clock import Clock
from ullage.decide.admit.policy import AdmissionPolicy
from ullage.decide.admit.rotation import Lifetimes
from ullage.errors import Unreachable, UserError
from ullage.kube.api import KubeApi
from ullage.kube.webhooks import Reach
from ullage.observe.admission_metrics import AdmissionMetrics
from ullage.observe.serve import Address, Checks, serving
from ullage.watch.informer import run_all
from ullage.webhook.authority import span_of
from ullage.webhook.claims import ClaimBook
from ullage.webhook.files import CertificateFiles, FileFollower, read_files
from ullage.webhook.keeper import Keeper, SecretName
from ullage.webhook.readiness import Readiness
from ullage.webhook.registrar import Registrar
from ullage.webhook.reviewing import Reviewer
from ullage.webhook.server import serving_reviews
from ullage.webhook.tls import Served, ServedCertificate, check_served
from ullage.webhook.vault import Workshop

_log = structlog.get_logger("webhook")
_CERTIFICATE, _CLAIMS, _REGISTRATION, _RUNNING = "certificate", "claims", "registration", "running"
_CHECK_AGAIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """What an operator chooses."""

    policy: AdmissionPolicy = field(default_factory=AdmissionPolicy)
    listen: Address = field(default_factory=lambda: Address("0.0.0.0", 9443))
    probes: Address | None = None
    """Where `/metrics`, `/healthz` and `/readyz` are, without TLS."""
    reach: Reach = field(default_factory=Reach)
    """How API servers call us; the certificate is for that name."""
    register: bool = True
    secret: SecretName = field(default_factory=SecretName)
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    files: CertificateFiles | None = None
    """Certificates given instead of made."""
    drain: float = 5.0
    """Seconds to serve on after saying not ready: until then API servers may still call."""


class Webhook:
    """One replica. `run` until cancelled."""

    def __init__(self, api: KubeApi, settings: WebhookSettings, clock: Clock, *, seed: int) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = random.Random(seed)
        self._names = names_for(settings.reach)
        self._claims = ClaimBook(api, rng=self._rng, clock=clock)
        self._registrar = Registrar(api, settings.reach, settings.policy.identities)
        workshop = Workshop(self._names, settings.lifetimes)
        self._keeper = Keeper(api, settings.secret, workshop, self, clock, seed)
        self._certificate = ServedCertificate()
        self._metrics = AdmissionMetrics(CollectorRegistry())
        self._readiness = Readiness(_CERTIFICATE, _CLAIMS, _REGISTRATION, _RUNNING)
        self._loaded = asyncio.Event()
        self.address: Address | None = None
        """Where it listens, once it does."""
        self.probes: Address | None = None

    async def wait_ready(self) -> None:
        """Until everything is in place and calls may come."""
        await self._readiness.wait()

    async def run(self) -> None:
        """Serve until cancelled; then say so, and serve on for a moment."""
        # 1. A certificate, before anybody can call.
        self.serve(await self._first())
        reviewer = Reviewer(self._settings.policy, self._claims)
        # 2. Answers, before anybody is told to call.
        async with self._pages() as self.probes, self._answering(reviewer) as self.address:
            _log.info("serving", address=str(self.address), probes=str(self.probes))
            self._readiness.say(_RUNNING)
            try:
                # 3. Claims, checks, registration; and everything kept as it should be from then on.
                await self._work()
            except asyncio.CancelledError:
                # 4. Nobody is to call any more, but some have not heard yet.
                self._readiness.say(_RUNNING, "stopping")
                await asyncio.sleep(self._settings.drain)
                raise

    @asynccontextmanager
    async def _pages(self) -> AsyncIterator[Address | None]:
        address = self._settings.probes
        if address is None:
            yield None
            return
        checks = Checks(ready=self._readiness.checks)
        with _complaining(address):
            async with serving(address, self._metrics.registry, checks) as taken:
                yield taken

    @asynccontextmanager
    async def _answering(self, reviewer: Reviewer) -> AsyncIterator[Address]:
        address, context = self._settings.listen, self._certificate.context
        with _complaining(address):
            async with serving_reviews(address, context, reviewer, self._metrics) as taken:
                yield taken

    async def trust(self, trusted: bytes | None) -> None:
        """Register whom to trust, if registering is ours to do. Raises ApiError."""
        if self._settings.register:
            await self._registrar.trust(trusted)
        self._readiness.say(_REGISTRATION)

    def serve(self, served: Served) -> None:
        """Show this certificate from now on. Raises UserError if it makes no sense."""
        if self._certificate.load(served):
            self._metrics.certificate_end.set(span_of(served.pair.certificate).end)
            self._loaded.set()

    async def _first(self) -> Served:
        if self._settings.files is None:
            return await self._keeper.open()
        return await asyncio.to_thread(read_files, self._settings.files)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(run_all(self._claims.informer), name="claims")
            await self._claims.informer.wait_synced()
            self._readiness.say(_CLAIMS)
            group.create_task(self._check_certificates(), name="certificate checks")
            certificates = self._certificates()
            group.create_task(certificates.run(self.serve), name="certificates")
            if self._settings.register:
                both = self._registrar.informers(certificates.wake, rng=self._rng, clock=self._clock)
                group.create_task(run_all(*both), name="configurations")

    def _certificates(self) -> Keeper | FileFollower:
        return self._keeper if self._settings.files is None else FileFollower(self._settings.files, self)

    async def _check_certificates(self) -> None:
        """After each new certificate: is it what a caller gets?"""
        while True:
            await self._loaded.wait()
            self._loaded.clear()
            served = self._certificate.current
            if served is None or self.address is None:
                continue
            try:
                await check_served(self.address, served, self._names[0])
            except Unreachable as error:
                self._readiness.say(_CERTIFICATE, str(error))
                _log.warning("certificate", trouble=str(error))
                await asyncio.sleep(_CHECK_AGAIN_SECONDS)
                self._loaded.set()
            else:
                self._readiness.say(_CERTIFICATE)


@contextmanager
def _complaining(address: Address) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot listen on {address}: {error.strerror or error}; choose another address") from error


def names_for(reach: Reach) -> tuple[str, ...]:
    """What an API server calls us by."""
    if not reach.url:
        full = f"{reach.service}.{reach.namespace}.svc"
        return (full, f"{reach.service}.{reach.namespace}", f"{full}.cluster.local")
    host = urlsplit(reach.url).hostname
    if not host or not reach.url.startswith("https://"):
        raise UserError(f"{reach.url!r} cannot be called; give a URL such as https://webhook.example:9443")
    return (host,)
