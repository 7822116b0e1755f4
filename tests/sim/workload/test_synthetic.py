"""The generator: the same from the same seed, and as it was told to be."""

from collections import Counter
from pathlib import Path

import pytest

from ullage.model.units import Seconds
from ullage.sim.workload.reading import read_workload
from ullage.sim.workload.synthetic import Generator, Synthetic, generated


def test_a_seed_repeats_and_another_differs() -> None:
    assert read_workload("synthetic", seed=1) == read_workload("synthetic", seed=1)
    assert read_workload("synthetic", seed=1) != read_workload("synthetic", seed=2)


@pytest.mark.parametrize("how", ["poisson", "regular", "bursts", "daily"])
def test_as_many_an_hour_as_told(how: str) -> None:
    jobs = generated(Synthetic(synthetic=Generator(jobs=4000, per_hour=100, arrivals=how)), 1)
    hours = jobs[-1].at / 3600
    expected = 40 / 0.6 if how == "daily" else 40  # by night fewer come
    assert len(jobs) == 4000
    assert hours == pytest.approx(expected, rel=0.1)
    assert [job.at for job in jobs] == sorted(job.at for job in jobs)
    if how == "bursts":
        assert set(Counter(job.at for job in jobs).values()) == {20}


@pytest.mark.parametrize("how", ["lognormal", "exponential", "fixed"])
def test_as_long_as_told(how: str) -> None:
    made = Generator(jobs=8000, durations=how, mean_duration=Seconds(600.0), spread=1.0)
    times = [job.seconds or 0.0 for job in generated(Synthetic(synthetic=made), 1)]
    assert sum(times) / len(times) == pytest.approx(600.0, rel=0.1)
    assert (len(set(times)) == 1) == (how == "fixed")


def test_sizes_gangs_models_and_priorities_as_often_as_told() -> None:
    made = Generator(
        jobs=10_000,
        sizes={"0": 1.0, "0.5": 1.0, "2": 2.0},
        gangs=0.3,
        gang_size=3,
        models={"H100": 0.25},
        priorities={"0": 9.0, "50": 1.0},
    )
    jobs = generated(Synthetic(synthetic=made), 1)
    whole = [job for job in jobs if job.gpus == 2]
    assert len(whole) == pytest.approx(5000, rel=0.05)
    assert sum(job.share_milli == 500 for job in jobs) == pytest.approx(2500, rel=0.1)
    assert sum(job.pods == 3 for job in whole) == pytest.approx(0.3 * len(whole), rel=0.1)
    assert {job.pods for job in jobs if job.gpus < 2} == {1}
    assert sum(job.models == ("H100",) for job in whole) == pytest.approx(0.25 * len(whole), rel=0.1)
    assert not any(job.models for job in jobs if not job.gpus)
    assert sum(job.priority == 50 for job in jobs) == pytest.approx(1000, rel=0.15)


def test_told_by_a_file(tmp_path: Path) -> None:
    path = tmp_path / "load.yaml"
    path.write_text(
        "synthetic:\n  jobs: 5\n  arrivals: regular\n  sizes: {8: 1}\n  durations: fixed\n  meanDuration: 2h\n"
    )
    jobs = read_workload(str(path)).jobs
    assert [(job.at, job.gpus, job.seconds) for job in jobs] == [(60.0 * n, 8, 7200.0) for n in range(5)]
