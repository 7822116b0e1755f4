"""Explanation of one VM: its size, its approval, its node's ledger, and why it may not grow or is not migrated."""

from dataclasses import dataclass

from ullage.decide.placement.vm_pods import amounts_said, vm_problem
from ullage.decide.vms.migration import MigrationCandidate, MigrationRules, plan_migrations
from ullage.decide.vms.pressure import unaccounted_pressure
from ullage.decide.vms.reserve import room_elsewhere
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant
from ullage.model.vm import LedgerRow, Vm, VmPod
from ullage.state.vm_ledger import VmLedger
from ullage.state.vm_room import VmRoom


@dataclass(frozen=True, slots=True)
class VmExplanation:
    """Sentences about one VM, its pods and their nodes."""

    vm: ObjectKey
    verdict: str
    """Fits, or the reason that it fits nowhere."""
    sizes: str
    pods: tuple[str, ...]
    nodes: tuple[str, ...]


def explain_vm(room: VmRoom, vm: Vm, rules: MigrationRules, *, now: Instant) -> VmExplanation:
    """Explain a VM from the ledger. Load and silence of agents are known to the scheduler alone."""
    ledger, problem = room.ledger, vm_problem(vm, room.config)
    pods = ledger.pods_of(vm.key)
    sizes = ", ".join(
        f"{name} {amounts_said(one)}" for name, one in (("min", vm.minimum), ("use", vm.use), ("max", vm.maximum))
    )
    nodes = sorted({pod.node for pod in pods})
    return VmExplanation(
        vm.key,
        "Fits" if problem is None else problem.value,
        sizes,
        tuple(_pod(ledger, pod) for pod in pods) or ("it has no pod on a node",),
        tuple(_node(ledger, node, vm, rules, now) for node in nodes),
    )


def _pod(ledger: VmLedger, pod: VmPod) -> str:
    account = ledger.account(pod.key)
    said = [f"pod {pod.key} on {pod.node}: reserved {amounts_said(account.reserved)}"]
    if pod.approved is None:
        said.append("its approval cannot be read, so it counts by its maximum until its agent's next message")
    if account.capacity_pressure:
        said.append(f"asked for {amounts_said(account.capacity_pressure)} more than was granted")
    if account.migrating:
        said.append("it is migrating: its amounts stay until that is over")
    if pod.incoming:
        said.append("it is the target of a migration")
    return "; ".join(said)


def _node(ledger: VmLedger, node: str, vm: Vm, rules: MigrationRules, now: Instant) -> str:
    both = ledger.ledger(node)
    pressure = unaccounted_pressure(both)
    said = [f"node {node}: {_row('CPU', both.cpu, 1000)}; {_row('memory', both.memory, 1 << 30)}"]
    if not pressure:
        return f"{said[0]}; no pressure that is not accounted for"
    candidates = [
        MigrationCandidate(
            pod=pod, vm=known, account=ledger.account(pod.key), fits_elsewhere=room_elsewhere(ledger, known)
        )
        for pod in ledger.pods_on(node)
        if (known := ledger.vm(pod.vm_key)) is not None
    ]
    plan = plan_migrations(pressure, candidates, rules, now=now)
    mine = {pod.key for pod in ledger.pods_of(vm.key)}
    said.append(f"pressure of {amounts_said(pressure)}")
    if any(one.vm.key == vm.key for one in plan.start):
        said.append("this VM is among those to be migrated")
    said += [f"this VM is not migrated: {reason.value}" for key, reason in plan.passed_over.items() if key in mine]
    if plan.unrelieved:
        said.append(f"{amounts_said(plan.unrelieved)} of it no migration can relieve")
    return "; ".join(said)


def _row(name: str, row: LedgerRow, unit: int) -> str:
    parts = [f"{row.reserved / unit:g} of {row.reservable / unit:g} reserved", f"watermark {row.watermark / unit:g}"]
    if row.buffer:
        parts.append(f"buffer {row.buffer / unit:g}")
    if row.capacity_pressure:
        parts.append(f"denied {row.capacity_pressure / unit:g}")
    return f"{name} {', '.join(parts)}"
