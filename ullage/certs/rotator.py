"""Keeper of the Secret of certificates: creates it, renews what is due, and follows writes of other replicas.

Every write is a create or a compare-and-swap, and what is served is always what the Secret says: so replicas agree,
whichever was first.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from ullage.certs.serving import CertificateBundle
from ullage.certs.tls_secret import CertIssuer, TlsSecret, read_tls_secret, write_tls_secret
from ullage.clock import Clock, Instant
from ullage.decide.certs.rotation import CertStep, RotationPlan, next_step
from ullage.errors import AlreadyExists, ApiError, Conflict, NotFound, Unreadable, UserError
from ullage.kube.client.api import KubeApi, ListSelector
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import SECRETS
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.secret import Secret
from ullage.model.lease import LEASE_NAMESPACE
from ullage.runtime import Wakeup, pause
from ullage.watch.backoff import JitteredBackoff
from ullage.watch.informer import Informer, InformerSpec

_log = structlog.get_logger("webhook")
_SECRETS = Resource("", "v1", SECRETS.plural, SECRETS.kind, True, Secret)
_OURS = {"app.kubernetes.io/managed-by": "ullage"}
_SHORTEST_SLEEP = 1.0
"""Seconds. A writer that keeps undoing the registration is answered once a second, not as fast as possible."""
_LONGEST_SLEEP = 3600.0
"""Clocks are set, and machines sleep: the time is looked at once an hour, whatever was planned."""


class CaBundleSink(Protocol):
    """Registration of the CA bundle with the API server."""

    async def trust(self, trusted: bytes | None) -> None:
        """Certificates signed by any of these are good from now on. Raises ApiError."""
        ...


@dataclass(frozen=True, slots=True)
class SecretName:
    namespace: str = LEASE_NAMESPACE
    name: str = "ullage-webhook-tls"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class CertRotator:
    """`open` once, then `run` beside the server. Every look at the Secret calls `serve` with its certificate."""

    def __init__(
        self, api: KubeApi, place: SecretName, issuer: CertIssuer, registry: CaBundleSink, clock: Clock, seed: int
    ) -> None:
        self._api = api
        self._place = place
        self._issuer = issuer
        self._registry = registry
        self._clock = clock
        self._rng = random.Random(seed)
        self._changed = Wakeup()

    async def open(self) -> CertificateBundle:
        """Certificate and CA bundle to serve; created if absent. Raises UserError if the Secret has another owner."""
        tls_secret, _ = await self._settled()
        return CertificateBundle(tls_secret.serving, tls_secret.trusted)

    async def run(self, serve: Callable[[CertificateBundle], None]) -> None:
        """Until cancelled."""
        selection = ListSelector(fields=f"metadata.name={self._place.name}")
        interest = InformerSpec(_SECRETS, _version, namespace=self._place.namespace, selection=selection)
        follower = Informer(self._api, interest, lambda _: self.wake(), rng=self._rng, clock=self._clock)
        async with asyncio.TaskGroup() as group:
            group.create_task(follower.run(), name="secret of certificates")
            group.create_task(self._keep(serve), name="certificates")

    def wake(self) -> None:
        """Read the Secret and the registered caBundle again."""
        self._changed.set()

    async def _keep(self, serve: Callable[[CertificateBundle], None]) -> None:
        backoff = JitteredBackoff(self._rng, first=0.5, longest=60.0)
        while True:
            self._changed.clear()
            try:
                tls_secret, look_again = await self._settled()
                # What a replica before us wrote is trusted already: serving it need not wait for our own registration.
                serve(CertificateBundle(tls_secret.serving, tls_secret.trusted))
                await self._registry.trust(tls_secret.trusted)
            except (ApiError, UserError) as error:
                _log.warning("certificates", trouble=str(error))
                await pause(backoff.next())
                continue
            backoff.reset()
            await pause(_SHORTEST_SLEEP)
            await self._changed.wait(min(look_again - self._clock.now(), _LONGEST_SLEEP))

    async def _settled(self) -> tuple[TlsSecret, Instant]:
        """Secret contents after every step that is due now, and the instant the next step is due."""
        published = True
        while True:
            secret = await self._read()
            if secret is None:
                await self._create()
                continue
            tls_secret, plan = self._planned(secret, published)
            if tls_secret is not None and plan.step is CertStep.KEEP:
                return tls_secret, Instant(plan.look_again)
            if (
                tls_secret is not None
                and plan.step is CertStep.PROMOTE_AUTHORITY
                and not await self._publish(tls_secret)
            ):
                published = False
                continue
            await self._advance(secret, tls_secret, plan)

    async def _publish(self, tls_secret: TlsSecret) -> bool:
        """True if API servers now trust every authority of the Secret."""
        try:
            await self._registry.trust(tls_secret.trusted)
        except ApiError as error:
            _log.warning("certificates", trouble=f"a new authority waits until it is registered: {error}")
            return False
        return True

    def _planned(self, secret: Secret, published: bool) -> tuple[TlsSecret | None, RotationPlan]:
        now = self._clock.now()
        try:
            tls_secret = read_tls_secret(secret.data)
            have = tls_secret.holdings(self._issuer.names)
        except Unreadable as error:
            return None, RotationPlan(CertStep.START_OVER, now, f"the Secret cannot be read: {error.message}")
        return tls_secret, next_step(have, self._issuer.lifetimes, now=now, published=published)

    async def _read(self) -> Secret | None:
        try:
            secret = await self._api.get(_SECRETS, self._place.name, self._place.namespace)
        except NotFound:
            return None
        if not _OURS.items() <= secret.metadata.labels.items():
            label = ", ".join(f"{key}: {value}" for key, value in _OURS.items())
            raise UserError(
                f"Secret {self._place} is not ours (it has no label {label}); name another one with --secret, "
                "or give its certificate with --tls-cert and --tls-key"
            )
        return secret

    async def _create(self) -> None:
        meta = ObjectMeta(name=self._place.name, namespace=self._place.namespace, labels=dict(_OURS))
        data = write_tls_secret(self._issuer.start(self._clock.now()))
        try:
            await self._api.create(_SECRETS, Secret(metadata=meta, type="kubernetes.io/tls", data=data))
        except AlreadyExists:
            return
        except NotFound as error:
            raise UserError(
                f"namespace {self._place.namespace} is not there; run `ullage install --apply` first"
            ) from error
        _log.info("certificates made", secret=str(self._place))

    async def _advance(self, secret: Secret, tls_secret: TlsSecret | None, plan: RotationPlan) -> None:
        now = self._clock.now()
        after = self._issuer.start(now) if tls_secret is None else self._issuer.advance(tls_secret, plan.step, now)
        written = Secret(metadata=secret.metadata, type=secret.type, data=write_tls_secret(after))
        try:
            await self._api.replace(_SECRETS, written)
        except (Conflict, NotFound):
            return  # another replica was first: read what it wrote
        _log.info("certificates", step=plan.step.value, why=plan.why, secret=str(self._place))


def _version(secret: Secret) -> str:
    return secret.metadata.resource_version
