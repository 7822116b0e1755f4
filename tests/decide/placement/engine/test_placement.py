"""Where a pod goes: fit, devices and score in one answer, and the same answer in words."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.decide.scenes import A100, Scene, claim, leased, node, pod, report
from ullage.decide.explain.rejections import node_rejections, rejections_of
from ullage.decide.placement.engine import NoFit, Placement, PlacementEngine, hold
from ullage.decide.placement.filters.codes import FITS, REASONS
from ullage.decide.placement.prefilter import with_claim
from ullage.decide.placement.score.policies import POLICIES
from ullage.model.fact_event import ObjectKey, Updated
from ullage.model.pod import Pod
from ullage.model.units import Instant
from ullage.model.verdict import Reason

MIG = {0: [("1g.10gb", "10Gi"), ("1g.10gb", "10Gi"), ("3g.40gb", "40Gi")]}


def ready(scene: Scene, name: str) -> Pod:
    found = with_claim(scene.pod(name), scene.snapshot)
    assert isinstance(found, Pod)
    return found


def placed(scene: Scene, name: str = "waits", policy: str = "fragmentation") -> Placement | NoFit:
    return PlacementEngine(scene.snapshot, policy).place(ready(scene, name), now=Instant(scene.now))


def refused(scene: Scene, name: str = "waits") -> Reason:
    answer = placed(scene, name)
    assert isinstance(answer, NoFit)
    (reason,) = answer.reasons
    return reason


@pytest.mark.parametrize("policy", POLICIES)
def test_a_claim_gets_free_gpus_of_one_island(policy: str) -> None:
    scene = Scene(
        leased("a"),
        pod("runs", 2, on="a", held="0,1"),
        claim("four", 4, topology={"mode": "Required"}),
        pod("waits", claim="four"),
    )
    answer = placed(scene, policy=policy)
    assert isinstance(answer, Placement)
    assert answer.node == "a"
    assert answer.choice is not None
    assert answer.choice.ids == (4, 5, 6, 7)
    assert answer.uuids == ("GPU-a-4", "GPU-a-5", "GPU-a-6", "GPU-a-7")
    assert answer.score is not None


@pytest.mark.parametrize(
    ("devices", "reason"),
    [
        pytest.param({"count": 8}, Reason.INSUFFICIENT_RESOURCES, id="more-than-are-free"),
        pytest.param({"count": 9}, Reason.NODE_TOO_SMALL, id="more-than-there-are"),
        pytest.param({"count": 1, "model": "B200"}, Reason.GPU_MODEL_MISMATCH, id="another-model"),
        pytest.param({"count": 1, "memory": "90Gi"}, Reason.GPU_MEMORY_TOO_SMALL, id="more-memory"),
        pytest.param({"count": 1, "policy": "preferIds", "preferIds": [0]}, Reason.PREFERRED_GPUS_TAKEN, id="that-one"),
        pytest.param({"count": 6}, Reason.GPUS_UNHEALTHY, id="more-than-are-healthy"),
        pytest.param({"exclusivity": "MIG", "memory": "5Gi"}, Reason.NO_MIG_INSTANCE, id="not-split"),
    ],
)
def test_why_a_leased_node_refuses(devices: dict[str, object], reason: Reason) -> None:
    wanted = claim("wanted", devices=devices)
    scene = Scene(leased("a", ill=(5, 6, 7)), pod("runs", 1, on="a", held="0"), wanted, pod("waits", claim="wanted"))
    assert refused(scene) is reason


def test_a_node_without_a_report_is_counted() -> None:
    scene = Scene(node("a", 4), pod("runs", 3, on="a"), pod("one", 1), pod("two", 2))
    answer = placed(scene, "one")
    assert isinstance(answer, Placement)
    assert answer.choice is not None
    assert answer.choice.ids == ()
    assert refused(scene, "two") is Reason.INSUFFICIENT_RESOURCES


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param({"devices": {"model": "H100"}}, Reason.INVENTORY_MISSING, id="a-model"),
        pytest.param(
            {"devices": {"count": 2}, "topology": {"mode": "Required"}}, Reason.INVENTORY_MISSING, id="one-island"
        ),
        pytest.param(
            {"devices": {"exclusivity": "Shared", "memory": "1Gi"}}, Reason.NO_ROOM_FOR_SHARE, id="a-part-of-one"
        ),
        pytest.param({"devices": {"exclusivity": "MIG", "memory": "1Gi"}}, Reason.NO_MIG_INSTANCE, id="an-instance"),
    ],
)
def test_what_nobody_can_promise_on_a_counted_node_is_refused(spec: dict[str, Any], reason: Reason) -> None:
    assert refused(Scene(node("a", 4), claim("wanted", **spec), pod("waits", claim="wanted"))) is reason


def test_an_old_report_is_not_believed() -> None:
    scene = Scene(leased("fresh", 1), leased("stale", at="2030-01-01T11:58:00Z"), pod("waits", 2))
    said = PlacementEngine(scene.snapshot).explain(scene.pod("waits"), now=Instant(scene.now))
    assert said["stale"].reason is Reason.INVENTORY_STALE
    assert "120 s ago" in said["stale"].detail


def test_shares_fill_a_gpu_and_no_more() -> None:
    shared = claim("quarter", devices={"exclusivity": "Shared", "memory": "20Gi"})
    scene = Scene(leased("a", 1), shared, [pod(f"p{n}", template="quarter") for n in range(5)])
    engine = PlacementEngine(scene.snapshot)
    for n in range(4):
        member = ready(scene, f"p{n}")
        answer = engine.place(member, now=Instant(scene.now))
        assert isinstance(answer, Placement)
        hold(scene.snapshot, member, answer)
    assert refused(scene, "p4") is Reason.NO_ROOM_FOR_SHARE


def test_an_instance_is_given_once() -> None:
    wanted = claim("small", devices={"exclusivity": "MIG", "memory": "8Gi"})
    scene = Scene(leased("a", 1, mig=MIG), wanted, [pod(f"p{n}", template="small") for n in range(4)])
    engine = PlacementEngine(scene.snapshot)
    given: list[str] = []
    for n in range(3):
        member = ready(scene, f"p{n}")
        answer = engine.place(member, now=Instant(scene.now))
        assert isinstance(answer, Placement)
        given += answer.uuids
        hold(scene.snapshot, member, answer)
    assert sorted(given) == ["MIG-a-0-0", "MIG-a-0-1", "MIG-a-0-2"]
    assert refused(scene, "p3") is Reason.NO_MIG_INSTANCE


def test_a_node_whose_label_says_counted_is_not_leased_whatever_its_agent_says() -> None:
    counted = node("a", 8, labels={"gpu.scheduling/node-kind": "counted"})
    answer = placed(Scene(counted, report("a"), pod("waits", 1)))
    assert isinstance(answer, Placement)
    assert answer.choice is not None
    assert answer.choice.ids == ()


def _with_a_size(asked: dict[str, Any]) -> dict[str, Any]:
    """Parts of GPUs must say how large they are."""
    return asked if asked.get("exclusivity", "Exclusive") == "Exclusive" else {"memory": "30Gi"} | asked


ASKS = st.fixed_dictionaries(
    {"count": st.integers(1, 9)},
    optional={
        "model": st.sampled_from(("H100", "A100", "B200")),
        "memory": st.sampled_from(("30Gi", "60Gi", "90Gi")),
        "exclusivity": st.sampled_from(("Exclusive", "Shared", "MIG")),
    },
).map(_with_a_size)


@settings(max_examples=60, deadline=None)
@given(devices=ASKS, mode=st.sampled_from(("Required", "Preferred", "Ignore")), held=st.sets(st.integers(0, 7)))
def test_codes_words_and_grounds_agree(devices: dict[str, object], mode: str, held: set[int]) -> None:
    running = [pod("runs", len(held), on="a", held=",".join(map(str, sorted(held))))] if held else []
    scene = Scene(
        leased("a"),
        leased("b", 4, model=A100, memory="40Gi", island=2, ill=(1,)),
        leased("c", 2, mig={0: MIG[0]}),
        leased("d", at="2030-01-01T11:00:00Z"),
        node("e", 4),
        node("f"),
        running,
        claim("wanted", devices=devices, topology={"mode": mode}),
        pod("waits", claim="wanted"),
    )
    engine, waiting = PlacementEngine(scene.snapshot), ready(scene, "waits")
    codes = engine.codes(waiting, now=Instant(scene.now))
    words = engine.explain(waiting, now=Instant(scene.now))
    by_code = {name: REASONS[codes[row]] for name, row in scene.snapshot.columns.rows.items()}
    assert by_code == {name: verdict.reason for name, verdict in words.items()}
    told = {rejection.reason: rejection.nodes for rejection in node_rejections(engine, waiting, now=Instant(scene.now))}
    assert told == {rejection.reason: rejection.nodes for rejection in rejections_of(words)}
    answer = engine.place(waiting, now=Instant(scene.now))
    assert isinstance(answer, Placement) == (FITS in codes)
    if isinstance(answer, Placement):
        assert words[answer.node]
        assert answer.fitting == sum(map(bool, words.values()))


MADE_UP = {f"made-up.example/{number}": "1" for number in range(300)}


@pytest.mark.parametrize(
    ("waiting", "reason"),
    [
        pytest.param(pod("waits", requests=MADE_UP), Reason.NODE_TOO_SMALL, id="resources"),
        pytest.param(pod("waits", nodeSelector=MADE_UP), Reason.NODE_SELECTOR_MISMATCH, id="labels"),
    ],
)
def test_made_up_names_are_refused_and_leave_nothing_behind(waiting: dict[str, Any], reason: Reason) -> None:
    scene = Scene(node("a"), waiting)
    columns, labels = scene.snapshot.columns, scene.snapshot.labels
    before = columns.used.shape, columns.allocatable.shape, len(labels)
    assert refused(scene) is reason
    assert (columns.used.shape, columns.allocatable.shape, len(labels)) == before


def test_a_resource_that_a_node_begins_to_offer_is_found() -> None:
    scene = Scene(node("a"), node("b"), pod("waits", requests={"fpga.example/card": "1"}))
    engine = PlacementEngine(scene.snapshot)
    assert isinstance(engine.place(scene.pod("waits"), now=Instant(scene.now)), NoFit)
    before = scene.snapshot.state.nodes["b"]
    after = replace(before, allocatable={**before.allocatable, "fpga.example/card": 2000})
    scene.snapshot.apply(Updated(ObjectKey("", "b"), before, after))
    answer = engine.place(scene.pod("waits"), now=Instant(scene.now))
    assert isinstance(answer, Placement)
    assert answer.node == "b"


def test_a_full_node_stays_full_whatever_is_put_on_it() -> None:
    bullies = [pod(f"large-{number}", on="a", requests={"memory": "1Ei", "cpu": "9E"}) for number in range(9)]
    waits = pod("waits", requests={"memory": "256Gi"})
    scene = Scene(node("a"), pod("fills", on="a", requests={"memory": "512Gi"}), bullies, waits)
    assert refused(scene) is Reason.INSUFFICIENT_RESOURCES


def test_engines_of_two_policies_share_one_snapshot_and_answer_alike() -> None:
    """Filters and device answers are shared; each answers as if it were alone, whichever is asked first."""
    scene = Scene(leased("a", 4), leased("b", 8), *(pod(f"p{number}", number % 3 + 1) for number in range(6)))
    first = PlacementEngine(scene.snapshot)
    engines = {"fragmentation": first, "spread": PlacementEngine(scene.snapshot, "spread", beside=first)}
    for number in range(6):
        waiting, turn = ready(scene, f"p{number}"), list(engines)[number % 2]
        for policy, engine in engines.items():
            alone = PlacementEngine(scene.snapshot, policy, deepcopy(engine.mix))
            assert engine.place(waiting, now=Instant(scene.now)) == alone.place(waiting, now=Instant(scene.now))
        answer = engines[turn].place(waiting, now=Instant(scene.now))
        assert isinstance(answer, Placement)
        engines[turn].commit(waiting, answer)
