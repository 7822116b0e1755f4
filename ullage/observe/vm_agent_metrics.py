"""Metrics of the vm-agent: one list with descriptions, and the instruments made from it. VMs are no labels."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ullage.observe.scheduler_metrics import Metric, MetricType

_WRITES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

VM_AGENT_VMS = Metric(
    "ullage_vm_agent_vms",
    MetricType.GAUGE,
    "VMs of the node that this agent resizes, by state: ok; short (the VM needs more than its permit); "
    "moving (it migrates and keeps its size); blind (no metrics).",
    ("state",),
)
VM_AGENT_REQUESTS = Metric(
    "ullage_vm_agent_requests",
    MetricType.COUNTER,
    "Requests to the scheduler by outcome: granted, partial, denied, or the reason of the failure.",
    ("outcome",),
)
VM_AGENT_REQUEST_SECONDS = Metric(
    "ullage_vm_agent_request_seconds", MetricType.HISTOGRAM, "Time to an answer of the scheduler.", buckets=_WRITES
)
VM_AGENT_RESIZES = Metric(
    "ullage_vm_agent_resizes",
    MetricType.COUNTER,
    "Changes of a VM's size by direction (up, down, both) and outcome (done, failed).",
    ("direction", "outcome"),
)
VM_AGENT_READINGS = Metric(
    "ullage_vm_agent_readings",
    MetricType.COUNTER,
    "Readings of metrics inside VMs by outcome: ok, or the reason of the failure.",
    ("outcome",),
)
VM_AGENT_RESTARTS = Metric(
    "ullage_vm_agent_runner_restarts", MetricType.COUNTER, "Times the work on one VM ended with a bug and began anew."
)
VM_AGENT_METRICS: Sequence[Metric] = (
    VM_AGENT_VMS,
    VM_AGENT_REQUESTS,
    VM_AGENT_REQUEST_SECONDS,
    VM_AGENT_RESIZES,
    VM_AGENT_READINGS,
    VM_AGENT_RESTARTS,
)


class VmAgentMetrics:
    """Instruments of one vm-agent."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.vms = Gauge(VM_AGENT_VMS.name, VM_AGENT_VMS.help, VM_AGENT_VMS.labels, registry=registry)
        self.requests = Counter(
            VM_AGENT_REQUESTS.name, VM_AGENT_REQUESTS.help, VM_AGENT_REQUESTS.labels, registry=registry
        )
        seconds = VM_AGENT_REQUEST_SECONDS
        self.request_seconds = Histogram(seconds.name, seconds.help, registry=registry, buckets=seconds.buckets)
        self.resizes = Counter(VM_AGENT_RESIZES.name, VM_AGENT_RESIZES.help, VM_AGENT_RESIZES.labels, registry=registry)
        self.readings = Counter(
            VM_AGENT_READINGS.name, VM_AGENT_READINGS.help, VM_AGENT_READINGS.labels, registry=registry
        )
        self.restarts = Counter(VM_AGENT_RESTARTS.name, VM_AGENT_RESTARTS.help, registry=registry)
