"""kubelet asked over a real gRPC connection, and what becomes of bad answers."""

import socket as unix
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.kubelet import GPU, Kubelet, serving
from ullage.agent.podresources import AllocatedDevices, KubeletUnavailable, PodResources, _read_allocatable, _read_list
from ullage.model.fact_event import ObjectKey


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "kubelet.sock"


async def test_what_pods_were_given(socket: Path) -> None:
    kubelet = Kubelet(
        {
            ("team-a", "train"): [(GPU, ["GPU-0", "GPU-1"]), ("rdma/hca", ["mlx5_0"])],
            ("team-b", "x" * 200): [("nvidia.com/mig-1g.10gb", ["MIG-a"])],
            ("kube-system", "plain"): [],
        }
    )
    async with serving(kubelet, socket):
        given = await PodResources(socket).given()
    assert given == (
        AllocatedDevices(ObjectKey("team-a", "train"), GPU, ("GPU-0", "GPU-1")),
        AllocatedDevices(ObjectKey("team-b", "x" * 200), "nvidia.com/mig-1g.10gb", ("MIG-a",)),
    )


async def test_what_plugins_manage(socket: Path) -> None:
    async with serving(Kubelet(managed=[(GPU, ["GPU-0"]), ("rdma/hca", ["mlx5_0"])]), socket):
        assert await PodResources(socket).managed() == {"GPU-0"}
    async with serving(Kubelet(), socket):
        assert await PodResources(socket).managed() == frozenset()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"\x0a\x7f\x01", id="cut-off"),
        pytest.param(b"\x0b", id="a-kind-that-does-not-exist"),
        pytest.param(b"\x0a\x04\x1a\x02\x12\xff", id="cut-off-inside"),
        pytest.param(b"\xff" * 12, id="endless-number"),
    ],
)
async def test_answers_that_make_no_sense(socket: Path, answer: bytes) -> None:
    async with serving(Kubelet(broken=answer), socket):
        with pytest.raises(KubeletUnavailable, match=str(socket)):
            await PodResources(socket).given()


@given(st.binary(max_size=200))
def test_whatever_comes_is_read_or_refused(answer: bytes) -> None:
    for read in (_read_list, _read_allocatable):
        with suppress(ValueError):
            read(answer)


async def test_no_kubelet(socket: Path) -> None:
    with pytest.raises(KubeletUnavailable, match="is not there"):
        await PodResources(socket).given()


async def test_a_socket_nobody_listens_at(socket: Path) -> None:
    listener = unix.socket(unix.AF_UNIX)
    listener.bind(str(socket))
    listener.close()
    with pytest.raises(KubeletUnavailable, match="UNAVAILABLE"):
        await PodResources(socket).given()
