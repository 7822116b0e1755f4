"""`ullage record` as a program: a cluster's history in a file that can be played, however it ends."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from ullage.cli.record import command
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import DELETE_NOW
from ullage.kube.client.resources import PODS
from ullage.state.dump import Dump, read_dump
from ullage.testing.builders import a_pod
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.fixtures import StartControlPlane

PROGRAM = Path(sys.executable).with_name("ullage")


@contextmanager
def recording(plane: ControlPlane, path: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The program, once it records; it ends with the block."""
    where = ("--kubeconfig", str(plane.kubeconfig), "--output", str(path))
    with subprocess.Popen((PROGRAM, "record", *where, *options), stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert "Ctrl-C ends it" in process.stderr.readline()
            yield process
        finally:
            process.kill()


def lines(file: Dump) -> list[str]:
    return [f"{one.verb.value} {one.object['kind']} {one.object['metadata']['name']}" for one in file.steps]


async def _come_and_go(plane: ControlPlane, name: str) -> None:
    api = connect(plane.kubeconfig)
    try:
        await api.create(PODS, a_pod(name, schedulerName="gpu-scheduler"), "default")
        await asyncio.sleep(0.5)
        await api.delete(PODS, name, "default", how=DELETE_NOW)
        await asyncio.sleep(0.5)
    finally:
        await api.close()


@pytest.mark.real
def test_ctrl_c_ends_a_recording_with_a_file_that_can_be_played(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    """On a control plane of its own: others leave pods with GPUs of nodes that never were, and a replay says so."""
    plane = start_control_plane(ControlPlaneSpec())
    path = tmp_path / "story.json"
    with recording(plane, path) as process:
        time.sleep(0.5)
        asyncio.run(_come_and_go(plane, "recorded"))
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0, process.stderr.read() if process.stderr else ""
        assert process.stderr is not None
        assert process.stderr.read().startswith("stopped: ")
    file = read_dump(path.read_bytes())
    assert [one for one in lines(file) if one.endswith(" recorded")] == ["create Pod recorded", "delete Pod recorded"]
    assert file.recorded_seconds is not None
    assert file.recorded_seconds > 1
    played = (PROGRAM, "replay", str(path), "--quiet")
    done = subprocess.run(played, capture_output=True, text=True, check=False, env={**os.environ})
    assert done.returncode == 0, done.stderr


@pytest.mark.real
@pytest.mark.full
def test_a_recording_is_bounded(control_plane: ControlPlane, tmp_path: Path) -> None:
    path = tmp_path / "story.json"
    with recording(control_plane, path, "--most", "1", "--duration", "1m") as process:
        asyncio.run(_come_and_go(control_plane, "first"))
        assert process.wait(10) == 0
        assert process.stderr is not None
        assert "ended early: 1 pods and steps (--most)" in process.stderr.read()
    read_dump(path.read_bytes())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param(
            ["--output", "nowhere/at/all.json"], "nowhere/at/all.json: not a file in a folder", id="no-folder"
        ),
        pytest.param(["--output", "."], ".: not a file in a folder that exists", id="a-folder"),
        pytest.param(["--output", "a.json", "--duration", "soon"], "--duration", id="no-duration"),
        pytest.param(["--output", "a.json", "--duration", "0s"], "--duration", id="no-time"),
        pytest.param(["--output", "a.json", "--kubeconfig", "none"], "none", id="no-kubeconfig"),
    ],
)
def test_bad_input_is_told_before_anything_is_recorded(
    options: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command, options)
    assert done.exit_code != 0
    assert says in f"{done.exception} {done.output}"
    assert list(tmp_path.iterdir()) == []
