"""Which nodes can go together, and where their pods would go."""

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.draining.fleets import NOW, WEB, Told, a_picture, answer, going, gpu_node, node, planned, pod, staying
from ullage.decide.draining.inputs import DrainInputs, DrainPolicy, Limits, PlannerMemory, PoolMinimum
from ullage.decide.draining.planner import plan_drain
from ullage.model.draining import RecentEviction, RemovableNode, ScaleDownReason, WorkloadReplicas
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Taint
from ullage.model.pod import Phase
from ullage.model.pod_marks import SafeToEvict
from ullage.model.shape_terms import HostPort
from ullage.model.units import Instant, Milli


def test_pods_go_to_nodes_that_stay_and_those_are_searched_from_the_other_end() -> None:
    plan = planned(node("a"), node("b"), node("c"), pod("p", "a"), pod("q", "b"), pod("r", "c"))
    assert going(plan) == {"a": {"p": "c"}, "b": {"q": "c"}}
    assert staying(plan) == {"c": "DestinationOfOthers"}


def test_nodes_are_filled_to_the_brim_and_not_beyond() -> None:
    names = [f"n{place}" for place in range(10)]
    plan = planned(*map(node, names), *(pod(f"{name}-{place}", name) for name in names for place in range(4)))
    taken = Counter(move.to for one in plan.removable for move in one.moves)
    assert (len(plan.removable), set(taken.values()), len(taken)) == (6, {6}, 4)


def test_empty_nodes_go_first_and_need_no_room() -> None:
    plan = planned(node("a"), node("b"), pod("p", "a"))
    assert [(one.node, one.empty, one.reason) for one in plan.removable] == [("b", True, ScaleDownReason.EMPTY)]
    assert staying(plan) == {"a": "NoPlaceToMovePods"}
    assert answer(plan, "a").pod == ObjectKey("n", "p")
    assert answer(plan, "a").detail == "there is no other node"


def test_what_other_nodes_have_against_a_pod_is_told() -> None:
    tainted = node("t", taints=(Taint("dedicated", "x", "NoSchedule"),))
    plan = planned(
        node("a"), node("b", 2), node("c", 2), tainted, pod("p", "a", cpu=3), policy=DrainPolicy(used_milli=Milli(300))
    )
    assert answer(plan, "a").detail == "there is no other node"
    full = planned(node("a"), node("b", 4), pod("q", "b", cpu=3), tainted, pod("t", "t", cpu=9), pod("p", "a", cpu=3))
    assert answer(full, "a").detail == "1 TaintNotTolerated, 1 InsufficientResources"


def test_a_node_that_took_pods_is_no_candidate_though_it_is_little_used() -> None:
    plan = planned(node("a"), node("b"), pod("p", "a"), pod("q", "b"), pod("r", "b"))
    assert (going(plan), staying(plan)) == ({"a": {"p": "b"}}, {"b": "DestinationOfOthers"})


def test_least_disruption_goes_first_then_the_most_expensive() -> None:
    fleet: list[Told] = [*map(node, "abcd"), *(pod(f"p{name}", name) for name in "abcd"), pod("p", "a")]
    fleet += [node("full", 20), *(pod(f"f{place}", "full") for place in range(15))]
    plan = planned(*fleet, prices={"c": 3, "b": 2, "d": 2})
    assert [one.node for one in plan.removable] == ["c", "b", "d", "a"]


def test_of_dear_nodes_the_one_that_wastes_more_money_goes_first() -> None:
    fleet: list[Told] = [node("busy"), pod("p", "busy", cpu=4), node("idle"), pod("q", "idle")]
    fleet += [node("full", 20), *(pod(f"f{place}", "full") for place in range(15))]
    plan = planned(*fleet, prices={"busy": 4, "idle": 3})
    assert [one.node for one in plan.removable] == ["idle", "busy"], "2.7 and 2.4 are paid for nothing"


def test_what_waits_for_a_node_is_seated_before_anybody_is_moved() -> None:
    plan = planned(node("a"), node("b"), pod("p", "a"), pod("large", cpu=10))
    assert staying(plan) == {"a": "NoPlaceToMovePods", "b": "NotUnderutilized"}


def test_full_nodes_stay() -> None:
    plan = planned(node("a"), node("b"), pod("p", "a", cpu=6), pod("q", "b", cpu=5))
    assert staying(plan)["a"] == "NotUnderutilized"
    assert answer(plan, "a").detail == "60.0% in use"
    assert staying(plan)["b"] == "NoPlaceToMovePods"


