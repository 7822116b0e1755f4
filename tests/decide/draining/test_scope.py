"""Whose nodes may be drained, and how small a pool may become."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.draining.fleets import NOW, Told, a_picture, gpu_node, node, pod
from tests.decide.provisioning.pools import a_provisioner
from ullage.decide.draining.inputs import PoolMinimum
from ullage.decide.draining.scope import DrainScope, ScopeInputs, drain_scope
from ullage.model.instance import Instance, InstanceState
from ullage.model.node import Taint
from ullage.model.provisioner import Consolidation, ConsolidationPolicy, GpuTemplate, Provisioner
from ullage.model.units import Instant

DRAIN = Consolidation(policy=ConsolidationPolicy.DRAIN)
OURS = {"gpu.scheduling/provisioner": "pool"}
DOOMED = Taint("gpu.scheduling/deletion-time", "5", "NoSchedule")


def a_pool(**said: Any) -> Provisioner:
    plain: dict[str, Any] = {"min_utilization_percent": 0, "gpus": GpuTemplate(model="H100", count=4)}
    return replace(a_provisioner(**(plain | said)), consolidation=DRAIN)


def machines(*names: str, **facts: Any) -> list[Instance]:
    return [Instance(id=f"i-{name}", pool="pool", since=Instant(0.0), node=name, **facts) for name in names]


def ours(name: str, **facts: Any) -> Told:
    return gpu_node(name, labels=OURS, **facts)


def surveyed(*facts: Told, **said: Any) -> DrainScope:
    removing = said.pop("removing", ())
    plain: dict[str, Any] = {"provisioners": [a_pool()], "listed": ["simulated"], "instances": machines("a", "b", "c")}
    return drain_scope(ScopeInputs(**(plain | said)), a_picture(*facts).snapshot, removing=removing, now=NOW)


EMPTY_ONLY = replace(a_pool(), consolidation=Consolidation())


@pytest.mark.parametrize(
    ("said", "candidates"),
    [
        pytest.param({}, "abc", id="a-pool-that-is-drained"),
        pytest.param({"provisioners": [EMPTY_ONLY]}, "", id="one-that-is-not"),
        pytest.param({"provisioners": [a_pool(paused=True)]}, "", id="one-that-is-paused"),
        pytest.param({"provisioners": [a_pool(recommend_only=True)]}, "", id="one-that-only-recommends"),
        pytest.param({"provisioners": []}, "", id="one-that-nobody-knows"),
        pytest.param({"instances": machines("a")}, "a", id="machines-nobody-could-delete"),
        pytest.param({"instances": machines("a", state=InstanceState.STOPPING)}, "", id="machines-on-their-way-out"),
        pytest.param({"listed": []}, "", id="a-cloud-that-was-not-heard-of"),
    ],
)
def test_nodes_of_pools(said: dict[str, Any], candidates: str) -> None:
    assert surveyed(ours("a"), ours("b"), ours("c"), **said).candidates == set(candidates)


def test_nodes_that_are_still_coming_are_not_asked_about() -> None:
    bare = node("b", labels=OURS)
    fresh = replace(bare, created=NOW - 10)
    assert surveyed(ours("a"), fresh).candidates == {"a"}


def test_a_node_that_was_a_candidate_is_not_one_that_is_coming() -> None:
    marked = Taint("gpu.scheduling/drain-candidate", "5", "PreferNoSchedule")
    silent = replace(node("b", labels=OURS, ready=False, taints=(marked,)), created=NOW - 10)
    found = surveyed(ours("a"), silent)
    assert found.candidates == {"a", "b"}
    assert found.minimums["pool"].nodes == 2


def test_nodes_whose_cloud_was_not_heard_of_are_known_as_such() -> None:
    assert surveyed(ours("a"), node("x"), listed=[]).unlisted == {"a"}


@pytest.mark.parametrize(
    ("facts", "may_go"),
    [
        pytest.param({}, True, id="nobodys"),
        pytest.param({"unschedulable": True}, False, id="cordoned"),
        pytest.param({"labels": {"node-role.kubernetes.io/control-plane": ""}}, False, id="the-control-planes"),
        pytest.param({"labels": {"karpenter.sh/nodepool": "default"}}, False, id="karpenters"),
        pytest.param({"labels": {"gpu.scheduling/provisioner": "gone"}}, False, id="of-a-pool-that-is-gone"),
    ],
)
def test_nodes_of_no_pool(facts: dict[str, Any], may_go: bool) -> None:
    one = node("x", **facts)
    assert ("x" in surveyed(one, unmanaged=True).candidates) is may_go
    assert "x" not in surveyed(one).candidates


BUSY = pod("p", "a", gpus=(0, 1, 2))


@pytest.mark.parametrize(
    ("said", "facts", "removing", "minimum"),
    [
        pytest.param({}, {}, (), PoolMinimum(nodes=3), id="none"),
        pytest.param({"min_size": 2}, {}, (), PoolMinimum(nodes=3, least=2), id="size"),
        pytest.param({"min_unutilized_nodes": 1}, {}, (), PoolMinimum(nodes=3, least_empty=1), id="empty-nodes"),
        pytest.param({"min_size": 1}, {}, ("b",), PoolMinimum(nodes=2, least=1), id="one-that-goes-counts-as-gone"),
        pytest.param({}, {"taints": (DOOMED,)}, (), PoolMinimum(nodes=2), id="one-that-is-tainted-does-not-count"),
        # 3 of 12 GPUs are in use: two nodes of four meet 30 %, three do not.
        pytest.param({"min_utilization_percent": 30}, {}, (), PoolMinimum(nodes=3, least=2), id="use"),
        pytest.param({"min_utilization_percent": 20}, {}, (), PoolMinimum(nodes=3, least=3), id="in-use-enough"),
        pytest.param({"min_utilization_percent": 20}, {}, ("b",), PoolMinimum(nodes=2, least=3), id="and-one-goes"),
    ],
)
def test_floors(said: dict[str, Any], facts: dict[str, Any], removing: tuple[str, ...], minimum: PoolMinimum) -> None:
    found = surveyed(ours("a"), ours("b"), ours("c", **facts), BUSY, provisioners=[a_pool(**said)], removing=removing)
    assert found.minimums == {"pool": minimum}


def test_prices_and_machines_are_those_of_the_pool() -> None:
    found = surveyed(ours("a"), provisioners=[a_pool(price=7)])
    assert (found.prices["a"], found.machines["a"].id) == (7, "i-a")
