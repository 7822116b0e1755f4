"""GPUs that ResourceClaims hold are nobody else's."""

from ullage.model.device import Device, Inventory
from ullage.model.device_claim import AllocatedDevice, DeviceClaim, DeviceSlice
from ullage.model.event import Appeared, Changed, ObjectKey, Vanished
from ullage.model.node import Node
from ullage.model.resources import GPU
from ullage.state.audit import drifted
from ullage.state.cluster import ClusterState
from ullage.state.dump import dump, load
from ullage.state.placements import Placements


def a_claim(name: str, *devices: str, node: str = "n") -> DeviceClaim:
    held = tuple(AllocatedDevice(node, node, device) for device in devices)
    return DeviceClaim(key=ObjectKey("team", name), uid=name, devices=held)


SLICE = DeviceSlice(
    key=ObjectKey("", "slice"),
    pool="n",
    gpus=(("gpu-0", "GPU-0"), ("gpu-1", "GPU-1"), ("gpu-7", "GPU-3"), ("part-a", "GPU-1"), ("part-b", "GPU-1")),
)
"""The driver's numbers are its own: its gpu-7 is our GPU 3."""


def placements(*facts: DeviceClaim) -> Placements:
    devices = tuple(Device(id=gpu, uuid=f"GPU-{gpu}", model="H100", memory=1 << 30) for gpu in range(4))
    node = Node(
        name="n", uid="n", created=0.0, ready=True, unschedulable=False, labels={}, taints=(), allocatable={GPU: 4000}
    )
    found = Placements()
    found.apply(Appeared(ObjectKey("", "n"), node))
    found.apply(Appeared(ObjectKey("", "n"), Inventory(node="n", reported_at=0.0, devices=devices)))
    found.apply(Appeared(SLICE.key, SLICE))
    for fact in facts:
        found.apply(Appeared(fact.key, fact))
    return found


def free(found: Placements) -> list[int]:
    return [int(amount) for amount in found.columns.gpus.free[found.columns.rows["n"]][:4]]


def counted(found: Placements) -> int:
    return int(found.columns.used[found.columns.resource(GPU), found.columns.rows["n"]])


def test_held_gpus_are_not_free_and_are_counted() -> None:
    found = placements(a_claim("a", "gpu-0"), a_claim("b", "gpu-7"))
    assert free(found) == [0, 1000, 1000, 0]
    assert counted(found) == 2000
    assert list(drifted(found)) == []


def test_two_parts_of_one_gpu_hold_it_once() -> None:
    found = placements(a_claim("a", "part-a"), a_claim("b", "part-b"))
    assert free(found) == [1000, 0, 1000, 1000]
    assert counted(found) == 1000
    found.apply(Vanished(ObjectKey("team", "a"), a_claim("a", "part-a")))
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
    found = placements(a_claim("a", "something"))
    assert free(found) == [0] * 4
    assert counted(found) == 1000, "it is one GPU, whichever"


def test_it_is_open_again_when_the_driver_says_which_gpu_it_is() -> None:
    found = placements(a_claim("a", "late"))
    more = DeviceSlice(key=ObjectKey("", "more"), pool="n", gpus=(("late", "GPU-2"),))
    found.apply(Appeared(more.key, more))
    assert free(found) == [1000, 1000, 0, 1000]
    found.apply(Vanished(more.key, more))
    assert free(found) == [0] * 4


def test_a_report_that_comes_later_tells_which_gpus_are_held() -> None:
    found = placements(a_claim("a", "gpu-7"))
    known = found.state.inventories["n"]
    without = Inventory(node="n", reported_at=1.0, devices=known.devices[:3])
    found.apply(Changed(ObjectKey("", "n"), known, without))
    assert free(found) == [0] * 4, "GPU-3 is none of those reported: it may be any"
    found.apply(Changed(ObjectKey("", "n"), without, known))
    assert free(found) == [1000, 1000, 1000, 0]
    assert list(drifted(found)) == []


def test_claims_heard_before_the_node_hold_it_when_it_comes() -> None:
    state = ClusterState()
    claim = a_claim("a", "gpu-7")
    state.apply(Appeared(SLICE.key, SLICE))
    state.apply(Appeared(claim.key, claim))
    source = placements()
    state.apply(Appeared(ObjectKey("", "n"), source.state.nodes["n"]))
    state.apply(Appeared(ObjectKey("", "n"), source.state.inventories["n"]))
    assert free(Placements(state)) == [1000, 1000, 1000, 0]


def test_a_dump_keeps_them() -> None:
    found = placements(a_claim("a", "gpu-0"))
    again, _ = load(dump(found.state, now=1.0))
    assert dict(again.device_claims) == dict(found.state.device_claims)
    assert dict(again.device_slices) == dict(found.state.device_slices)
