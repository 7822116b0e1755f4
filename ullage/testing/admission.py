"""Admission for tests and benchmarks: reviews as an API server sends them, and the server that answers them.

Claims are in memory here; everything else is what `ullage webhook` runs.
"""

import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from prometheus_client import CollectorRegistry

from ullage.certs.serving import CertificateBundle, ReloadingTlsContext
from ullage.certs.tls_secret import CertIssuer, TlsSecret
from ullage.clock import WallClock
from ullage.decide.admission.mutate import ClaimLookup
from ullage.decide.admission.policy import AdmissionPolicy
from ullage.errors import Unreachable
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS
from ullage.model.allocation import CLAIM
from ullage.model.claim import Claim, DeviceRequest
from ullage.model.fact_event import ObjectKey
from ullage.observe.admission_metrics import AdmissionMetrics
from ullage.observe.probes import ListenAddress
from ullage.testing.builders import a_container, a_pod
from ullage.webhook.callers import ANYBODY, Callers
from ullage.webhook.reviewer import AdmissionReviewer
from ullage.webhook.server import RequestLimits, serving_reviews

PODS_V1 = {"group": "", "version": "v1", "resource": "pods"}
CLAIMS_V1 = {"group": GPU_CLAIMS.group, "version": "v1", "resource": GPU_CLAIMS.plural}
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def a_review(obj: Any, old: Any = None, **request: Any) -> JsonObject:
    """CREATE of a pod by alice, unless said otherwise."""
    usual = {
        "uid": UID,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": PODS_V1,
        "namespace": "team",
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": usual | request}


def a_large_pod(size: int) -> JsonObject:
    """A pod with a claim whose review has about this many bytes."""
    containers = [a_container(name, requests={"cpu": "2", "memory": "4Gi"}) for name in ("train", "watch")]
    inits = [a_container("fetch")]
    pod = a_pod("train-0", annotations={CLAIM: "c"}, containers=containers, initContainers=inits)
    manager = {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {"f:metadata": {}}}
    pod["metadata"]["managedFields"] = [manager]
    missing = size - len(json.dumps(a_review(pod)))
    for number in range(max(missing, 0) // 90 + 1):
        place = containers[number % 2].setdefault("env", [])
        place.append({"name": f"SETTING_{number}", "value": f"{'x' * 40}{number:05d}"})
    return pod


def encoded(review: Any) -> bytes:
    """Encode a review as it is sent."""
    return json.dumps(review).encode()


class KnownClaims:
    """Every claim is there and wants two GPUs; or an API server that does not answer."""

    def __init__(self, *, down: bool = False, holders: Sequence[ObjectKey] = ()) -> None:
        self._down = down
        self._holders = holders

    async def find(self, key: ObjectKey) -> ClaimLookup:
        if self._down:
            raise Unreachable("connection refused")
        return ClaimLookup(Claim(key=key, uid="u", generation=1, ask=DeviceRequest(count=2)))

    async def holders(self, key: ObjectKey) -> Sequence[ObjectKey]:  # noqa: ARG002 - the same for each
        return self._holders


def a_reviewer(**claims: Any) -> AdmissionReviewer:
    """With claims in memory: see `KnownClaims`."""
    return AdmissionReviewer(AdmissionPolicy(), KnownClaims(**claims))


ISSUER = CertIssuer(("127.0.0.1",))


@dataclass(frozen=True)
class AdmissionStage:
    """A server at work and a way to call it."""

    address: ListenAddress
    certificate: ReloadingTlsContext
    tls_secret: TlsSecret
    session: aiohttp.ClientSession
    metrics: AdmissionMetrics

    @property
    def url(self) -> str:
        return f"https://{self.address}"


def trusting(tls_secret: TlsSecret) -> ssl.SSLContext:
    """A client that believes what this vault has issued."""
    return ssl.create_default_context(cadata=tls_secret.trusted.decode())


@asynccontextmanager
async def a_server(limits: RequestLimits | None = None, callers: Callers = ANYBODY) -> AsyncIterator[AdmissionStage]:
    """Serves on a free port during the block."""
    tls_secret = ISSUER.start(WallClock().now())
    certificate = ReloadingTlsContext()
    certificate.load(CertificateBundle(tls_secret.serving, tls_secret.trusted))
    metrics = AdmissionMetrics(CollectorRegistry())
    here = ListenAddress("127.0.0.1", 0)
    connector = aiohttp.TCPConnector(ssl=trusting(tls_secret))
    async with (
        serving_reviews(
            here, certificate.context, a_reviewer(), metrics, limits or RequestLimits(), callers
        ) as address,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        yield AdmissionStage(address, certificate, tls_secret, session, metrics)
