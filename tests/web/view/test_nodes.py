"""A node as a row of the map."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.web.worlds import NOW, World
from ullage.model.device import Device
from ullage.model.draining import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Owner
from ullage.model.provisioner import DELETION_TAINT
from ullage.model.units import Bytes
from ullage.web.view.model import DashboardModel
from ullage.web.view.patch import PageSection
from ullage.web.view.rows import NodeRow, PageInfo

Tell = Callable[[World], object]


def row_of(tell: Tell, *, now: float = NOW) -> NodeRow:
    """The row of node `n` after all this was told."""
    picture = DashboardModel()
    world = World(picture.observe)
    world.node("n", gpus=4, islands=2)
    tell(world)
    row = picture.patch(PageInfo(), now=now).sections[PageSection.NODES]["n"]
    assert isinstance(row, NodeRow)
    return row


def _shared(world: World) -> None:
    world.pod("a", node="n", ids=(0,), gpu_share=250)
    world.pod("b", node="n", ids=(0,), gpu_share=500)


def _leased_then_gone(world: World) -> None:
    world.pod("a", gpus=2, node="n", ids=(0, 1))
    world.remove_pod("a")


def _broken_under_a_pod(world: World) -> None:
    world.pod("a", gpus=1, node="n", ids=(2,))
    world.break_gpu("n", 2)


def _counted(world: World) -> None:
    world.counted("n")
    world.pod("a", gpus=3, node="n")


def _held_by_claim_status(world: World) -> None:
    from ullage.model.claim import ClaimPhase, DeviceRequest

    world.claim("c", DeviceRequest(count=2), phase=ClaimPhase.BOUND, node="n", gpu_ids=(2, 3))
    world.pod("a", node="n", claim="c")


def _without_report(world: World) -> None:
    from ullage.model.fact_event import Deleted

    world._hear(Deleted(ObjectKey("", "n"), world.inventories["n"]))
    world.pod("a", gpus=1, node="n")


STATES: list[tuple[str, Tell, str]] = [
    ("nobody", lambda _: None, "ffff"),
    ("exact GPUs of a pod", lambda world: world.pod("a", gpus=2, node="n", ids=(1, 2)), "fllf"),
    ("two parts of one GPU", _shared, "sfff"),
    ("a pod that left", _leased_then_gone, "ffff"),
    ("a pod that waits holds nothing", lambda world: world.pod("a", gpus=2), "ffff"),
    ("a lease nobody accounts for", lambda world: world.lease("n", 3, "uid-x"), "fffr"),
    ("a GPU that broke", lambda world: world.break_gpu("n", 0), "ufff"),
    ("a GPU that broke under a pod", _broken_under_a_pod, "ffuf"),
    ("counted GPUs", _counted, "lllf"),
    ("GPUs only the claim's status knows", _held_by_claim_status, "ffll"),
    ("a node nobody reported on", _without_report, "lfff"),
]


@pytest.mark.parametrize(("tell", "states"), [case[1:] for case in STATES], ids=[case[0] for case in STATES])
def test_every_gpu_has_a_state(tell: Tell, states: str) -> None:
    assert row_of(tell).states == states


def test_a_lease_that_was_let_go_is_free_again() -> None:
    assert row_of(lambda world: world.free(world.lease("n", 3, "uid-x"))).states == "ffff"


def test_islands_are_numbered_in_the_order_of_their_gpus() -> None:
    assert row_of(lambda _: None).islands == (0, 0, 1, 1)


def test_gpus_that_stand_alone_have_no_islands() -> None:
    alone = [Device(id=gpu, uuid=f"GPU-{gpu}", model="T4", memory=Bytes(1)) for gpu in (0, 3)]
    row = row_of(lambda world: world.devices("n", *alone))
    assert (row.islands, row.ids, row.model) == ((), (0, 3), "T4")


def test_who_has_which_gpus_is_told() -> None:
    row = row_of(lambda world: world.pod("a", gpus=2, node="n", ids=(1, 2)))
    assert [(one.pod, one.gpus, one.milli) for one in row.holders] == [("team/a", (1, 2), 1000)]


def test_parts_that_are_taken_are_told() -> None:
    assert row_of(_shared).taken == (750, 0, 0, 0)


GOING: list[tuple[str, str, str, float]] = [
    ("to be deleted", DELETION_TAINT, "deletion_time", NOW + 300),
    ("being drained", DRAINING_TAINT, "draining_since", NOW - 20),
    ("a candidate", CANDIDATE_TAINT, "candidate_since", NOW - 200),
]


@pytest.mark.parametrize(("taint", "field", "moment"), [case[1:] for case in GOING], ids=[case[0] for case in GOING])
def test_a_node_that_is_to_go_says_when(taint: str, field: str, moment: float) -> None:
    assert getattr(row_of(lambda world: world.taint("n", taint, moment)), field) == int(moment)


def test_a_deletion_time_nobody_can_read_never_comes() -> None:
    row = row_of(lambda world: world.taint("n", DELETION_TAINT, "soon"))
    assert row.deletion_time is not None
    assert row.deletion_time > NOW + 10 * 365 * 86400


def test_pods_that_go_with_their_node_need_not_leave() -> None:
    def tell(world: World) -> None:
        world.pod("mine", node="n")
        world.pod("daemon", node="n", owner=Owner("DaemonSet", "d", "uid-d"))

    assert row_of(tell).pods == 1


def test_a_node_whose_agent_fell_silent_is_stale() -> None:
    assert row_of(lambda _: None, now=NOW + 91).stale
    assert not row_of(lambda _: None, now=NOW + 89).stale


def test_a_node_of_a_pool_shows_its_gpus_before_they_are_there() -> None:
    picture = DashboardModel()
    world = World(picture.observe)
    world.pool("h100", gpus=8)
    world.node("n", gpus=0, pool="h100", ready=False)
    row = picture.patch(PageInfo(), now=NOW).sections[PageSection.NODES]["n"]
    assert isinstance(row, NodeRow)
    assert (row.states, row.model, row.ready) == ("cccccccc", "H100", False)


def test_a_node_without_gpus_and_pool_has_none() -> None:
    picture = DashboardModel()
    World(picture.observe).node("n", gpus=0)
    row = picture.patch(PageInfo(), now=NOW).sections[PageSection.NODES]["n"]
    assert isinstance(row, NodeRow)
    assert row.states == ""


def test_a_cordoned_node_says_so() -> None:
    assert row_of(lambda world: world.put_node(replace(world.nodes["n"], unschedulable=True))).cordoned