def test_gpu_nodes_are_judged_by_their_gpus_alone() -> None:
    busy = pod("cpu", "g", cpu=60)
    plan = planned(gpu_node("g"), gpu_node("h"), busy, pod("train", "h", gpus=(0, 1, 2)))
    assert staying(plan)["h"] == "NotUnderutilized"
    assert going(plan) == {"g": {"cpu": "h"}}


def test_exact_gpus_move_only_where_exact_gpus_are() -> None:
    held = [pod("x", "g", gpus=(0,)), pod("y", "h", gpus=(0, 1, 2))]
    assert going(planned(gpu_node("g"), gpu_node("h"), *held)) == {"g": {"x": "h"}}
    stale = replace(gpu_node("h")[1], reported_at=0.0)
    plan = planned(gpu_node("g"), gpu_node("h")[0], stale, *held)
    assert staying(plan)["g"] == "NoPlaceToMovePods"


NODE_STORIES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "its-owner-keeps-it": ({"kept": True}, {}, "ScaleDownDisabled"),
    "others-may-go": ({}, {"candidates": {"b"}}, "NotACandidate"),
    "its-removal-has-begun": ({}, {"removing": {"a"}}, "BeingRemoved"),
    "it-is-tainted-for-removal": (
        {"taints": (Taint("gpu.scheduling/draining", "1", "NoSchedule"),)},
        {},
        "BeingRemoved",
    ),
    "it-is-doomed-by-its-pool": (
        {"taints": (Taint("gpu.scheduling/deletion-time", "1", "NoSchedule"),)},
        {},
        "BeingRemoved",
    ),
    "it-is-the-control-plane-s": ({"labels": {"node-role.kubernetes.io/control-plane": ""}}, {}, "NotACandidate"),
    "its-pool-is-at-its-minimum": (
        {"labels": {"gpu.scheduling/provisioner": "p"}},
        {"pools": {"p": PoolMinimum(nodes=3, least=3)}},
        "PoolMinimumReached",
    ),
    "its-pool-keeps-an-empty-node": (
        {"labels": {"gpu.scheduling/provisioner": "p"}},
        {"pools": {"p": PoolMinimum(nodes=3, least_empty=1)}},
        "PoolMinimumReached",
    ),
    "the-cluster-is-at-its-minimum": ({}, {"least_nodes": 2}, "ClusterMinimumReached"),
    "it-would-have-too-few-cores": ({}, {"least_resources": {"cpu": 10_001}}, "ClusterMinimumReached"),
}


@pytest.mark.parametrize(("facts", "known", "why"), NODE_STORIES.values(), ids=NODE_STORIES)
def test_nodes_that_stay_whatever_is_on_them(facts: dict[str, Any], known: dict[str, Any], why: str) -> None:
    plan = planned(node("a", **facts), node("b"), pod("p", "b", cpu=9), **known)
    assert staying(plan)["a"] == why


def test_minimums_are_counted_down() -> None:
    labels = {"gpu.scheduling/provisioner": "p"}
    nodes = [node(name, labels=labels) for name in "abcd"]
    plan = planned(*nodes, pools={"p": PoolMinimum(nodes=4, least=2)})
    assert list(going(plan)) == ["a", "b"]
    assert staying(plan) == {"c": "PoolMinimumReached", "d": "PoolMinimumReached"}


def test_unready_nodes_go_and_say_so_or_stay() -> None:
    plan = planned(node("a", ready=False), node("b"), pod("p", "b", cpu=9))
    assert [one.reason for one in plan.removable] == [ScaleDownReason.UNREADY]
    stays = planned(node("a", ready=False), node("b"), policy=DrainPolicy(unready_go=False))
    assert staying(stays)["a"] == "UnreadyNodesStay"


def test_pods_of_nodes_being_removed_must_still_have_a_place() -> None:
    fleet: list[Told] = [node("a"), node("b"), node("gone"), pod("q", "b", cpu=5), pod("p", "gone", cpu=8)]
    plan = planned(*fleet, removing={"gone"})
    # a takes p, which has to go somewhere; nothing is left for q.
    assert staying(plan) == {"a": "NotUnderutilized", "b": "NoPlaceToMovePods", "gone": "BeingRemoved"}
    without = planned(node("b"), node("gone"), pod("q", "b", cpu=5), pod("p", "gone", cpu=8), removing={"gone"})
    assert staying(without) == {"b": "DrainedPodsHaveNoPlace", "gone": "BeingRemoved"}


