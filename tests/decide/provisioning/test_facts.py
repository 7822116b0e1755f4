"""What nodes a pool has, from what the cluster says and what the cloud lists."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.preemption.fleets import NOW, a_node, an_inventory, fleet
from tests.decide.provisioning.pools import a_provisioner
from ullage.decide.provisioning.pool_nodes import pool_nodes, with_their_nodes
from ullage.model.device import GpuNodeKind
from ullage.model.instance import Instance
from ullage.model.node import Node
from ullage.model.provisioner import PROVISIONER_LABEL, GpuTemplate, PoolNode

OURS = {PROVISIONER_LABEL: "pool"}
LATE = 10_000.0


def a_machine(name: str, **facts: Any) -> Instance:
    plain: dict[str, Any] = {"since": NOW, "node": name}
    return Instance(id=f"i-{name}", pool="pool", **(plain | facts))


def young(node: Node) -> Node:
    return replace(node, created=NOW)


def found(*facts: Any, machines: tuple[Instance, ...] = (), **said: Any) -> list[PoolNode]:
    snapshot = fleet(*facts).snapshot
    pool = a_provisioner(**said)
    return list(pool_nodes(pool, with_their_nodes(machines, snapshot), snapshot, now=NOW))


@pytest.mark.parametrize(
    ("node", "machine"),
    [
        pytest.param(a_node("a", 8, labels=OURS), a_machine("a"), id="by-its-name"),
        pytest.param(
            a_node("ip-10-0-0-1", 8, labels=OURS, provider_id="aws:///z/i-a"),
            a_machine("a", node="a.internal", provider_id="aws:///z/i-a"),
            id="by-what-its-cloud-calls-it",
        ),
        pytest.param(a_node("a", 8), a_machine("a"), id="before-it-has-our-label"),
    ],
)
def test_a_machine_and_its_node_are_one(node: Node, machine: Instance) -> None:
    """Else it would be given up as one that never joined, whatever runs on it."""
    (one,) = found(node, an_inventory(node.name, 8), machines=(replace(machine, since=NOW - LATE),))
    assert (one.name, one.instance, one.registered, one.failed_to_register) == (node.name, "i-a", True, False)


def test_a_node_of_another_pool_is_not_ours_whatever_the_cloud_says() -> None:
    theirs = a_node("a", 8, labels={PROVISIONER_LABEL: "theirs"})
    assert [one.registered for one in found(theirs, machines=(a_machine("a"),))] == [False]


def test_a_node_somebody_wants_to_keep_is_protected_before_it_is_asked() -> None:
    assert [one.protected for one in found(a_node("a", 8, labels=OURS, kept=True))] == [True]


@pytest.mark.parametrize(
    ("kind", "reported", "coming"),
    [
        pytest.param(GpuNodeKind.LEASED, False, True, id="ours-to-give-and-not-named-yet"),
        pytest.param(GpuNodeKind.LEASED, True, False, id="ours-to-give-and-named"),
        pytest.param(GpuNodeKind.COUNTED, False, False, id="a-device-plugin-gives-them"),
    ],
)
def test_gpus_that_nobody_can_have_yet_are_still_coming(kind: GpuNodeKind, reported: bool, coming: bool) -> None:
    facts = [young(a_node("a", 8, labels=OURS)), *([an_inventory("a", 8)] if reported else [])]
    (one,) = found(*facts, gpus=GpuTemplate(model="H100", count=8, kind=kind))
    assert (one.upcoming, one.failed_to_register) == (coming, False)


@pytest.mark.parametrize(
    ("reported", "lost"),
    [
        pytest.param(False, True, id="they-never-appeared"),
        pytest.param(True, False, id="they-were-there-and-come-back"),
    ],
)
def test_an_old_node_without_gpus(reported: bool, lost: bool) -> None:
    old = replace(a_node("a", 0, labels=OURS), created=NOW - LATE)
    (one,) = found(old, *([an_inventory("a", 8)] if reported else []))
    assert (one.upcoming, one.failed_to_register) == (False, lost)
