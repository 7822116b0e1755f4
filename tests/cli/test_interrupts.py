"""Ctrl-C in every verb while it is at work: one line, exit code 130, nothing half written. Who serves ends well."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ullage.cli.main import VERBS

MANIFESTS = Path(__file__).with_name("manifests")
CLUSTER = ("-f", str(MANIFESTS / "cluster.yaml"), "-f", str(MANIFESTS / "pending.yaml"))
PATIENCE = 60

AT_A_CALL = """
import os, signal, sys
from ullage.cli.start import main

file, name, *arguments = sys.argv[1:]

def watch(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_name == name and code.co_filename.endswith(file):
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)

sys.setprofile(watch)
sys.argv = ["ullage", *arguments]
main()
"""
"""Program that is interrupted when a function is called for the first time."""

SIMULATE = ("simulate", "--workload", "synthetic", "--first", "5", "--fleet", "2*8xH100", "--jobs", "1", "-q")
IN_PROCESSES = (*SIMULATE[:-2], "2", "-q", "--seeds", "8")
AT_WORK = {
    "plan-reads-files": ("manifests/manifests.py:read_manifests", ("plan", "schedule", *CLUSTER)),
    "plan-schedule": ("explain/planning.py:_decide", ("plan", "schedule", *CLUSTER)),
    "plan-schedule-prove": ("explain/proof.py:prove", ("plan", "schedule", "--prove", *CLUSTER)),
    "plan-drain": ("draining/planner.py:plan_drain", ("plan", "drain", *CLUSTER)),
    "explain-prove": ("explain/proof.py:prove", ("explain", "pod/team/eight", "--prove", *CLUSTER)),
    "simulate": ("scheduling/core.py:apply", SIMULATE),
    "simulate-writes": ("cli/output_file.py:_swap", (*SIMULATE, "--report", "report.html")),
    "simulate-starts-processes": ("futures/process.py:submit", IN_PROCESSES),
    "simulate-in-processes": ("cli/progress.py:done", IN_PROCESSES),
    "chaos": ("chaos/run.py:play", ("chaos", "--seeds", "3", "--output", ".")),
    "demo-starts": ("cli/demo_show.py:show", ("demo", "--no-browser")),
}
"""Function in which Ctrl-C comes, and the command line, for verbs that need no cluster."""
DEFAULT_RUN = ("plan-schedule", "simulate-in-processes")

WEBHOOK = ("--url", "https://127.0.0.1:9443")
AT_A_SILENT_SERVER = {
    "check": ("check",),
    "dump": ("dump", "--output", "dump.json"),
    "explain": ("explain", "pod/a"),
    "install": ("install", "--image", "registry.example/ullage:0.1.0", "--apply"),
    "plan-drain": ("plan", "drain"),
    "plan-scale": ("plan", "scale"),
    "plan-schedule": ("plan", "schedule"),
    "record": ("record", "-o", "story.json"),
    "uninstall": ("uninstall", "--yes"),
    "version": ("version", "--cluster"),
    "webhook-install": ("webhook", "--install", *WEBHOOK),
}
SERVING = {
    "agent": ("agent", "--node-name", "n", "--simulate", "8xH100"),
    "controller": ("controller",),
    "dashboard": ("dashboard", "--listen", "127.0.0.1:0"),
    "scheduler": ("scheduler",),
    "top": ("top",),
    "vm-agent": ("vm-agent", "--node-name", "n", "--insecure-scheduler", "--scheduler", "http://127.0.0.1:1"),
    "webhook": ("webhook", "--address", "127.0.0.1:0", *WEBHOOK),
}
"""Verbs that run until stopped: Ctrl-C is their end, not an accident."""
AT_ONCE = ("completion", "config")
"""Verbs that answer at once; Ctrl-C during their imports is a row of test_start."""
ELSEWHERE = ("demo", "replay")
"""`demo` has tests of its own; `replay` runs as `simulate` does."""


def rows(table: dict[str, tuple[str, ...]], in_default_run: tuple[str, ...]) -> list[object]:
    return [
        pytest.param(arguments, id=name, marks=[] if name in in_default_run else [pytest.mark.full])
        for name, arguments in table.items()
    ]


@pytest.mark.parametrize(
    ("place", "arguments"),
    [
        pytest.param(*row, id=name, marks=[] if name in DEFAULT_RUN else [pytest.mark.full])
        for name, row in AT_WORK.items()
    ],
)
def test_ctrl_c_at_work(place: str, arguments: tuple[str, ...], tmp_path: Path) -> None:
    file, name = place.split(":")
    found = subprocess.run(
        [sys.executable, "-c", AT_A_CALL, file, name, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    lines = [line for line in found.stderr.splitlines() if not line.startswith("warning: ")]
    assert lines == ["interrupted"]
    assert found.stdout == ""
    assert found.returncode in (130, -signal.SIGINT)  # a shell sees 130 in both
    assert list(tmp_path.iterdir()) == []


@contextmanager
def silent_server(folder: Path) -> Iterator[tuple[socket.socket, Path]]:
    """A server that takes connections and never answers, and a kubeconfig for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        cluster = {"server": f"http://127.0.0.1:{server.getsockname()[1]}"}
        access = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {}}],
        }
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(json.dumps(access))
        yield server, kubeconfig


def interrupted_at_a_server(arguments: tuple[str, ...], folder: Path) -> tuple[int, str, list[str]]:
    """Exit code, standard error and files of a verb that gets Ctrl-C while a server does not answer it."""
    place = folder / "place"
    place.mkdir()
    with silent_server(folder) as (server, kubeconfig):
        command = [sys.executable, "-m", "ullage", *arguments, "--kubeconfig", str(kubeconfig)]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=place,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        ) as process:
            try:
                connection, _ = server.accept()
                with connection:
                    connection.recv(1)
                    process.send_signal(signal.SIGINT)
                    _, said = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
    return process.returncode, said, [one.name for one in place.iterdir()]


@pytest.mark.parametrize("arguments", rows(AT_A_SILENT_SERVER, ("explain",)))
def test_ctrl_c_while_a_server_does_not_answer(arguments: tuple[str, ...], tmp_path: Path) -> None:
    code, said, files = interrupted_at_a_server(arguments, tmp_path)
    assert said.splitlines() == ["interrupted"]
    assert code in (130, -signal.SIGINT)
    assert files == []


@pytest.mark.parametrize("arguments", rows(SERVING, ("scheduler",)))
def test_who_runs_until_stopped_ends_well(arguments: tuple[str, ...], tmp_path: Path) -> None:
    code, said, files = interrupted_at_a_server(arguments, tmp_path)
    assert said.splitlines()[-1] == "stopped"
    assert "Traceback" not in said
    assert code == 0
    assert files == []


def test_every_verb_is_in_a_table() -> None:
    tables = (AT_A_SILENT_SERVER.values(), SERVING.values(), (row[1] for row in AT_WORK.values()))
    assert {row[0] for table in tables for row in table} | {*AT_ONCE, *ELSEWHERE} == set(VERBS)
