"""Who is to come back: counted among pods, whatever their controller believes."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.draining.fleets import NOW, WEB, Told, a_picture, node, pod
from ullage.decide.draining.deletion_tracker import MOST_OF_ONE_OWNER, behind, missing_at_start, still_missing
from ullage.model.draining import RecentEviction, WorkloadReplicas
from ullage.model.pod import Owner, Phase

DB = Owner("StatefulSet", "db", "uid-db")


def web(target: int, current: int | None = None, **facts: Any) -> dict[str, WorkloadReplicas]:
    known = WorkloadReplicas(
        uid=WEB.uid, kind="ReplicaSet", target=target, current=target if current is None else current, **facts
    )
    return {WEB.uid: known}


def evicted(*names: str, owner: Owner = WEB) -> list[RecentEviction]:
    return [RecentEviction(pod=replace(pod(name, "gone", owner=owner), uid=f"old-{name}"), at=NOW) for name in names]


def test_of_an_owner_as_many_as_it_is_short_of() -> None:
    there = a_picture(node("a"), pod("p", "a"), pod("q", "")).snapshot
    for target, names in {2: [], 3: ["e"], 4: ["e", "f"], 9: ["e", "f"]}.items():
        missing = still_missing(evicted("e", "f"), web(target, current=target), there)
        assert [one.key.name for one in missing] == names, target


@pytest.mark.parametrize(
    "not_there",
    [
        pytest.param({"deleting": True}, id="going"),
        pytest.param({"phase": Phase.SUCCEEDED}, id="over"),
        pytest.param({"owner": DB}, id="anothers"),
    ],
)
def test_who_counts_as_there(not_there: dict[str, Any]) -> None:
    there = a_picture(node("a"), pod("p", "a"), pod("q", "a", **not_there)).snapshot
    assert len(still_missing(evicted("e", "f"), web(2), there)) == 1


def test_where_the_owner_is_not_known_all_of_them() -> None:
    there = a_picture(node("a"), pod("p", "a")).snapshot
    assert len(still_missing(evicted("e", "f"), {}, there)) == 2


def test_a_pod_that_is_back_under_its_own_name() -> None:
    there = a_picture(node("a"), pod("e", "a", owner=DB)).snapshot
    assert still_missing(evicted("e", owner=DB), {}, there) == []


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        pytest.param(3, {WEB.uid}, id="counts-one-that-is-gone"),
        pytest.param(2, set(), id="has-noticed"),
        pytest.param(1, set(), id="counts-less"),
    ],
)
def test_owners_that_have_not_noticed(current: int, expected: set[str]) -> None:
    there = a_picture(node("a"), pod("p", "a"), pod("q", "a")).snapshot
    assert behind(evicted("e"), web(3, current), there) == expected
    assert behind([], web(3, current), there) == set()
    assert behind(evicted("e", owner=DB), web(3, current), there) == set()


HERE: tuple[Told, ...] = (node("a"), pod("p", "a", cpu=3), pod("q", "a", cpu=3, deleting=True))
TEMPLATE = pod("web", cpu=5)


@pytest.mark.parametrize(
    ("facts", "known", "expected"),
    [
        pytest.param(HERE, web(1), [], id="nobody-is-missing"),
        pytest.param(HERE, web(2), [("q", 3)], id="one-is-going"),
        pytest.param(HERE, web(4), [("q", 3), ("p#0", 3), ("p#1", 3)], id="others-are-gone-and-like-those-there"),
        pytest.param((node("a"),), web(1, template=TEMPLATE), [("web#0", 5)], id="all-are-gone-and-as-the-owner-says"),
        pytest.param((node("a"),), web(1), [], id="nobody-knows-what-they-are-like"),
        pytest.param((node("a"),), web(0, template=TEMPLATE), [], id="none-are-wanted"),
        pytest.param(HERE, {}, [], id="the-owner-is-not-known"),
    ],
)
def test_who_is_missing_at_a_start(
    facts: tuple[Told, ...], known: dict[str, WorkloadReplicas], expected: list[tuple[str, int]]
) -> None:
    missing = missing_at_start(known, a_picture(*facts).snapshot)
    assert [(one.key.name, one.requests["cpu"] // 1000) for one in missing] == expected
    assert all(not one.node and not one.deleting for one in missing if "#" in one.key.name)


def test_an_owner_that_can_never_have_what_it_wants_is_bounded() -> None:
    missing = missing_at_start(web(2**31 - 1), a_picture(*HERE).snapshot)
    assert len(missing) == MOST_OF_ONE_OWNER
    assert len({one.uid for one in missing}) == len({one.key for one in missing}) == MOST_OF_ONE_OWNER


def test_daemons_are_nobodys_to_look_after() -> None:
    daemons = {WEB.uid: WorkloadReplicas(uid=WEB.uid, kind="DaemonSet", target=3, current=1, template=TEMPLATE)}
    assert missing_at_start(daemons, a_picture(*HERE).snapshot) == []
