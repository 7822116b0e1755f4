"""`ullage dashboard`: whom it lets look, and a real cluster in it."""

import asyncio
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ullage.cli.main import run
from ullage.kube.auth.connect import connect
from ullage.kube.client.resources import NODES, PODS
from ullage.kube.crds.install import install
from ullage.testing.builders import a_node, a_pod
from ullage.testing.controlplane import ControlPlane

PROGRAM = Path(sys.executable).with_name("ullage")
TOKEN = "correct-horse-battery"


def test_other_machines_are_not_let_in_without_a_token(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dashboard", "--listen", "0.0.0.0:0"]) == 1
    assert "a token is needed: give --token-file FILE, or listen on 127.0.0.1" in capsys.readouterr().err


@pytest.mark.parametrize(("content", "says"), [("", "is empty"), ("short", "at least 16"), (None, "cannot be read")])
def test_a_bad_token_is_refused(
    content: str | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    assert run(["dashboard", "--listen", "0.0.0.0:0", "--token-file", str(file)]) == 1
    assert says in capsys.readouterr().err


def test_a_cluster_that_cannot_be_reached_is_said_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dashboard", "--listen", "127.0.0.1:0", "--kubeconfig", str(tmp_path / "none")]) == 1
    assert "none" in capsys.readouterr().err


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The program and its address, until the block ends; then it has been asked to stop, and did."""
    process = subprocess.Popen((PROGRAM, "dashboard", *arguments), stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("dashboard at http://"), line
        yield process, line.split()[2]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


def read(url: str, token: str = "") -> dict[str, Any]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        said: dict[str, Any] = json.load(answer)
        return said


def _is_whole(said: dict[str, Any]) -> bool:
    return "default/shown-pod" in said.get("pending", {}) and "shown-node" in said.get("nodes", {})


@pytest.mark.real
async def test_a_real_cluster_is_shown(control_plane: ControlPlane, tmp_path: Path) -> None:
    api = connect(control_plane.kubeconfig)
    try:
        await install(api)
        await api.create(NODES, a_node("shown-node", gpus=4))
        await api.create(PODS, a_pod("shown-pod", gpus=9), "default")
    finally:
        await api.close()
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    listen = ("--listen", "127.0.0.1:0", "--kubeconfig", str(control_plane.kubeconfig), "--token-file", str(token))
    with running(*listen) as (_, url):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            read(f"{url}api/snapshot")
        said: dict[str, Any] = {}
        until = time.monotonic() + 60
        while not _is_whole(said) and time.monotonic() < until:
            said = read(f"{url}api/snapshot", TOKEN)
            await asyncio.sleep(0.2)
        assert said["nodes"]["shown-node"]["states"] == "ffff"
        assert said["pending"]["default/shown-pod"]["asks"] == "9 x GPU"
        explained = read(f"{url}api/explain/default/shown-pod", TOKEN)
        assert "shown-node" in {node for group in explained["groups"] for node in group["nodes"]}
