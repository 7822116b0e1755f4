"""Settings of `ullage vm-agent`, and the kind of value an amount of CPU is."""

from dataclasses import dataclass
from typing import Any

from ullage.config.compound_values import Nullable
from ullage.config.declaration import setting
from ullage.config.karpenter import Bytes
from ullage.config.values import Duration, Fraction, IntRange, Text, ValueType
from ullage.model.quantity import cores_text, quantity
from ullage.model.units import Seconds

_CORE = 1000


@dataclass(frozen=True, slots=True)
class CoreCount(ValueType[int]):
    """Thousandths of a core."""

    metavar = "CPU"

    @property
    def allowed(self) -> str:
        return "an amount of CPU above 0 such as 1 or 250m"

    def read(self, raw: Any) -> int:
        try:
            exact = quantity(raw) * _CORE if isinstance(raw, str | int) and not isinstance(raw, bool) else None
        except ValueError:
            exact = None
        if exact is None or exact <= 0 or exact != int(exact):
            raise self.refuse(raw)
        return int(exact)

    def write(self, value: int) -> Any:
        return cores_text(value)


@dataclass(frozen=True, slots=True)
class TargetFraction(ValueType[float]):
    """A target of utilisation."""

    below: float

    metavar = "FRACTION"

    @property
    def allowed(self) -> str:
        return f"a number above 0 and below {self.below:g}"

    def read(self, raw: Any) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 < raw < self.below:
            raise self.refuse(raw)
        return float(raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class VmAgentSettings:
    """Resizing of VMs: `ullage vm-agent`."""

    cpu_unit: int = setting(250, CoreCount(), "CPU of one compute unit, in which VMs grow and shrink.", live=True)
    memory_unit: int = setting(
        1 << 30, Bytes(), "Memory of one compute unit: a multiple of the VMs' slot size.", live=True
    )
    load_average_fraction_target: float = setting(
        0.9, TargetFraction(2.0), "Part of its CPUs that the load average of a VM should be.", live=True
    )
    memory_usage_fraction_target: float = setting(
        0.75, TargetFraction(1.0), "Part of its memory that a VM should use, page cache not counted.", live=True
    )
    stable_zone: float = setting(
        0.0, Fraction(), "Part of load5 by which load1 may differ from it and be ignored.", live=True
    )
    mixed_zone: float = setting(0.0, Fraction(), "Part of load5 beyond that over which load1 gains weight.", live=True)
    max_step: int | None = setting(
        None,
        Nullable(IntRange(1)),
        "Compute units by which a VM grows at once: smaller steps move fewer VMs away.",
        live=True,
    )
    request_every: Seconds = setting(
        Seconds(15.0), Duration(1.0), "Longest time between two requests without a change.", live=True
    )
    request_timeout: Seconds = setting(
        Seconds(5.0), Duration(0.1), "Longest wait for the scheduler's answer.", live=True
    )
    after_denial: Seconds = setting(
        Seconds(2.0), Duration(0.1), "Time until more is asked for again after a denial.", live=True
    )
    after_failed_request: Seconds = setting(Seconds(3.0), Duration(0.1), "Pause after a failed request.", live=True)
    after_failed_resize: Seconds = setting(Seconds(5.0), Duration(0.1), "Pause after a failed resize.", live=True)
    unplug_timeout: Seconds = setting(
        Seconds(30.0),
        Duration(1.0),
        "Longest wait for a VM to shrink before the scheduler is told of it. Then it is tried again.",
        live=True,
    )
    metrics_every: Seconds = setting(
        Seconds(5.0), Duration(0.1), "Time between two readings of a VM's metrics.", live=True
    )
    metrics_timeout: Seconds = setting(Seconds(2.0), Duration(0.1), "Longest wait for a VM's metrics.", live=True)
    metrics_port: int = setting(
        9100, IntRange(1, 65535), "Port inside the VM that serves node_exporter's metrics.", live=True
    )
    metrics_path: str = setting("/metrics", Text(), "Path of the metrics there.", live=True)
    metrics_prefix: str = setting(
        "node_", Text(), "Beginning of the metrics' names, such as node_ of node_load1.", live=True
    )
