"""GPUs in use by pods that do not say so are offered to nobody: in plans and in the live picture alike."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.scenes import Scene, claim, leased, pod, read
from ullage.decide.scheduling.core import SchedulerCore
from ullage.model.fact_event import Added, Deleted, ObjectKey, Updated
from ullage.model.intents import BindPod
from ullage.model.lease import GpuLease, LeaseHold
from ullage.model.units import Instant

RUNNING = {"phase": "Running"}
LABELS = {"gpu.scheduling/node-kind": "leased"}
FOREIGN = pod("other", 4, on="a", schedulerName="default-scheduler") | {"status": RUNNING}
USED = {gpu: ["uid-other"] for gpu in range(4)}


def a_desk(*objects: Any) -> tuple[SchedulerCore, float]:
    """A scheduler that was told all of it, nodes first; and the time it is."""
    found = read(*objects).state
    now = max(one.reported_at for one in found.inventories.values())
    desk = SchedulerCore({"gpu-scheduler": "fragmentation"})
    for node in found.nodes.values():
        desk.apply(Added(ObjectKey("", node.name), node), now=now)
    for inventory in found.inventories.values():
        desk.apply(Added(ObjectKey("", inventory.node), inventory), now=now)
    for asked in found.claims.values():
        desk.apply(Added(asked.key, asked), now=now)
    for one in found.pods.values():
        desk.apply(Added(one.key, one), now=now)
    return desk, now


def free(desk: SchedulerCore) -> list[int]:
    """GPUs of node a nobody holds."""
    desk.next_decision(now=Instant(0.0))
    row = desk.snapshot.columns.rows["a"]
    return [gpu for gpu in range(8) if desk.snapshot.columns.gpus.free.item(row, gpu) == 1000]


CASES = {
    "another scheduler's pod": ([FOREIGN], USED, [4, 5, 6, 7]),
    "a pod that asked for none": (
        [pod("other", on="a") | {"status": RUNNING}],
        {2: ["uid-other"]},
        [0, 1, 3, 4, 5, 6, 7],
    ),
    "a pod that is gone and runs on": ([], {5: ["uid-gone"]}, [0, 1, 2, 3, 4, 6, 7]),
    "more than it was given": (
        [pod("other", 1, on="a", held="0") | {"status": RUNNING}],
        {0: ["uid-other"], 1: ["uid-other"]},
        [2, 3, 4, 5, 6, 7],
    ),
    "its own": ([pod("other", 1, on="a", held="0") | {"status": RUNNING}], {0: ["uid-other"]}, [1, 2, 3, 4, 5, 6, 7]),
}


@pytest.mark.parametrize(("pods", "used", "expected"), CASES.values(), ids=CASES)
def test_plans_and_the_live_picture_offer_the_same(
    pods: list[Any], used: dict[int, list[str]], expected: list[int]
) -> None:
    objects = (leased("a", labels=LABELS, in_use=used), *pods)
    desk, _ = a_desk(*objects)
    planned = Scene(*objects).snapshot
    row = planned.columns.rows["a"]
    assert free(desk) == expected
    assert [gpu for gpu in range(8) if planned.columns.gpus.free.item(row, gpu) == 1000] == expected


def test_the_live_scheduler_gives_away_only_what_nobody_uses() -> None:
    new = pod("new", 2, claim="c", schedulerName="gpu-scheduler")
    desk, now = a_desk(leased("a", labels=LABELS, in_use=USED), FOREIGN, claim("c", 2), new)
    decision = desk.next_decision(now=Instant(now))
    assert isinstance(decision, BindPod)
    assert set(decision.devices) <= {4, 5, 6, 7}


def test_services_of_a_node_take_no_gpus() -> None:
    monitor = pod("dcgm", on="a") | {"status": RUNNING}
    monitor["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "dcgm", "uid": "d", "controller": True}
    ]
    desk, _ = a_desk(leased("a", labels=LABELS, in_use={gpu: ["uid-dcgm"] for gpu in range(8)}), monitor)
    assert free(desk) == list(range(8))


def test_it_is_free_again_when_the_agent_sees_nobody() -> None:
    desk, now = a_desk(leased("a", labels=LABELS, in_use=USED), FOREIGN)
    assert free(desk) == [4, 5, 6, 7]
    before = desk.snapshot.state.inventories["a"]
    after = replace(before, devices=tuple(replace(one, in_use_by=()) for one in before.devices))
    desk.apply(Updated(ObjectKey("", "a"), before, after), now=Instant(now))
    gone = desk.snapshot.state.pods[ObjectKey("team", "other")]
    desk.apply(Deleted(gone.key, gone), now=Instant(now))
    assert free(desk) == list(range(8))


def test_what_a_lease_holds_already_is_not_held_twice() -> None:
    desk, now = a_desk(leased("a", labels=LABELS, in_use={0: ["uid-gone"]}))
    lease = GpuLease(
        name="gpu-a-0",
        node="a",
        device=0,
        holds=(LeaseHold("uid-gone"),),
        shared=False,
        renewed=Instant(now),
        resource_version="1",
    )
    desk.apply(Added(ObjectKey("ullage-system", "gpu-a-0"), lease), now=Instant(now))
    assert free(desk) == [1, 2, 3, 4, 5, 6, 7]
    assert desk.snapshot.columns.gpus.held.item(desk.snapshot.columns.rows["a"], 0) == 1000
