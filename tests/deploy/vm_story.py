"""A VM in the story of an installation: placed by the scheduler, grown by the vm-agent with a permit, both with their
own tokens. Nothing here runs VMs: the test makes their pod, and serves the load that a VM would report."""

import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.deploy.cluster import NAMESPACE, Component, kubectl
from ullage.kube.client.resources import PODS, VIRTUAL_MACHINES
from ullage.testing.builders import a_container, a_pod, a_virtual_machine, of_kind
from ullage.testing.controlplane.ports import PortReservation, reserve_port

if TYPE_CHECKING:
    from tests.deploy.test_story_real import Story

VM = "vm-1"
LOAD = "node_load1 {load}\nnode_load5 {load}\nnode_memory_MemTotal_bytes 4e9\nnode_memory_MemAvailable_bytes 3e9\n"


class Guest:
    """Metrics inside of the VM."""

    def __init__(self) -> None:
        self.load = 0.1
        self.port = 0


@contextmanager
def metrics_served() -> Iterator[Guest]:
    """Metrics of the VM on loopback during the block."""
    guest = Guest()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(LOAD.format(load=guest.load).encode())

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    guest.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield guest
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def agent_settings(guest: Guest) -> dict[str, Any]:
    """Section of the settings file: short intervals, units of one core and 4 Gi."""
    quick = {"requestEvery": "1s", "metricsEvery": "200ms", "metricsTimeout": "500ms"}
    return {"cpuUnit": 1, "memoryUnit": "4Gi", "metricsPort": guest.port, **quick}


class VmPorts:
    """Ports of the scheduler for VM agents and for readers of its ledger."""

    def __init__(self) -> None:
        self._held: list[PortReservation] = [reserve_port(), reserve_port()]
        self.permits, self.state = (one.port for one in self._held)

    def arguments(self) -> tuple[str, ...]:
        """For `ullage scheduler`: on loopback, there is no network of Services."""
        permits, state = f"127.0.0.1:{self.permits}", f"127.0.0.1:{self.state}"
        return ("--permits", permits, "--state", state, "--permits-name", "127.0.0.1")

    def release(self) -> None:
        for one in self._held:
            one.release()


def grow_a_vm(story: "Story", guest: Guest, ports: VmPorts, node: str) -> None:
    """The VM is placed, the agent takes it over, its load rises, and it grows with a permit."""
    story.apply(virtual_machine(), vm_pod())
    story.until("the VM is placed", lambda: story.node_of(VM) == node)
    status = json.dumps({"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}})
    story.until("the VM runs", lambda: story.get("pod", VM, "-n", "default")["status"].get("phase") == "Running")
    kubectl(story.plane, "patch", "pod", VM, "-n", "default", "--subresource=status", "--type=merge", "-p", status)
    _start_agent(story, ports, node)
    guest.load = 2.7
    story.until("the VM has grown", lambda: _cores(story) >= 3, 60)
    _ledger_is_guarded(story, ports)


def _cores(story: "Story") -> int:
    return int(story.get("virtualmachine", VM, "-n", "default")["spec"]["guest"]["cpus"]["use"])


def _start_agent(story: "Story", ports: VmPorts, node: str) -> None:
    """The vm-agent with what kubelet would mount: the scheduler's authority, and a token bound to the agent's pod."""
    chosen = ("-l", "app.kubernetes.io/component=vm-agent", "--field-selector", f"spec.nodeName={node}")
    story.until("the DaemonSet has a pod", lambda: bool(story.get("pods", "-n", NAMESPACE, *chosen)["items"]))
    pod = story.get("pods", "-n", NAMESPACE, *chosen)["items"][0]["metadata"]["name"]
    story.until(
        "the scheduler's authority",
        lambda: any(
            one["metadata"]["name"] == "ullage-scheduler-ca"
            for one in story.get("configmaps", "-n", NAMESPACE)["items"]
        ),
    )
    authority, token = story.folder / "ca.crt", story.folder / "vm-token"
    authority.write_text(story.get("configmap", "ullage-scheduler-ca", "-n", NAMESPACE)["data"]["ca.crt"])
    token.write_text(_token(story, "ullage-vm-agent", pod))
    agent = Component(story.plane, "vm-agent", story.folder, node=node, more=("--node-name", node))
    agent.replace("--scheduler", f"https://127.0.0.1:{ports.permits}")
    agent.replace("--scheduler-ca", str(authority))
    agent.replace("--token-file", str(token))
    story.running["vm-agent"] = story.stack.enter_context(agent)


def _token(story: "Story", account: str, pod: str = "") -> str:
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={pod}") if pod else ()
    return kubectl(story.plane, "create", "token", account, "-n", NAMESPACE, *bound).strip()


def _ledger_is_guarded(story: "Story", ports: VmPorts) -> None:
    """GET /state asks the API server about the caller: the agent may not read it, an admin's account may."""
    assert _state(story, ports, _token(story, "ullage-vm-agent")) == 403
    meta = {"name": "ledger-reader"}
    rule = {"nonResourceURLs": ["/state"], "verbs": ["get"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta, "rules": [rule]}
    story.apply(role)
    subject = f"--serviceaccount={NAMESPACE}:ullage-dashboard"
    kubectl(story.plane, "create", "clusterrolebinding", "ledger-reader", "--clusterrole=ledger-reader", subject)
    reader = _token(story, "ullage-dashboard")
    story.until("the ledger can be read", lambda: _state(story, ports, reader) == 200, 30)


def _state(story: "Story", ports: VmPorts, token: str) -> int:
    trust = ssl.create_default_context(cafile=str(Path(story.folder / "ca.crt")))
    url = f"https://127.0.0.1:{ports.state}/state"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=5, context=trust) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def virtual_machine(name: str = VM) -> dict[str, Any]:
    return of_kind(VIRTUAL_MACHINES, a_virtual_machine(name, most=8, guest={"memorySlotSize": "1Gi"}))


def vm_pod(name: str = VM) -> dict[str, Any]:
    spec: dict[str, Any] = {"schedulerName": "gpu-scheduler", "terminationGracePeriodSeconds": 0}
    return of_kind(PODS, a_pod(name, labels={"vm.neon.tech/name": name}, containers=[a_container("runner")], **spec))
