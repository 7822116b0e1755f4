"""FleetReporter: Events and metrics of provisioning, from plans, steps and outcomes."""

from collections.abc import Callable, Sequence

from ullage.control.provisioning.gauges import count
from ullage.control.provisioning.plan_reporter import PlanReporter
from ullage.control.provisioning.reporter import EventSink, PoolReporter
from ullage.decide.provisioning.planner import FleetPlan
from ullage.model.outcomes import PoolOutcome
from ullage.model.provisioner import Provisioner
from ullage.model.units import Seconds
from ullage.observe.provisioning_metrics import ProvisioningMetrics
from ullage.state.cluster import ClusterState


class FleetReporter:
    """Reporter of a provisioning loop. `state` is that of its snapshot; without `metrics` only Events are recorded."""

    def __init__(
        self,
        events: EventSink,
        state: ClusterState,
        metrics: ProvisioningMetrics | None,
        after_plan: Callable[[], None],
    ) -> None:
        """`after_plan`: called when a plan is new, for the loops beside this one that go by it."""
        self._steps = PoolReporter(events, state.nodes.get)
        self._plans = PlanReporter(events, state.pods)
        self._metrics = metrics
        self._after_plan = after_plan

    def planned(self, plan: FleetPlan, took: Seconds) -> None:
        """Report a plan, and the time it took."""
        if self._metrics is not None:
            self._metrics.planned(took)
        self._plans.planned(plan)
        self._after_plan()

    def performed(self, outcome: PoolOutcome) -> None:
        """Count an intent that has ended."""
        if self._metrics is not None:
            count(self._metrics, outcome)

    def stepped(self, provisioner: Provisioner, outcomes: Sequence[PoolOutcome]) -> None:
        """Report the outcomes of one step, also to the pods that nodes were bought for."""
        self._steps.stepped(provisioner, outcomes)
        self._plans.stepped(provisioner, outcomes)
