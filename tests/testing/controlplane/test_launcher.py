"""The control plane as tests get it: fast, whole, restartable, with users of every kind."""

import asyncio
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ullage.testing.controlplane import (
    BASE,
    EXPIRED,
    ControlPlane,
    ControlPlaneSpec,
    DidNotStart,
    GoProgram,
    StaticToken,
    binaries,
)
from ullage.testing.controlplane.fixtures import StartControlPlane, prepare
from ullage.testing.controlplane.launcher import NotStarted, wait_until
from ullage.testing.controlplane.versions import KUBERNETES_VERSION, chosen_minor

pytestmark = pytest.mark.real

START_LIMIT_SECONDS = 10.0


def kubectl(kubeconfig: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(binaries.find(GoProgram.KUBECTL)), f"--kubeconfig={kubeconfig}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_it_reports_the_pinned_version(control_plane: ControlPlane) -> None:
    answer = control_plane.probe.get(f"{control_plane.server}/version")
    assert answer["gitVersion"] == KUBERNETES_VERSION
    assert f"{answer['major']}.{answer['minor']}" == chosen_minor()


def test_kubectl_works_with_the_kubeconfig_and_has_the_servers_version(control_plane: ControlPlane) -> None:
    namespaces = kubectl(control_plane.kubeconfig, "get", "namespaces", "-o", "name")
    assert namespaces.returncode == 0, namespaces.stderr
    assert "namespace/default" in namespaces.stdout.split()
    version = json.loads(kubectl(control_plane.kubeconfig, "version", "-o", "json").stdout)
    assert version["clientVersion"]["gitVersion"] == version["serverVersion"]["gitVersion"] == KUBERNETES_VERSION


def test_a_new_node_keeps_its_status_and_gets_no_taint(control_plane: ControlPlane) -> None:
    node = {"metadata": {"name": "gpu-0"}, "status": {"capacity": {"nvidia.com/gpu": "8", "pods": "110"}}}
    status, body = control_plane.probe.request("POST", f"{control_plane.server}/api/v1/nodes", node)
    assert status == 201
    created = json.loads(body)
    assert created["status"]["capacity"] == {"nvidia.com/gpu": "8", "pods": "110"}
    assert "taints" not in created["spec"]


def test_start_up_is_fast_and_a_crash_loses_nothing(start_control_plane: StartControlPlane) -> None:
    began = time.monotonic()
    plane = start_control_plane(ControlPlaneSpec())
    assert time.monotonic() - began <= START_LIMIT_SECONDS

    maps = f"{plane.server}/api/v1/namespaces/default/configmaps"
    assert plane.probe.request("POST", maps, {"metadata": {"name": "kept"}, "data": {"a": "1"}})[0] == 201
    server, pid = plane.server, plane.pid(GoProgram.APISERVER)
    for program in reversed(BASE):
        plane.kill(program)
        assert not plane.is_running(program)
    assert plane.probe.request("GET", f"{maps}/kept")[0] == 0
    for program in BASE:
        plane.start(program)
    assert (plane.server, plane.pid(GoProgram.APISERVER) != pid) == (server, True)
    assert plane.probe.get(f"{maps}/kept")["data"] == {"a": "1"}


def test_a_frozen_api_server_goes_on_when_resumed(start_control_plane: StartControlPlane) -> None:
    plane = start_control_plane(ControlPlaneSpec())
    plane.pause(GoProgram.APISERVER)
    assert plane.is_running(GoProgram.APISERVER)
    assert plane.probe.request("GET", f"{plane.server}/version")[0] == 0
    plane.resume(GoProgram.APISERVER)
    assert plane.probe.get(f"{plane.server}/version")["gitVersion"] == KUBERNETES_VERSION


def test_two_at_once_keep_their_data_apart(control_plane: ControlPlane, start_control_plane: StartControlPlane) -> None:
    other = start_control_plane(ControlPlaneSpec())
    assert other.server != control_plane.server
    namespace = {"metadata": {"name": "only-in-the-other"}}
    assert other.probe.request("POST", f"{other.server}/api/v1/namespaces", namespace)[0] == 201
    url = f"{control_plane.server}/api/v1/namespaces/only-in-the-other"
    assert control_plane.probe.request("GET", url)[0] == 404


def test_users_of_every_kind(start_control_plane: StartControlPlane) -> None:
    """One control plane, five ways to ask: admin, known but powerless, expired, token, wrong token."""
    admins = StaticToken(token="opensesame", user="robot", groups=("system:masters",))
    plane = start_control_plane(ControlPlaneSpec(tokens=[admins]))

    def ask(kubeconfig: Path) -> tuple[int, str]:
        answer = kubectl(kubeconfig, "get", "pods")
        return answer.returncode, answer.stderr

    assert ask(plane.kubeconfig)[0] == 0
    code, complaint = ask(plane.kubeconfig_for("mallory", ["strangers"]))
    assert code == 1
    assert 'User "mallory" cannot list resource "pods"' in complaint
    code, complaint = ask(plane.kubeconfig_for("late", ["system:masters"], EXPIRED))
    assert code == 1
    assert "must be logged in" in complaint
    assert ask(plane.kubeconfig_with_token("opensesame"))[0] == 0
    assert "must be logged in" in ask(plane.kubeconfig_with_token("wrong"))[1]


async def test_it_can_be_started_and_killed_from_a_coroutine() -> None:
    plane = prepare(ControlPlaneSpec())
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.05)
            ticks += 1

    ticking = asyncio.create_task(tick())
    try:
        await asyncio.to_thread(plane.start_all)
        await asyncio.to_thread(plane.kill, GoProgram.APISERVER)
    finally:
        ticking.cancel()
        await asyncio.to_thread(plane.stop)
    assert ticks > 10
    assert not plane.folder.exists()