def test_nodes_that_were_promised_to_pods_are_not_removed() -> None:
    fleet: list[Told] = [*map(node, "abc"), node("gone"), pod("p", "gone"), pod("q", "a"), pod("r", "b"), pod("s", "c")]
    plan = planned(*fleet, removing={"gone"})
    promised = plan.memory.hints[ObjectKey("n", "p")]
    assert staying(plan)[promised] == "DestinationOfOthers"
    assert len(plan.removable) == 2


def evicted(name: str, cpu: int, ago: float = 10.0) -> RecentEviction:
    return RecentEviction(pod=pod(name, "gone", cpu=cpu), at=Instant(NOW - ago))


def test_pods_evicted_a_moment_ago_must_have_a_place_until_they_are_back() -> None:
    fleet: list[Told] = [node("a"), node("b"), pod("p", "a", cpu=2), pod("q", "b", cpu=2)]
    held_up = planned(*fleet, evictions=[evicted("e", 9)])
    assert staying(held_up) == {"a": "EvictedPodsHaveNoPlace", "b": "EvictedPodsHaveNoPlace"}
    assert going(planned(*fleet, evictions=[evicted("e", 9, ago=500.0)])) == {"a": {"p": "b"}}
    back = {"uid-web": WorkloadReplicas(uid="uid-web", kind="ReplicaSet", target=2, current=2)}
    assert going(planned(*fleet, evictions=[evicted("e", 9)], workloads=back)) == {"a": {"p": "b"}}
    # There are two: its own count is of before, and says nothing.
    one_short = {"uid-web": WorkloadReplicas(uid="uid-web", kind="ReplicaSet", target=3, current=3)}
    # Of two evicted pods one is back: room is kept for the other.
    plan = planned(*fleet, evictions=[evicted("e", 7), evicted("f", 7)], workloads=one_short)
    assert staying(plan) == {"a": "NoPlaceToMovePods", "b": "NotUnderutilized"}


def test_hints_are_followed_as_long_as_they_hold() -> None:
    fleet: list[Told] = [*map(node, "abc"), pod("p", "a"), pod("q", "b"), pod("r", "c", cpu=2)]
    hinted = PlannerMemory(hints={ObjectKey("n", "p"): "b"})
    plan = planned(*fleet, memory=hinted)
    assert going(plan)["a"] == {"p": "b"}
    assert plan.memory.hints[ObjectKey("n", "p")] == "b"
    assert plan.memory.older_hints == hinted.hints
    nowhere = PlannerMemory(hints={ObjectKey("n", "p"): "gone"})
    assert going(planned(*fleet, memory=nowhere)) == {"a": {"p": "c"}, "b": {"q": "c"}}


def test_a_node_without_places_for_its_pods_is_left_alone_for_a_while() -> None:
    first = planned(node("a"), node("b", 3), pod("p", "a", cpu=5))
    assert staying(first) == {"a": "NoPlaceToMovePods"}
    roomy: list[Told] = [node("a"), node("b", 12), pod("p", "a", cpu=5), pod("q", "b", cpu=7)]
    still = planned(*roomy, memory=first.memory, now=NOW + 299)
    assert staying(still) == {"a": "NoPlaceToMovePods", "b": "NotUnderutilized"}
    assert going(planned(*roomy, memory=still.memory, now=NOW + 300)) == {"a": {"p": "b"}}


def test_a_node_is_not_left_alone_for_a_pod_that_is_gone() -> None:
    first = planned(node("a"), pod("p", "a"))
    assert list(going(planned(node("a"), memory=first.memory))) == ["a"]


def test_time_may_be_up_but_not_before_the_least_number_was_tried() -> None:
    nodes = [node(name) for name in "abcde"]
    plan = planned(*nodes, limits=Limits(least_tried=2), in_time=False)
    assert list(going(plan)) == ["a", "b"]
    assert staying(plan) == dict.fromkeys("cde", "NotReached")


def test_there_may_be_enough_candidates() -> None:
    plan = planned(*[node(name) for name in "abc"], limits=Limits(most_candidates=1))
    assert staying(plan) == {"b": "EnoughCandidates", "c": "EnoughCandidates"}


