"""Facts of VMs for tests, in whole cores and gibibytes: a builder mentions only what matters."""

from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant
from ullage.model.vm import LedgerRow, MigrationPhase, OrdinaryPod, RestartRule, Vm, VmAmounts, VmMigration, VmPod
from ullage.model.vm_config import NodeConfig, NodeOverride, ResourceConfig, VmConfig
from ullage.state.vm_ledger import VmLedger

GI = 1 << 30
NAMESPACE = "team"


def size(cpu: float, memory: float) -> VmAmounts:
    """Cores and gibibytes."""
    return VmAmounts(round(cpu * 1000), round(memory * GI))


def key(name: str) -> ObjectKey:
    return ObjectKey(NAMESPACE, name)


def a_vm(
    name: str,
    use: VmAmounts,
    maximum: VmAmounts | None = None,
    *,
    minimum: VmAmounts | None = None,
    scaling: bool = True,
    migratable: bool = True,
    last_migration: float | None = None,
) -> Vm:
    return Vm(
        key=key(name),
        uid=f"vm-{name}",
        minimum=minimum or size(1, 1),
        use=use,
        maximum=maximum or size(64, 256),
        memory_slot=GI,
        scaling=scaling,
        migratable=migratable,
        last_migration=None if last_migration is None else Instant(last_migration),
    )


def a_vm_pod(
    name: str,
    node: str,
    approved: VmAmounts | None = None,
    *,
    vm: str = "",
    requested: VmAmounts | None = None,
    unit: VmAmounts | None = None,
    incoming: bool = False,
    created: float = 0.0,
) -> VmPod:
    """A pod of the VM with its name, unless another one is named."""
    return VmPod(
        key=key(name),
        uid=f"pod-{name}",
        node=node,
        vm=vm or name,
        created=Instant(created),
        requests=size(1, 1),
        approved=approved,
        requested=requested,
        unit=unit,
        incoming=incoming,
    )


def an_ordinary_pod(name: str, node: str, amounts: VmAmounts) -> OrdinaryPod:
    return OrdinaryPod(key=key(name), node=node, amounts=amounts)


def a_migration(
    vm: str, phase: MigrationPhase = MigrationPhase.RUNNING, *, source: str = "", ours: bool = True
) -> VmMigration:
    return VmMigration(key=key(f"ullage-{vm}"), uid=f"vmm-{vm}", vm=vm, phase=phase, source_pod=source, ours=ours)


def node_config(
    *, watermark: float = 0.8, system: VmAmounts | None = None, unit: VmAmounts | None = None
) -> NodeConfig:
    kept = system or size(0.5, 1)
    part = round(watermark * 1_000_000)
    return NodeConfig(ResourceConfig(part, kept.cpu), ResourceConfig(part, kept.memory), unit or size(1, 4))


def vm_config(defaults: NodeConfig | None = None, *overrides: NodeOverride) -> VmConfig:
    return VmConfig(slot=size(1, 1), defaults=defaults or node_config(), overrides=overrides)


def a_ledger(
    *facts: Vm | VmPod | OrdinaryPod | VmMigration,
    config: VmConfig | None = None,
    restart: RestartRule = RestartRule.TRUST_APPROVED,
    **nodes: VmAmounts,
) -> VmLedger:
    """A ledger of nodes by name with these facts."""
    ledger = VmLedger(config or vm_config(), restart)
    for name, allocatable in nodes.items():
        ledger.put_node(name, allocatable)
    for fact in facts:
        put(ledger, fact)
    return ledger


def put(ledger: VmLedger, fact: Vm | VmPod | OrdinaryPod | VmMigration) -> None:
    match fact:
        case Vm():
            ledger.put_vm(fact)
        case VmPod():
            ledger.put_pod(fact)
        case OrdinaryPod():
            ledger.put_ordinary(fact)
        case VmMigration():
            ledger.put_migration(fact)


def a_row(
    *,
    total: int = 16,
    system: int = 1,
    watermark: int = 12,
    reserved: int = 0,
    buffer: int = 0,
    capacity_pressure: int = 0,
    accounted: int = 0,
) -> LedgerRow:
    return LedgerRow(
        total=total,
        system=system,
        watermark=watermark,
        reserved=reserved,
        buffer=buffer,
        capacity_pressure=capacity_pressure,
        pressure_accounted_for=accounted,
    )
