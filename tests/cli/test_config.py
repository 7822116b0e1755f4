"""`ullage config` as a user meets it."""

import json
from pathlib import Path

import pytest

from ullage.cli.main import run
from ullage.cli.scheduler import command, read_settings
from ullage.config.settings import Settings
from ullage.errors import UserError


def test_what_is_shown_can_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show"]) == 0
    shown = capsys.readouterr().out
    path = tmp_path / "policy.yaml"
    path.write_text(shown.replace("policy: fragmentation", "policy: packing"))
    assert run(["config", "check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: good (1 not as by default)\n"
    assert run(["config", "show", str(path), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["scheduling"]["policy"] == "packing"


def test_all_that_is_wrong_is_said_and_the_exit_code_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("scheduling: {policy: spread}\n")
    bad.write_text("scheduling:\n  policy: sprad\n  releaseLeases: 3\n")
    assert run(["config", "check", str(good), str(bad)]) == 1
    said = capsys.readouterr()
    assert f"{good}: good" in said.out
    assert said.err.splitlines() == [
        f"{bad}:2: scheduling.policy: is 'sprad'; allowed: fragmentation, best-fit, packing, spread, random; "
        "did you mean spread?",
        f"{bad}:3: scheduling.releaseLeases: is 3; allowed: true or false",
    ]


def test_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text("")
    new.write_text("draining: {unremovableRecheckTimeout: 1m}\n")
    assert run(["config", "diff", str(old), str(new)]) == 0
    assert capsys.readouterr().out == "draining.unremovableRecheckTimeout: 5m -> 1m\n"


def taken(*options: str) -> Settings:
    with command.make_context("scheduler", list(options)) as context:
        return read_settings(context.params)


def test_the_scheduler_takes_a_file_and_options_before_it(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "scheduling: {policy: packing, leaseNamespace: gpus, maxBindParallelism: 7, maxUnschedulableDuration: 1m}\n"
    )
    found = taken("--settings", str(path))
    assert found.scheduling.policies() == {"gpu-scheduler": "packing"}
    assert (found.scheduling.lease_namespace, found.scheduling.max_bind_parallelism) == ("gpus", 7)
    assert found.scheduling.max_unschedulable_duration == 60.0
    found = taken("--settings", str(path), "--profile", "batch=spread", "--namespace", "other")
    assert (found.scheduling.policies(), found.scheduling.lease_namespace) == ({"batch": "spread"}, "other")


@pytest.mark.parametrize(
    ("options", "profiles"),
    [
        pytest.param((), {"gpu-scheduler": "fragmentation"}, id="by-default"),
        pytest.param(("--profile", "batch"), {"batch": "fragmentation"}, id="a-name-alone"),
        pytest.param(
            ("--profile", "batch=spread", "--profile", "gpu-scheduler=packing"),
            {"gpu-scheduler": "packing", "batch": "spread"},
            id="the-default-one-first",
        ),
        pytest.param(("--policy", "spread"), {"gpu-scheduler": "spread"}, id="the-default-profiles-policy"),
    ],
)
def test_profiles(options: tuple[str, ...], profiles: dict[str, str]) -> None:
    assert list(taken(*options).scheduling.policies().items()) == list(profiles.items())


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        pytest.param(("=spread",), "--profile: '=spread' names no scheduler", id="no-name"),
        pytest.param(("a=sprad",), "--profile: a: is 'sprad'; .* did you mean spread", id="no-policy"),
        pytest.param(("a", "a=spread"), "--profile: a is given twice", id="twice"),
    ],
)
def test_what_is_no_profile(texts: tuple[str, ...], says: str) -> None:
    with pytest.raises(UserError, match=says):
        taken(*(part for text in texts for part in ("--profile", text)))


def test_nobody_places_by_chance_in_earnest(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("scheduling: {policy: random}\n")
    with pytest.raises(UserError, match="is for simulations; allowed: fragmentation, best-fit, packing, spread"):
        taken("--settings", str(path))