def test_a_pod_that_is_to_finish_first_makes_a_candidate_that_waits() -> None:
    slow = pod("slow", "a", marks={"safe_to_evict": SafeToEvict.ON_COMPLETION})
    plan = planned(node("a"), node("b"), slow, pod("p", "b", cpu=9))
    assert plan.removable == (
        RemovableNode(node="a", reason=ScaleDownReason.UNDERUTILIZED, waits_for=(ObjectKey("n", "slow"),)),
    )


def test_ports_are_not_taken_twice() -> None:
    shape = pod("x").shape
    ported = replace(shape, host_ports=(HostPort(port=80),))
    fleet: list[Told] = [*map(node, "abc"), *(pod(f"p{n}", n, shape=ported, cpu=0) for n in "abc")]
    assert staying(planned(*fleet)) == dict.fromkeys("abc", "NoPlaceToMovePods")
    assert going(planned(*fleet, node("d"), pod("d", "d", cpu=9))) == {"a": {"pa": "d"}}


def test_a_node_a_pod_is_being_bound_to_stays() -> None:
    assigner = a_picture(node("a"), pod("p"))
    assigner.snapshot.assume(pod("p"), "a")
    plan = plan_drain(assigner, DrainInputs(), DrainPolicy(), now=NOW)
    assert staying(plan) == {"a": "DestinationOfOthers"}


def test_a_node_that_is_being_made_free_for_a_pod_stays() -> None:
    plan = planned(node("a"), node("b"), pod("large", cpu=10, nominated="a"))
    assert (list(going(plan)), staying(plan)) == (["b"], {"a": "DestinationOfOthers"})


def test_pods_that_are_over_are_in_nobodys_way() -> None:
    plan = planned(
        node("a"), pod("p", "a", phase=Phase.SUCCEEDED, owner=None), pod("d", "a", owner=replace(WEB, kind="DaemonSet"))
    )
    assert [one.empty for one in plan.removable] == [True]


def test_candidates_keep_their_time_and_leaving_resets_it() -> None:
    first = planned(node("a"), node("b"))
    assert first.memory.since == {"a": NOW, "b": NOW}
    second = planned(node("a"), node("b"), pod("p", "b", cpu=9), memory=first.memory, now=NOW + 60)
    assert second.memory.since == {"a": NOW}
    third = planned(node("a"), node("b"), memory=second.memory, now=NOW + 120)
    assert third.memory.since == {"a": NOW, "b": NOW + 120}


def test_who_is_not_reached_keeps_its_time() -> None:
    hurried: dict[str, Any] = {"limits": Limits(least_tried=1), "in_time": False}
    first = planned(node("a"), node("b"))
    second = planned(node("a"), node("b"), memory=first.memory, **hurried, now=NOW + 60)
    assert (staying(second), second.memory.since) == ({"b": "NotReached"}, {"a": NOW, "b": NOW})
    taint = Taint("gpu.scheduling/drain-candidate", str(int(NOW - 500)), "PreferNoSchedule")
    restarted = planned(node("a"), node("b", taints=(taint,)), node("c"), **hurried)
    assert restarted.memory.since == {"a": NOW, "b": NOW - 500}


def test_after_a_restart_taints_tell_since_when() -> None:
    taint = Taint("gpu.scheduling/drain-candidate", str(int(NOW - 500)), "PreferNoSchedule")
    plan = planned(node("a", taints=(taint,)), node("b"))
    assert plan.memory.since == {"a": NOW - 500, "b": NOW}


def test_the_cluster_keeps_cores_memory_and_gpus() -> None:
    """Counted down node by node. A node that offers none of what is scarce may go."""
    fleet: list[Told] = [*map(node, "abc"), gpu_node("g", labels={}), gpu_node("h", labels={})]
    kept = planned(*fleet, least_resources={"nvidia.com/gpu": 4000})
    assert staying(kept) == {"h": "ClusterMinimumReached"}
    assert answer(kept, "h").detail == "the cluster keeps 4 nvidia.com/gpu"
    cores = planned(*map(node, "abc"), least_resources={"cpu": 15_000})
    assert (list(going(cores)), set(staying(cores))) == (["a"], {"b", "c"})
    gone = planned(*map(node, "abc"), least_resources={"cpu": 20_000}, removing={"a"})
    assert going(gone) == {}, "what is being removed is not there any more"
    memory = planned(node("a"), least_resources={"memory": 2**40 * 1000})
    assert answer(memory, "a").detail == "the cluster keeps 1024 GiB of memory"
