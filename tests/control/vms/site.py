"""A real API server with VMs on two nodes, agents' tokens, and a scheduler in this process that answers over TLS."""

import asyncio
import base64
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from ullage.certs.rotator import SecretName
from ullage.clock import WallClock
from ullage.config.settings import Settings
from ullage.control.scheduling.wiring import Scheduler
from ullage.control.vms.certificate import CA_CONFIG_MAP, PermitCertificate
from ullage.control.vms.wiring import VmServing
from ullage.errors import AlreadyExists
from ullage.kube.auth.connect import connect, find_access
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    VIRTUAL_MACHINE_MIGRATIONS,
    VIRTUAL_MACHINES,
)
from ullage.kube.client.transport import Request
from ullage.kube.crds.catalog import VM_KINDS
from ullage.kube.crds.install import install
from ullage.kube.http.http import HttpTransport
from ullage.kube.write.vm import approval_annotations
from ullage.model.vm import VmAmounts
from ullage.observe.probes import ListenAddress
from ullage.testing.builders import a_node, a_pod, with_meta
from ullage.testing.controlplane import ControlPlane

NS, SYSTEM = "default", "ullage-system"
GI = 1 << 30
ACCOUNT = "ullage-vm-agent"
ISSUER = "https://kubernetes.default.svc"
CONFIG = {
    "nodeDefaults": {
        "cpu": {"watermark": 0.8, "system": "1"},
        "memory": {"watermark": 0.8, "system": "1Gi"},
        "computeUnit": {"vCPUs": 1, "mem": 4},
    }
}


