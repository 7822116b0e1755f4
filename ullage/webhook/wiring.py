"""Webhook process: claims, certificates, server, registration and probes put together."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import structlog
from prometheus_client import CollectorRegistry

from ullage.certs.authority import span_of
from ullage.certs.files import CertificateFiles, FileFollower, read_files
from ullage.certs.rotator import CertRotator, SecretName
from ullage.certs.serving import CertificateBundle, ReloadingTlsContext, check_served
from ullage.certs.tls_secret import CertIssuer
from ullage.clock import Clock
from ullage.decide.admission.policy import AdmissionPolicy
from ullage.decide.certs.rotation import CertLifetimes
from ullage.errors import Unreachable, UserError
from ullage.kube.admission.webhook_configs import WebhookEndpoint
from ullage.kube.client.api import KubeApi
from ullage.observe.admission_metrics import AdmissionMetrics
from ullage.observe.probes import HealthChecks, ListenAddress, serving
from ullage.watch.informer import run_all
from ullage.webhook.callers import ANYBODY, Callers
from ullage.webhook.claim_lookup import ClaimCache
from ullage.webhook.readiness import Readiness
from ullage.webhook.registration import WebhookRegistrar
from ullage.webhook.reviewer import AdmissionReviewer
from ullage.webhook.server import serving_reviews

_log = structlog.get_logger("webhook")
_CERTIFICATE, _CLAIMS, _REGISTRATION, _RUNNING = "certificate", "claims", "registration", "running"
_CHECK_AGAIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Settings of the webhook that an operator chooses."""

    policy: AdmissionPolicy = field(default_factory=AdmissionPolicy)
    listen: ListenAddress = field(default_factory=lambda: ListenAddress("0.0.0.0", 9443))
    probes: ListenAddress | None = None
    """Address of `/metrics`, `/healthz` and `/readyz`, without TLS; None for none."""
    reach: WebhookEndpoint = field(default_factory=WebhookEndpoint)
    """Service or URL by which API servers call the webhook; the certificate is for that name."""
    register: bool = True
    secret: SecretName = field(default_factory=SecretName)
    lifetimes: CertLifetimes = field(default_factory=CertLifetimes)
    files: CertificateFiles | None = None
    """Certificates given instead of made."""
    callers: Callers = ANYBODY
    """Callers that are answered."""
    drain: float = 5.0
    """Seconds to serve on after saying not ready: until then API servers may still call."""


class Webhook:
    """One replica. `run` until cancelled."""

    def __init__(self, api: KubeApi, settings: WebhookSettings, clock: Clock, *, seed: int) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = random.Random(seed)
        self._names = names_for(settings.reach)
        self._claims = ClaimCache(api, rng=self._rng, clock=clock)
        self._registrar = WebhookRegistrar(api, settings.reach, settings.policy.identities)
        issuer = CertIssuer(self._names, settings.lifetimes)
        self._rotator = CertRotator(api, settings.secret, issuer, self, clock, seed)
        self._certificate = ReloadingTlsContext()
        self._metrics = AdmissionMetrics(CollectorRegistry())
        self._readiness = Readiness(_CERTIFICATE, _CLAIMS, _REGISTRATION, _RUNNING)
        self._loaded = asyncio.Event()
        self.address: ListenAddress | None = None
        """Address the webhook listens on; None until it does."""
        self.probes: ListenAddress | None = None

    async def wait_ready(self) -> None:
        """Wait until every readiness check passes."""
        await self._readiness.wait()

    async def run(self) -> None:
        """Serve until cancelled; then report not ready, and serve on for `drain` seconds."""
        # 1. A certificate, before any API server can call.
        self.serve(await self._first())
        reviewer = AdmissionReviewer(self._settings.policy, self._claims)
        # 2. The server, before the webhook is registered.
        async with self._pages() as self.probes, self._answering(reviewer) as self.address:
            _log.info("serving", address=str(self.address), probes=str(self.probes))
            self._readiness.say(_RUNNING)
            try:
                # 3. Claims, checks and registration; all are kept up from then on.
                await self._work()
            except asyncio.CancelledError:
                # 4. Not ready any more, but some API servers have not heard yet.
                self._readiness.say(_RUNNING, "stopping")
                await asyncio.sleep(self._settings.drain)
                raise

    @asynccontextmanager
    async def _pages(self) -> AsyncIterator[ListenAddress | None]:
        address = self._settings.probes
        if address is None:
            yield None
            return
        checks = HealthChecks(ready=self._readiness.checks)
        with _complaining(address):
            async with serving(address, self._metrics.registry, checks) as taken:
                yield taken

    @asynccontextmanager
    async def _answering(self, reviewer: AdmissionReviewer) -> AsyncIterator[ListenAddress]:
        address, context = self._settings.listen, self._certificate.context
        with _complaining(address):
            async with serving_reviews(
                address, context, reviewer, self._metrics, callers=self._settings.callers
            ) as taken:
                yield taken

    async def trust(self, trusted: bytes | None) -> None:
        """Register the CA bundle, if registering is enabled. Raises ApiError."""
        if self._settings.register:
            await self._registrar.trust(trusted)
        self._readiness.say(_REGISTRATION)

    def serve(self, served: CertificateBundle) -> None:
        """Show this certificate from now on. Raises UserError if it makes no sense."""
        if self._certificate.load(served):
            self._metrics.certificate_end.set(span_of(served.pair.certificate).end)
            self._loaded.set()

    async def _first(self) -> CertificateBundle:
        if self._settings.files is None:
            return await self._rotator.open()
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

    def _certificates(self) -> CertRotator | FileFollower:
        return self._rotator if self._settings.files is None else FileFollower(self._settings.files, self)

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
def _complaining(address: ListenAddress) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot listen on {address}: {error.strerror or error}; choose another address") from error


def names_for(reach: WebhookEndpoint) -> tuple[str, ...]:
    """DNS names or host by which an API server calls the webhook. Raises UserError if the URL cannot be called."""
    if not reach.url:
        full = f"{reach.service}.{reach.namespace}.svc"
        return (full, f"{reach.service}.{reach.namespace}", f"{full}.cluster.local")
    host = urlsplit(reach.url).hostname
    if not host or not reach.url.startswith("https://"):
        raise UserError(f"{reach.url!r} cannot be called; give a URL such as https://webhook.example:9443")
    return (host,)
