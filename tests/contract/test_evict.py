"""Eviction: a deletion that asks the disruption budgets first."""

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import BUDGET, POD
from tests.contract.steps import condition, judge_budget, running_pod, uid, version
from ullage.errors import Conflict, NotFound, ServerFailure, TooManyRequests
from ullage.kube.client.api import DELETE_NOW, Binding, Deletion, KubeApi, MergePatch
from ullage.testing.builders import a_budget, a_pod

APP = {"app": "x"}
VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."


async def budget(api: KubeApi, ns: str, name: str = "budget", **status: int) -> None:
    """A budget for APP; with a status if one is given, as if its controller had judged."""
    await api.create(BUDGET, a_budget(name, APP, minAvailable=1), ns)
    if status:
        await judge_budget(api, ns, name, **status)


async def gone(api: KubeApi, ns: str, name: str) -> None:
    with refused(NotFound, reason="NotFound", says=f'pods "{name}" not found'):
        await api.get(POD, name, ns)


async def test_pending_pod_is_evicted_at_once(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    await api.evict("a", ns)
    await gone(api, ns, "a")


async def test_running_pod_terminates_and_says_why(api: KubeApi, ns: str) -> None:
    await running_pod(api, ns, "a")
    await api.evict("a", ns)
    going = await api.get(POD, "a", ns)
    assert going["metadata"]["deletionTimestamp"]
    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    assert condition(going, "DisruptionTarget") == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }


async def test_grace_can_be_said(api: KubeApi, ns: str) -> None:
    await running_pod(api, ns, "a")
    await api.evict("a", ns, how=Deletion(grace_seconds=5))
    assert (await api.get(POD, "a", ns))["metadata"]["deletionGracePeriodSeconds"] == 5


async def test_no_grace_means_now(api: KubeApi, ns: str) -> None:
    await running_pod(api, ns, "a")
    await api.evict("a", ns, how=DELETE_NOW)
    await gone(api, ns, "a")


async def test_missing_pod_is_not_found(api: KubeApi, ns: str) -> None:
    with refused(NotFound, reason="NotFound", says='pods "missing" not found'):
        await api.evict("missing", ns)


async def test_changed_pod_is_spared(api: KubeApi, ns: str) -> None:
    made = await api.create(POD, a_pod("a"), ns)
    await api.patch(POD, "a", MergePatch({"metadata": {"labels": {"x": "y"}}}), ns)
    says = f"the ResourceVersion in the precondition ({version(made)}) does not match"
    with refused(Conflict, reason="Conflict", says=says):
        await api.evict("a", ns, how=Deletion(resource_version=version(made)))
    await api.get(POD, "a", ns)


@pytest.mark.full  # kube-apiserver tries again for ten seconds before it says so
async def test_another_uid_is_spared(api: KubeApi, ns: str) -> None:
    made = await running_pod(api, ns, "a")
    says = f"the UID in the precondition (another) does not match the UID in record ({uid(made)})"
    with refused(Conflict, reason="Conflict", says=says):
        await api.evict("a", ns, how=Deletion(uid="another"))
    assert "deletionTimestamp" not in (await api.get(POD, "a", ns))["metadata"]


async def test_budget_nobody_has_judged_yet_says_later(api: KubeApi, ns: str) -> None:
    await running_pod(api, ns, "a", labels=APP)
    await budget(api, ns)
    with pytest.raises(TooManyRequests, match=VIOLATION) as caught:
        await api.evict("a", ns)
    assert (caught.value.reason, caught.value.retry_after) == ("TooManyRequests", 10)


