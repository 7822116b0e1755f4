"""Mistakes of a newcomer in a workload or fleet: each just works, or gets a sentence that mends it and exit code 1."""

import json
from pathlib import Path

import pytest

from ullage.cli.main import run

HEADER = "arrival,duration,gpus\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "arrival,duration,gpuss\n0,60,1\n",
            "line 1: there is no column gpuss; did you mean gpus? allowed: name, arrival, duration, gpus,",
            id="misspelt-column",
        ),
        pytest.param(
            "arrival,duration,gpu_cnt\n0,60,1\n",
            "no column gpu_cnt; did you mean gpus? allowed: name, arrival,",
            id="near-another-name-of-a-column",
        ),
        pytest.param(
            "arrival,duration,cheese\n0,60,1\n", "leave others out with --unknown-columns ignore", id="extra-column"
        ),
        pytest.param(
            "arrival,duration,gpu,num_gpus\n0,60,1,2\n", "the columns gpu and num_gpus both mean gpus", id="twice"
        ),
        pytest.param(HEADER + "0,60,-1\n", "row 1 (line 2), column gpus: is -1; expected at least 0", id="negative"),
        pytest.param(HEADER + "0,-60,1\n", "column duration: is -60; expected at least 0", id="negative-duration"),
        pytest.param(
            HEADER + "0,10 minutes,1\n",
            "column duration: is '10 minutes'; expected seconds, or a duration such as 30s, 10m or 1h30m; write 10m",
            id="a-unit-in-words",
        ),
        pytest.param(
            'arrival;duration;gpus\n0;60;0,5\n', "gpus: is '0,5'; expected a number; write 0.5", id="decimal-comma"
        ),
        pytest.param(
            HEADER + "0,1e12,1\n",
            "column duration: is 1e12, which is 31,710 years; expected at most 10 years; leave it empty",
            id="thirty-thousand-years",
        ),
        pytest.param(
            HEADER + "1758000000000,60,1\n", "expected seconds; are these milliseconds?", id="milliseconds"
        ),
        pytest.param(
            "arrival,duration,memory\n0,60,64\n",
            "column memory: is 64, which is 64 bytes; write 64Gi if these are gibibytes",
            id="memory-without-its-unit",
        ),
        pytest.param(HEADER + "0,60,40\n", "column gpus: is 40; expected at most 16, all of one node", id="forty-gpus"),
        pytest.param(
            "arrival,duration,gpus,model\n0,60,1,L40S\n",
            "no job of jobs.csv can ever run on this fleet: job-000001 (1 GPU L40S): GpuModelMismatch: L40S asked",
            id="a-model-that-is-not-there",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_mended_by_a_sentence(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    assert run(["simulate", "--workload", str(path), "--fleet", "2*8xH100", "-q"]) == 1
    found = capsys.readouterr()
    assert said in found.err
    assert not found.out


@pytest.mark.story
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("arrival;duration;gpus\n0;60;1\n5;60;2\n", id="semicolons"),
        pytest.param("arrival\tduration\tgpus\n0\t60\t1\n5\t60\t2\n", id="tabs"),
        pytest.param(HEADER + "0,1m,1\n5s,1m,2\n", id="durations-with-units"),
        pytest.param("submit_time,runtime,num_gpus\n0,60,1\n5,60,2\n", id="other-names"),
        pytest.param("Arrival,Duration,GPU\n0,60,1\n5,60,2\n", id="capital-letters"),
        pytest.param("arrival,duration,gpus,model\n0,60,1,H100\n5,60,2,H100|H200\n", id="models-by-short-names"),
        pytest.param("arrival,duration,gpus\n2026-01-19T13:00:00Z,60,1\n2026-01-19 13:00:05,60,2\n", id="dates"),
    ],
)
def test_what_people_write_just_works(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    assert run(["simulate", "--workload", str(path), "--fleet", "2*8xH100", "-q", "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["runs"]
    scores = found["scores"]
    assert scores["pods"]["finished"] == 2
    assert scores["gpus"]["hours"]["allocated"] == pytest.approx(3 / 60, abs=0.01)
    assert found["workload"]["arrives in, hours"] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--fleet", "8xH100"], "--fleet 8xH100: no such file; expected a file, or nodes in a word such as "
                     "16*8xH100; did you mean 1*8xH100?", id="nodes-forgotten"),
        pytest.param(["--fleet", "2*8xH1000"], "--fleet 8xH1000: expected 1 to 16 of a known GPU", id="unknown-gpu"),
        pytest.param(["--fleet", "2*8xH100", "--compare", "packing", "sprea"], "did you mean spread?", id="policy"),
        pytest.param(["--fleet", "2*8xH100", "--sweep", "scheduling.polic=a,b"], "did you mean policy?", id="setting"),
        pytest.param(["--fleet", "2*8xH100", "--seeds", "2", "--sweep", "seed=1,2"], "give one of them", id="seeds"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_named_as_it_was_typed(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", "--workload", "synthetic", *arguments, "-q"]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.story
def test_jobs_that_can_never_run_are_named_before_the_run_and_those_left_wait_for_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("name,arrival,duration,gpus,models\na,0,60,1,H100\nb,1,60,9,\nc,2,60,1,L40S\n")
    assert run(["simulate", "--workload", str(path), "--fleet", "2*8xH100", "-q"]) == 0
    said = capsys.readouterr()
    assert "can never run, left out: b (9 GPUs): NodeTooSmall: wants 9 of nvidia.com/gpu, the node has 8" in said.err
    assert "can never run, left out: c (1 GPU L40S): GpuModelMismatch: L40S asked" in said.err
    assert "2 pods were left out: they can never run on" in said.out
    assert "NVIDIA H100 80GB HBM3 by AWS EC2 on demand, us-east-1, 2026-01-19" in said.out


@pytest.mark.story
def test_seeds_are_one_answer_with_an_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load = tmp_path / "load.yaml"
    load.write_text("synthetic: {jobs: 24, perHour: 240, meanDuration: 20m, gangs: 0, sizes: {4: 1, 1: 2}}\n")
    page = tmp_path / "out.html"
    arguments = ["--workload", str(load), "--fleet", "2*4xL4", "--compare", "fragmentation", "spread", "--seeds", "2"]
    assert run(["simulate", *arguments, "--jobs", "1", "-q", "-o", "json", "--report", str(page)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [group["seeds"] for group in found["groups"]] == [[0, 1], [0, 1]]
    assert "2 seeds, 95 % interval of the difference" in found["headline"]
    assert found["about"]["command"] == (
        "ullage simulate --workload load.yaml --fleet '2*4xL4' --compare --seeds 2 fragmentation spread"
    )
    assert {run["workload"]["name"] for run in found["runs"]} == {"load.yaml"}
    assert len({run["workload"]["digest"] for run in found["runs"]}) == 2, "each seed has its own jobs"
    html = page.read_text()
    assert found["about"]["command"].replace("'", "&#x27;") in html
    assert html.count('<div class="panels">') == 5, "every curve, side by side"
