"""GPUs that ResourceClaims hold are nobody else's."""

import pytest

from ullage.model.device import Device, Inventory
from ullage.model.device_claim import AllocatedDevice, DeviceClaim
from ullage.model.event import Appeared, Changed, ObjectKey, Vanished
from ullage.model.node import Node
from ullage.model.resources import GPU
from ullage.state.audit import drifted
from ullage.state.cluster import ClusterState
from ullage.state.device_claims import gpus_of
from ullage.state.dump import dump, load
from ullage.state.placements import Placements


def a_claim(name: str, *devices: str, node: str = "n") -> DeviceClaim:
    held = tuple(AllocatedDevice(node, device) for device in devices)
    return DeviceClaim(key=ObjectKey("team", name), uid=name, devices=held)


def placements(*facts: DeviceClaim) -> Placements:
    devices = tuple(Device(id=gpu, uuid=f"GPU-{gpu}", model="H100", memory=1 << 30) for gpu in range(4))
    node = Node(
        name="n", uid="n", created=0.0, ready=True, unschedulable=False, labels={}, taints=(), allocatable={GPU: 4000}
    )
    found = Placements()
    found.apply(Appeared(ObjectKey("", "n"), node))
    found.apply(Appeared(ObjectKey("", "n"), Inventory(node="n", reported_at=0.0, devices=devices)))
    for fact in facts:
        found.apply(Appeared(fact.key, fact))
    return found


def free(found: Placements) -> list[int]:
    return [int(amount) for amount in found.columns.gpus.free[found.columns.rows["n"]][:4]]


def counted(found: Placements) -> int:
    return int(found.columns.used[found.columns.resource(GPU), found.columns.rows["n"]])


@pytest.mark.parametrize(
    ("device", "gpus"),
    [
        pytest.param("gpu-0", (0,), id="a-gpu"),
        pytest.param("gpu-11", (11,), id="two-digits"),
        pytest.param("gpu-3-mig-1g10gb-0", (3,), id="a-part-takes-the-whole"),
        pytest.param("gpu-16", tuple(range(16)), id="beyond-the-most"),
        pytest.param("mig-abc", tuple(range(16)), id="nobody-knows-which"),
    ],
)
def test_which_gpu_a_device_is(device: str, gpus: tuple[int, ...]) -> None:
    assert gpus_of(device) == gpus


def test_held_gpus_are_not_free_and_are_counted() -> None:
    found = placements(a_claim("a", "gpu-0"), a_claim("b", "gpu-2"))
    assert free(found) == [0, 1000, 0, 1000]
    assert counted(found) == 2000
    assert list(drifted(found)) == []


def test_two_parts_of_one_gpu_hold_it_once() -> None:
    found = placements(a_claim("a", "gpu-1-mig-1g10gb-0"), a_claim("b", "gpu-1-mig-1g10gb-1"))
    assert free(found) == [1000, 0, 1000, 1000]
    assert counted(found) == 1000
    found.apply(Vanished(ObjectKey("team", "a"), a_claim("a", "gpu-1-mig-1g10gb-0")))
    assert free(found) == [1000, 0, 1000, 1000]


def test_what_is_given_back_is_free_again() -> None:
    found = placements(a_claim("a", "gpu-0", "gpu-1"))
    found.apply(Changed(ObjectKey("team", "a"), a_claim("a", "gpu-0", "gpu-1"), a_claim("a", "gpu-1")))
    assert free(found) == [1000, 0, 1000, 1000]
    found.apply(Vanished(ObjectKey("team", "a"), a_claim("a", "gpu-1")))
    assert free(found) == [1000] * 4
    assert counted(found) == 0
    assert dict(found.pods) == {}


def test_a_device_nobody_can_name_closes_the_node() -> None:
    assert free(placements(a_claim("a", "something"))) == [0] * 4


def test_claims_heard_before_the_node_hold_it_when_it_comes() -> None:
    state = ClusterState()
    claim = a_claim("a", "gpu-3")
    state.apply(Appeared(claim.key, claim))
    source = placements()
    state.apply(Appeared(ObjectKey("", "n"), source.state.nodes["n"]))
    state.apply(Appeared(ObjectKey("", "n"), source.state.inventories["n"]))
    assert free(Placements(state)) == [1000, 1000, 1000, 0]


def test_a_dump_keeps_them() -> None:
    found = placements(a_claim("a", "gpu-0"))
    again, _ = load(dump(found.state, now=1.0))
    assert dict(again.device_claims) == dict(found.state.device_claims)
