"""What becomes of things when their owners go, of namespaces, and of pods whose node is gone."""

import pytest

from tests.contract.kinds import CONFIG_MAP, DEPLOYMENT, NAMESPACE, NODE, POD, REPLICA_SET
from tests.contract.workloads.cluster import STOPS_SLOWLY, Cluster, names
from tests.contract.workloads.stories import in_both_worlds
from ullage.kube.client.api import Deletion, Propagation
from ullage.testing.builders import a_config_map, a_pod, a_workload, owned_by


@in_both_worlds
async def test_in_the_background_dependents_follow_their_owner(cluster: Cluster) -> None:
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=2))
    await cluster.has_ready_pods(2)
    await cluster.delete(DEPLOYMENT, "web", Deletion(propagation=Propagation.BACKGROUND))
    assert await cluster.find(DEPLOYMENT, "web") is None
    await cluster.become(lambda: cluster.all(REPLICA_SET), lambda left: left == [])
    await cluster.become(lambda: cluster.all(POD), lambda left: left == [])


@in_both_worlds
async def test_in_the_foreground_the_owner_goes_last(cluster: Cluster) -> None:
    body = a_workload("web", replicas=2)
    body["spec"]["template"]["metadata"]["annotations"] = STOPS_SLOWLY
    await cluster.create(DEPLOYMENT, body)
    await cluster.has_ready_pods(2)
    await cluster.delete(DEPLOYMENT, "web", Deletion(propagation=Propagation.FOREGROUND))
    going = await cluster.get(DEPLOYMENT, "web")
    assert going["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in going["metadata"]
    left_behind: list[list[str]] = []

    async def look() -> bool:
        gone = await cluster.find(DEPLOYMENT, "web") is None
        if gone:
            left_behind.append(names(await cluster.all(POD)))
        return gone

    await cluster.become(look, bool)
    assert left_behind == [[]]


@in_both_worlds
async def test_orphans_stay_and_forget_their_owner(cluster: Cluster) -> None:
    await cluster.create(REPLICA_SET, a_workload("web", replicas=2))
    before = names(await cluster.has_ready_pods(2))
    await cluster.delete(REPLICA_SET, "web", Deletion(propagation=Propagation.ORPHAN))
    await cluster.is_gone(REPLICA_SET, "web")
    pods = await cluster.all(POD)
    assert names(pods) == before
    assert all("ownerReferences" not in pod["metadata"] for pod in pods)
    await cluster.stays(lambda: cluster.pods(), lambda left: names(left) == before, seconds=1)


@in_both_worlds
async def test_a_thing_whose_owner_never_was_is_collected(cluster: Cluster) -> None:
    ghost = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "ghost", "uid": "00000000-0000-0000-0000-000000000000"},
    }
    await cluster.create(CONFIG_MAP, owned_by(a_config_map("haunted"), ghost))
    await cluster.is_gone(CONFIG_MAP, "haunted")


@in_both_worlds
async def test_a_namesake_is_not_the_owner(cluster: Cluster) -> None:
    owner = await cluster.create(CONFIG_MAP, a_config_map("owner"))
    other = {**owner, "metadata": {**owner["metadata"], "uid": "11111111-1111-1111-1111-111111111111"}}
    await cluster.create(CONFIG_MAP, owned_by(a_config_map("mistaken"), other))
    await cluster.is_gone(CONFIG_MAP, "mistaken")
    assert await cluster.find(CONFIG_MAP, "owner") is not None


@in_both_worlds
async def test_one_owner_left_is_enough(cluster: Cluster) -> None:
    one = await cluster.create(CONFIG_MAP, a_config_map("one"))
    two = await cluster.create(CONFIG_MAP, a_config_map("two"))
    body = owned_by(a_config_map("shared"), one, controller=False)
    body["metadata"]["ownerReferences"] += owned_by({}, two, controller=False)["metadata"]["ownerReferences"]
    await cluster.create(CONFIG_MAP, body)
    await cluster.delete(CONFIG_MAP, "one")
    kept = await cluster.become(
        lambda: cluster.get(CONFIG_MAP, "shared"), lambda seen: len(seen["metadata"]["ownerReferences"]) == 1
    )
    assert kept["metadata"]["ownerReferences"][0]["name"] == "two"
    await cluster.delete(CONFIG_MAP, "two")
    await cluster.is_gone(CONFIG_MAP, "shared")


@in_both_worlds
async def test_a_namespace_goes_with_everything_in_it(cluster: Cluster) -> None:
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=2))
    await cluster.create(CONFIG_MAP, a_config_map("settings"))
    await cluster.has_ready_pods(2)
    await cluster.api.delete(NAMESPACE, cluster.namespace)
    assert (await cluster.api.get(NAMESPACE, cluster.namespace))["status"]["phase"] == "Terminating"
    await cluster.is_gone(NAMESPACE, cluster.namespace)
    for resource in (DEPLOYMENT, REPLICA_SET, POD, CONFIG_MAP):
        assert await cluster.all(resource) == []


@in_both_worlds
async def test_a_pod_that_is_told_to_go_stays_until_it_has_stopped(cluster: Cluster) -> None:
    await cluster.create(POD, a_pod("slow", annotations=STOPS_SLOWLY, terminationGracePeriodSeconds=20))
    await cluster.has_ready_pods(1)
    await cluster.delete(POD, "slow")
    await cluster.stays(
        lambda: cluster.find(POD, "slow"),
        lambda pod: pod is not None and "deletionTimestamp" in pod["metadata"],
        seconds=0.5,
    )
    await cluster.is_gone(POD, "slow")


@pytest.mark.timeout(180)
@in_both_worlds
async def test_pods_of_a_node_that_is_gone_are_collected_and_replaced(cluster: Cluster) -> None:
    await cluster.create(REPLICA_SET, a_workload("web", replicas=2))
    await cluster.has_ready_pods(2)
    lost, kept = cluster.nodes
    cluster.nodes = (kept,)
    await cluster.api.delete(NODE, lost)

    async def places() -> list[str]:
        return [pod["spec"].get("nodeName", "") for pod in await cluster.ready_pods()]

    await cluster.become(places, lambda seen: seen == [kept, kept], seconds=120)
    assert len(await cluster.all(POD)) == 2
