"""Permits: answers to agents that report the use of their VM or ask for more. Formulas: docs/vms.md, Permits."""

from dataclasses import dataclass

from ullage.decide.vms.config_change import CORE, divides_cleanly, whole_core_unit
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import ApproveVm
from ullage.model.vm import NOTHING, GrantMode, LedgerRow, Permit, Vm, VmAccount, VmAmounts, VmPod, VmRefusal
from ullage.state.vm_ledger import VmLedger


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitRequest:
    """One message of an agent, in the ledger's units."""

    pod: ObjectKey
    wanted: VmAmounts
    unit: VmAmounts | None = None
    """The agent's own compute unit (version 7). None: the node's, which the answer tells (versions 1-2)."""
    last_permit: VmAmounts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitDecision:
    """The answer, and the write it depends on. None: the pod has this approval already."""

    permit: Permit
    answered_unit: VmAmounts | None
    """The compute unit the answer carries (versions 1-2)."""
    migrate: bool = False
    write: ApproveVm | None = None


@dataclass(frozen=True, slots=True)
class PermitRefused:
    reason: VmRefusal
    detail: str = ""


def grant(
    wanted: VmAmounts,
    reserved: VmAmounts,
    cpu: LedgerRow,
    memory: LedgerRow,
    *,
    unit: VmAmounts | None = None,
    mode: GrantMode = GrantMode.PER_RESOURCE,
) -> Permit:
    """The largest permit there is room for. A decrease is granted as it is; an increase never shrinks a VM.

    `reserved` is what the rows count for this VM. With `unit`, a partial grant is whole compute units.
    """
    free = VmAmounts(cpu.free, memory.free)
    more = wanted.above(reserved)
    if mode is GrantMode.JOINT and unit is not None:
        given = _joint(more, free, unit)
    else:
        step = unit or VmAmounts(1, 1)
        given = VmAmounts(_part(more.cpu, free.cpu, step.cpu), _part(more.memory, free.memory, step.memory))
    denied = more.above(given)
    granted = wanted.at_most(reserved).plus(given)
    return Permit(granted, denied, _why(more, denied))


def decide_permit(
    ledger: VmLedger, request: PermitRequest, *, mode: GrantMode = GrantMode.PER_RESOURCE
) -> PermitDecision | PermitRefused:
    """Answer one message. Reads the ledger and changes nothing in it.

    The pod must be known. Where its approval is not, the caller has read the VirtualMachine afresh.
    """
    pod = ledger.pod(request.pod)
    vm = ledger.vm(pod.vm_key) if pod is not None else None
    if pod is None:
        return PermitRefused(VmRefusal.POD_NOT_FOUND)
    if vm is None:
        return PermitRefused(VmRefusal.POD_NOT_A_VM)
    answered_unit = _unit_for_old(ledger, request, pod)
    account = ledger.account(pod.key)
    if account.migrating:
        return _while_migrating(request, _held(request, account, vm), answered_unit)
    if request.unit is None and pod.unit is not None and not divides_cleanly(request.wanted, pod.unit, vm):
        return PermitRefused(VmRefusal.UNIT_MISMATCH)
    if not vm.scaling:
        kept = request.wanted.at_most(vm.use)
        return PermitDecision(
            permit=Permit(kept, NOTHING, "autoscaling of this VM is off"), answered_unit=answered_unit
        )
    return _decided(ledger, request, pod, vm, mode)


def _decided(ledger: VmLedger, request: PermitRequest, pod: VmPod, vm: Vm, mode: GrantMode) -> PermitDecision:
    account = ledger.account(pod.key)
    node = ledger.ledger(pod.node)
    answered_unit = _unit_for_old(ledger, request, pod)
    held = _held(request, account, vm)
    unknown = account.reserved.above(held)
    # An agent that has not heard of a lowered maximum may keep what it holds: `reserved` is never less than that.
    wanted = request.wanted.at_most(vm.maximum.at_least(account.reserved))
    # Versions 1-2 count whole cores and slots, and per resource are granted as many as are free.
    unit = request.unit or (answered_unit if mode is GrantMode.JOINT else VmAmounts(CORE, vm.memory_slot))
    permit = grant(
        wanted, held, _without(node.cpu, unknown.cpu), _without(node.memory, unknown.memory), unit=unit, mode=mode
    )
    unit_kept = answered_unit or pod.unit
    same = (permit.granted, wanted, unit_kept) == (pod.approved, pod.requested, pod.unit)
    write = ApproveVm(pod=pod, approved=permit.granted, requested=wanted, unit=unit_kept, why=permit.why)
    return PermitDecision(permit=permit, answered_unit=answered_unit, write=None if same else write)


def _unit_for_old(ledger: VmLedger, request: PermitRequest, pod: VmPod) -> VmAmounts | None:
    return whole_core_unit(ledger.config.for_node(pod.node).unit) if request.unit is None else None


def _held(request: PermitRequest, account: VmAccount, vm: Vm) -> VmAmounts:
    """Amounts the VM may be using: its approval; without one, its use and the permit of an earlier scheduler."""
    if account.known:
        return account.reserved
    permitted = (request.last_permit or NOTHING).at_most(account.reserved)
    return vm.use.at_least(account.held).at_least(permitted)


def _while_migrating(
    request: PermitRequest, held: VmAmounts, answered_unit: VmAmounts | None
) -> PermitDecision | PermitRefused:
    """Permit the same amounts again, and no others. The maximum reserved for an unknown approval is no permit."""
    if request.wanted != held:
        return PermitRefused(VmRefusal.MIGRATING)
    return PermitDecision(
        permit=Permit(held, NOTHING, "the VM is migrating: its amounts stay"), answered_unit=answered_unit, migrate=True
    )


def _without(row: LedgerRow, amount: int) -> LedgerRow:
    """The row without a part of `reserved` that is not in use."""
    return LedgerRow(
        total=row.total,
        system=row.system,
        watermark=row.watermark,
        reserved=row.reserved - amount,
        buffer=row.buffer,
        capacity_pressure=row.capacity_pressure,
        pressure_accounted_for=row.pressure_accounted_for,
    )


def _part(more: int, free: int, step: int) -> int:
    return more if more <= free else free // step * step


def _joint(more: VmAmounts, free: VmAmounts, unit: VmAmounts) -> VmAmounts:
    """The same number of compute units of both resources, no more than is wanted of each."""
    limits = [
        room // size
        for wish, room, size in ((more.cpu, free.cpu, unit.cpu), (more.memory, free.memory, unit.memory))
        if wish > room
    ]
    return more.at_most(unit.times(min(limits))) if limits else more


def _why(more: VmAmounts, denied: VmAmounts) -> str:
    if not more:
        return "no increase was asked for"
    if not denied:
        return "the node has room for all of it"
    short = [name for name, amount in (("CPU", denied.cpu), ("memory", denied.memory)) if amount]
    return f"the node has no room for more {' and '.join(short)}"
