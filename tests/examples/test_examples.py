"""Examples: every file is taken by the real API server, and every pod in them finds its GPUs."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.deploy.cluster import kubectl, ullage
from tests.sim.world.making import AT_ONCE
from ullage.cli.main import run
from ullage.kube.client.resources import GPU_CLAIMS, PODS
from ullage.kube.crds.catalog import OURS
from ullage.model.device import MigInstance
from ullage.model.units import Bytes
from ullage.sim.fleet.reading import read_fleet
from ullage.sim.virtual_time import run_virtual
from ullage.sim.world.agents import ImplicitAgents
from ullage.sim.world.spec import Arrival, WorldSpec
from ullage.sim.world.world import World, started_world
from ullage.testing.controlplane import ControlPlaneSpec
from ullage.testing.controlplane.fixtures import StartControlPlane

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*/*.yaml"))
MANIFESTS = [path for path in FILES if path.parent.name != "simulation"]
SETTLED = 1800.0


def documents(path: Path) -> Iterator[dict[str, Any]]:
    for body in yaml.safe_load_all(path.read_text()):
        yield {**body, "metadata": {"namespace": "default", **body["metadata"]}}


def spec_for(path: Path) -> WorldSpec:
    """Two nodes with eight H100 and one with four L4. A pool that is to buy finds no node at all."""
    if path.parent.name == "node-pool":
        return WorldSpec(seed=1, actors=AT_ONCE)
    (small,) = read_fleet(["1*4xL4"]).nodes
    return WorldSpec(seed=1, nodes=(*read_fleet(["2*8xH100"]).nodes, replace(small, name="small")), actors=AT_ONCE)


def part_a_gpu(world: World) -> None:
    """Switch MIG on for one GPU, as an administrator does."""
    agents = world.agents
    assert isinstance(agents, ImplicitAgents)
    before = agents.inventory("node-0001")
    parts = tuple(MigInstance(f"MIG-{n}", "1g.10gb", Bytes(10 << 30)) for n in range(7))
    devices = (*before.devices[:7], msgspec.structs.replace(before.devices[7], mig=parts))
    agents.replace(msgspec.structs.replace(before, devices=devices))


@pytest.mark.story
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.parent.name)
def test_every_pod_finds_its_gpus(path: Path) -> None:
    objects = tuple(documents(path))
    workloads = [one for one in objects if one["kind"] in ("Pod", "Deployment", "Job")]
    expected = sum(
        one["spec"].get("replicas", one["spec"].get("completions", 1)) if one["kind"] != "Pod" else 1
        for one in workloads
    )

    async def live() -> tuple[list[Any], list[Any]]:
        async with started_world(spec_for(path)) as world:
            if path.parent.name == "mig":
                part_a_gpu(world)
            world.submit(Arrival(at=0, objects=objects))
            await world.sleep_until(SETTLED)
            assert world.violation is None
            return list((await world.api.list(PODS)).items), list((await world.api.list(GPU_CLAIMS)).items)

    pods, claims = run_virtual(live())
    assert len(pods) == expected
    assert all(pod.spec.node_name for pod in pods), [pod.metadata.name for pod in pods if not pod.spec.node_name]
    used = [claim for claim in claims if claim.status is not None and claim.status.phase == "Bound"]
    assert len(used) == expected


@pytest.mark.real
def test_every_file_is_taken(start_control_plane: StartControlPlane) -> None:
    plane = start_control_plane(ControlPlaneSpec())
    ullage(plane, "install", "--definitions-only", "--apply")
    for path in MANIFESTS:
        said = kubectl(plane, "apply", "--server-side", "--validate=strict", "-f", str(path))
        assert said.count("serverside-applied") == len(list(documents(path))), path.name


@pytest.mark.story
def test_the_simulation_of_the_page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES.parent)
    page = (EXAMPLES / "README.md").read_text()
    command = page.split("$ ullage simulate ", 1)[1].split("```")[0].replace("\\\n", " ").split()
    without_report = command[: command.index("--report")]
    assert run(["simulate", *without_report, "-q", "-o", "json", "--jobs", "1"]) == 0
    said = capsys.readouterr()
    assert "can never run, left out: too-large (16 GPUs H100): NodeTooSmall" in said.err
    found = json.loads(said.out)
    assert [group["label"] for group in found["groups"]] == ["fragmentation", "policy"]
    assert found["headline"]


def test_every_folder_is_in_the_page_and_every_kind_of_ours_has_an_example() -> None:
    page = (EXAMPLES / "README.md").read_text()
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert not [folder for folder in sorted(folders) if f"[{folder}](" not in page]
    kinds = {one["kind"] for path in MANIFESTS for one in documents(path)}
    made_by_users = {definition.resource.kind for definition in OURS} - {"GpuNodeStatus"}
    assert made_by_users <= kinds
