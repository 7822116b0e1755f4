"""ReplicaSets: whose pods are whose, and who goes first."""

from tests.contract.kinds import POD, REPLICA_SET
from tests.contract.workloads.cluster import Cluster, names
from tests.contract.workloads.stories import in_both_worlds
from ullage.kube.client.api import MergePatch
from ullage.testing.builders import a_pod, a_workload

_FAILED = MergePatch({"status": {"phase": "Failed"}})


@in_both_worlds
async def test_it_adopts_pods_that_match(cluster: Cluster) -> None:
    await cluster.create(POD, a_pod("stray", labels={"app": "web"}))
    made = await cluster.create(REPLICA_SET, a_workload("web", replicas=2))
    assert "stray" in names(await cluster.has_ready_pods(2))
    stray = await cluster.get(POD, "stray")
    (owner,) = stray["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": made["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


@in_both_worlds
async def test_it_lets_go_of_a_pod_whose_labels_no_longer_match(cluster: Cluster) -> None:
    await cluster.create(REPLICA_SET, a_workload("web", replicas=1))
    (pod,) = names(await cluster.has_ready_pods(1))
    await cluster.patch(POD, pod, {"metadata": {"labels": {"app": "debugged"}}})
    await cluster.has_ready_pods(1, "app=web")
    released = await cluster.become(
        lambda: cluster.get(POD, pod), lambda seen: "ownerReferences" not in seen["metadata"]
    )
    assert released["metadata"]["labels"] == {"app": "debugged"}


@in_both_worlds
async def test_pods_without_a_node_go_first(cluster: Cluster) -> None:
    await cluster.create(REPLICA_SET, a_workload("web", replicas=2))
    running = names(await cluster.has_ready_pods(2))
    cluster.schedules.clear()
    await cluster.api.scale(REPLICA_SET, "web", cluster.namespace, 4)
    await cluster.become(lambda: cluster.pods(), lambda pods: len(pods) == 4)
    await cluster.api.scale(REPLICA_SET, "web", cluster.namespace, 2)
    await cluster.become(lambda: cluster.pods(), lambda pods: len(pods) == 2)
    assert names(await cluster.pods()) == running


@in_both_worlds
async def test_the_cheapest_to_delete_goes_first(cluster: Cluster) -> None:
    await cluster.create(REPLICA_SET, a_workload("web", replicas=3))
    cheap, *_ = names(await cluster.has_ready_pods(3))
    cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-10"}}}
    await cluster.patch(POD, cheap, cost)
    await cluster.api.scale(REPLICA_SET, "web", cluster.namespace, 2)
    assert cheap not in names(await cluster.has_ready_pods(2))


@in_both_worlds
async def test_ended_pods_are_replaced_and_not_counted(cluster: Cluster) -> None:
    template = a_workload("web", replicas=1)
    await cluster.create(REPLICA_SET, template)
    (pod,) = names(await cluster.has_ready_pods(1))
    await cluster.api.patch(POD, pod, _FAILED, cluster.namespace, subresource="status")
    await cluster.become(lambda: cluster.ready_pods(), lambda ready: len(ready) == 1 and names(ready) != [pod])
    await cluster.has_status(REPLICA_SET, "web", replicas=1, readyReplicas=1, availableReplicas=1)


@in_both_worlds
async def test_a_pod_is_available_only_after_its_time(cluster: Cluster) -> None:
    await cluster.create(REPLICA_SET, a_workload("web", replicas=1, minReadySeconds=3))
    await cluster.has_status(REPLICA_SET, "web", readyReplicas=1, availableReplicas=0)
    await cluster.has_status(REPLICA_SET, "web", readyReplicas=1, availableReplicas=1)
