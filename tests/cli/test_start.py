"""The program as a process: Ctrl-C at any time, a reader that has seen enough, suggestions, completion."""

import os
import signal
import subprocess
import sys
import time

import pytest

from ullage.cli.main import VERBS, run

PROGRAM = (sys.executable, "-m", "ullage")


@pytest.mark.parametrize("seconds", [0.05, 0.15, 0.4, 1.2], ids=lambda seconds: f"after-{seconds}s")
def test_ctrl_c_at_any_time_is_one_word(seconds: float) -> None:
    """Before Python has read our first line it is Python's own answer: then there is no word of ours to expect."""
    arguments = ["simulate", "--workload", "synthetic", "--fleet", "16*8xH100", "-q", "--compare", "packing", "spread"]
    with subprocess.Popen(
        [*PROGRAM, *arguments, "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONFAULTHANDLER": "0"},
    ) as process:
        try:
            time.sleep(seconds)
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=30)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert "Traceback" not in err or "<frozen site>" in err, err
    assert process.returncode in (130, -signal.SIGINT, 1)
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
