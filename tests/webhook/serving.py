"""The admission server on loopback, with certificates made for it and a client that trusts them."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from prometheus_client import CollectorRegistry

from tests.webhook.test_reviewing import a_reviewer
from ullage.clock import WallClock
from ullage.observe.admission_metrics import AdmissionMetrics
from ullage.observe.serve import Address
from ullage.webhook.server import Limits, serving_reviews
from ullage.webhook.tls import Served, ServedCertificate
from ullage.webhook.vault import Vault, Workshop

WORKSHOP = Workshop(("127.0.0.1",))


@dataclass(frozen=True)
class Stage:
    """A server at work and a way to call it."""

    address: Address
    certificate: ServedCertificate
    vault: Vault
    session: aiohttp.ClientSession
    metrics: AdmissionMetrics

    @property
    def url(self) -> str:
        return f"https://{self.address}"


def trusting(vault: Vault) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=vault.trusted.decode())


@asynccontextmanager
async def a_server(limits: Limits | None = None) -> AsyncIterator[Stage]:
    vault = WORKSHOP.start(WallClock().now())
    certificate = ServedCertificate()
    certificate.load(Served(vault.serving, vault.trusted))
    metrics = AdmissionMetrics(CollectorRegistry())
    here = Address("127.0.0.1", 0)
    connector = aiohttp.TCPConnector(ssl=trusting(vault))
    async with (
        serving_reviews(here, certificate.context, a_reviewer(), metrics, limits or Limits()) as address,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        yield Stage(address, certificate, vault, session, metrics)
