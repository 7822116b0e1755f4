"""Metrics of the settings of a running process: reloads of its file, and changes that wait for a restart."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from ullage.observe.scheduler_metrics import Metric, MetricType

RELOADS = Metric(
    "ullage_settings_reloads",
    MetricType.COUNTER,
    "Changes of the settings file by result: applied, or refused because the file cannot be used.",
    ("result",),
)
RELOAD_SUCCESSFUL = Metric(
    "ullage_settings_last_reload_successful",
    MetricType.GAUGE,
    "1 if the settings file as it is now is in use, 0 while an older one stays in force because it was refused.",
)
RESTART_NEEDED = Metric(
    "ullage_settings_restart_needed",
    MetricType.GAUGE,
    "Settings of the file that differ from those in force and wait for a restart.",
)
SETTINGS_METRICS = (RELOADS, RELOAD_SUCCESSFUL, RESTART_NEEDED)

APPLIED, REFUSED = "applied", "refused"


class SettingsMetrics:
    """Instruments of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reloads = Counter(RELOADS.name, RELOADS.help, RELOADS.labels, registry=registry)
        self._successful = Gauge(RELOAD_SUCCESSFUL.name, RELOAD_SUCCESSFUL.help, registry=registry)
        self._waiting = Gauge(RESTART_NEEDED.name, RESTART_NEEDED.help, registry=registry)
        for result in (APPLIED, REFUSED):
            self._reloads.labels(result)
        self._successful.set(1)

    def applied(self, *, waiting: int) -> None:
        """Count a reload; `waiting` settings need a restart."""
        self._reloads.labels(APPLIED).inc()
        self._successful.set(1)
        self._waiting.set(waiting)

    def refused(self) -> None:
        """Count a file that was refused."""
        self._reloads.labels(REFUSED).inc()
        self._successful.set(0)
