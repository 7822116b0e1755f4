"""`ullage replay`: a cluster that was goes on, with the settings it had or with others; what broke is seen again."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ullage.cli.main import run
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import Binding
from ullage.kube.client.resources import NODES, PODS
from ullage.kube.crds.install import install
from ullage.kube.manifests.cluster_dump import read_objects
from ullage.sim.fleet.reading import read_fleet
from ullage.sim.virtual_time import run_virtual
from ullage.sim.workload.job import TraceJob
from ullage.sim.workload.manifests import PodOptions, arrivals
from ullage.sim.world.spec import Arrival, WorldSpec
from ullage.sim.world.violation import InvariantViolation, violation_file
from ullage.sim.world.world import started_world
from ullage.state.dump import dump
from ullage.testing.builders import a_node, a_pod, of_kind
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec
from ullage.watch.sources import read_cluster

pytestmark = pytest.mark.story

WEB: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "schedulerName": "gpu-scheduler",
                "containers": [
                    {
                        "name": "main",
                        "image": "example.test/web:v1",
                        "command": ["serve", "--key=of-the-house"],
                        "env": [{"name": "PASSWORD", "value": "open-sesame"}],
                        "resources": {"limits": {"nvidia.com/gpu": "1"}},
                    }
                ],
            },
        },
    },
}
JOBS = (
    TraceJob(name="short", at=0, seconds=1200, gpus=4, cpu_milli=1000),
    TraceJob(name="long", at=0, gpus=1, share_milli=500),
    TraceJob(name="waits", at=0, seconds=600, gpus=4),
)
"""Of eight GPUs `web` has two, `short` four and `long` half of one: `waits` has to wait for `short`."""


async def _ten_minutes() -> bytes:
    async with started_world(WorldSpec(seed=3, nodes=read_fleet(["2*4xL4"]).nodes, objects=(WEB,))) as world:
        await asyncio.sleep(10)
        for arrival in arrivals(JOBS, PodOptions(share_of=23034 << 20)):
            world.submit(arrival)
        await asyncio.sleep(590)
        objects = await read_objects(world.api, on_missing=pytest.fail)
        return dump(await read_cluster(world.api), now=world.clock.now(), objects=objects)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("dump") / "state.json"
    path.write_bytes(run_virtual(_ten_minutes()))
    return str(path)


def replayed(*arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["replay", *arguments, "-o", "json", "-q"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_dump_holds_no_secrets(state: str) -> None:
    text = Path(state).read_text()
    assert "open-sesame" not in text
    assert "of-the-house" not in text


def test_the_cluster_goes_on(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    scores = replayed(state, "--duration", "1h", capsys=capsys)["runs"][0]["scores"]
    assert scores["seconds"] == 3600.0
    assert scores["pods"]["finished"] == 2, "short ends ten minutes after the dump, then comes the turn of waits"
    assert scores["pods"]["placed"] == 1, "nobody who had a place was placed again"
    assert scores["pods"]["waiting"] == 0
    assert 590 < scores["waiting"]["4"]["max"] < 640
    assert scores["pods"].get("deleted", 0) == 0, "pods of controllers still have theirs"
    assert scores["disruptions"]["evicted"] == {}


def test_the_same_again_is_the_same(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    first = replayed(state, "--duration", "1h", capsys=capsys)
    assert replayed(state, "--duration", "1h", capsys=capsys) == first


def test_how_long_pods_run_can_be_said(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    scores = replayed(state, "--duration", "1h", "--pods-run", "15m", capsys=capsys)["runs"][0]["scores"]
    assert scores["pods"]["finished"] == 3, "long, of which nobody knew how long"


def test_what_is_on_a_node_that_is_not_there_is_left_out_and_named(
    state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = json.loads(Path(state).read_text())
    whole["objects"] = [one for one in whole["objects"] if one["metadata"]["name"] != "node-0001"]
    path = tmp_path / "lost.json"
    path.write_text(json.dumps(whole))
    assert run(["replay", str(path), "--duration", "1h", "-q"]) == 0, "no promise is broken"
    [said] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning:")]
    assert said.endswith(": left out: their nodes are not in the file")
    assert "gpu-node-0001-0" in said


def test_more_may_arrive(state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "more.csv").write_text("name,arrival,duration,gpus\nnew,60,60,1\n")
    arguments = ("--duration", "1h", "--workload", str(tmp_path / "more.csv"))
    scores = replayed(state, *arguments, capsys=capsys)["runs"][0]["scores"]
    assert scores["pods"]["finished"] == 3


def test_policies_side_by_side(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = replayed(state, "--compare", "packing", "spread", "--duration", "20m", "--jobs", "1", capsys=capsys)
    assert [one["label"] for one in found["runs"]] == ["packing", "spread"]
    assert len(found["comparison"]) == 1


def bound_by_hand() -> bytes:
    """A pod somebody bound to a GPU that is not leased to it."""
    nodes = read_fleet(["1*4xL4"]).nodes
    pod = Arrival(at=60.0, objects=(_bound("by-hand", nodes[0].name),))
    return violation_file(
        WorldSpec(seed=1, nodes=nodes), (pod,), InvariantViolation(at=100.0, rule="", breach="", about=(), story=())
    )


def _bound(name: str, node: str) -> dict[str, Any]:
    annotations = {"gpu.scheduling/allocated": f"{node}:0", "sim.ullage/duration-seconds": "600"}
    body = a_pod(
        name, annotations=annotations, gpus=1, schedulerName="gpu-scheduler", nodeName=node, restartPolicy="Never"
    )
    return of_kind(PODS, body)


def test_what_broke_is_seen_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_bytes(bound_by_hand())
    assert run(["replay", str(first), "--violation-file", str(second), "-q"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("first: broken after 60.000 s: default/by-hand was bound to GPU 0 of node-0000")
    assert any("pod default/by-hand: made" in line for line in said[1:]), "its story"
    assert said[-1] == f"it can be seen again with: ullage replay {second}"
    assert run(["replay", str(second), "--violation-file", str(tmp_path / "third.json"), "-q"]) == 1
    again = capsys.readouterr().err.splitlines()
    assert again[0].replace("second", "first") == said[0]
    assert again[1:-1] == said[1:-1]
    assert run(["replay", str(first), "--no-invariants", "-q"]) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("{}", "not a dump", id="no-dump"),
        pytest.param("what", "not a dump", id="no-json"),
        pytest.param('{"format":2,"takenAt":1.0,"synced":[],"nodes":[],"pods":[],"budgets":[]}',
                     "has no objects to go on from; take a new one with `ullage dump`", id="an-old-dump"),
        pytest.param('{"format": "ullage-simulation/1"}', "not a replay file", id="no-replay-file"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_sentence(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    assert run(["replay", str(path)]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.real
async def test_a_real_cluster_goes_on(
    start_control_plane: Callable[[ControlPlaneSpec], ControlPlane], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plane = start_control_plane(ControlPlaneSpec())
    api = connect(plane.kubeconfig)
    try:
        await install(api)
        await api.create(NODES, a_node("gpu-1", gpus=4))
        await api.create(PODS, a_pod("runs", gpus=3, schedulerName="gpu-scheduler"), "default")
        await api.bind("runs", "default", Binding("gpu-1"))
        await api.create(PODS, a_pod("fits", gpus=1, schedulerName="gpu-scheduler"), "default")
        await api.create(PODS, a_pod("does-not", gpus=1, schedulerName="gpu-scheduler"), "default")
    finally:
        await api.close()
    state = str(tmp_path / "state.json")
    assert await asyncio.to_thread(run, ["dump", "--kubeconfig", str(plane.kubeconfig), "--output", state]) == 0
    found = await asyncio.to_thread(replayed, state, "--duration", "10m", capsys=capsys)
    pods = found["runs"][0]["scores"]["pods"]
    assert (pods["placed"], pods["waiting"]) == (1, 1)
