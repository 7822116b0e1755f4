"""VM pods and ordinary pods on VM nodes: refused with their reason, scored, and reserved in the ledger."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state.test_vm_room import a_guest, a_node, a_pod, a_snapshot
from tests.vms import GI, a_migration, a_vm, key, node_config, size, vm_config
from ullage.decide.placement.engine import NoFit, Placement
from ullage.decide.placement.score.vm import vm_score, vm_scores
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.node import Node
from ullage.model.pod import Phase, Pod
from ullage.model.shape import interned
from ullage.model.units import Instant
from ullage.model.verdict import Reason, Verdict
from ullage.model.vm import Vm, VmAmounts, VmMarks
from ullage.model.vm_config import NodeOverride
from ullage.state.snapshot import ClusterSnapshot


def waiting(name: str, *, vm: str = "", uid: str = "") -> Pod:
    """A pending pod of the VM with its name, unless another one is named."""
    pod = a_guest(name, None)
    return msgspec.structs.replace(
        pod, uid=uid or f"pod-{name}", node="", phase=Phase.PENDING, vm=VmMarks(name=vm or name)
    )


def ordinary(cpu: float, memory: float, *, unbounded: bool = False) -> Pod:
    pod = a_pod("web", "", size(cpu, memory))
    shape = interned(msgspec.structs.replace(pod.shape, unbounded=unbounded))
    return msgspec.structs.replace(pod, phase=Phase.PENDING, shape=shape)


def judged(snapshot: ClusterSnapshot, pod: Pod) -> dict[str, str]:
    """Reasons by node, and by every way of asking the same."""
    assigner = PodAssigner(snapshot)
    ready = assigner.entitled(pod)
    if isinstance(ready, Verdict):
        return {"": ready.reason.value}
    explained = {node: one.reason.value for node, one in assigner.engine.explain(ready, now=Instant(0.0)).items()}
    codes = assigner.engine.codes(ready, now=Instant(0.0))
    for node, reason in explained.items():
        assert list(Reason)[codes[snapshot.columns.rows[node]]].value == reason, node
        one = assigner.engine.place_on(ready, node, now=Instant(0.0))
        assert isinstance(one, Placement) == (reason == Reason.FITS)
    return explained


GOOD = a_vm("v", size(2, 8), size(4, 16), minimum=size(1, 4))


@pytest.mark.parametrize(
    ("vm", "reason", "detail"),
    [
        pytest.param(None, Reason.VM_MISSING, "VirtualMachine team/v is not there", id="no-virtual-machine"),
        pytest.param(
            a_vm("v", size(4, 8), size(3, 16), minimum=size(5, 4)),
            Reason.VM_AMOUNTS_INVALID,
            "min 5 CPU and 4Gi of memory, use 4 CPU and 8Gi of memory, max 3 CPU and 16Gi of memory",
            id="min-above-max",
        ),
        pytest.param(
            a_vm("v", size(8, 8), size(4, 16)), Reason.VM_AMOUNTS_INVALID, "use 8 CPU", id="use-outside-of-them"
        ),
        pytest.param(
            msgspec.structs.replace(GOOD, memory_slot=1 << 29),
            Reason.VM_SLOT_SIZE_MISMATCH,
            "memorySlotSize of VirtualMachine team/v is 512Mi, and nodes are counted in 1Gi",
            id="another-slot-size",
        ),
    ],
)
def test_a_vm_that_fits_nowhere_is_refused_with_its_reason(vm: Vm | None, reason: Reason, detail: str) -> None:
    facts: list[Any] = [a_node()] if vm is None else [a_node(), vm]
    verdict = PodAssigner(a_snapshot(*facts)).entitled(waiting("v"))
    assert isinstance(verdict, Verdict)
    assert verdict.reason is reason
    assert detail in verdict.detail


def test_without_the_kinds_a_vm_pod_waits_and_other_pods_do_not() -> None:
    snapshot = ClusterSnapshot()
    verdict = PodAssigner(snapshot).entitled(waiting("v"))
    assert isinstance(verdict, Verdict)
    assert verdict.reason is Reason.VM_MISSING
    assert isinstance(PodAssigner(snapshot).entitled(ordinary(1, 1)), Pod)


def test_room_ends_at_the_system_reserve() -> None:
    """15 cores and 63Gi may be reserved on each node of 16 and 64."""
    snapshot = a_snapshot(
        a_node("full"), a_node("free"), a_vm("b", size(14, 8)), a_guest("b", size(14, 8), node="full"), GOOD
    )
    assert judged(snapshot, waiting("v")) == {"full": "VmInsufficientRoom", "free": "Fits"}


def test_a_placed_vm_pod_is_reserved_with_its_use_and_given_back_with_its_bind() -> None:
    snapshot = a_snapshot(a_node(), GOOD)
    assigner = PodAssigner(snapshot)
    ready = assigner.entitled(waiting("v"))
    assert isinstance(ready, Pod)
    placed = assigner.assign_pod(ready, (), now=Instant(0.0))
    assert isinstance(placed, Placement)
    held = snapshot.pods[key("v")]
    assert held.vm is not None
    assert held.vm.approved == size(2, 8)
    assert snapshot.vms.ledger.ledger("n").reserved == size(2, 8)
    snapshot.forget(key("v"))
    assert not snapshot.vms.ledger.ledger("n").reserved


def test_the_target_of_a_migration_goes_elsewhere_with_all_that_the_source_may_use() -> None:
    source = a_guest("v", size(4, 16))
    snapshot = a_snapshot(a_node("n"), a_node("m"), GOOD, source, a_migration("v", source="v"))
    target = waiting("v-target", vm="v")
    assert judged(snapshot, target) == {"n": "VmInsufficientRoom", "m": "Fits"}
    ready = PodAssigner(snapshot).entitled(target)
    assert isinstance(ready, Pod)
    assert ready.shape.vm == size(4, 16)


def test_ordinary_pods_are_held_to_the_ledger_on_vm_nodes_alone() -> None:
    config = vm_config(node_config(), NodeOverride(("named",), node_config()))
    snapshot = a_snapshot(
        a_node("plain"), a_node("named"), a_node("shared"), a_vm("b", size(4, 8)),
        a_guest("b", size(4, 8), node="shared"), config=config,
    )  # fmt: skip
    large = {"plain": "Fits", "named": "VmInsufficientRoom", "shared": "InsufficientResources"}
    assert judged(snapshot, ordinary(15.5, 4)) == large
    assert judged(snapshot, ordinary(12, 4)) == {"plain": "Fits", "named": "Fits", "shared": "VmInsufficientRoom"}
    assert judged(snapshot, ordinary(11, 4)) == {"plain": "Fits", "named": "Fits", "shared": "Fits"}
    unbounded = {"plain": "Fits", "named": "UnboundedContainer", "shared": "Fits"}
    assert judged(snapshot, ordinary(1, 1, unbounded=True)) == unbounded


def test_a_permit_between_two_decisions_counts_for_the_second() -> None:
    snapshot = a_snapshot(a_node(), a_vm("b", size(1, 4)), a_guest("b", size(1, 4), "5"), GOOD)
    assert judged(snapshot, waiting("v")) == {"n": "Fits"}
    written = snapshot.vms.ledger.pod(key("b"))
    assert written is not None
    snapshot.vms.ledger.put_pod(msgspec.structs.replace(written, approved=size(14, 4), resource_version="6"))
    assert judged(snapshot, waiting("v")) == {"n": "VmInsufficientRoom"}
    snapshot.vms.ledger.put_pod(msgspec.structs.replace(written, approved=size(13, 4), resource_version="7"))
    assert judged(snapshot, waiting("v")) == {"n": "Fits"}


def test_vm_pods_pack_up_to_the_peak() -> None:
    """f peaks at 0.8: the node that the pod brings nearer to it from below wins; beyond it a node loses."""
    snapshot = a_snapshot(
        a_node("empty"), a_node("half"), a_node("nearly-full"), GOOD,
        a_vm("a", size(8, 32)), a_guest("a", size(8, 32), node="half"),
        a_vm("b", size(13, 52)), a_guest("b", size(13, 52), node="nearly-full"),
    )  # fmt: skip
    assigner = PodAssigner(snapshot)
    ready = assigner.entitled(waiting("v"))
    assert isinstance(ready, Pod)
    placed = assigner.assign_pod(ready, (), now=Instant(0.0))
    assert isinstance(placed, Placement)
    assert placed.node == "half"


def test_pods_in_bulk_take_room_and_give_it_back() -> None:
    snapshot = a_snapshot(a_node(), GOOD, a_vm("b", size(1, 4)), a_guest("b", size(1, 4)))
    ready = PodAssigner(snapshot).entitled(waiting("v"))
    assert isinstance(ready, Pod)
    row, before = snapshot.columns.rows["n"], snapshot.vms.ledger.ledger("n")
    with snapshot.what_if():
        snapshot.add_bulk(row, ready.shape, 3)
        snapshot.add_bulk(row, ordinary(2, 4).shape, 2)
        assert snapshot.vms.ledger.ledger("n").reserved == size(1 + 6 + 4, 4 + 24 + 8)
        assert snapshot.vms.free()[:, row].tolist() == [4000, 27 * GI]
    assert snapshot.vms.ledger.ledger("n") == before


SIZES = st.builds(size, st.integers(0, 64).map(lambda n: n / 4), st.integers(0, 64))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 32), st.integers(1, 128), SIZES), min_size=1, max_size=5), SIZES)
def test_scores_of_all_rows_equal_those_of_each(nodes: list[tuple[int, int, VmAmounts]], wanted: VmAmounts) -> None:
    facts: list[Any] = []
    for number, (cpu, memory, held) in enumerate(nodes):
        name = f"n{number}"
        facts += [
            a_node(name, cpu * 1000, memory),
            a_vm(f"g{number}", size(0, 0)),
            a_guest(f"g{number}", held, node=name),
        ]
    snapshot = a_snapshot(*facts)
    rows, ledger = snapshot.columns.rows, snapshot.vms.ledger
    largest = VmAmounts(max(cpu for cpu, _, _ in nodes) * 1000, max(memory for _, memory, _ in nodes) * GI)
    names = sorted(rows)
    found = vm_scores(snapshot.vms, wanted, np.array([rows[name] for name in names]))
    assert found.tolist() == [vm_score(ledger.ledger(name), wanted, largest, snapshot.vms.scoring) for name in names]


def test_reserve_denies_what_the_ledger_has_no_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = a_snapshot(a_node(), GOOD)
    assigner = PodAssigner(snapshot)
    ready = assigner.entitled(waiting("v"))
    assert isinstance(ready, Pod)
    monkeypatch.setattr(assigner.engine, "place", lambda *_, **__: Placement("n", None))
    snapshot.vms.ledger.configure(vm_config(node_config(system=size(15, 1))))
    answer = assigner.assign_pod(ready, (), now=Instant(0.0))
    assert isinstance(answer, NoFit)
    assert list(answer.reasons) == [Reason.VM_INSUFFICIENT_ROOM]
    assert key("v") not in snapshot.pods


def test_a_node_that_comes_with_vms_on_it_is_a_vm_node() -> None:
    late: Node = a_node("late")
    snapshot = a_snapshot(a_vm("b", size(14, 8)), a_guest("b", size(14, 8), node="late"))
    snapshot.apply(Added(ObjectKey("", "late"), late))
    assert judged(snapshot, ordinary(2, 2)) == {"late": "VmInsufficientRoom"}
