"""The program as a process: Ctrl-C at any time, a reader that has seen enough, suggestions, completion."""

import os
import signal
import subprocess
import sys
import time

import pytest

from ullage.cli.main import VERBS, run

PROGRAM = (sys.executable, "-m", "ullage")


INTERRUPTED_AT_IMPORT = """
import builtins, os, signal, sys
from ullage.cli.start import main
real = builtins.__import__
def interrupting(name, *rest, **more):
    if name == {module!r}:
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *rest, **more)
builtins.__import__ = interrupting
sys.argv = ["ullage", "simulate", "--workload", "synthetic", "--fleet", "1*L4", "-q"]
main()
"""


@pytest.mark.parametrize("module", ["ullage.cli.main", "click", "ullage.config.loading", "ullage.sim.fleet.reading"])
def test_ctrl_c_while_modules_are_imported_is_one_word(module: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_IMPORT.format(module=module)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert found.stderr.split() == ["interrupted"]
    assert found.returncode == 130
    assert not found.stdout


def test_ctrl_c_while_runs_are_under_way_in_several_processes_is_one_word() -> None:
    arguments = ["simulate", "--workload", "synthetic", "--fleet", "16*8xH100", "--compare", "packing", "spread"]
    with subprocess.Popen(
        [*PROGRAM, *arguments, "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            time.sleep(3.0)
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert "Traceback" not in err, err
    assert err.split()[-1] == "interrupted"
    assert process.returncode in (130, -signal.SIGINT)  # a shell sees 130 in both
    assert out == ""


@pytest.mark.parametrize("arguments", [["config", "show"], ["--help"], ["simulate", "--help"]], ids=" ".join)
def test_a_reader_that_has_seen_enough_is_no_error(arguments: list[str]) -> None:
    with subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["simulat"], "There is no verb simulat; did you mean simulate?", id="verb"),
        pytest.param(["explan", "pod/a"], "did you mean explain?", id="another-verb"),
        pytest.param(["xyzzy"], "There is no verb xyzzy; see ullage --help", id="nothing-near"),
        pytest.param(["plan", "schedul"], "Did you mean 'schedule'?", id="sub-verb"),
        pytest.param(["simulate", "--worklod", "x"], "--workload", id="flag"),
        pytest.param(["simulate", "--workload", "synthetic", "--fleet", "1*L4", "-o", "jsn"], "'json'", id="value"),
    ],
)
def test_what_is_nearly_right_is_suggested(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_ULLAGE_COMPLETE" in capsys.readouterr().out


def test_verbs_are_completed() -> None:
    environment = os.environ | {"_ULLAGE_COMPLETE": "bash_complete", "COMP_WORDS": "ullage sim", "COMP_CWORD": "1"}
    found = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'ullage'; from ullage.cli.start import main; main()"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout.splitlines() == ["plain,simulate"], found.stderr
    assert "simulate" in VERBS
