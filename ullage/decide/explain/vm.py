"""Explanation of one VM: its size, its approval, its node's ledger, and why it may not grow or is not migrated."""

from dataclasses import dataclass, replace

import msgspec

from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.placement.vm_pods import amounts_said, vm_problem
from ullage.decide.vms.core import VmRules
from ullage.decide.vms.destinations import fits_elsewhere
from ullage.decide.vms.migration import MigrationCandidate, MigrationPlan, plan_migrations
from ullage.decide.vms.pressure import unaccounted_pressure
from ullage.decide.vms.rest import MigrationStarts
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant
from ullage.model.vm import VM_APPROVED, VM_REQUESTED, LedgerRow, Vm, VmAmounts, VmPod
from ullage.state.vm_ledger import VmLedger


@dataclass(frozen=True, slots=True)
class VmExplanation:
    """Sentences about one VM, its pods and their nodes."""

    vm: ObjectKey
    verdict: str
    """Fits, or the reason that it fits nowhere."""
    sizes: str
    pods: tuple[str, ...]
    nodes: tuple[str, ...]


def explain_vm(engine: PlacementEngine, vm: Vm, rules: VmRules, *, now: Instant) -> VmExplanation:
    """Explain a VM by the ledger and the scheduler's rules. Load and silence of agents are known to that alone."""
    room = engine.snapshot.vms
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
        tuple(_node(engine, node, vm, rules, now) for node in nodes),
    )


def _pod(ledger: VmLedger, pod: VmPod) -> str:
    account, vm = ledger.account(pod.key), ledger.vm(pod.vm_key)
    said = [f"pod {pod.key} on {pod.node}: reserved {amounts_said(account.reserved)}"]
    if vm is not None and vm.scaling and ledger.admitted(vm, pod.approved) is None:
        said.append("its approval cannot be read, so it counts by its maximum until its agent's next message")
    if vm is not None and not vm.scaling and not account.reserved.within(vm.use):
        said.append(
            f"autoscaling is off, and its agent's last permit still counts: without the annotations {VM_APPROVED} and "
            f"{VM_REQUESTED} it counts by its use"
        )
    if account.capacity_pressure:
        said.append(f"asked for {amounts_said(account.capacity_pressure)} more than was granted")
    if account.migrating:
        said.append("it is migrating: its amounts stay until that is over")
    if pod.incoming:
        said.append("it is the target of a migration")
    return "; ".join(said)


def _node(engine: PlacementEngine, node: str, vm: Vm, rules: VmRules, now: Instant) -> str:
    both = engine.snapshot.vms.ledger.ledger(node)
    pressure = unaccounted_pressure(both, rules.capacity_factor)
    said = [f"node {node}: {_row('CPU', both.cpu, 1000)}; {_row('memory', both.memory, 1 << 30)}"]
    if not pressure:
        return f"{said[0]}; no pressure that is not accounted for"
    said.append(f"pressure of {amounts_said(pressure)}")
    if not rules.migrate:
        return "; ".join([*said, "nothing is migrated for it (vms.migrate is off)"])
    said += _migration(engine, node, vm, pressure, rules, now)
    return "; ".join(said)


def _migration(
    engine: PlacementEngine, node: str, vm: Vm, pressure: VmAmounts, rules: VmRules, now: Instant
) -> list[str]:
    """Sentences on what becomes of the VM. Its place in the queue is by load: first and last are both tried."""
    candidates = _candidates(engine, node, now)
    mine = {one.pod.key for one in candidates if one.vm.key == vm.key}

    def planned(own: float, others: float) -> MigrationPlan:
        queue = [replace(one, load=own if one.pod.key in mine else others) for one in candidates]
        return plan_migrations(pressure, queue, rules.migration, now=now)

    first, last = planned(0.0, 1.0), planned(1.0, 0.0)
    said: list[str] = []
    if any(one.vm.key == vm.key for one in last.start):
        said.append(f"this VM is migrated once that has lasted {rules.sustained:g} s")
    elif any(one.vm.key == vm.key for one in first.start):
        whys = sorted({last.passed_over[key].value for key in mine if key in last.passed_over})
        said.append(
            f"this VM may be migrated, by load: the least loaded go first, and the scheduler alone knows loads "
            f"(else {', '.join(whys)})"
        )
    else:
        said += [f"this VM is not migrated: {why.value}" for key, why in first.passed_over.items() if key in mine]
    if first.unrelieved:
        said.append(f"{amounts_said(first.unrelieved)} of it no migration can relieve")
    return said


def _candidates(engine: PlacementEngine, node: str, now: Instant) -> list[MigrationCandidate]:
    ledger, starts = engine.snapshot.vms.ledger, MigrationStarts()
    return [
        MigrationCandidate(
            pod=pod,
            vm=msgspec.structs.replace(known, last_migration=starts.last(known, now=now)),
            account=ledger.account(pod.key),
            fits_elsewhere=known.migratable and fits_elsewhere(engine, pod.key, now=now),
        )
        for pod in ledger.pods_on(node)
        if (known := ledger.vm(pod.vm_key)) is not None
    ]


def _row(name: str, row: LedgerRow, unit: int) -> str:
    parts = [f"{row.reserved / unit:g} of {row.reservable / unit:g} reserved", f"watermark {row.watermark / unit:g}"]
    if row.buffer:
        parts.append(f"buffer {row.buffer / unit:g}")
    if row.capacity_pressure:
        parts.append(f"denied {row.capacity_pressure / unit:g}")
    return f"{name} {', '.join(parts)}"
