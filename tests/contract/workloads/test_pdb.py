"""Disruption budgets: what they count, and what evictions cost."""

import pytest

from tests.contract.kinds import BUDGET, DEPLOYMENT, POD, STATEFUL_SET
from tests.contract.workloads.cluster import STOPS_SLOWLY, Cluster, has_condition, names
from tests.contract.workloads.stories import in_both_worlds
from ullage.errors import TooManyRequests
from ullage.testing.builders import a_budget, a_pod, a_workload

WEB = {"app": "web"}


@in_both_worlds
async def test_a_number_counts_the_pods_there_are(cluster: Cluster) -> None:
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=3))
    await cluster.has_ready_pods(3)
    await cluster.create(BUDGET, a_budget("web", WEB, minAvailable=2))
    seen = await cluster.has_status(
        BUDGET, "web", expectedPods=3, desiredHealthy=2, currentHealthy=3, disruptionsAllowed=1, observedGeneration=1
    )
    assert has_condition(seen, "DisruptionAllowed", reason="SufficientPods")


@in_both_worlds
async def test_a_share_counts_the_pods_asked_for(cluster: Cluster) -> None:
    cluster.schedules.clear()
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=7))
    await cluster.create(BUDGET, a_budget("web", WEB, maxUnavailable="30%"))
    seen = await cluster.has_status(
        BUDGET, "web", expectedPods=7, desiredHealthy=4, currentHealthy=0, disruptionsAllowed=0
    )
    assert has_condition(seen, "DisruptionAllowed", "False", "InsufficientPods")


@in_both_worlds
async def test_shares_of_a_stateful_set_count_too(cluster: Cluster) -> None:
    await cluster.create(STATEFUL_SET, a_workload("web", replicas=3, podManagementPolicy="Parallel"))
    await cluster.has_ready_pods(3)
    await cluster.create(BUDGET, a_budget("web", WEB, minAvailable="50%"))
    await cluster.has_status(BUDGET, "web", expectedPods=3, desiredHealthy=2, currentHealthy=3, disruptionsAllowed=1)


@in_both_worlds
async def test_pods_nobody_controls_have_no_share(cluster: Cluster) -> None:
    await cluster.create(POD, a_pod("loner", labels=WEB))
    await cluster.has_ready_pods(1)
    await cluster.create(BUDGET, a_budget("web", WEB, maxUnavailable=1))
    await cluster.has_status(BUDGET, "web", expectedPods=0, desiredHealthy=0, currentHealthy=1, disruptionsAllowed=0)


@in_both_worlds
async def test_an_eviction_is_granted_once_and_made_up_for(cluster: Cluster) -> None:
    pod = a_workload("web", replicas=2)
    pod["spec"]["template"]["metadata"]["annotations"] = STOPS_SLOWLY
    await cluster.create(DEPLOYMENT, pod)
    first, second = names(await cluster.has_ready_pods(2))
    await cluster.create(BUDGET, a_budget("web", WEB, minAvailable=1))
    await cluster.has_status(BUDGET, "web", disruptionsAllowed=1)
    cluster.schedules.clear()
    await cluster.api.evict(first, cluster.namespace)
    await cluster.has_status(BUDGET, "web", disruptionsAllowed=0, currentHealthy=1, disruptedPods={})
    with pytest.raises(TooManyRequests):
        await cluster.api.evict(second, cluster.namespace)
    cluster.schedules.set()
    assert second in names(await cluster.has_ready_pods(2))
    await cluster.has_status(BUDGET, "web", disruptionsAllowed=1, currentHealthy=2)


@in_both_worlds
async def test_a_budget_follows_its_change(cluster: Cluster) -> None:
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=2))
    await cluster.has_ready_pods(2)
    await cluster.create(BUDGET, a_budget("web", WEB, minAvailable=1))
    await cluster.has_status(BUDGET, "web", disruptionsAllowed=1)
    await cluster.patch(BUDGET, "web", {"spec": {"minAvailable": 2}})
    await cluster.has_status(BUDGET, "web", disruptionsAllowed=0, desiredHealthy=2, observedGeneration=2)
