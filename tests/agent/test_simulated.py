"""Boards by name."""

import re

import pytest

from ullage.agent.simulated import SimulatedReader, read_gpu_set
from ullage.decide.inventory.known_gpus import KnownGpus, update_known_gpus
from ullage.errors import UserError


@pytest.mark.parametrize(
    ("text", "count", "model", "islands"),
    [
        pytest.param("8xH100-SXM", 8, "NVIDIA H100 80GB HBM3", {("nvlink-0", 450)}, id="hgx-h100"),
        pytest.param("8xH100", 8, "NVIDIA H100 80GB HBM3", {("nvlink-0", 450)}, id="short"),
        pytest.param("8xA100-SXM", 8, "NVIDIA A100-SXM4-80GB", {("nvlink-0", 300)}, id="hgx-a100"),
        pytest.param("4xa100-pcie", 4, "NVIDIA A100 80GB PCIe", {("", 0)}, id="pcie"),
        pytest.param("4xH100-NVL", 4, "NVIDIA H100 NVL", {("nvlink-0", 300), ("nvlink-2", 300)}, id="bridged"),
        pytest.param("8xV100-SXM", 8, "Tesla V100-SXM2-32GB", {("nvlink-0", 25), ("nvlink-4", 25)}, id="mesh"),
        pytest.param("L4", 1, "NVIDIA L4", {("", 0)}, id="one"),
        pytest.param("1xH100-SXM", 1, "NVIDIA H100 80GB HBM3", {("", 0)}, id="one-alone-has-no-island"),
    ],
)
async def test_a_board(text: str, count: int, model: str, islands: set[tuple[str, int]]) -> None:
    look = await SimulatedReader(read_gpu_set(text), "n").look(thorough=True)
    devices = update_known_gpus(KnownGpus(), look, xids={}).devices
    assert len({device.uuid for device in devices}) == count
    assert {device.model for device in devices} == {model}
    assert {(device.island, device.bandwidth) for device in devices} == islands


async def test_mig_instances_and_an_ill_gpu() -> None:
    gpus = read_gpu_set("4xH100,mig=3:1g.10gb*3,mig=3:4g.40gb,ill=1")
    devices = update_known_gpus(KnownGpus(), await SimulatedReader(gpus, "n").look(thorough=True), xids={}).devices
    assert [device.health.value for device in devices] == ["Healthy", "Unhealthy", "Healthy", "Healthy"]
    assert [one.profile for one in devices[3].mig] == ["1g.10gb"] * 3 + ["4g.40gb"]
    assert [one.memory >> 30 for one in devices[3].mig] == [10, 10, 10, 40]
    assert len({one.uuid for one in devices[3].mig}) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("4xH100,ill=4", "there is no GPU 4; they are numbered 0 to 3", id="no-such-gpu"),
        pytest.param("4xH100,mig=0:1g.10gb*7,mig=0:1g.10gb", "a GPU has 7 slices", id="eight-slices"),
        pytest.param("4xL4,mig=0:1g.40gb", "7 slices and 22 GiB", id="more-memory-than-it-has"),
        pytest.param("4xH100,mig=0:big", "'mig=0:big' is no part; expected mig=GPU:PROFILE", id="no-profile"),
    ],
)
def test_parts_that_make_no_sense(text: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        read_gpu_set(text)


@pytest.mark.parametrize("text", ["", "8x", "0xH100", "17xH100", "8xH1000", "8 x H100", "eight"])
def test_boards_nobody_knows(text: str) -> None:
    with pytest.raises(UserError, match="8xH100-SXM"):
        read_gpu_set(text)