async def test_budget_judged_before_it_changed_says_later(api: KubeApi, ns: str) -> None:
    await running_pod(api, ns, "a", labels=APP)
    await budget(api, ns, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    await api.patch(BUDGET, "budget", MergePatch({"spec": {"minAvailable": 2}}), ns)
    with pytest.raises(TooManyRequests, match=VIOLATION) as caught:
        await api.evict("a", ns)
    assert caught.value.retry_after == 10


async def test_exhausted_budget_refuses_without_a_time(api: KubeApi, ns: str) -> None:
    await running_pod(api, ns, "a", labels=APP)
    await budget(api, ns, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    with pytest.raises(TooManyRequests, match=VIOLATION) as caught:
        await api.evict("a", ns)
    assert caught.value.retry_after is None
    assert "deletionTimestamp" not in (await api.get(POD, "a", ns))["metadata"]


async def test_allowed_eviction_is_written_into_the_budget(api: KubeApi, ns: str) -> None:
    await running_pod(api, ns, "a", labels=APP)
    await budget(api, ns, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    await api.evict("a", ns)
    spent = await api.get(BUDGET, "budget", ns)
    assert spent["status"]["disruptionsAllowed"] == 0
    assert list(spent["status"]["disruptedPods"]) == ["a"]
    allowed = condition(spent, "DisruptionAllowed")
    assert (allowed["status"], allowed["reason"]) == ("False", "InsufficientPods")
    assert (await api.get(POD, "a", ns))["metadata"]["deletionTimestamp"]


async def test_budget_is_spent_once_per_pod_until_nothing_is_left(api: KubeApi, ns: str) -> None:
    for name in ("a", "b", "c"):
        await running_pod(api, ns, name, labels=APP)
    await budget(api, ns, disruptionsAllowed=2, currentHealthy=3, desiredHealthy=1)
    await api.evict("a", ns)
    await api.evict("b", ns)
    with pytest.raises(TooManyRequests, match=VIOLATION):
        await api.evict("c", ns)
    assert sorted((await api.get(BUDGET, "budget", ns))["status"]["disruptedPods"]) == ["a", "b"]


async def test_dry_run_asks_and_spends_nothing(api: KubeApi, ns: str) -> None:
    await running_pod(api, ns, "a", labels=APP)
    await budget(api, ns, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    before = await api.get(BUDGET, "budget", ns)
    await api.evict("a", ns, how=Deletion(dry_run=True))
    assert await api.get(BUDGET, "budget", ns) == before
    assert "deletionTimestamp" not in (await api.get(POD, "a", ns))["metadata"]


async def test_dry_run_is_refused_where_the_deed_would_be(api: KubeApi, ns: str) -> None:
    await running_pod(api, ns, "a", labels=APP)
    await budget(api, ns, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    with pytest.raises(TooManyRequests, match=VIOLATION):
        await api.evict("a", ns, how=Deletion(dry_run=True))


async def test_pending_pod_needs_no_budget(api: KubeApi, ns: str) -> None:
    await budget(api, ns, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    await api.create(POD, a_pod("a", labels=APP), ns)
    await api.evict("a", ns)
    await gone(api, ns, "a")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_finished_pod_needs_no_budget(api: KubeApi, ns: str, node: str, phase: str) -> None:
    await budget(api, ns, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    await api.create(POD, a_pod("a", labels=APP), ns)
    await api.bind("a", ns, Binding(node))
    await api.patch(POD, "a", MergePatch({"status": {"phase": phase}}), ns, subresource="status")
    await api.evict("a", ns)
    await gone(api, ns, "a")


async def test_terminating_pod_needs_no_budget(api: KubeApi, ns: str) -> None:
    await budget(api, ns, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    await running_pod(api, ns, "a", labels=APP)
    await api.delete(POD, "a", ns)
    await api.evict("a", ns)


async def test_pods_of_no_budget_are_free(api: KubeApi, ns: str) -> None:
    await budget(api, ns, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    await running_pod(api, ns, "a", labels={"app": "other"})
    await api.evict("a", ns)
    assert (await api.get(POD, "a", ns))["metadata"]["deletionTimestamp"]


async def test_empty_selector_covers_every_pod(api: KubeApi, ns: str) -> None:
    await running_pod(api, ns, "a", labels={"app": "whatever"})
    await api.create(BUDGET, a_budget("all", {}, minAvailable=1), ns)
    with pytest.raises(TooManyRequests, match=VIOLATION):
        await api.evict("a", ns)


async def test_two_budgets_on_one_pod_are_an_error(api: KubeApi, ns: str) -> None:
    await running_pod(api, ns, "a", labels=APP)
    for name in ("one", "two"):
        await budget(api, ns, name, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    says = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    with refused(ServerFailure, reason="", says=says):
        await api.evict("a", ns)


async def test_unready_pod_may_go_while_the_budget_is_healthy(api: KubeApi, ns: str) -> None:
    await running_pod(api, ns, "a", labels=APP, ready=False)
    await budget(api, ns, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    await api.evict("a", ns)
    assert "disruptedPods" not in (await api.get(BUDGET, "budget", ns))["status"], "it costs the budget nothing"


async def test_unready_pod_stays_while_the_budget_is_unhealthy(api: KubeApi, ns: str) -> None:
    await running_pod(api, ns, "a", labels=APP, ready=False)
    await budget(api, ns, disruptionsAllowed=0, currentHealthy=0, desiredHealthy=1)
    with pytest.raises(TooManyRequests, match=VIOLATION):
        await api.evict("a", ns)


async def test_policy_may_let_unready_pods_go_always(api: KubeApi, ns: str) -> None:
    await running_pod(api, ns, "a", labels=APP, ready=False)
    body = a_budget("budget", APP, minAvailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")
    await api.create(BUDGET, body, ns)
    await judge_budget(api, ns, "budget", disruptionsAllowed=0, currentHealthy=0, desiredHealthy=1)
    await api.evict("a", ns)
    assert (await api.get(POD, "a", ns))["metadata"]["deletionTimestamp"]
