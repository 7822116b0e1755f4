"""Clock skew of agents and of other schedulers: shown and reported, never relied on.

Ages count by our own clock from the time of observation. A skew still matters to people: timestamps in a log or a
status may be wrong by as much.
"""

from typing import Any

import structlog

from ullage.clock import Clock
from ullage.model.device import Inventory
from ullage.model.fact_event import Added, FactEvent, Synced, Updated
from ullage.model.lease import GpuLease
from ullage.model.units import Seconds
from ullage.observe.scheduler_metrics import ClockOf, SchedulerMetrics

WORTH_REPORTING = Seconds(15.0)
"""Seconds. Less may be a busy watch or a slow agent."""

_log = structlog.get_logger("scheduler")


class ClockSkew:
    """Feed `observe` with everything informers deliver."""

    def __init__(self, clock: Clock, metrics: SchedulerMetrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._agents: dict[str, float] = {}
        """Nodes whose agents' clocks differ by more than is worth telling, with by how much."""
        self._writers_differ = False
        self._synced = False

    def observe(self, event: FactEvent[Any]) -> None:
        """Cheap where clocks agree."""
        match event:
            case Synced():
                self._synced = True
            case Updated(old=Inventory(dated=before), new=Inventory() as new) if new.dated != before:
                self._agent(new)
            case Added(new=GpuLease() as lease) if self._synced:
                self._writer(lease)
            # A holder that is taken out of a shared Lease is a write without a new renewTime: it tells no clock.
            case Updated(old=GpuLease(renewed=before), new=GpuLease() as lease) if self._synced:
                if lease.renewed != before:
                    self._writer(lease)

    def _agent(self, report: Inventory) -> None:
        known, ahead = report.node in self._agents, report.clock_ahead
        if abs(ahead) > WORTH_REPORTING:
            self._agents[report.node] = ahead
            if not known:
                _log.warning("an agent's clock differs from ours", node=report.node, seconds_ahead=round(ahead))
        elif known:
            del self._agents[report.node]
            _log.info("an agent's clock agrees with ours again", node=report.node)
        else:
            return
        self._metrics.show_clock_skew(ClockOf.AGENT, max(self._agents.values(), key=abs, default=0.0))

    def _writer(self, lease: GpuLease) -> None:
        """Compare the clock of a Lease's writer: a Lease that was just observed was written just now."""
        ahead = lease.renewed - self._clock.now()
        differs = abs(ahead) > WORTH_REPORTING
        if differs and not self._writers_differ:
            _log.warning("another scheduler's clock differs from ours", lease=lease.name, seconds_ahead=round(ahead))
        if differs or self._writers_differ:
            self._metrics.show_clock_skew(ClockOf.SCHEDULER, ahead if differs else 0.0)
        self._writers_differ = differs
