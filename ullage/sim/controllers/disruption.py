"""PodDisruptionBudget status: pods expected, desired healthy, healthy now, and disruptions allowed. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ullage.clock import Instant
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import BUDGETS
from ullage.kube.objects.meta import Condition
from ullage.kube.objects.policy import KubePodDisruptionBudget
from ullage.kube.timestamps import read_time
from ullage.sim.controllers.objects import ActorPod
from ullage.sim.controllers.ownership import controller_of
from ullage.sim.controllers.percent import portion
from ullage.sim.controllers.podstate import condition_of, is_ready, is_terminating, with_condition
from ullage.sim.controllers.writes import ControllerPlan, merge_status

DELETION_SECONDS = 120.0
"""An evicted pod that is still there after this time is counted as healthy again."""


@dataclass(frozen=True, slots=True)
class ScaleTarget:
    """A controller of pods and the replicas it is asked for: a Deployment stands for its ReplicaSets."""

    uid: str
    replicas: int


@dataclass(frozen=True, slots=True)
class _Need:
    expected: int
    healthy: int


def plan_budget(
    budget: KubePodDisruptionBudget, pods: Sequence[ActorPod], scales: Mapping[str, ScaleTarget], *, now: Instant
) -> ControllerPlan:
    """The status. `pods` are those the budget selects; `scales` maps the uid of a pod's controller to its scale."""
    need = _need(budget, pods, scales)
    if isinstance(need, str):
        return _sync_failed(budget, need, now)
    disrupted, wake_at = _still_disrupted(budget, pods, now)
    healthy = sum(is_ready(pod) and not is_terminating(pod) and pod.metadata.name not in disrupted for pod in pods)
    allowed = max(0, healthy - need.healthy) if need.expected > 0 else 0
    status = budget.status
    condition = condition_of(status.conditions, "DisruptionAllowed")
    wanted = _allowed_condition(allowed, budget.metadata.generation)
    same = (
        (status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed)
        == (need.expected, need.healthy, healthy, allowed)
        and status.disrupted_pods == disrupted
        and status.observed_generation == budget.metadata.generation
        and condition is not None
        and (condition.status, condition.reason) == (wanted.status, wanted.reason)
    )
    if same:
        return ControllerPlan((), wake_at)
    body: JsonObject = {
        "expectedPods": need.expected,
        "desiredHealthy": need.healthy,
        "currentHealthy": healthy,
        "disruptionsAllowed": allowed,
        "observedGeneration": budget.metadata.generation,
        # A merge patch keeps what it does not name: those no longer disrupted are named as gone.
        "disruptedPods": {**dict.fromkeys(status.disrupted_pods), **disrupted},
        "conditions": with_condition(status.conditions, wanted, now),
    }
    return ControllerPlan((merge_status(BUDGETS, budget.metadata, body),), wake_at)


def _need(budget: KubePodDisruptionBudget, pods: Sequence[ActorPod], scales: Mapping[str, ScaleTarget]) -> _Need | str:
    """Numbers of expected and of desired healthy pods, or the reason that they are unknown."""
    least, most_lost = budget.spec.min_available, budget.spec.max_unavailable
    if most_lost is None and isinstance(least, int):
        return _Need(len(pods), least)
    if most_lost is None and least is None:
        return _Need(0, 0)
    controllers: dict[str, int] = {}
    for pod in pods:
        owner = controller_of(pod.metadata)
        if owner is None:
            continue
        scale = scales.get(owner.uid)
        if scale is None:
            return f'found no controllers for pod "{pod.metadata.name}"'
        controllers[scale.uid] = scale.replicas
    expected = sum(controllers.values())
    if most_lost is not None:
        return _Need(expected, max(0, expected - portion(most_lost, expected, round_up=True)))
    return _Need(expected, portion(least or 0, expected, round_up=True))


def _still_disrupted(
    budget: KubePodDisruptionBudget, pods: Sequence[ActorPod], now: Instant
) -> tuple[dict[str, str], Instant | None]:
    """Pods whose eviction was granted and not yet observed, until DELETION_SECONDS have passed."""
    kept: dict[str, str] = {}
    wake_at: Instant | None = None
    for pod in pods:
        since = budget.status.disrupted_pods.get(pod.metadata.name)
        if since is None or is_terminating(pod):
            continue
        until = Instant(read_time(since) + DELETION_SECONDS)
        if until >= now:
            kept[pod.metadata.name] = since
            wake_at = until if wake_at is None else min(wake_at, until)
    return kept, None if wake_at is None else Instant(wake_at + 1)


def _allowed_condition(allowed: int, generation: int) -> Condition:
    status, reason = ("True", "SufficientPods") if allowed > 0 else ("False", "InsufficientPods")
    return Condition(type="DisruptionAllowed", status=status, reason=reason, observed_generation=generation)


def _sync_failed(budget: KubePodDisruptionBudget, why: str, now: Instant) -> ControllerPlan:
    """Allow no disruption while the expected number of pods is unknown."""
    condition = condition_of(budget.status.conditions, "DisruptionAllowed")
    known = condition is not None and (condition.reason, condition.message) == ("SyncFailed", why)
    if known and budget.status.disruptions_allowed == 0:
        return ControllerPlan()
    fresh = Condition(
        type="DisruptionAllowed",
        status="False",
        reason="SyncFailed",
        message=why,
        observed_generation=budget.status.observed_generation,
    )
    conditions = with_condition(budget.status.conditions, fresh, now)
    return ControllerPlan(
        (merge_status(BUDGETS, budget.metadata, {"disruptionsAllowed": 0, "conditions": conditions}),)
    )
