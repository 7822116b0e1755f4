"""The command line against a real API server, and against what is not one."""

import json
import os
import socket
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import CompletedProcess, run

import pytest

from ullage.kube.auth.connect import connect
from ullage.kube.client.resources import GPU_CLAIMS, NODES, PODS
from ullage.kube.crds.install import install
from ullage.state.dump import load
from ullage.testing.builders import a_node, a_pod, a_taint
from ullage.testing.controlplane import EXPIRED, ControlPlane

EXISTS = {"operator": "Exists", "effect": "NoSchedule"}
PROGRAM = Path(sys.executable).with_name("ullage")


def call(*arguments: str | Path) -> CompletedProcess[str]:
    return run((PROGRAM, *arguments), capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"})


def complaint(done: CompletedProcess[str]) -> str:
    """The one sentence a failed command says."""
    assert done.returncode == 1
    assert done.stdout == ""
    lines: Sequence[str] = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


@pytest.mark.real
def test_version_of_the_cluster(control_plane: ControlPlane) -> None:
    done = call("version", "--cluster", "--kubeconfig", control_plane.kubeconfig)
    assert done.returncode == 0
    assert "cluster v1." in done.stdout


@pytest.mark.real
async def test_a_dump_of_the_cluster_can_be_read_back(control_plane: ControlPlane, tmp_path: Path) -> None:
    api = connect(control_plane.kubeconfig)
    try:
        await api.create(NODES, a_node("dump-node"))
        await api.create(PODS, a_pod("dump-pod"), "default")
    finally:
        await api.close()
    output = tmp_path / "state.json"
    done = call("dump", "--kubeconfig", control_plane.kubeconfig, "--output", output)
    assert done.returncode == 0, done.stderr
    state, _ = load(output.read_bytes())
    assert "dump-node" in state.nodes
    assert "default/dump-pod" in {str(key) for key in state.pods}
    printed = call("dump", "--kubeconfig", control_plane.kubeconfig)
    assert json.loads(printed.stdout)["nodes"] == json.loads(output.read_bytes())["nodes"]


@pytest.mark.real
async def test_the_cluster_can_be_planned_with_and_is_left_as_it_is(control_plane: ControlPlane) -> None:
    api = connect(control_plane.kubeconfig)
    try:
        await install(api)
        labels = {"plan": "here"}
        ours = a_taint("plan.test/ours")  # pods of other tests wait in this cluster, too
        await api.create(NODES, a_node("plan-node", labels=labels, gpus=2, taints=[ours]))
        ask = {
            "metadata": {"name": "plan-claim"},
            "spec": {"devices": {"count": 2}, "selector": {"matchLabels": labels}},
        }
        await api.create(GPU_CLAIMS, ask, "default")
        for name in ("plan-first", "plan-second"):
            notes = {"gpu.scheduling/claim-template": "plan-claim"}
            pod = a_pod(name, annotations=notes, schedulerName="nobody", tolerations=[{"key": ours["key"], **EXISTS}])
            await api.create(PODS, pod, "default")
        planned = call("plan", "schedule", "--kubeconfig", control_plane.kubeconfig, "-o", "json", "--exit-code")
        asked = call("explain", "pod/plan-second", "--kubeconfig", control_plane.kubeconfig, "-o", "json")
        after = await api.get(PODS, "plan-first", "default")
    finally:
        await api.close()
    assert planned.returncode == 3, planned.stderr
    plan = json.loads(planned.stdout)
    assert [one["node"] for one in plan["placements"] if one["pod"] == "default/plan-first"] == ["plan-node"]
    assert "default/plan-second" in [one["pod"] for one in plan["unschedulable"]]
    assert not after.spec.node_name
    said = json.loads(asked.stdout)
    assert {one["node"]: one["fits"] for one in said["nodes"]}["plan-node"]
    assert said["verdict"] == "Unschedulable"
    assert "pods ahead of it in the queue take the room" in said["message"]


@pytest.mark.real
def test_a_folder_that_is_not_there_is_named(control_plane: ControlPlane, tmp_path: Path) -> None:
    done = call("dump", "--kubeconfig", control_plane.kubeconfig, "--output", tmp_path / "nowhere" / "x.json")
    assert "--output" in complaint(done)
    assert str(tmp_path / "nowhere") in done.stderr


@pytest.mark.real
def test_a_link_stays_a_link_and_a_file_keeps_its_mode(control_plane: ControlPlane, tmp_path: Path) -> None:
    kept, link = tmp_path / "kept.json", tmp_path / "link.json"
    kept.write_text("old")
    kept.chmod(0o600)
    link.symlink_to(kept)
    done = call("dump", "--kubeconfig", control_plane.kubeconfig, "--output", link)
    assert done.returncode == 0, done.stderr
    assert link.is_symlink()
    assert json.loads(kept.read_bytes())["synced"]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert sorted(tmp_path.iterdir()) == [kept, link]


@pytest.mark.real
def test_what_is_no_file_is_written_to_and_never_replaced(control_plane: ControlPlane, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as beside:
        read = beside.submit(pipe.read_bytes)  # until whoever writes closes it
        try:
            done = call("dump", "--kubeconfig", control_plane.kubeconfig, "--output", pipe)
        finally:
            os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # nobody waits for a program that never wrote
    assert done.returncode == 0, done.stderr
    assert json.loads(read.result())["synced"]
    assert pipe.is_fifo()
    assert "Is a directory" in complaint(call("dump", "--kubeconfig", control_plane.kubeconfig, "--output", tmp_path))


@pytest.mark.real
def test_a_forbidden_user_learns_what_is_forbidden(control_plane: ControlPlane) -> None:
    said = complaint(call("dump", "--kubeconfig", control_plane.kubeconfig_for("mallory", ())))
    assert "mallory" in said
    assert "ask for a role" in said


@pytest.mark.real
def test_an_expired_certificate_is_called_expired(control_plane: ControlPlane) -> None:
    old = control_plane.kubeconfig_for("old", ("system:masters",), EXPIRED)
    assert "expired" in complaint(call("dump", "--kubeconfig", old))


@pytest.mark.real
def test_an_unknown_context_is_named(control_plane: ControlPlane) -> None:
    said = complaint(call("dump", "--kubeconfig", control_plane.kubeconfig, "--context", "mars"))
    assert "mars" in said


def a_kubeconfig(folder: Path, port: int) -> Path:
    config = folder / "config"
    config.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
                "current-context": "c",
            }
        )
    )
    return config


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said = complaint(call("dump", "--kubeconfig", a_kubeconfig(tmp_path, port)))
    assert str(port) in said
    assert "refuses connections; check that it runs" in said


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"<html>log in</html>", "not readable", id="a-page"),
        pytest.param(b'{"items": [', "not readable", id="half-an-answer"),
        pytest.param(b'{"hello": 1}', "does not serve nodes", id="some-other-json"),
    ],
)
def test_a_server_that_is_no_kubernetes(body: bytes, said: str, tmp_path: Path) -> None:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            heard = complaint(call("dump", "--kubeconfig", a_kubeconfig(tmp_path, server.server_port)))
        finally:
            server.shutdown()
            serving.join()
    assert said in heard
    assert "check that the server address is a Kubernetes API server" in heard


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "config", id="empty"),
        pytest.param("a: [", "config", id="not-yaml"),
        pytest.param("clusters: 5", "clusters", id="wrong-type"),
    ],
)
def test_a_kubeconfig_that_makes_no_sense(text: str, said: str, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(text)
    assert said in complaint(call("dump", "--kubeconfig", config))
