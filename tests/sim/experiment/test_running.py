"""A recipe run: the same wherever and however often it runs, another with another seed, and broken where it must be."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ullage.config.loading import override
from ullage.config.settings import Settings
from ullage.sim.experiment.descriptions import changed_settings
from ullage.sim.experiment.run import RunOutcome, RunProgress, perform
from ullage.sim.experiment.run_spec import RunSpec, world_spec
from ullage.sim.experiment.workers import run_all
from ullage.sim.fleet.reading import read_fleet
from ullage.sim.report.page import page
from ullage.sim.workload.job import TraceJob, Workload
from ullage.sim.workload.reading import read_workload

pytestmark = pytest.mark.story
PROGRAM = """
import sys
from tests.sim.experiment.test_running import a_recipe, written
from ullage.sim.experiment.run import perform
sys.stdout.write(written(perform(a_recipe(seed=int(sys.argv[1])))))
"""


def a_recipe(*, seed: int = 1, policy: str = "fragmentation", jobs: int = 15) -> RunSpec:
    settings = override(Settings(), "scheduling.policy", policy, "test")
    return RunSpec(
        label=policy,
        workload=read_workload("synthetic", seed=seed, most=jobs),
        fleet=read_fleet(["2*8xL4"]),
        settings=settings,
        seed=seed,
    )


def written(outcome: RunOutcome) -> str:
    return json.dumps(outcome.sheet.as_json(), sort_keys=True) + page([outcome.sheet], [])


def elsewhere(seed: int, hashes: str) -> str:
    done = subprocess.run(
        (sys.executable, "-c", PROGRAM, str(seed)),
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONHASHSEED": hashes},
    )
    return done.stdout


def test_a_seed_gives_the_same_bytes_whatever_the_hashes_and_another_does_not() -> None:
    first = elsewhere(1, "0")
    assert elsewhere(1, "77") == first
    other = perform(a_recipe(seed=2))
    assert written(other) != first
    assert other.sheet.decisions["count"] > 0


def test_processes_give_what_one_after_another_gives() -> None:
    recipes = [a_recipe(policy=policy, jobs=6) for policy in ("packing", "spread")]
    told: list[RunProgress] = []
    done: list[int] = []
    alone = [perform(recipe, keep_steps=True) for recipe in recipes]
    together = run_all(
        recipes, processes=2, keep_steps=True, on_progress=told.append, on_done=lambda place, _: done.append(place)
    )
    assert together == alone
    assert sorted(done) == [0, 1]
    assert {one.label for one in told} == {"packing", "spread"}
    assert max(one.share for one in told) == 1.0


def test_what_is_scored() -> None:
    scores = perform(a_recipe()).sheet.scores
    pods = scores["pods"]
    assert pods["submitted"] == pods["placed"] == pods["finished"]
    assert pods["submitted"] >= 15
    assert 0 < scores["gpus"]["allocation"] < 1
    assert scores["decisions"]["Scheduled"] == pods["submitted"]


def test_a_duration_ends_it() -> None:
    outcome = perform(replace(a_recipe(jobs=30), duration=600.0))
    assert outcome.sheet.scores["seconds"] == 600.0


def test_chance_has_the_seed_of_the_run() -> None:
    spec = world_spec(a_recipe(seed=5, policy="random"))
    assert spec.settings.scheduling.policies() == {"gpu-scheduler": "random/5"}


def test_settings_that_are_not_as_by_default_are_told() -> None:
    assert changed_settings(Settings()) == {}
    assert changed_settings(a_recipe(policy="packing").settings) == {"scheduling.policy": "packing"}


@pytest.mark.parametrize(("evicted", "finished"), [("again", 3), ("lost", 2)])
def test_preempted_work_comes_again_or_is_lost(evicted: str, finished: int) -> None:
    jobs = (
        TraceJob(name="humble", at=0, seconds=600, gpus=8),
        TraceJob(name="modest", at=0, seconds=600, gpus=8),
        TraceJob(name="urgent", at=60, seconds=600, gpus=8, priority=100),
    )
    recipe = a_recipe()
    settings = override(recipe.settings, "simulation.evicted", evicted, "test")
    scores = perform(replace(recipe, workload=Workload(jobs=jobs), settings=settings)).sheet.scores
    assert scores["disruptions"]["preempted"] == 1
    assert scores["pods"]["finished"] == finished
    assert scores["pods"]["waiting"] == 0
