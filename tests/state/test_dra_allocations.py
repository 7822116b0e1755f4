"""GPUs that ResourceClaims hold are nobody else's."""

from ullage.model.device import Inventory
from ullage.model.dra import AllocatedDevice, ResourceClaim, ResourceSlice
from ullage.model.fact_event import Added, Deleted, ObjectKey, Updated
from ullage.model.resources import GPU
from ullage.model.units import Instant
from ullage.state.cluster import ClusterState
from ullage.state.dump import dump, load
from ullage.state.snapshot import ClusterSnapshot
from ullage.testing.checks.audit import drifted
from ullage.testing.facts import device_fact, inventory_fact, node_fact


def a_claim(name: str, *devices: str, node: str = "n") -> ResourceClaim:
    held = tuple(AllocatedDevice(node, node, device) for device in devices)
    return ResourceClaim(key=ObjectKey("team", name), uid=name, devices=held)


SLICE = ResourceSlice(
    key=ObjectKey("", "slice"),
    pool="n",
    gpus=(("gpu-0", "GPU-0"), ("gpu-1", "GPU-1"), ("gpu-7", "GPU-3"), ("part-a", "GPU-1"), ("part-b", "GPU-1")),
    parts=("part-a", "part-b"),
)
"""The driver's numbers are its own: its gpu-7 is our GPU 3."""


def snapshot(*facts: ResourceClaim) -> ClusterSnapshot:
    node = node_fact("n", allocatable={GPU: 4000})
    found = ClusterSnapshot()
    found.apply(Added(ObjectKey("", "n"), node))
    found.apply(Added(ObjectKey("", "n"), inventory_fact("n", *map(device_fact, range(4)))))
    found.apply(Added(SLICE.key, SLICE))
    for fact in facts:
        found.apply(Added(fact.key, fact))
    return found


def free(found: ClusterSnapshot) -> list[int]:
    return [int(amount) for amount in found.columns.gpus.free[found.columns.rows["n"]][:4]]


def counted(found: ClusterSnapshot) -> int:
    return int(found.columns.used[found.columns.resource(GPU), found.columns.rows["n"]])


def test_held_gpus_are_not_free_and_are_counted() -> None:
    found = snapshot(a_claim("a", "gpu-0"), a_claim("b", "gpu-7"))
    assert free(found) == [0, 1000, 1000, 0]
    assert counted(found) == 2000
    assert list(drifted(found)) == []


def test_two_parts_of_one_gpu_hold_it_once() -> None:
    found = snapshot(a_claim("a", "part-a"), a_claim("b", "part-b"))
    assert free(found) == [1000, 0, 1000, 1000]
    assert counted(found) == 1000
    found.apply(Deleted(ObjectKey("team", "a"), a_claim("a", "part-a")))
    assert free(found) == [1000, 0, 1000, 1000]


def test_what_is_given_back_is_free_again() -> None:
    found = snapshot(a_claim("a", "gpu-0", "gpu-1"))
    found.apply(Updated(ObjectKey("team", "a"), a_claim("a", "gpu-0", "gpu-1"), a_claim("a", "gpu-1")))
    assert free(found) == [1000, 0, 1000, 1000]
    found.apply(Deleted(ObjectKey("team", "a"), a_claim("a", "gpu-1")))
    assert free(found) == [1000] * 4
    assert counted(found) == 0
    assert dict(found.pods) == {}


def test_a_device_nobody_can_name_closes_the_node() -> None:
    found = snapshot(a_claim("a", "something"))
    assert free(found) == [0] * 4
    assert counted(found) == 1000, "it is one GPU, whichever"


def test_it_is_open_again_when_the_driver_says_which_gpu_it_is() -> None:
    found = snapshot(a_claim("a", "late"))
    more = ResourceSlice(key=ObjectKey("", "more"), pool="n", gpus=(("late", "GPU-2"),))
    found.apply(Added(more.key, more))
    assert free(found) == [1000, 1000, 0, 1000]
    found.apply(Deleted(more.key, more))
    assert free(found) == [0] * 4


def test_a_report_that_comes_later_tells_which_gpus_are_held() -> None:
    found = snapshot(a_claim("a", "gpu-7"))
    known = found.state.inventories["n"]
    without = Inventory(node="n", reported_at=Instant(1.0), devices=known.devices[:3])
    found.apply(Updated(ObjectKey("", "n"), known, without))
    assert free(found) == [0] * 4, "GPU-3 is none of those reported: it may be any"
    found.apply(Updated(ObjectKey("", "n"), without, known))
    assert free(found) == [1000, 1000, 1000, 0]
    assert list(drifted(found)) == []


def test_claims_heard_before_the_node_hold_it_when_it_comes() -> None:
    state = ClusterState()
    claim = a_claim("a", "gpu-7")
    state.apply(Added(SLICE.key, SLICE))
    state.apply(Added(claim.key, claim))
    source = snapshot()
    state.apply(Added(ObjectKey("", "n"), source.state.nodes["n"]))
    state.apply(Added(ObjectKey("", "n"), source.state.inventories["n"]))
    assert free(ClusterSnapshot(state)) == [1000, 1000, 1000, 0]


def test_a_dump_keeps_them() -> None:
    found = snapshot(a_claim("a", "gpu-0"))
    again, _ = load(dump(found.state, now=Instant(1.0)))
    assert dict(again.device_claims) == dict(found.state.device_claims)
    assert dict(again.device_slices) == dict(found.state.device_slices)


def test_gpus_of_ours_are_withheld_by_the_names_the_driver_uses() -> None:
    found = snapshot()
    report = found.state.inventories["n"]

    def withheld(*gpus: int) -> dict[int, tuple[str, ...]]:
        return {one.device: tuple(name for _, name in one.names) for one in found.device_claims.withheld(gpus, report)}

    assert withheld(3, 1) == {3: ("gpu-7",), 1: ("gpu-1",)}, "a GPU itself stands for its parts"
    assert withheld(2) == {}, "no driver publishes it"
    assert found.device_claims.withheld((0,), None) == ()
    only_parts = ResourceSlice(key=SLICE.key, pool="n", gpus=SLICE.gpus[3:], parts=SLICE.parts)
    found.apply(Updated(SLICE.key, SLICE, only_parts))
    assert withheld(0, 1) == {1: ("part-a", "part-b")}
    found.apply(Deleted(SLICE.key, only_parts))
    assert withheld(0, 1) == {}
