"""StatefulSets: identity and order."""

from tests.contract.kinds import POD, STATEFUL_SET
from tests.contract.workloads.cluster import STOPS_SLOWLY, Cluster, has_condition, is_ready, names
from tests.contract.workloads.stories import in_both_worlds
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import VOLUME_CLAIMS
from ullage.testing.builders import a_workload


def versions(pods: list[JsonObject]) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"].get("annotations", {}).get("version", "") for pod in pods}


@in_both_worlds
async def test_pods_come_in_order_each_after_the_one_before_is_ready(cluster: Cluster) -> None:
    await cluster.create(STATEFUL_SET, a_workload("db", replicas=3, serviceName="db"))
    orders: list[list[tuple[str, bool]]] = []

    async def look() -> list[tuple[str, bool]]:
        pods = sorted(await cluster.pods(), key=lambda pod: str(pod["metadata"]["name"]))
        orders.append([(pod["metadata"]["name"], is_ready(pod)) for pod in pods])
        return orders[-1]

    await cluster.become(look, lambda seen: seen == [("db-0", True), ("db-1", True), ("db-2", True)])
    assert all(ready for seen in orders for _, ready in seen[:-1])
    await cluster.has_status(STATEFUL_SET, "db", replicas=3, readyReplicas=3, currentReplicas=3, updatedReplicas=3)


@in_both_worlds
async def test_a_pod_knows_who_it_is(cluster: Cluster) -> None:
    made = await cluster.create(STATEFUL_SET, a_workload("db", replicas=1, serviceName="db"))
    (pod,) = await cluster.has_ready_pods(1)
    labels = pod["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "db-0"
    assert labels["apps.kubernetes.io/pod-index"] == "0"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-0", "db")
    assert pod["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    seen = await cluster.become(
        lambda: cluster.get(STATEFUL_SET, "db"), lambda seen: "updateRevision" in seen["status"]
    )
    assert labels["controller-revision-hash"] == seen["status"]["updateRevision"]


@in_both_worlds
async def test_a_deleted_pod_comes_back_with_its_name_once_it_is_gone(cluster: Cluster) -> None:
    body = a_workload("db", replicas=2)
    body["spec"]["template"]["metadata"]["annotations"] = STOPS_SLOWLY
    await cluster.create(STATEFUL_SET, body)
    await cluster.has_ready_pods(2)
    before = (await cluster.get(POD, "db-0"))["metadata"]["uid"]
    await cluster.delete(POD, "db-0")
    await cluster.stays(lambda: cluster.get(POD, "db-0"), lambda pod: pod["metadata"]["uid"] == before, seconds=0.5)
    await cluster.become(
        lambda: cluster.find(POD, "db-0"), lambda pod: pod is not None and pod["metadata"]["uid"] != before
    )
    assert names(await cluster.has_ready_pods(2)) == ["db-0", "db-1"]


@in_both_worlds
async def test_the_highest_number_goes_first(cluster: Cluster) -> None:
    await cluster.create(STATEFUL_SET, a_workload("db", replicas=3))
    await cluster.has_ready_pods(3)
    await cluster.api.scale(STATEFUL_SET, "db", cluster.namespace, 1)
    left: list[list[str]] = []

    async def look() -> list[str]:
        left.append(names(await cluster.pods()))
        return left[-1]

    await cluster.become(look, lambda seen: seen == ["db-0"])
    assert all(seen == [f"db-{number}" for number in range(len(seen))] for seen in left)


@in_both_worlds
async def test_in_parallel_nobody_waits(cluster: Cluster) -> None:
    cluster.schedules.clear()
    await cluster.create(STATEFUL_SET, a_workload("db", replicas=3, podManagementPolicy="Parallel"))
    await cluster.become(lambda: cluster.pods(), lambda pods: names(pods) == ["db-0", "db-1", "db-2"])


@in_both_worlds
async def test_in_order_one_waits_for_the_other(cluster: Cluster) -> None:
    cluster.schedules.clear()
    await cluster.create(STATEFUL_SET, a_workload("db", replicas=3))
    await cluster.become(lambda: cluster.pods(), lambda pods: names(pods) == ["db-0"])
    await cluster.stays(lambda: cluster.pods(), lambda pods: names(pods) == ["db-0"], seconds=1)


@in_both_worlds
async def test_an_update_replaces_pods_from_the_highest_number_down(cluster: Cluster) -> None:
    await cluster.create(STATEFUL_SET, a_workload("db", replicas=3))
    await cluster.has_ready_pods(3)
    await cluster.patch(STATEFUL_SET, "db", {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}})
    steps: list[dict[str, str]] = []

    async def look() -> list[JsonObject]:
        steps.append(versions(await cluster.pods()))
        return await cluster.ready_pods()

    await cluster.become(look, lambda pods: len(pods) == 3 and set(versions(pods).values()) == {"2"})
    for seen in steps:
        new = sorted(int(name[3:]) for name, version in seen.items() if version == "2")
        old = sorted(int(name[3:]) for name, version in seen.items() if version == "")
        assert not new or not old or min(new) > max(old)
    done = await cluster.has_status(STATEFUL_SET, "db", updatedReplicas=3, readyReplicas=3, currentReplicas=3)
    await cluster.become(
        lambda: cluster.get(STATEFUL_SET, "db"),
        lambda seen: seen["status"]["currentRevision"] == seen["status"]["updateRevision"],
    )
    assert not has_condition(done, "Failed")


@in_both_worlds
async def test_pods_below_the_partition_keep_their_template(cluster: Cluster) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    await cluster.create(STATEFUL_SET, a_workload("db", replicas=2, updateStrategy=strategy))
    await cluster.has_ready_pods(2)
    await cluster.patch(STATEFUL_SET, "db", {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}})
    await cluster.become(lambda: cluster.ready_pods(), lambda pods: versions(pods) == {"db-0": "", "db-1": "2"})
    await cluster.delete(POD, "db-0")
    await cluster.become(lambda: cluster.ready_pods(), lambda pods: versions(pods) == {"db-0": "", "db-1": "2"})


@in_both_worlds
async def test_every_pod_gets_volume_claims_of_its_own_that_outlive_it(cluster: Cluster) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await cluster.create(STATEFUL_SET, a_workload("db", replicas=2, volumeClaimTemplates=[claim]))
    pods = await cluster.has_ready_pods(2)
    assert names(await cluster.all(VOLUME_CLAIMS.whole())) == ["data-db-0", "data-db-1"]
    mounted = [volume["persistentVolumeClaim"]["claimName"] for pod in pods for volume in pod["spec"]["volumes"][:1]]
    assert sorted(mounted) == ["data-db-0", "data-db-1"]
    await cluster.api.scale(STATEFUL_SET, "db", cluster.namespace, 0)
    await cluster.become(lambda: cluster.all(POD), lambda left: left == [])
    assert names(await cluster.all(VOLUME_CLAIMS.whole())) == ["data-db-0", "data-db-1"]
