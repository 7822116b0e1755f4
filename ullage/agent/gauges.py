"""Gauges of the agent, set from one poll."""

from collections.abc import Mapping, Sequence

from ullage.agent.poller import PollResult
from ullage.decide.inventory.usage import GpuTenancy, UnleasedProcess
from ullage.model.device import DeviceHealth
from ullage.observe.agent_metrics import (
    AGENT_GPUS,
    ECC,
    IDLE,
    MEMORY_USED,
    UNLEASED_PROCESSES,
    UTILISATION,
    AgentMetrics,
)

Reading = dict[tuple[str, ...], float]


def show(
    metrics: AgentMetrics,
    findings: PollResult,
    tenancies: Mapping[int, GpuTenancy],
    unleased: Sequence[UnleasedProcess],
) -> None:
    """Set every gauge from this poll."""
    devices = findings.known_gpus.devices
    utilisation: Reading = {}
    memory: Reading = {}
    errors: Reading = {}
    for device in devices:
        sight = findings.sight(device.uuid)
        if sight is None or sight.vitals is None:
            continue
        gpu, vitals = str(device.id), sight.vitals
        _put(utilisation, (gpu,), vitals.utilisation)
        _put(memory, (gpu,), vitals.memory_used)
        _put(errors, (gpu, "volatile"), vitals.counters.uncorrected_now)
        _put(errors, (gpu, "aggregate"), vitals.counters.uncorrected_ever)
    metrics.show(UTILISATION, utilisation)
    metrics.show(MEMORY_USED, memory)
    metrics.show(ECC, errors)
    metrics.show(AGENT_GPUS, {(health.value,): sum(d.health is health for d in devices) for health in DeviceHealth})
    metrics.show(IDLE, {(str(gpu),): max(0.0, findings.at - one.idle_since) for gpu, one in tenancies.items()})
    metrics.show(
        UNLEASED_PROCESSES,
        {(str(gpu),): sum(s.device == gpu for s in unleased) for gpu in {s.device for s in unleased}},
    )


def _put(reading: Reading, labels: tuple[str, ...], value: int | None) -> None:
    if value is not None:
        reading[labels] = float(value)
