"""Metrics of VMs: ledgers, permits, migrations and the node configuration."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ullage.model.vm import LedgerRow, MigrationPhase, NodeLedger, VmAmounts, VmRefusal
from ullage.observe.metric import Metric, MetricType

SERVED = Metric(
    "ullage_vms_served",
    MetricType.GAUGE,
    "1 if the cluster serves VirtualMachine, so that VMs are counted; 0 if it does not.",
)
RESOURCES = Metric(
    "ullage_vm_resources",
    MetricType.GAUGE,
    "Ledgers of all VM nodes together: cores and bytes by field (total, system, watermark, reserved, buffer, "
    "capacityPressure, pressureAccountedFor).",
    ("resource", "field"),
)
NODES = Metric(
    "ullage_vm_nodes",
    MetricType.GAUGE,
    "VM nodes: all, those above a watermark (pressed), those whose lasting pressure no migration relieves "
    "(unrelieved), and those whose system reserve leaves nothing for VMs (tooSmall).",
    ("state",),
)
PRESSURE = Metric(
    "ullage_vm_unrelieved_pressure",
    MetricType.GAUGE,
    "Lasting pressure that no migration can relieve, of all nodes together, in cores and bytes.",
    ("resource",),
)
PERMITS = Metric(
    "ullage_vm_permit_requests",
    MetricType.COUNTER,
    "Requests of agents by HTTP status and the reason of a refusal (Granted, if it was none).",
    ("code", "reason"),
)
PERMIT_SECONDS = Metric(
    "ullage_vm_permit_seconds",
    MetricType.HISTOGRAM,
    "Time to answer an agent.",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0),
)
MIGRATIONS = Metric(
    "ullage_vm_migrations",
    MetricType.COUNTER,
    "Migrations of VMs by what became of them (started, notStarted, Succeeded, Failed).",
    ("result",),
)
CONFIG_REFUSED = Metric(
    "ullage_vm_config_refused",
    MetricType.GAUGE,
    "1 while the node configuration last seen is refused and an older one is in force.",
)
APPROVALS_UNREADABLE = Metric(
    "ullage_vm_unreadable_approvals",
    MetricType.COUNTER,
    "Approvals on VM pods that were found missing, malformed or above what the VM may have. Each counts by the VM's "
    "maximum until its agent's next message.",
)

VM_METRICS: Sequence[Metric] = (
    SERVED,
    RESOURCES,
    NODES,
    PRESSURE,
    PERMITS,
    PERMIT_SECONDS,
    MIGRATIONS,
    CONFIG_REFUSED,
    APPROVALS_UNREADABLE,
)

GRANTED = "Granted"
_CORE = 1000


class VmSystemMetrics:
    """Instruments of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._served = Gauge(SERVED.name, SERVED.help, registry=registry)
        self._resources = Gauge(RESOURCES.name, RESOURCES.help, RESOURCES.labels, registry=registry)
        self._nodes = Gauge(NODES.name, NODES.help, NODES.labels, registry=registry)
        self._pressure = Gauge(PRESSURE.name, PRESSURE.help, PRESSURE.labels, registry=registry)
        self._permits = Counter(PERMITS.name, PERMITS.help, PERMITS.labels, registry=registry)
        self._seconds = Histogram(
            PERMIT_SECONDS.name, PERMIT_SECONDS.help, buckets=PERMIT_SECONDS.buckets, registry=registry
        )
        self._migrations = Counter(MIGRATIONS.name, MIGRATIONS.help, MIGRATIONS.labels, registry=registry)
        self._refused = Gauge(CONFIG_REFUSED.name, CONFIG_REFUSED.help, registry=registry)
        self._unreadable = Counter(APPROVALS_UNREADABLE.name, APPROVALS_UNREADABLE.help, registry=registry)

    def served(self, yes: bool) -> None:
        self._served.set(yes)

    def answered(self, status: int, reason: VmRefusal | None, seconds: float) -> None:
        """Count one answer to an agent."""
        self._permits.labels(str(status), GRANTED if reason is None else reason.value).inc()
        self._seconds.observe(seconds)

    def started(self, done: bool) -> None:
        self._migrations.labels("started" if done else "notStarted").inc()

    def ended(self, phase: MigrationPhase) -> None:
        self._migrations.labels(phase.value).inc()

    def config_refused(self, yes: bool) -> None:
        self._refused.set(yes)

    def unreadable(self, count: int) -> None:
        """Count approvals that were found unreadable."""
        self._unreadable.inc(count)

    def show(self, ledgers: Sequence[NodeLedger], unrelieved: Sequence[VmAmounts]) -> None:
        """Show the ledgers of all VM nodes, and the pressure of those that migrations cannot relieve."""
        for resource, rows, scale in (
            ("cpu", [one.cpu for one in ledgers], _CORE),
            ("memory", [one.memory for one in ledgers], 1),
        ):
            sums = dict.fromkeys(FIELDS, 0)
            for row in rows:
                for field, amount in _fields(row).items():
                    sums[field] += amount
            for field, amount in sums.items():
                self._resources.labels(resource, field).set(amount / scale)
        pressed = sum(bool(one.cpu.logical_pressure or one.memory.logical_pressure) for one in ledgers)
        small = sum(one.too_small for one in ledgers)
        counts = {"all": len(ledgers), "pressed": pressed, "unrelieved": len(unrelieved), "tooSmall": small}
        for state, count in counts.items():
            self._nodes.labels(state).set(count)
        self._pressure.labels("cpu").set(sum(one.cpu for one in unrelieved) / _CORE)
        self._pressure.labels("memory").set(sum(one.memory for one in unrelieved))


FIELDS = ("total", "system", "watermark", "reserved", "buffer", "capacityPressure", "pressureAccountedFor")


def _fields(row: LedgerRow) -> dict[str, int]:
    amounts = (
        row.total,
        row.system,
        row.watermark,
        row.reserved,
        row.buffer,
        row.capacity_pressure,
        row.pressure_accounted_for,
    )
    return dict(zip(FIELDS, amounts, strict=True))
