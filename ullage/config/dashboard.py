"""Settings of `ullage dashboard`: its history, and the Prometheus that knows more of the past."""

from dataclasses import dataclass

from ullage.config.compound_values import Nullable
from ullage.config.declaration import setting
from ullage.config.karpenter import Bytes
from ullage.config.values import Duration, Text
from ullage.model.units import Seconds

DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSettings:
    """History of the dashboard: `ullage dashboard`."""

    history_file: str | None = setting(
        None,
        Nullable(Text(), "in memory, lost at a restart"),
        "File beside the process in which the fleet, the queue and what changed are kept.",
    )
    history_max_size: int = setting(
        64 << 20, Bytes(), "Size of the history, at most; the oldest goes first, and changes before samples."
    )
    history_max_age: Seconds = setting(Seconds(14 * DAY), Duration(60.0), "Age of the history, at most.")
    history_interval: Seconds = setting(Seconds(30.0), Duration(1.0), "Time between two samples of the history.")
    prometheus_url: str | None = setting(
        None,
        Nullable(Text(), "none is asked"),
        "Prometheus that is asked for times the history does not have, such as http://prometheus.monitoring:9090.",
    )
    prometheus_token_file: str | None = setting(
        None,
        Nullable(Text(), "no token is sent"),
        "File with the bearer token for this Prometheus; read for each call.",
    )
