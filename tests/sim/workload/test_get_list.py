"""Workloads from files: each format to the same jobs, and bad rows named by file, row and column."""

from pathlib import Path

import pytest

from ullage.errors import UserError
from ullage.sim.workload.job import TraceJob
from ullage.sim.workload.reading import read_workload
from ullage.sim.workload.table_reader import BadRows

OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
SWF = "; Version: 2.2\n; a comment\n"


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_openb_columns(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "pods.csv",
        OPENB
        + "pod-1,12000,16384,1,460,,LS,Running,100,700,130\n"
        + "pod-0,8000,1024,2,1000,T4|V100M32,BE,Failed,50,60,\n"
        + "pod-2,1000,512,0,0,,LS,Running,200,,200\n",
    )
    share, plain, endless = (
        TraceJob(
            name="pod-0", at=0, seconds=10, stays=10, gpus=2, models=("T4", "V100M32"), cpu_milli=8000, memory=1 << 30
        ),
        TraceJob(
            name="pod-1", at=50, seconds=570, stays=600, gpus=1, share_milli=460, cpu_milli=12000, memory=16 << 30
        ),
        TraceJob(name="pod-2", at=150, cpu_milli=1000, memory=512 << 20),
    )
    assert read_workload(path).jobs == (share, plain, endless)
    assert read_workload(path, most=1).jobs == (share,)


def test_a_plain_list_as_csv_and_as_json_lines(tmp_path: Path) -> None:
    table = "name,arrival,duration,gpus,pods,cpu,memory,models,priority,namespace\n" + "A_b,10,60,0.25,,500m,2Gi,,,\n"
    table += "gang,5,,8,4,64,512Gi,H100|H200,100,team\n"
    lines = '{"name":"A_b","arrival":10,"duration":60,"gpus":0.25,"cpu":"500m","memory":"2Gi"}\n\n'
    lines += '{"name":"gang","arrival":5,"gpus":8,"pods":4,"cpu":64,"memory":"512Gi","models":["H100","H200"],'
    lines += '"priority":100,"namespace":"team","duration":null}\n'
    gang = TraceJob(
        name="gang", at=0, pods=4, gpus=8, models=("H100", "H200"), cpu_milli=64_000, memory=512 << 30, priority=100,
        namespace="team",
    )  # fmt: skip
    part = TraceJob(name="a-b", at=5, seconds=60, stays=60, gpus=1, share_milli=250, cpu_milli=500, memory=2 << 30)
    assert read_workload(written(tmp_path, "jobs.csv", table)).jobs == (gang, part)
    assert read_workload(written(tmp_path, "jobs.jsonl", lines)).jobs == (gang, part)


def test_the_standard_workload_format(tmp_path: Path) -> None:
    rest = " -1" * 10
    text = SWF + f"1 0 5 100 4 -1 -1 -1{rest}\n2 30 0 60 -1 -1 -1 12{rest}\n"
    jobs = read_workload(written(tmp_path, "log.swf", text)).jobs
    assert jobs == (
        TraceJob(name="job-000001", at=0, seconds=100, stays=105, gpus=4, cpu_milli=4000),
        TraceJob(name="job-000002", at=30, seconds=60, stays=60, pods=2, gpus=6, cpu_milli=6000),
    )


