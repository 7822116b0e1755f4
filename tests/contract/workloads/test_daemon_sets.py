"""DaemonSets: a pod on every node that fits."""

from tests.contract.kinds import DAEMON_SET, NODE
from tests.contract.workloads.cluster import Cluster
from tests.contract.workloads.stories import in_both_worlds
from ullage.kube.client.api import MergePatch
from ullage.testing.builders import a_pod_spec, a_workload


@in_both_worlds
async def test_it_runs_on_the_nodes_it_selects(cluster: Cluster) -> None:
    first, second = cluster.nodes
    await _label(cluster, first)
    await cluster.create(DAEMON_SET, a_workload("agent", pod=a_pod_spec(nodeSelector={"pool": cluster.namespace})))
    (pod,) = await cluster.has_ready_pods(1)
    assert pod["spec"]["nodeName"] == first
    await _label(cluster, second)
    pods = await cluster.has_ready_pods(2)
    assert {pod["spec"]["nodeName"] for pod in pods} == {first, second}
    await cluster.has_status(
        DAEMON_SET, "agent", desiredNumberScheduled=2, currentNumberScheduled=2, numberReady=2, numberMisscheduled=0
    )
    await cluster.api.patch(NODE, first, MergePatch({"metadata": {"labels": {"pool": None}}}))
    (left,) = await cluster.has_ready_pods(1)
    assert left["spec"]["nodeName"] == second


@in_both_worlds
async def test_its_pods_are_pinned_to_their_node_and_tolerate_its_troubles(cluster: Cluster) -> None:
    await _label(cluster, cluster.nodes[0])
    await cluster.create(DAEMON_SET, a_workload("agent", pod=a_pod_spec(nodeSelector={"pool": cluster.namespace})))
    (pod,) = await cluster.has_ready_pods(1)
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    pinned = {"key": "metadata.name", "operator": "In", "values": [cluster.nodes[0]]}
    assert required == {"nodeSelectorTerms": [{"matchFields": [pinned]}]}
    tolerated = {(each["key"], each["effect"]) for each in pod["spec"]["tolerations"]}
    assert ("node.kubernetes.io/unreachable", "NoExecute") in tolerated
    assert ("node.kubernetes.io/unschedulable", "NoSchedule") in tolerated


@in_both_worlds
async def test_an_update_replaces_its_pods(cluster: Cluster) -> None:
    for node in cluster.nodes:
        await _label(cluster, node)
    await cluster.create(DAEMON_SET, a_workload("agent", pod=a_pod_spec(nodeSelector={"pool": cluster.namespace})))
    await cluster.has_ready_pods(2)
    await cluster.patch(DAEMON_SET, "agent", {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}})
    await cluster.become(
        lambda: cluster.ready_pods(),
        lambda pods: (
            len(pods) == 2 and all(pod["metadata"].get("annotations", {}).get("version") == "2" for pod in pods)
        ),
    )
    await cluster.has_status(DAEMON_SET, "agent", updatedNumberScheduled=2, numberAvailable=2, observedGeneration=2)


async def _label(cluster: Cluster, node: str) -> None:
    await cluster.api.patch(NODE, node, MergePatch({"metadata": {"labels": {"pool": cluster.namespace}}}))
