"""`ullage demo` as a newcomer meets it: a story, an API for kubectl, a dashboard, and nothing left when it is over."""

import json
import os
import pty
import select
import signal
import socket
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from tests.cli.demo_process import ULLAGE, DemoProcess, children_of, kubectl, running_demo
from ullage.cli.demo import SCENARIOS, command
from ullage.cli.demo_browser import open_browser

QUIET = ("--no-browser", "--speed", "30")
FIRST_PICTURE_SECONDS = 10.0
"""On a machine with nothing else to do, where it has a processor to itself: so that is what is measured."""


def _kubeconfig(demo: DemoProcess) -> str:
    return demo.wait_for(r"^try:.*--kubeconfig (\S+) apply")[1]


def _is_open(url: str) -> bool:
    with socket.socket() as probe:
        address = urlsplit(url)
        return probe.connect_ex((address.hostname or "", address.port or 0)) == 0


def test_scenarios_are_listed() -> None:
    done = CliRunner().invoke(command, ["--scenario", "list"])
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines()] == list(SCENARIOS)


def test_a_scenario_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with running_demo(tmp_path, "--scenario", "turo", "--no-browser") as demo:
        assert demo.ended() == 1
    assert demo.lines == [
        "ullage: --scenario turo: there is none of that name; there are tour, crowding, ebb, fleet, karpenter, vms"
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--speed", "0"], id="time-that-stands-still"),
        pytest.param(["--speed", "fast"], id="speed-in-words"),
        pytest.param(["--duration", "0"], id="no-time-at-all"),
        pytest.param(["--speed", "nan"], id="speed-that-is-no-number"),
        pytest.param(["--duration", "nan"], id="time-that-is-no-number"),
        pytest.param(["--duration", "inf"], id="for-ever-is-not-said-so"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(arguments: list[str]) -> None:
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 2
    assert arguments[0] in done.output


def test_a_newcomer_applies_a_claim_and_watches_it_land(tmp_path: Path) -> None:
    with running_demo(tmp_path, *QUIET) as demo:
        url = demo.wait_for(r"^dashboard: (\S+)$")[1]
        kubeconfig = _kubeconfig(demo)
        demo.wait_for(r"claims: Three people")

        with urllib.request.urlopen(url, timeout=10) as page:
            assert b"ullage" in page.read()
        listed = kubectl(kubeconfig, "get", "pods,gpuclaims,nodeprovisioners")
        assert "nodeprovisioner.gpu.scheduling/train" in listed
        example = demo.wait_for(r"apply -f (\S+)$")[1]
        assert "gpuclaim.gpu.scheduling/mine created" in kubectl(kubeconfig, "apply", "-f", example)
        kubectl(kubeconfig, "wait", "pod/mine", "--for=condition=Ready", "--timeout=30s")
        claim = json.loads(kubectl(kubeconfig, "get", "gpuclaim", "mine", "-o", "json"))["status"]
        assert claim["phase"] == "Bound"
        assert len(claim["gpuIds"]) == 2
        demo.wait_for(rf"scheduler Scheduled mine: to {claim['nodeName']} with GPU")
        server = json.loads(kubectl(kubeconfig, "config", "view", "-o", "json"))["clusters"][0]["cluster"]["server"]
        assert _is_open(server)

        assert children_of(demo.process.pid) == []
        assert demo.stop(signal.SIGINT) == 0
    assert "Nothing is left behind." in demo.lines[-1]
    assert demo.left_behind() == []
    assert not _is_open(url)
    assert not _is_open(server)


def test_it_ends_when_its_time_is_over(tmp_path: Path) -> None:
    with running_demo(tmp_path, *QUIET, "--duration", "15") as demo:
        kubeconfig = _kubeconfig(demo)
        assert "train-a" in kubectl(kubeconfig, "get", "nodes")
        assert demo.ended(seconds=60) == 0
    assert any("claims: Three people" in line for line in demo.lines)
    assert demo.left_behind() == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP], ids=["asked-to-end", "its-terminal-was-closed"])
def test_other_signals_end_it_as_cleanly(how: signal.Signals, tmp_path: Path) -> None:
    with running_demo(tmp_path, *QUIET, "--scenario", "ebb") as demo:
        demo.wait_for("beginning: Ten nodes")
        assert demo.stop(how) == 0
    assert demo.left_behind() == []


def test_on_a_terminal_it_draws_and_gives_the_terminal_back(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:  # the demo
        size = {"TERM": "xterm-256color", "COLUMNS": "140", "LINES": "42", "TMPDIR": str(tmp_path)}
        os.execve(ULLAGE, [ULLAGE, "demo", "--no-browser"], os.environ | size)
    try:
        whole = (b"kubectl ", b"Waiting", b"Decisions", b"train-b")
        drawn = _read_until(terminal, whole, monotonic() + 60)
        assert _processor_seconds(pid) < FIRST_PICTURE_SECONDS, "the first picture takes too long"
        assert b"\x1b[?1049h" in drawn, "on a screen of its own"
        os.write(terminal, b"\x03")
        last = _read_until(terminal, (b"Nothing is left behind.",), monotonic() + 20)
        assert b"\x1b[?1049l" in last, "the terminal is as it was"
        _, status = os.waitpid(pid, 0)
        pid = 0
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(terminal)
    assert list(tmp_path.iterdir()) == []


def _processor_seconds(pid: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _read_until(terminal: int, wanted: Sequence[bytes], deadline: float) -> bytes:
    seen = b""
    while not all(one in seen for one in wanted):
        assert monotonic() < deadline, seen[-500:]
        if select.select([terminal], [], [], 0.2)[0]:
            seen += os.read(terminal, 65536)
    return seen


def test_without_a_display_no_browser_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert open_browser("http://127.0.0.1:1/") is False


def test_a_browser_is_given_the_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("DISPLAY", ":99")
    monkeypatch.setenv("BROWSER", str(browser))
    assert open_browser("http://127.0.0.1:1/") is True
    deadline = monotonic() + 10
    while not opened.exists():
        assert monotonic() < deadline, "nobody was called"
        sleep(0.05)
    assert opened.read_text() == "http://127.0.0.1:1/\n"