@pytest.mark.parametrize(
    ("row", "said"),
    [
        pytest.param("a,1,1,one,0,,,,0,1,0", "column num_gpu: is 'one'; expected a whole number", id="a-word"),
        pytest.param("a,1,1,,0,,,,0,1,0", "column num_gpu: is empty; expected a whole number", id="empty"),
        pytest.param("a,-1,1,1,0,,,,0,1,0", "column gpu_milli: is 0 thousandths of a GPU", id="no-part-of-a-gpu"),
        pytest.param("a,1,-5,0,0,,,,0,1,0", "column memory_mib: is -5; expected at least 0", id="negative"),
        pytest.param("a,1,1,99,1000,,,,0,1,0", "column num_gpu: is 99; expected at most 16", id="more-than-a-node-has"),
        pytest.param("a,1,1,0,0,,,,9,1,0", "column deletion_time: is 1, before creation_time (9)", id="gone-before"),
        pytest.param("a,1,1,0,0,,,,inf,1,0", "column creation_time: is 'inf'; expected a number", id="no-moment"),
        pytest.param("a,1,1,0,0", "column gpu_spec: the row has 5 cells, and the header 11", id="too-short"),
        pytest.param("good,1,1,0,0,,,,0,1,0", "column name: is 'good', as in row 1", id="a-name-twice"),
        pytest.param("!!,1,1,0,0,,,,0,1,0", "column name: is '!!'; expected letters and digits", id="no-name"),
    ],
)
def test_a_bad_row_stops_or_is_left_out_as_told(row: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, "pods.csv", OPENB + f"good,1,1,0,0,,,,0,1,0\n{row}\nlast,1,1,0,0,,,,5,9,5\n")
    with pytest.raises(UserError) as raised:
        read_workload(path)
    assert str(raised.value).startswith(f"{path}: row 2 (line 3), {said}")
    assert "--bad-rows skip" in str(raised.value)
    read = read_workload(path, bad_rows=BadRows.SKIP)
    assert [job.name for job in read.jobs] == ["good", "last"]
    assert len(read.skipped) == 1
    assert read.skipped[0].startswith(f"{path}: row 2 (line 3), {said}")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param("a.jsonl", '{"arrival": 1}\n{"arrival"\n', "row 2 (line 2): is not JSON", id="not-json"),
        pytest.param("a.jsonl", "[1]\n", "row 1 (line 1): is not an object", id="not-an-object"),
        pytest.param("a.jsonl", '{"gpus": 1}\n', "row 1 (line 1), column arrival: is empty", id="no-arrival"),
        pytest.param("a.csv", "arrival,duration,gpus\n1,2,1.5\n", "column gpus: is 1.5; expected whole GPUs", id="odd"),
        pytest.param("a.csv", "arrival,duration,pods\n1,2,0\n", "column pods: is 0; expected at least 1", id="no-pods"),
        pytest.param(
            "a.csv", "arrival,duration,memory\n1,2,much\n", "column memory: is 'much'; expected a q", id="much"
        ),
        pytest.param(
            "a.csv", "start,duration\n1,2\n", "line 1: the column arrival is missing; it has start", id="column"
        ),
        pytest.param("a.csv", "name,cpu_milli,num_gpu\n", "line 1: the column memory_mib is missing", id="no-times"),
        pytest.param("a.swf", "1 2 3\n", "row 1 (line 1), column 4: is missing; expected 18 numbers", id="swf-short"),
        pytest.param(
            "a.swf", "1 2 3 -1 4" + " -1" * 13 + "\n", "column 4: the run time is not known", id="swf-no-time"
        ),
        pytest.param("a.swf", "1 2 3 9 -1" + " -1" * 13 + "\n", "column 8: no processors are said", id="swf-no-cpus"),
        pytest.param("a.csv", "arrival,duration\n", "no jobs in it", id="nothing"),
        pytest.param("a.dat", "what\n", "cannot tell what format", id="format"),
        pytest.param(
            "a.yaml", "synthetic: {jobs: 0}\n", "synthetic.jobs: is 0; allowed: a whole number", id="generator"
        ),
        pytest.param(
            "a.yaml", "synthetic: {sizes: {3.5: 1}}\n", "synthetic.sizes: 3.5 is no number of GPUs", id="size"
        ),
    ],
)
def test_what_is_wrong_is_named(name: str, text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        read_workload(written(tmp_path, name, text))
    assert said in str(raised.value)
    assert name in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_workload(str(tmp_path / "nowhere.csv"))