async def until(holds: Callable[[], bool], seconds: float) -> None:
    """Wait for something this process comes to know from a watch."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - nobody tells when a watch has caught up
            await asyncio.sleep(0.02)


async def _made(create: Any) -> None:
    try:
        await create
    except AlreadyExists:
        return


@dataclass
class VmSite:
    """Nodes `n1` and `n2` of 16 cores and 64Gi. The configuration keeps 1 core and 1Gi for the system."""

    plane: ControlPlane
    api: KubeApi
    tokens: dict[str, str] = field(default_factory=dict)
    url: str = ""
    state_url: str = ""
    trust: ssl.SSLContext | None = None
    session: aiohttp.ClientSession | None = None
    scheduler: Scheduler | None = None

    async def build(self) -> None:
        """Kinds, nodes, accounts and one agent on each node."""
        await install(self.api, VM_KINDS)
        await _made(self.api.create(NAMESPACES, {"metadata": {"name": SYSTEM}}))
        for account in (ACCOUNT, "somebody"):
            await _made(self.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": account}}, SYSTEM))
        body = {"metadata": {"name": "vm-nodes"}, "data": {"config.json": json.dumps(CONFIG)}}
        await _made(self.api.create(CONFIG_MAPS, body, SYSTEM))
        for node in ("n1", "n2"):
            size = {"cpu": "16", "memory": "64Gi", "pods": "110"}
            await _made(self.api.create(NODES, a_node(node, allocatable=size)))
            for account in (ACCOUNT, "somebody"):
                await self.agent(account, node)
        self.tokens["bound to no node"] = await self.token(ACCOUNT, None)

    async def agent(self, account: str, node: str) -> None:
        """A pod of this ServiceAccount on a node, and its token."""
        name = f"{account}-{node}"
        await _made(self.api.create(PODS, a_pod(name, nodeName=node, serviceAccountName=account), SYSTEM))
        self.tokens[f"{account}@{node}"] = await self.token(account, name)

    async def vm(self, name: str, node: str, cores: int, *, approved: bool = True, **guest: Any) -> None:
        """A VM of 1 to 32 cores, 4Gi each, with its pod on the node."""
        sizes = {
            "cpus": {"min": 1, "use": cores, "max": 32},
            "memorySlots": {"min": 4, "use": 4 * cores, "max": 128},
        }
        labels = {"autoscaling.neon.tech/enabled": "true"}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"guest": sizes | guest}}
        await self.api.create(VIRTUAL_MACHINES.whole(), body, NS)
        notes = approval_annotations(VmAmounts(cores * 1000, 4 * cores * GI)) if approved else {}
        pod = with_meta(a_pod(name, nodeName=node), labels={"vm.neon.tech/name": name}, annotations=notes)
        await self.api.create(PODS, pod, NS)

    async def migration(self, vm: str) -> None:
        body = {"metadata": {"name": f"m-{vm}"}, "spec": {"vmName": vm}}
        await self.api.create(VIRTUAL_MACHINE_MIGRATIONS.whole(), body, NS)

    async def token(self, account: str, pod: str | None) -> str:
        """A token as kubelet would mount it, bound to a pod and so to its node."""
        spec: dict[str, Any] = {"expirationSeconds": 600}
        if pod is not None:
            uid = (await self.api.get(PODS, pod, SYSTEM)).metadata.uid
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        access = find_access(self.plane.kubeconfig)
        transport = HttpTransport(access.endpoint, access.credentials)
        try:
            path = SERVICE_ACCOUNTS.path(SYSTEM, account, "token")
            response = await transport.send(Request("POST", path, body=json.dumps(body).encode()))
        finally:
            await transport.close()
        return str(json.loads(response.body)["status"]["token"])

    def ending(self, token: str, key: Path, seconds: float) -> str:
        """The same token with another term, signed by the cluster's own key."""
        head, payload, _ = token.split(".")
        claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
        end = int(time.time() + seconds)
        claims |= {"exp": end, "iat": end - 700, "nbf": end - 700}
        signed = f"{head}.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}"
        private = serialization.load_pem_private_key(key.read_bytes(), password=None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        numbers = utils.decode_dss_signature(private.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        proof = b"".join(number.to_bytes(32, "big") for number in numbers)
        return f"{signed}.{base64.urlsafe_b64encode(proof).decode().rstrip('=')}"

    async def ask(self, body: Any, *, token: str | None = "", method: str = "POST", url: str = "") -> tuple[int, str]:
        """Status and text of an answer. Without a token: that of the agent on n1."""
        shown = self.tokens[f"{ACCOUNT}@n1"] if token == "" else token
        headers = {} if shown is None else {"Authorization": f"Bearer {shown}"}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        assert self.session is not None
        async with self.session.request(
            method, url or self.url, data=data, headers=headers, ssl=self.trust or False
        ) as answer:
            return answer.status, await answer.text()


def message(pod: str, cores: int, slots: int | None = None, **changes: Any) -> dict[str, Any]:
    """A request of version 1.1."""
    return {
        "protoVersion": 2,
        "pod": {"namespace": NS, "name": pod},
        "resources": {"vCPUs": cores, "mem": 4 * cores if slots is None else slots},
        "metrics": {"loadAvg1M": 1.0, "loadAvg5M": 1.0},
    } | changes


def new_message(pod: str, cores: str, memory: str, **changes: Any) -> dict[str, Any]:
    """A request of version 5.0."""
    return {
        "protoVersion": 7,
        "pod": {"namespace": NS, "name": pod},
        "computeUnit": {"vCPUs": "250m", "mem": "1Gi"},
        "resources": {"vCPUs": cores, "mem": memory},
        "lastPermit": None,
        "metrics": {"loadAvg1M": 0.3},
    } | changes


def serving(*, insecure: bool = False) -> VmServing:
    anywhere = ListenAddress("127.0.0.1", 0)
    certificate = PermitCertificate(names=("localhost", "127.0.0.1"), secret=SecretName(SYSTEM, "ullage-scheduler-tls"))
    return VmServing(permits=anywhere, state=anywhere, certificate=certificate, insecure=insecure)


@asynccontextmanager
async def answering(site: VmSite, *, insecure: bool = False) -> AsyncIterator[Scheduler]:
    """A scheduler in this process that answers agents; `site` calls it from then on."""
    api = connect(site.plane.kubeconfig)
    scheduler = Scheduler(api, Settings(), WallClock(), instance="test", seed=1)
    scheduler.vms.serving = serving(insecure=insecure)
    running = asyncio.ensure_future(scheduler.run())
    try:
        async with aiohttp.ClientSession() as site.session:
            await until(lambda: bool(scheduler.vms.addresses) or running.done(), 50)
            assert not running.done(), running.exception()
            site.url = f"{'http' if insecure else 'https'}://{scheduler.vms.addresses[0]}/"
            site.state_url = f"https://{scheduler.vms.addresses[1]}/state"
            bundle = await site.api.get(CONFIG_MAPS, CA_CONFIG_MAP, SYSTEM)
            site.trust = ssl.create_default_context(cadata=bundle["data"]["ca.crt"])
            site.scheduler = scheduler
            yield scheduler
    finally:
        running.cancel()
        await asyncio.wait({running})
        await api.close()
