"""The command line as a user meets it: quick help, examples, and errors that are sentences."""

import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ullage import errors
from ullage.cli.error_messages import sentence
from ullage.cli.main import VERBS, run, ullage
from ullage.cli.reference import main as reference

PROGRAM = Path(sys.executable).with_name("ullage")
HELP_SECONDS = 0.3


def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (PROGRAM, *arguments), capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin", **environment}
    )


def test_help_answers_at_once() -> None:
    """In CPU time: how long it takes on the clock says more of what else the machine does."""
    call("--help")  # compiles what is not compiled yet
    took = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert call("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(took) < HELP_SECONDS, took


def every_command() -> list[tuple[str, click.Command]]:
    context = click.Context(ullage)
    named = [(name, ullage.get_command(context, name)) for name in VERBS]
    return [("", ullage), *((name, command) for name, command in named if command is not None)]


@pytest.mark.parametrize(("name", "command"), every_command(), ids=[name or "ullage" for name, _ in every_command()])
def test_every_verb_has_an_example_and_every_option_has_help(name: str, command: click.Command) -> None:
    assert command.help
    assert f"ullage {name}".strip() in (command.epilog or "")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts} has no help"


def test_version_says_ours() -> None:
    done = call("version")
    assert done.returncode == 0
    assert done.stdout.startswith("ullage 0.")


def test_an_unknown_verb_is_asked_wrongly() -> None:
    done = call("demolish")
    assert done.returncode == 2
    assert "There is no verb demolish; did you mean demo?" in done.stderr


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(errors.UserError("x: no such file; make it"), "x: no such file; make it", id="the-users-own"),
        pytest.param(
            errors.Unreachable("no answer; check it"), "no answer; check it", id="unreachable-has-its-own-advice"
        ),
        pytest.param(errors.Forbidden("cannot list pods"), "cannot list pods; ask for a role", id="forbidden"),
        pytest.param(errors.Unreadable("not JSON"), "not JSON; check that the server", id="unreadable"),
        pytest.param(ZeroDivisionError("oops"), "this should not happen (ZeroDivisionError: oops)", id="a-bug"),
    ],
)
def test_an_error_is_a_sentence_with_the_next_step(error: Exception, text: str) -> None:
    said = sentence(error)
    assert said.startswith(text)
    assert "\n" not in said


def test_a_bug_shows_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(ullage, "main", broken)
    assert run(["version"]) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "ULLAGE_TRACEBACK=1" in said
    monkeypatch.setenv("ULLAGE_TRACEBACK", "1")
    assert run(["version"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("--kubeconfig", "/nowhere/config"), "/nowhere/config", id="named-file-is-missing"),
        pytest.param((), "--kubeconfig", id="nothing-to-find-a-cluster-by"),
    ],
)
def test_without_a_cluster_dump_says_what_to_do(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = call("dump", *arguments, HOME=str(tmp_path))
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stdout == ""


def test_stale_reference_pages_are_noticed(tmp_path: Path) -> None:
    assert reference([str(tmp_path)]) == 0
    assert reference(["--check", str(tmp_path)]) == 0
    (tmp_path / "cli.md").write_text("old\n")
    assert reference(["--check", str(tmp_path)]) == 1
