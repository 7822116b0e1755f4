"""Status of PodDisruptionBudgets from files, filled in as kube-controller-manager would write it."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ullage.kube.objects.policy import DisruptionBudgetSpec
from ullage.model.disruption_budget import PodDisruptionBudget
from ullage.model.draining import WorkloadReplicas
from ullage.model.pod import Phase, Pod


def counted(
    budget: PodDisruptionBudget, spec: DisruptionBudgetSpec, pods: Iterable[Pod], makers: Mapping[str, WorkloadReplicas]
) -> PodDisruptionBudget:
    """Return the budget with its status counted from these pods. Unknown controllers want the pods they have."""
    meant = [
        pod
        for pod in pods
        if pod.key.namespace == budget.key.namespace and not pod.phase.over and budget.selector.matches(pod.labels)
    ]
    healthy = sum(pod.phase is Phase.RUNNING and pod.marks.ready and not pod.deleting for pod in meant)
    desired = _desired(spec, _expected(meant, makers))
    allowed = max(healthy - desired, 0) if meant else 0
    return replace(budget, current=True, disruptions_allowed=allowed, current_healthy=healthy, desired_healthy=desired)


def _expected(pods: list[Pod], makers: Mapping[str, WorkloadReplicas]) -> int:
    owners: dict[str, int] = {}
    alone = 0
    for pod in pods:
        if pod.owner is None:
            alone += 1
        else:
            owners[pod.owner.uid] = owners.get(pod.owner.uid, 0) + 1
    return alone + sum(makers[uid].target if uid in makers else there for uid, there in owners.items())


def _desired(spec: DisruptionBudgetSpec, expected: int) -> int:
    if spec.max_unavailable is not None:
        return max(expected - _portion(spec.max_unavailable, expected), 0)
    return 0 if spec.min_available is None else _portion(spec.min_available, expected)


def _portion(value: int | str, whole: int) -> int:
    """Resolve `3` or `"25%"` of `whole`, rounded up."""
    text = str(value)
    return -(-int(text[:-1]) * whole // 100) if text.endswith("%") else int(text)
