"""Fleets from lists, manifests and words."""

from pathlib import Path

import pytest

from ullage.errors import UserError
from ullage.sim.fleet.fleet import DEFAULT_GPU_MEMORY
from ullage.sim.fleet.reading import read_fleet
from ullage.sim.workload.table_reader import BadRows

POOL = """
apiVersion: gpu.scheduling/v1
kind: NodeProvisioner
metadata: {name: spot}
spec:
  provider: {name: simulated, parameters: {bootSeconds: "90"}}
  template:
    resources: {cpu: "96", memory: 768Gi}
    gpus: {model: H100, count: 8, memory: 40Gi}
    pricePerHour: "12.5"
  maxSize: 4
"""


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_openb_columns(tmp_path: Path) -> None:
    path = written(
        tmp_path, "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,P100\nn-1,96000,1024,0,\n"
    )
    fleet = read_fleet([path])
    assert [(node.name, node.template.gpus.count) for node in fleet.nodes] == [("n-0", 2), ("n-1", 0)]
    assert fleet.nodes[0].template.resources == {"cpu": 64_000, "memory": (256 << 30) * 1000}
    assert fleet.nodes[0].template.labels == {"nvidia.com/gpu.product": "P100"}
    assert (fleet.gpus, fleet.share_of) == (2, DEFAULT_GPU_MEMORY)


def test_a_plain_list(tmp_path: Path) -> None:
    table = "name,cpu,memory,gpus,model,gpu_memory,islands,price_per_hour,pool,zone,count\n"
    table += "big,96,768Gi,8,H100,80Gi,2,98.32,,z-1,2\nsmall,4,16Gi,,,,,0.5,,,\n"
    big, other, small = read_fleet([written(tmp_path, "nodes.csv", table)]).nodes
    assert [big.name, other.name, small.name] == ["big-0000", "big-0001", "small"]
    assert (big.template.price, big.template.gpus.islands, big.zone) == (98_320_000, 2, "z-1")
    assert small.template.gpus.count == 0


def test_manifests_and_a_word_together(tmp_path: Path) -> None:
    fleet = read_fleet([written(tmp_path, "pools.yaml", POOL), "3*4xL4"])
    assert [one["kind"] for one in fleet.objects] == ["NodeProvisioner"]
    assert fleet.templates[0].price == 12_500_000
    assert [node.name for node in fleet.nodes] == ["node-0000", "node-0001", "node-0002"]
    assert fleet.nodes[0].template.gpus.islands == 4, "not wired together"
    assert fleet.share_of == 23034 << 20, "the smallest GPU's"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param(
            "a.csv", "sn,cpu_milli,memory_mib,gpu,model\nn,x,1,1,T4\n", "row 1 (line 2), column cpu_milli: is", id="x"
        ),
        pytest.param("a.csv", "sn,cpu_milli,memory_mib,gpu,model\nn,1,1,1,\n", "column model: is empty", id="no-model"),
        pytest.param(
            "a.csv",
            "sn,cpu_milli,memory_mib,gpu,model\nn,1,1,99,T4\n",
            "column gpu: is 99; expected at most",
            id="many",
        ),
        pytest.param(
            "a.csv",
            "name,cpu,memory,gpus,model,islands\nn,1,1,8,T4,3\n",
            "column islands: is 3; expected",
            id="islands",
        ),
        pytest.param("a.csv", "name,cpu\nn,1\n", "the column memory is missing", id="column"),
        pytest.param("a.yaml", POOL.replace("maxSize: 4", "maxSize: 0"), "maxSize", id="a-rule-of-the-kind"),
        pytest.param("a.yaml", "kind: Node\n", "apiVersion: is missing", id="no-manifest"),
    ],
)
def test_what_is_wrong_is_named(name: str, text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        read_fleet([written(tmp_path, name, text)])
    assert said in str(raised.value)
    assert name in str(raised.value)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["0*8xH100"], "expected 1 to"),
        (["4*8xH900"], "of a known GPU"),
        (["4*x*y"], "such as 16*8xH100"),
        (["/nowhere/nodes.csv"], "no such file"),
        (["1*8xH100", "1*8xH100"], "there are two nodes node-0000"),
    ],
)
def test_words_and_names_that_mean_nothing(names: list[str], said: str) -> None:
    with pytest.raises(UserError) as raised:
        read_fleet(names)
    assert said in str(raised.value)


def test_bad_rows_are_left_out_as_told(tmp_path: Path) -> None:
    path = written(tmp_path, "n.csv", "sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\nb,x,1,0,\nc,1,1,0,\n")
    fleet = read_fleet([path], bad_rows=BadRows.SKIP)
    assert [node.name for node in fleet.nodes] == ["a", "c"]
    assert len(fleet.skipped) == 1
