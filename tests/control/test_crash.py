"""Broken invariants end a process with a dump: found in groups, written for its owner alone, named in the log."""

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.sim.http.cluster import in_a_thread
from ullage.cli.process import until_stopped
from ullage.control.crash import EXIT_CODE, CrashDump, broken_invariant
from ullage.errors import InvariantBroken, Unreachable
from ullage.model.lifecycle import IllegalTransition
from ullage.sim.http import ServeOptions
from ullage.state.cluster import ClusterState
from ullage.state.dump import load

BROKEN = InvariantBroken("a GPU has two holders")
SECONDS = 60

PROGRAM = """
import sys
from ullage.cli.main import run
from ullage.errors import InvariantBroken
from {module} import {owner}

def broken(*_, **__):
    raise InvariantBroken("a GPU has two holders")

{method} = broken
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("error", "found"),
    [
        pytest.param(BROKEN, BROKEN, id="plain"),
        pytest.param(ExceptionGroup("", [Unreachable("x"), ExceptionGroup("", [BROKEN])]), BROKEN, id="in-groups"),
        pytest.param(Unreachable("no route"), None, id="another-error"),
        pytest.param(ExceptionGroup("", [Unreachable("no route")]), None, id="a-group-of-others"),
    ],
)
def test_a_broken_invariant_is_found(error: BaseException, found: InvariantBroken | None) -> None:
    assert broken_invariant(error) is found


def test_an_illegal_transition_is_one() -> None:
    error = IllegalTransition("claim a: Bound -> Pending is not in the table")
    assert broken_invariant(error) is error


def test_the_state_is_captured_where_it_breaks_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    crash, state = CrashDump("scheduler", tmp_path), ClusterState()
    group = ExceptionGroup("unhandled", [BROKEN])
    with pytest.raises(ExceptionGroup), crash.capturing(lambda: state):
        raise group
    assert crash.write(group) == EXIT_CODE == 70
    (path,) = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = json.loads(path.read_text())
    assert (content["process"], content["error"]) == ("scheduler", str(BROKEN))
    load(json.dumps(content["state"]).encode())


def test_a_folder_that_cannot_be_written_to_changes_nothing_about_the_end(tmp_path: Path) -> None:
    assert CrashDump("scheduler", tmp_path / "missing").write(BROKEN) == EXIT_CODE


def test_other_errors_capture_nothing(tmp_path: Path) -> None:
    def never() -> ClusterState:
        raise AssertionError("the state is not asked for")

    with pytest.raises(Unreachable), CrashDump("scheduler", tmp_path).capturing(never):
        raise Unreachable("no route")


def test_every_process_ends_so_whatever_its_work() -> None:
    """Agents, the webhook and the dashboard have no snapshot, and the same top."""

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(broken())

    async def broken() -> None:
        raise BROKEN

    with pytest.raises(click.exceptions.Exit) as ended:
        asyncio.run(until_stopped(work()))
    assert ended.value.exit_code == EXIT_CODE


@pytest.mark.parametrize(
    ("verb", "module", "method", "more"),
    [
        pytest.param(
            "scheduler",
            "ullage.decide.scheduling.core",
            "SchedulerCore.next_decision",
            ["--no-leader-election"],
            id="scheduler",
        ),
        pytest.param(
            "scheduler",
            "ullage.decide.scheduling.core",
            "SchedulerCore.next_decision",
            ["--namespace", "default"],
            id="elected-scheduler",
        ),
        pytest.param(
            "controller",
            "ullage.control.provisioning.loop",
            "ProvisioningLoop.reconcile",
            ["--namespace", "default"],
            id="elected-controller",
        ),
    ],
)
@pytest.mark.story
def test_a_real_process_writes_its_dump_names_it_in_the_log_and_exits_70(
    tmp_path: Path, verb: str, module: str, method: str, more: list[str]
) -> None:
    program = PROGRAM.format(module=module, owner=method.split(".")[0], method=method)
    with in_a_thread(ServeOptions(kubeconfig=tmp_path / "kubeconfig")) as served:
        arguments = ["--log-format", "json", verb, "--kubeconfig", str(served.kubeconfig), *more]
        done = subprocess.run(
            (sys.executable, "-c", program, *arguments),
            env=os.environ | {"TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == EXIT_CODE, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    (said,) = [line for line in lines if line["event"] == "invariant broken"]
    content = json.loads(Path(said["dump"]).read_text())
    assert content["error"] == said["error"] == str(BROKEN)
    assert any("in broken" in line for line in content["traceback"])
    assert load(json.dumps(content["state"]).encode())[0].synced
