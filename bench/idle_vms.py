"""VMs at rest on one node, for the idle benchmark: pods, metrics, and what kubelet mounts into their agent."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from ullage.errors import NotFound
from ullage.kube.auth.connect import connect, find_access
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import CONFIG_MAPS, PODS, SERVICE_ACCOUNTS, VIRTUAL_MACHINES
from ullage.kube.client.transport import Request
from ullage.kube.crds.catalog import VM_KINDS
from ullage.kube.crds.install import install
from ullage.kube.http.http import HttpTransport
from ullage.kube.write.vm import approval_annotations
from ullage.model.vm import SCALING_ENABLED, VM_NAME, VmAmounts
from ullage.testing.builders import a_pod, with_meta

VMS_THERE = 10
AGENT_POD, ACCOUNT = "ullage-vm-agent-0", "ullage-vm-agent"
AUTHORITY = "ullage-scheduler-ca"
SIZE = VmAmounts(1000, 4 << 30)
GUEST = {"cpus": {"min": 1, "use": 1, "max": 8}, "memorySlots": {"min": 4, "use": 4, "max": 32}}
METRICS = b"node_load1 0.5\nnode_load5 0.5\nnode_memory_MemTotal_bytes 4e9\nnode_memory_MemAvailable_bytes 3e9\n"
"""Load that a VM of the least size bears: nothing is resized."""
AUTHORITY_SECONDS = 60.0


@contextmanager
def metrics_served() -> Iterator[int]:
    """Metrics of every VM on loopback during the block; gives the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(METRICS)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def create_vms(api: KubeApi, node: str) -> None:
    """Create running VMs on a node. Comes before the installation: its webhook is asked about their pods."""
    await install(api, VM_KINDS)
    for number in range(VMS_THERE):
        name = f"vm-{number}"
        meta = {"name": name, "labels": {SCALING_ENABLED: "true"}}
        await api.create(VIRTUAL_MACHINES.whole(), {"metadata": meta, "spec": {"guest": GUEST}}, "default")
        notes = approval_annotations(SIZE, SIZE)
        runner = with_meta(a_pod(name, nodeName=node), labels={VM_NAME: name}, annotations=notes)
        await api.create(PODS, runner, "default")
        running = MergePatch({"status": {"phase": "Running", "podIP": "127.0.0.1"}})
        await api.patch(PODS, name, running, "default", subresource="status")


async def create_agent_pod(api: KubeApi, node: str, namespace: str) -> None:
    """Create the pod that the vm-agent's token is bound to."""
    await api.create(PODS, a_pod(AGENT_POD, nodeName=node, serviceAccountName=ACCOUNT), namespace)


async def mounted(kubeconfig: Path, namespace: str, folder: Path) -> dict[str, str]:
    """Options of the vm-agent whose files kubelet would mount: the scheduler's authority, and a token of its pod."""
    api = connect(kubeconfig)
    try:
        authority, token = folder / "ca.crt", folder / "vm-token"
        authority.write_text(await _authority(api, namespace))
        uid = (await api.get(PODS, AGENT_POD, namespace)).metadata.uid
    finally:
        await api.close()
    token.write_text(await _token(kubeconfig, namespace, uid))
    return {"--scheduler-ca": str(authority), "--token-file": str(token)}


async def _authority(api: KubeApi, namespace: str) -> str:
    """The authority that the leading scheduler publishes. Raises NotFound if it does not within a minute."""
    ends = time.monotonic() + AUTHORITY_SECONDS
    while True:
        try:
            found = await api.get(CONFIG_MAPS.whole(), AUTHORITY, namespace)
            return str(found["data"]["ca.crt"])
        except NotFound:
            if time.monotonic() > ends:
                raise
            await asyncio.sleep(0.2)


async def _token(kubeconfig: Path, namespace: str, uid: str) -> str:
    bound = {"kind": "Pod", "apiVersion": "v1", "name": AGENT_POD, "uid": uid}
    spec = {"expirationSeconds": 3600, "boundObjectRef": bound}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    access = find_access(kubeconfig)
    transport = HttpTransport(access.endpoint, access.credentials)
    try:
        path = SERVICE_ACCOUNTS.path(namespace, ACCOUNT, "token")
        response = await transport.send(Request("POST", path, body=json.dumps(body).encode()))
    finally:
        await transport.close()
    return str(json.loads(response.body)["status"]["token"])
