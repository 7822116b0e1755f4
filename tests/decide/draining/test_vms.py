"""VMs on drained nodes: migrated where they may be, evicted only where that is said, placed with all they may use."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.decide.draining.fleets import NOW
from tests.decide.draining.test_recheck import NODE
from tests.state.test_vm_room import a_guest, a_node, a_pod, a_snapshot
from tests.vms import a_migration, a_vm, key, node_config, size, vm_config
from ullage.decide.draining.inputs import DrainInputs, DrainPlan, DrainPolicy, RuleSwitches
from ullage.decide.draining.pdb import RemainingPdbTracker
from ullage.decide.draining.planner import plan_drain
from ullage.decide.draining.recheck import EvictionOrder, RecheckStage, RemovalFacts, recheck
from ullage.decide.draining.relocation import DisplacedPods, unplaceable_pods
from ullage.decide.draining.rules import Drainability, DrainBlocked, DrainContext, drainability, next_rested
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.decide.vms.rest import MigrationStarts
from ullage.model.draining import PodMove, ScaleDownReason, UnremovableReason
from ullage.model.intents import RemoveNode
from ullage.model.pod import Owner, Phase, Pod
from ullage.model.pod_marks import SafeToEvict
from ullage.model.removal_plan import PlanViolation, RemovalPlan
from ullage.model.stepper import finish
from ullage.model.units import Instant, Milli, Seconds
from ullage.model.vm import MigrationPhase, Vm, VmAmounts
from ullage.state.snapshot import ClusterSnapshot

OWNER = Owner("VirtualMachine", "v", "vm-v")
USED = vm_config(node_config(watermark=0.8))
"""Nodes of 16 cores: 15 may be reserved, the watermark is at 12."""


def a_vm_pod(
    name: str, approved: VmAmounts | None, node: str = "a", *, safe: SafeToEvict | None = None, **facts: Any
) -> Pod:
    pod = a_guest(name, approved, node=node)
    marks = pod.marks if safe is None else msgspec.structs.replace(pod.marks, safe_to_evict=safe)
    return msgspec.structs.replace(pod, owner=OWNER, marks=marks, **facts)


def a_context(snapshot: ClusterSnapshot, **switches: Any) -> DrainContext:
    ledger = snapshot.vms.ledger if snapshot.vms.active else None
    return DrainContext(RuleSwitches(**switches), RemainingPdbTracker({}), {}, frozenset(), NOW, ledger)


FIXED = a_vm("v", size(4, 16), migratable=False)
FREE = a_vm("v", size(4, 16))
RULES: dict[str, tuple[Vm, dict[str, Any], dict[str, Any], Drainability | UnremovableReason]] = {
    "may-be-migrated": (FREE, {}, {}, Drainability.MIGRATE),
    "migrated-though-it-is-safe-to-evict": (FREE, {"safe": SafeToEvict.YES}, {}, Drainability.MIGRATE),
    "said-to-be-unsafe": (FREE, {"safe": SafeToEvict.NO}, {}, UnremovableReason.NOT_REPLICATED),
    "rests": (a_vm("v", size(4, 16), last_migration=NOW - 100), {}, {}, UnremovableReason.VM_NOT_NOW),
    "has-rested": (a_vm("v", size(4, 16), last_migration=NOW - 1800), {}, {}, Drainability.MIGRATE),
    "migrated-in-the-future": (a_vm("v", size(4, 16), last_migration=NOW + 9e9), {}, {}, UnremovableReason.VM_NOT_NOW),
    "approval-not-known": (FREE, {"approved": None}, {}, UnremovableReason.VM_NOT_NOW),
    "may-not-be-migrated": (FIXED, {}, {}, UnremovableReason.VM_NOT_MIGRATABLE),
    "annotated-to-be-evicted": (FIXED, {"safe": SafeToEvict.YES}, {}, Drainability.EVICT),
    "set-to-be-evicted": (FIXED, {}, {"evict_vms": True}, Drainability.EVICT),
    "over": (FREE, {"phase": Phase.FAILED}, {}, Drainability.SKIP),
}


@pytest.mark.parametrize(("vm", "facts", "switches", "expected"), RULES.values(), ids=RULES)
def test_what_becomes_of_a_vm(
    vm: Vm, facts: dict[str, Any], switches: dict[str, Any], expected: Drainability | UnremovableReason
) -> None:
    facts = dict(facts)
    pod = a_vm_pod("v", facts.pop("approved", size(4, 16)), **facts)
    found = drainability(pod, a_context(a_snapshot(a_node("a"), vm, pod, config=USED), **switches))
    assert (found.reason if isinstance(found, DrainBlocked) else found) is expected


def test_a_migration_recorded_in_the_future_keeps_the_node_for_one_rest_and_not_until_then() -> None:
    pod, starts = a_vm_pod("v", size(4, 16)), MigrationStarts()
    vm = a_vm("v", size(4, 16), last_migration=NOW + 5000)
    snapshot = a_snapshot(a_node("a"), vm, pod, config=USED)
    context = replace(a_context(snapshot), vm_starts=starts)
    ledger, rest = snapshot.vms.ledger, Seconds(1800.0)
    assert isinstance(drainability(pod, context), DrainBlocked)
    assert next_rested(ledger, rest, starts, now=Instant(NOW + 10)) == NOW + 1800, "no event tells it"
    starts.keep(ledger.vms())
    assert isinstance(drainability(pod, context.at(Instant(NOW + 1799))), DrainBlocked)
    for later in (1800, 5001):
        assert drainability(pod, context.at(Instant(NOW + later))) is Drainability.MIGRATE
    starts.keep(())
    assert isinstance(drainability(pod, context.at(Instant(NOW + 5001))), DrainBlocked), "forgotten, and lately by now"


def test_a_vm_on_its_way_is_migrated_and_one_that_comes_keeps_the_node() -> None:
    pod = a_vm_pod("v", size(4, 16))
    resting = a_vm("v", size(4, 16), last_migration=NOW - 5)
    snapshot = a_snapshot(a_node("a"), resting, pod, a_migration("v"), config=USED)
    assert drainability(pod, a_context(snapshot)) is Drainability.MIGRATE
    assert pod.vm is not None
    coming = msgspec.structs.replace(pod, vm=msgspec.structs.replace(pod.vm, incoming=True))
    found = drainability(coming, a_context(a_snapshot(a_node("a"), FREE, coming, a_migration("v"), config=USED)))
    assert isinstance(found, DrainBlocked)
    assert found.reason is UnremovableReason.VM_NOT_NOW


def plan(*facts: Any) -> DrainPlan:
    """A plan for node a alone."""
    snapshot = a_snapshot(a_node("a"), a_node("b"), *facts, config=USED)
    inputs = DrainInputs(candidates=frozenset({"a"}))
    return plan_drain(PodAssigner(snapshot), inputs, DrainPolicy(used_milli=Milli(1000)), now=NOW)


@pytest.mark.parametrize(
    ("approved", "used_elsewhere", "goes"),
    [
        pytest.param(size(4, 16), 8, True, id="up-to-the-watermark"),
        pytest.param(size(4, 16), 9, False, id="not-above-it"),
        pytest.param(size(6, 16), 8, False, id="by-what-it-may-use-and-not-by-what-it-uses"),
        pytest.param(size(6, 16), 6, True, id="with-room-for-all-it-may-use"),
    ],
)
def test_a_plan_has_room_for_all_that_a_vm_may_use(approved: VmAmounts, used_elsewhere: int, goes: bool) -> None:
    other = a_vm("w", size(used_elsewhere, 8)), a_vm_pod("w", size(used_elsewhere, 8), "b")
    found = plan(FREE, a_vm_pod("v", approved), *other)
    if goes:
        (removable,) = found.removable
        assert removable.moves == (PodMove(key("v"), "b"),)
    else:
        (stays,) = [one for one in found.unremovable if one.node == "a"]
        assert stays.reason is UnremovableReason.NO_PLACE
        assert "VmInsufficientRoom" in stays.detail


PLAN = RemovalPlan(
    intent=RemoveNode(node="a", reason=ScaleDownReason.UNDERUTILIZED, evict=(PodMove(key("v"), "b"),), why="a test"),
    uid="a",
    pods={key("v"): "pod-v", key("web"): "pod-web"},
    has_vms=True,
)


def checked(snapshot: ClusterSnapshot, *pods: Pod, **switches: Any) -> EvictionOrder | PlanViolation:
    facts = RemovalFacts(context=a_context(snapshot, **switches), node=NODE, pods=pods)
    return recheck(PLAN, facts, RecheckStage.BEFORE_EVICTION, now=NOW)


def test_a_recheck_orders_migrations_beside_evictions() -> None:
    guest, web = a_vm_pod("v", size(4, 16)), msgspec.structs.replace(a_pod("web", "a"), owner=Owner("Job", "j", "u"))
    order = checked(a_snapshot(a_node("a"), FREE, guest, web, config=USED), guest, web)
    assert isinstance(order, EvictionOrder)
    assert (order.evict, order.migrating) == ((web,), (guest,))
    (start,) = order.migrate
    assert (start.vm, start.pod.key, start.name, start.at) == (FREE, key("v"), "ullage-v", NOW)


def test_a_vm_on_its_way_is_waited_for_and_not_started_again() -> None:
    guest = a_vm_pod("v", size(4, 16))
    order = checked(a_snapshot(a_node("a"), FREE, guest, a_migration("v"), config=USED), guest)
    assert isinstance(order, EvictionOrder)
    assert (order.evict, order.migrate, order.migrating) == ((), (), (guest,))


def test_a_vm_that_may_not_be_migrated_any_more_keeps_the_node() -> None:
    guest = a_vm_pod("v", size(4, 16))
    found = checked(a_snapshot(a_node("a"), FIXED, guest, config=USED), guest)
    assert isinstance(found, PlanViolation)
    assert found.failure.value == "PodMustStay"
    assert "VmNotMigratable" in found.detail


@pytest.mark.parametrize(
    ("migration", "unplaced"),
    [
        pytest.param((), {"a": key("v")}, id="no-migration"),
        pytest.param((a_migration("v"),), {}, id="on-its-way"),
        pytest.param((a_migration("v", MigrationPhase.FAILED),), {"a": key("v")}, id="failed"),
    ],
)
def test_a_vm_on_its_way_needs_no_second_place(migration: tuple[Any, ...], unplaced: dict[str, Any]) -> None:
    other = a_vm("w", size(12, 8)), a_vm_pod("w", size(12, 8), "b")
    snapshot = a_snapshot(a_node("a"), a_node("b"), FREE, a_vm_pod("v", size(4, 16)), *other, *migration, config=USED)
    leaving = DisplacedPods(nodes={"a": [key("v")]})
    with snapshot.what_if():
        assert finish(unplaceable_pods(PodAssigner(snapshot), leaving, now=NOW)) == unplaced
