"""Ledger of chaos runs: seeds go on, a violation makes counting begin anew, and seldom pairs are named."""

from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from bench import chaos
from ullage.sim.chaos.aimed import SELDOM
from ullage.sim.chaos.coverage import FaultCoverage, verb_of
from ullage.sim.chaos.ledger import ChaosLedger, FailedSeed, pairs_of, seldom_met
from ullage.sim.chaos.network import POSSIBLE

BIND = "scheduler create pods/binding"


def _met(hits: int = 1) -> FaultCoverage:
    return FaultCoverage(
        calls=Counter({BIND: 5}), faults=Counter({(BIND, "429"): hits}), injected=Counter({"429": 1, "crash": 2})
    )


def _failed(seed: int) -> FailedSeed:
    return FailedSeed(seed=seed, rule="no GPU twice", sentence="gpu-0:0")


def test_a_run_goes_on_after_the_last_seed_also_on_another_tree() -> None:
    ledger = ChaosLedger()
    for tree, seeds in (("a", 3), ("a", 2), ("b", 4)):
        ledger.begin(tree)
        for _ in range(seeds):
            ledger.add(_met(), 1.5, None)
    assert [(one.tree, one.first, one.seeds, one.faults) for one in ledger.runs] == [("a", 0, 5, 15), ("b", 5, 4, 12)]
    assert ledger.next_seed == 9
    assert ledger.since_violation.seeds == 9
    assert ledger.since_violation.injected == {"429": 9, "crash": 18}
    assert ledger.since_violation.met == {BIND: {"429": 9}}


def test_seeds_count_again_only_on_the_tree_after_the_one_with_a_violation() -> None:
    ledger = ChaosLedger()
    ledger.begin("a")
    ledger.add(_met(), 1.0, None)
    ledger.add(_met(), 1.0, _failed(1))
    ledger.add(_met(), 1.0, None)
    assert ledger.since_violation.seeds == 0
    ledger.begin("b")
    ledger.add(_met(), 1.0, None)
    assert ledger.since_violation.seeds == 1
    assert [one.seed for one in ledger.runs[0].failed] == [1]


def test_pairs_that_are_seldom_met_are_named_with_what_explains_them() -> None:
    ledger = ChaosLedger()
    ledger.begin("a")
    ledger.add(_met(hits=20), 1.0, None)
    found = list(seldom_met(ledger.since_violation, {"scheduler create pods/binding: 5*": "because"}))
    assert pairs_of(ledger.since_violation) == len(found) + 1
    assert (f"{BIND}: 429", 20, "") not in found
    assert (f"{BIND}: 500", 0, "because") in found
    assert (f"{BIND}: answers-lost", 0, "") in found


def test_reasons_are_for_pairs_that_can_meet() -> None:
    """A pattern that fits nothing explains nothing."""
    sites = [f"agent {verb} things" for verb in POSSIBLE]
    sites += [f"{process} {call}" for process, calls in SELDOM.items() for call in calls]
    pairs = [f"{site}: {kind}" for site in sites for kind in POSSIBLE[verb_of(site)]]
    assert [one for one in chaos._explained() if not any(fnmatchcase(pair, one) for pair in pairs)] == []


def test_a_ledger_is_read_as_it_was_written_and_a_missing_one_is_empty(tmp_path: Path) -> None:
    ledger = ChaosLedger()
    ledger.begin("a")
    ledger.add(_met(), 1.0, _failed(0))
    assert chaos.read_ledger(tmp_path / "chaos.json") == ChaosLedger()
    chaos.write_ledger(ledger, tmp_path / "chaos.json")
    assert chaos.read_ledger(tmp_path / "chaos.json") == ledger
    assert "seed 0: no GPU twice: gpu-0:0" in "\n".join(chaos.report(ledger, {}))


@pytest.mark.story
def test_a_run_of_seeds_is_kept_and_the_next_one_has_nothing_left_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chaos, "KEPT", tmp_path / "chaos.json")
    monkeypatch.setattr(chaos, "_AT_ONCE", 1)
    played: list[int] = []

    def play_seed(seed: int) -> chaos.Played:
        played.append(seed)
        return chaos.Played(seed, _met(), 1.0, _failed(seed) if seed == 4 else None)

    class InThisProcess:
        """Pool of processes without processes."""

        def __init__(self, _processes: int, initializer: Callable[[], None]) -> None:
            assert callable(initializer)
            self.map = map

        def __enter__(self) -> "InThisProcess":
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(chaos, "play_seed", play_seed)
    monkeypatch.setattr(chaos, "ProcessPoolExecutor", InThisProcess)
    assert chaos.main(["--seeds", "3"]) == 0
    assert chaos.main(["--seeds", "3"]) == 0
    assert played == [0, 1, 2]
    assert "3 seeds since the last violation, 9 faults" in capsys.readouterr().out
    assert chaos.main(["--seeds", "5"]) == 1
    assert played == [0, 1, 2, 3, 4]
    assert chaos.main(["--for", "0s"]) == 1
    assert "seed 4: no GPU twice" in capsys.readouterr().out