def test_extra_flags_reach_the_component(start_control_plane: StartControlPlane) -> None:
    plane = start_control_plane(
        ControlPlaneSpec(extra_flags={GoProgram.APISERVER: ["--runtime-config=batch/v1=false"]})
    )
    assert plane.probe.request("GET", f"{plane.server}/apis/batch/v1")[0] == 404
    assert plane.probe.request("GET", f"{plane.server}/apis/apps/v1")[0] == 200


def test_a_component_that_cannot_start_shows_the_end_of_its_log() -> None:
    plane = prepare(ControlPlaneSpec(extra_flags={GoProgram.APISERVER: ["--no-such-flag"]}))
    with pytest.raises(
        DidNotStart, match=r"(?s)kube-apiserver ended with exit code 1.*unknown flag: --no-such-flag"
    ) as caught:
        plane.start_all()
    assert str(caught.value.log) in str(caught.value)
    assert "no-such-flag" in caught.value.log.read_text()
    caught.value.log.unlink()


SUBSETS: dict[str, tuple[Sequence[GoProgram], Sequence[GoProgram]]] = {
    "etcd alone": ([GoProgram.ETCD], [GoProgram.ETCD]),
    "an API server needs etcd": ([GoProgram.APISERVER], BASE),
    "a scheduler needs both": ([GoProgram.SCHEDULER], [*BASE, GoProgram.SCHEDULER]),
}


@pytest.mark.parametrize(("asked", "running"), SUBSETS.values(), ids=SUBSETS.keys())
def test_a_subset_brings_what_it_stands_on(
    asked: Sequence[GoProgram], running: Sequence[GoProgram], start_control_plane: StartControlPlane
) -> None:
    plane = start_control_plane(ControlPlaneSpec(components=asked))
    assert list(plane.programs) == list(running)
    assert [program for program in plane.programs if plane.is_running(program)] == list(running)


def test_a_component_may_join_later(start_control_plane: StartControlPlane) -> None:
    """A backlog first, then the scheduler: how schedulers are measured."""
    plane = start_control_plane(ControlPlaneSpec())
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}}
    assert plane.probe.request("POST", f"{plane.server}/api/v1/nodes", node)[0] == 201
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "registry.example/pause"}]}}
    pods = f"{plane.server}/api/v1/namespaces/default/pods"
    assert plane.probe.request("POST", pods, pod)[0] == 201
    plane.start(GoProgram.SCHEDULER)
    assert wait_until(lambda: plane.probe.get(f"{pods}/p")["spec"].get("nodeName") == "n", 20.0)


def test_asking_before_the_start_says_so() -> None:
    plane = prepare(ControlPlaneSpec())
    with pytest.raises(NotStarted, match="call start_all"):
        _ = plane.server


def test_stopping_ends_every_process_and_is_safe_to_repeat() -> None:
    with prepare(ControlPlaneSpec()) as plane:
        pids = [plane.pid(program) for program in BASE]
        folder = plane.folder
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not folder.exists()
    plane.stop()
    with pytest.raises(KeyError):
        plane.pid(GoProgram.ETCD)


@pytest.mark.parametrize("fsync", [False, True], ids=["tests: memory is enough", "benchmarks: on disk"])
def test_etcd_waits_for_the_disk_only_when_asked(fsync: bool, start_control_plane: StartControlPlane) -> None:
    plane = start_control_plane(ControlPlaneSpec(components=[GoProgram.ETCD], fsync=fsync))
    command = Path(f"/proc/{plane.pid(GoProgram.ETCD)}/cmdline").read_bytes().decode().split("\0")
    assert ("--unsafe-no-fsync" in command) is not fsync
