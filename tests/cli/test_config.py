"""`ullage config` as a user meets it."""

import json
from pathlib import Path

import pytest

from ullage.cli.main import run
from ullage.cli.scheduler import read_settings
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
    bad.write_text("scheduling:\n  policy: sprad\n  sweepLeases: 3\n")
    assert run(["config", "check", str(good), str(bad)]) == 1
    said = capsys.readouterr()
    assert f"{good}: good" in said.out
    assert said.err.splitlines() == [
        f"{bad}:2: scheduling.policy: is 'sprad'; allowed: fragmentation, best-fit, packing, spread, random; "
        "did you mean spread?",
        f"{bad}:3: scheduling.sweepLeases: is 3; allowed: true or false",
    ]


def test_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text("")
    new.write_text("draining: {recheck: 1m}\n")
    assert run(["config", "diff", str(old), str(new)]) == 0
    assert capsys.readouterr().out == "draining.recheck: '5m' -> '1m' (needs a restart)\n"


def test_the_scheduler_takes_a_file_and_options_before_it(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("scheduling: {policy: packing, leaseNamespace: gpus, parallelPlacements: 7, longestSleep: 1m}\n")
    given = {"settings_file": str(path), "profiles": (), "namespace": None}
    taken = read_settings(given)
    assert taken.profiles == {"gpu-scheduler": "packing"}
    assert (taken.lease_namespace, taken.pipeline.placements, taken.pace.longest_sleep) == ("gpus", 7, 60.0)
    taken = read_settings({**given, "profiles": ("batch=spread",), "namespace": "other"})
    assert (taken.profiles, taken.lease_namespace) == ({"batch": "spread"}, "other")


def test_nobody_places_by_chance_in_earnest(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("scheduling: {policy: random}\n")
    with pytest.raises(UserError, match="is for simulations; allowed: fragmentation, best-fit, packing, spread"):
        read_settings({"settings_file": str(path), "profiles": (), "namespace": None})
