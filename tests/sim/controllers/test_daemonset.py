"""DaemonSets: where a pod belongs."""

from typing import Any

import pytest

from tests.sim.controllers.things import at, daemon_set, merged, node, owner, pod, said
from ullage.sim.controllers.daemonset import REVISION, plan_daemon_set
from ullage.sim.controllers.objects import ActorNode, ActorPod
from ullage.sim.controllers.ownership import template_hash
from ullage.testing.builders import a_pod_spec, a_taint

NOW = at(1000)
CURRENT = template_hash(daemon_set().spec.template)


def agent(name: str, on: str, revision: str = CURRENT, **more: Any) -> ActorPod:
    labels = {"app": "agent", REVISION: revision}
    return pod(name, node=on, labels=labels, owned_by=owner("DaemonSet", "agent"), **more)


A, B = node("node-a"), node("node-b")
CLOSED = node("node-a", taints=[a_taint("closed")])
DEADLY = node("node-a", taints=[a_taint("deadly", effect="NoExecute")])
CORDONED = node("node-a", taints=[a_taint("node.kubernetes.io/unschedulable")])


@pytest.mark.parametrize(
    ("nodes", "pods", "expected"),
    [
        pytest.param([A, B], [], ["create pods", "create pods"], id="one-for-each-node"),
        pytest.param([A, B], [agent("x", "node-a")], ["create pods"], id="where-it-is-missing"),
        pytest.param([A], [agent("x", "node-a"), agent("y", "node-a", created=9)], ["delete pods/y"], id="only-one"),
        pytest.param([A], [agent("x", "node-a", phase="Failed")], ["delete pods/x"], id="a-failed-one-goes"),
        pytest.param([A], [agent("x", "node-a", going=999)], [], id="one-that-is-going-is-waited-for"),
        pytest.param([CLOSED], [], [], id="not-on-a-closed-node"),
        pytest.param([CLOSED], [agent("x", "node-a")], [], id="it-stays-where-it-may-not-start"),
        pytest.param([DEADLY], [agent("x", "node-a")], ["delete pods/x"], id="it-leaves-where-nobody-may-stay"),
        pytest.param([CORDONED], [], ["create pods"], id="a-cordon-does-not-keep-it-off"),
        pytest.param([], [agent("x", "node-a")], [], id="pods-of-lost-nodes-are-the-collectors"),
        pytest.param(
            [A, B],
            [agent("x", "node-a", "old"), agent("y", "node-b", "old")],
            ["delete pods/x"],
            id="one-outdated-pod-at-a-time",
        ),
        pytest.param(
            [A, B],
            [agent("x", "node-a", "old"), agent("y", "node-b", ready=False)],
            [],
            id="not-while-another-is-not-ready",
        ),
        pytest.param(
            [A, B],
            [agent("x", "node-a", "old", ready=False), agent("y", "node-b", "old")],
            ["delete pods/x"],
            id="one-that-serves-nobody-costs-nothing",
        ),
    ],
)
def test_steps(nodes: list[ActorNode], pods: list[ActorPod], expected: list[str]) -> None:
    plan = plan_daemon_set(daemon_set(), nodes, pods, now=NOW)
    assert [each for each in said(plan) if " pods" in each] == expected


def test_only_selected_nodes_count() -> None:
    picky = daemon_set(pod=a_pod_spec(nodeSelector={"gpu": "yes"}))
    chosen = node("node-b", labels={"gpu": "yes"})
    plan = plan_daemon_set(picky, [A, chosen], [], now=NOW)
    assert merged(plan, "agent")["status"]["desiredNumberScheduled"] == 1


def test_the_counts() -> None:
    pods = [agent("x", "node-a"), agent("y", "node-b", ready=False)]
    status = merged(plan_daemon_set(daemon_set(), [A, B], pods, now=NOW), "agent")["status"]
    assert status == {
        "desiredNumberScheduled": 2,
        "currentNumberScheduled": 2,
        "numberMisscheduled": 0,
        "numberReady": 1,
        "updatedNumberScheduled": 2,
        "numberAvailable": 1,
        "numberUnavailable": 1,
        "observedGeneration": 1,
    }
