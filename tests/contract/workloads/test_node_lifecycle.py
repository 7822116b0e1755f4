"""Nodes nobody hears of, and what becomes of their pods."""

import pytest

from tests.contract.kinds import NODE, POD
from tests.contract.workloads.cluster import Cluster, has_condition
from tests.contract.workloads.stories import Play
from ullage.kube.client.api import Binding
from ullage.kube.client.resource import JsonObject
from ullage.testing.builders import a_node, a_pod

UNREACHABLE = "node.kubernetes.io/unreachable"


async def taints(cluster: Cluster, node: str) -> set[tuple[str, str]]:
    found = await cluster.api.get(NODE, node)
    return {(taint["key"], taint["effect"]) for taint in found["spec"].get("taints", ())}


def bearing_it(name: str, **more: object) -> JsonObject:
    """A pod that tolerates an unreachable node."""
    bears = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"} | more
    return a_pod(name, tolerations=[bears])


async def a_node_falls_silent(cluster: Cluster) -> None:
    silent = f"{cluster.namespace}-silent"
    cluster.schedules.clear()
    await cluster.api.create(NODE, a_node(silent))
    try:
        for pod in (bearing_it("patient"), bearing_it("hasty", tolerationSeconds=5)):
            await cluster.create(POD, pod)
            await cluster.api.bind(pod["metadata"]["name"], cluster.namespace, Binding(silent))
        await cluster.become(
            lambda: cluster.api.get(NODE, silent),
            lambda node: has_condition(node, "Ready", "Unknown", "NodeStatusUnknown"),
            seconds=60,
        )
        both = {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
        await cluster.become(lambda: taints(cluster, silent), lambda seen: seen == both)
        assert "deletionTimestamp" not in (await cluster.get(POD, "hasty"))["metadata"]
        going = await cluster.become(
            lambda: cluster.get(POD, "hasty"), lambda pod: "deletionTimestamp" in pod["metadata"]
        )
        assert has_condition(going, "DisruptionTarget", reason="DeletionByTaintManager")
        assert "deletionTimestamp" not in (await cluster.get(POD, "patient"))["metadata"]
        for node in cluster.nodes:
            assert has_condition(await cluster.api.get(NODE, node), "Ready")
            assert await taints(cluster, node) == set()
    finally:
        await cluster.api.delete(NODE, silent)


@pytest.mark.timeout(180)
def test_a_node_that_falls_silent_is_tainted_and_pods_leave_when_their_patience_ends(
    play_with_heartbeats: Play,
) -> None:
    play_with_heartbeats(a_node_falls_silent)
