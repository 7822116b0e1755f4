"""Chaos: stories are data, seeds are stories, planted bugs are found, and failing stories shrink."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ullage.errors import UserError
from ullage.kube.client.transport import Request
from ullage.sim.apiserver.network_faults import Latency, NetworkFault
from ullage.sim.chaos import liveness
from ullage.sim.chaos.aimed import SELDOM
from ullage.sim.chaos.coverage import FaultCoverage, call_site
from ullage.sim.chaos.generate import generated_story
from ullage.sim.chaos.network import POSSIBLE, VERBS, ChaosNetwork
from ullage.sim.chaos.run import play
from ullage.sim.chaos.shrink import shrunk
from ullage.sim.chaos.story import (
    ChaosFault,
    ChaosJob,
    ChaosNode,
    ChaosPool,
    ChaosStory,
    FaultKind,
    JobKind,
    read_story,
    story_in_lines,
    write_story,
)

HELD = ChaosJob(name="a", at=10.0, kind=JobKind.CLAIM)
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))
SEEDS = 60


def test_a_story_is_read_as_it_was_written() -> None:
    story = generated_story(7)
    assert read_story(write_story(story, "why"), "a.json") == story


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(b"{", "a.json: Input data was truncated", id="no-json"),
        pytest.param(b"{}", "a.json: not a chaos story", id="another-file"),
        pytest.param(b'{"format":"ullage-chaos/1","story":{"seed":1,"nodes":[{"gpus":"x"}]}}', "nodes", id="bad-field"),
    ],
)
def test_a_file_that_is_no_story_is_refused_by_name(text: bytes, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        read_story(text, "a.json")


def test_seeds_differ_and_are_the_same_again() -> None:
    assert generated_story(1) == generated_story(1)
    assert generated_story(1) != replace(generated_story(2), seed=1)


@pytest.mark.parametrize(
    ("request_", "site"),
    [
        (Request("POST", "/api/v1/namespaces/a/pods/b/binding"), "s create pods/binding"),
        (Request("GET", "/apis/gpu.scheduling/v1/gpuclaims", query={"watch": "true"}), "s watch gpuclaims"),
        (Request("GET", "/api/v1/namespaces/a/pods"), "s list pods"),
        (Request("GET", "/api/v1/nodes/n"), "s get nodes"),
        (Request("PATCH", "/apis/gpu.scheduling/v1/nodeprovisioners/p/status"), "s patch nodeprovisioners/status"),
    ],
)
def test_a_call_site_is_a_process_a_verb_and_a_resource(request_: Request, site: str) -> None:
    assert call_site("s", request_) == site


def _call(method: str, path: str) -> Request:
    return Request(method, path)


def test_a_fault_of_one_verb_leaves_other_calls_alone_and_all_are_counted() -> None:
    met = FaultCoverage()
    network = ChaosNetwork("scheduler-2", 1, Latency(), met)
    end = network.begin(ChaosFault(at=0.0, kind=FaultKind.THROTTLED, amount=1.0, only="delete"))
    pods = "/api/v1/namespaces/a/pods/b"
    assert network.fault(_call("GET", pods)) is None
    assert network.fault(_call("DELETE", pods)) is NetworkFault.THROTTLED
    end()
    network.begin(ChaosFault(at=0.0, kind=FaultKind.SLOW, amount=1.0))
    network.begin(ChaosFault(at=0.0, kind=FaultKind.PARTITION))
    assert network.fault(_call("GET", pods)) is None
    assert not network.reaches(_call("GET", pods))
    assert met.faults == {
        ("scheduler delete pods", "429"): 1,
        ("scheduler get pods", "slow-calls"): 1,
        ("scheduler get pods", "partition"): 1,
    }
    assert ("scheduler delete pods", "409", 0) in met.missing(20, POSSIBLE)


def test_a_fault_of_one_call_site_strikes_its_next_call_and_no_later_one() -> None:
    met = FaultCoverage()
    network = ChaosNetwork("scheduler-2", 1, Latency(), met)
    end = network.begin(ChaosFault(at=0.0, kind=FaultKind.BROKEN, amount=1.0, only="scheduler delete pods"))
    pods, nodes = "/api/v1/namespaces/a/pods/b", "/api/v1/nodes/n"
    assert [network.fault(_call(*one)) for one in (("DELETE", nodes), ("GET", pods))] == [None, None]
    assert [network.fault(_call("DELETE", pods)) for _ in range(2)] == [NetworkFault.BROKEN, None]
    end()
    network.begin(ChaosFault(at=0.0, kind=FaultKind.BROKEN, amount=1.0, only="controller delete"))
    assert network.fault(_call("DELETE", pods)) is None
    network.begin(ChaosFault(at=0.0, kind=FaultKind.BROKEN, amount=1.0, only="scheduler delete"))
    assert [network.fault(_call("DELETE", one)) for one in (pods, nodes)] == [NetworkFault.BROKEN] * 2


def test_seldom_calls_of_what_is_in_a_story_are_aimed_at() -> None:
    aimed = Counter[str]()
    for seed in range(400):
        story = generated_story(seed)
        sites = [one.only for one in story.faults if one.at_one_site]
        aimed.update(sites)
        assert story.vms or not any("virtualmachine" in one for one in sites)
        assert story.real_agents or not any(one.startswith("agent ") for one in sites)
    assert set(aimed) == {f"{process} {call}" for process, calls in SELDOM.items() for call in calls}


def test_a_fault_of_lists_comes_with_what_makes_a_process_list_again() -> None:
    found = 0
    for seed in range(60):
        faults = generated_story(seed).faults
        for one in (one for one in faults if one.only == "list"):
            found += 1
            soon = {other.kind for other in faults if one.at < other.at < one.at + 0.5 and other.pick in (0, one.pick)}
            assert {FaultKind.COMPACT, FaultKind.CUT_WATCHES} <= soon
    assert found > 5


@pytest.mark.story
def test_a_process_lists_again_under_a_fault_of_lists() -> None:
    faults = (
        ChaosFault(at=30.0, kind=FaultKind.BROKEN, pick=1, seconds=20.0, amount=0.5, only="list"),
        ChaosFault(at=30.1, kind=FaultKind.COMPACT),
        ChaosFault(at=30.2, kind=FaultKind.CUT_WATCHES, pick=1),
    )
    result = play(ChaosStory(seed=9, nodes=(ChaosNode(gpus=2),), jobs=(HELD,), faults=faults, ends_at=60.0))
    met = {site for site, kind in result.coverage.faults if kind == "500"}
    assert result.failure is None
    assert len(met) > 5
    assert {site.split(" ")[1] for site in met} == {"list"}


def test_every_call_that_is_not_a_watch_can_meet_a_crash() -> None:
    crashes = {"crash-before-a-call", "crash-after-a-call", "process-stopped-after-a-call"}
    assert {verb for verb in VERBS if crashes <= set(POSSIBLE[verb])} == set(VERBS) - {"watch"}
    assert set(POSSIBLE["watch"]) >= {"410", "watches-behind", "watches-cut", "partition"}


def test_shrinking_leaves_only_what_is_needed() -> None:
    story = generated_story(7)
    needed = story.faults[-1]

    def fails(candidate: ChaosStory) -> bool:
        return needed in candidate.faults and len(candidate.jobs) >= 2

    found = shrunk(story, fails)
    assert found.story.faults == (needed,)
    assert len(found.story.jobs) == 2
    assert not found.story.pools
    assert not found.story.nodes
    assert len(story_in_lines(found.story)) <= 40


@pytest.mark.story
@pytest.mark.fault
@pytest.mark.parametrize("seed", range(SEEDS))
def test_promises_are_kept(seed: int) -> None:
    result = play(generated_story(seed))
    assert result.failure is None, (result.failure, story_in_lines(result.story))
    assert result.coverage.injected


@pytest.mark.story
@pytest.mark.fault
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_stories_that_once_failed_pass(path: Path) -> None:
    result = play(read_story(path.read_bytes(), path.name))
    assert result.failure is None, result.failure


A_LOST_LEASE = ChaosStory(
    seed=1,
    nodes=(ChaosNode(gpus=2),),
    jobs=(ChaosJob(name="a", at=10.0, kind=JobKind.CLAIM),),
    faults=(ChaosFault(at=60.0, kind=FaultKind.DELETE_LEASE),),
    ends_at=100.0,
)


@pytest.mark.story
def test_a_lease_that_is_not_restored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(A_LOST_LEASE).failure is None
    monkeypatch.setattr("ullage.control.leases.restore.LeaseRestoring.observe", lambda *_: None)
    failure = play(A_LOST_LEASE).failure
    assert failure is not None
    assert failure.rule == "a bound pod's GPUs are leased to it"


@pytest.mark.story
def test_a_machine_that_nobody_gives_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    story = ChaosStory(
        seed=2,
        nodes=(),
        pools=(ChaosPool(name="p", most=1),),
        jobs=(ChaosJob(name="a", at=10.0, kind=JobKind.CLAIM, leaves_at=30.0),),
        faults=(ChaosFault(at=1.0, kind=FaultKind.CLOUD_NEVER_JOINS),),
        ends_at=100.0,
    )
    assert play(story).failure is None
    monkeypatch.setattr(liveness, "REST_SECONDS", 30.0)
    failure = play(story).failure
    assert failure is not None
    assert failure.rule == "no machine is left behind"


@pytest.mark.story
def test_an_empty_pool_buys_once_for_a_pod_that_agents_keep_off_and_never_again() -> None:
    """Nothing in this cluster shows what agents do before the first node is there."""
    story = ChaosStory(
        seed=4,
        nodes=(),
        pools=(ChaosPool(name="p", most=2),),
        jobs=(ChaosJob(name="a", at=10.0, kind=JobKind.WHOLE),),
        real_agents=True,
        ends_at=60.0,
    )
    assert play(story).failure is None


@pytest.mark.story
def test_a_claim_that_is_not_protected_before_the_bind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    story = ChaosStory(
        seed=3,
        nodes=(ChaosNode(gpus=2),),
        jobs=(ChaosJob(name="a", at=10.0, kind=JobKind.CLAIM),),
        ends_at=30.0,
    )
    assert play(story).failure is None

    async def trusting(*_: object, **__: object) -> None:
        return None

    monkeypatch.setattr("ullage.act.claim_protection.ClaimProtection.ensure", trusting)
    monkeypatch.setattr("ullage.act.claim_protection.ClaimProtection.put", trusting)
    failure = play(story).failure
    assert failure is not None
    assert failure.rule == "a claim in use outlives its deletion"


@pytest.mark.story
def test_a_reservation_that_is_not_restored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    story = ChaosStory(
        seed=5,
        nodes=(ChaosNode(gpus=2),),
        jobs=(ChaosJob(name="a", at=10.0, kind=JobKind.CLAIM),),
        faults=(ChaosFault(at=60.0, kind=FaultKind.DELETE_RESERVATION),),
        dra=True,
        ends_at=100.0,
    )
    result = play(story)
    assert (result.failure, result.coverage.injected["user-deletes-reservation"]) == (None, 1)
    monkeypatch.setattr("ullage.control.leases.reservations.ReservationKeeping.observe", lambda *_: None)
    failure = play(story).failure
    assert failure is not None
    assert failure.rule == "a leased GPU is withheld from ResourceClaims"


@pytest.mark.story
@pytest.mark.fault
@pytest.mark.parametrize(
    "kind", [FaultKind.DEVICE_PLUGIN, FaultKind.EDIT_LEASE, FaultKind.EDIT_ANNOTATIONS, FaultKind.MACHINE_DIES]
)
@pytest.mark.parametrize("real_agents", [False, True], ids=["agents-by-hand", "agents"])
def test_a_pod_keeps_its_gpus_whatever_is_done_to_the_objects_around_it(kind: FaultKind, real_agents: bool) -> None:
    story = ChaosStory(
        seed=6,
        nodes=(),
        pools=(ChaosPool(name="p", most=1, least=1),),
        jobs=(HELD, replace(HELD, name="b", at=150.0)),
        faults=(ChaosFault(at=120.0, kind=kind, seconds=60.0),),
        real_agents=real_agents,
        ends_at=200.0,
    )
    result = play(story)
    assert (result.failure, result.coverage.injected[kind.value]) == (None, 1)


@pytest.mark.story
def test_a_pod_with_a_volume_waits_for_the_node_that_reaches_it_and_for_no_other() -> None:
    job = ChaosJob(name="a", at=10.0, kind=JobKind.VOLUME, gpus=2, seconds=60.0)
    story = ChaosStory(
        seed=7, nodes=(ChaosNode(gpus=2), ChaosNode(gpus=4)), jobs=(job, replace(job, name="b")), ends_at=100.0
    )
    assert play(story).failure is None


@pytest.mark.story
@pytest.mark.parametrize("kind", [JobKind.CLAIM, JobKind.SHARED, JobKind.GANG], ids=lambda kind: kind.value)
def test_a_pod_that_is_passed_over_on_a_node_with_an_agent_is_found(
    kind: JobKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agents' taint keeps other pods off; one with a claim tolerates it, and may not be forgotten."""
    jobs = (replace(HELD, kind=kind),)
    story = ChaosStory(seed=8, nodes=(ChaosNode(gpus=4),), jobs=jobs, real_agents=True, ends_at=60.0)
    monkeypatch.setattr("ullage.control.scheduling.loop.SchedulerLoop._decide_some", lambda _: 0)
    monkeypatch.setattr("ullage.control.scheduling.loop.SchedulerLoop.longest_wait", lambda _: None)
    failure = play(story).failure
    assert failure is not None
    assert failure.rule == "nobody waits who could be placed"
