"""kube-scheduler is the judge: on one API server, it refuses as many nodes for each reason as we do."""

import re
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.decide.placement.filters import manifests
from tests.decide.placement.filters.asking import Cluster, fact_of
from ullage.model.verdict import Reason
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec, GoProgram
from ullage.testing.controlplane.fixtures import prepare
from ullage.testing.controlplane.launcher import wait_until

pytestmark = pytest.mark.real

PODS = "/api/v1/namespaces/default/pods"
CLUSTERS, QUESTIONS = 3, 40

SAID = {
    "were unschedulable": Reason.NODE_UNSCHEDULABLE,
    "had untolerated taint": Reason.TAINT_NOT_TOLERATED,
    "didn't match Pod's node affinity/selector": Reason.NODE_SELECTOR_MISMATCH,
    "didn't have free ports": Reason.HOST_PORT_TAKEN,
    "had volume node affinity conflict": Reason.VOLUME_ELSEWHERE,
    "didn't match PersistentVolume's node affinity": Reason.VOLUME_ELSEWHERE,
    "unavailable due to PersistentVolumeClaim with ReadWriteOncePod": Reason.VOLUME_IN_USE,
    "topology spread constraints (missing required label)": Reason.SPREAD_KEY_MISSING,
    "didn't match pod topology spread constraints": Reason.SPREAD_TOO_UNEVEN,
    "didn't match pod affinity rules": Reason.POD_AFFINITY_UNMET,
    "didn't match pod anti-affinity rules": Reason.POD_ANTI_AFFINITY,
    "didn't satisfy existing pods anti-affinity rules": Reason.EXISTING_ANTI_AFFINITY,
}
"""What kube-scheduler says, longest first where one is part of another; the rest is about room."""

ROOM = (Reason.NODE_TOO_SMALL, Reason.TOO_MANY_PODS, Reason.INSUFFICIENT_RESOURCES)


class Judge:
    """An API server with kube-scheduler."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> None:
        status, answer = self._plane.probe.request(method, self._plane.server + path, body)
        assert status in (200, 201), answer

    def items(self, path: str) -> list[dict[str, Any]]:
        return list(self._plane.probe.get(self._plane.server + path)["items"])

    def settle(self, rng: Random) -> None:
        """A new cluster in the place of the old one: nodes, and pods on them."""
        for pod in self.items(PODS):
            self.call("DELETE", f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")
        for node in self.items("/api/v1/nodes"):
            self.call("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")
        for node in manifests.nodes(rng):
            self.call("POST", "/api/v1/nodes", node)
            self.call("PUT", f"/api/v1/nodes/{node['metadata']['name']}/status", node)
        for number in range(12):
            self.call("POST", PODS, manifests.a_pod(rng, f"placed-{number}", node=rng.choice(manifests.NODES)))

    def rule(self, pod: dict[str, Any]) -> tuple[str, str]:
        """The node it chose, or what it says against all of them; then the pod is taken away again."""
        name = pod["metadata"]["name"]
        self.call("POST", PODS, pod)
        answer: list[dict[str, Any]] = []

        def has_ruled() -> bool:
            read = self._plane.probe.get(f"{self._plane.server}{PODS}/{name}")
            ruled = [c for c in read["status"].get("conditions", ()) if c["type"] == "PodScheduled"]
            answer[:] = [read, *ruled]
            return len(answer) > 1

        assert wait_until(has_ruled, 20.0), name
        read, condition = answer
        self.call("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
        return read["spec"].get("nodeName", ""), condition.get("message", "")

    def as_we_see_it(self) -> Cluster:
        """The same cluster, read back from the API server."""
        cluster = Cluster()
        for kind, path in (
            ("Node", "/api/v1/nodes"),
            ("Namespace", "/api/v1/namespaces"),
            ("PersistentVolume", "/api/v1/persistentvolumes"),
            ("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims"),
            ("Pod", PODS),
        ):
            for item in self.items(path):
                cluster.hear(kind, item)
        return cluster


@pytest.fixture(scope="module")
def check_node() -> Iterator[Judge]:
    with prepare(ControlPlaneSpec(components=(GoProgram.SCHEDULER,))) as plane:
        check_node = Judge(plane)
        for path, manifest in manifests.volumes():
            check_node.call("POST", path, manifest)
        yield check_node


def told(message: str) -> tuple[Counter[Reason], bool]:
    """How many nodes it refuses for which reason, and whether some lack room (there one node may be told twice)."""
    counts: Counter[Reason] = Counter()
    room = False
    about_nodes = message.partition("available: ")[2].partition(". ")[0]
    for count, words in re.findall(r"(\d+) ([^,]+)", about_nodes):
        reason = next((reason for said, reason in SAID.items() if said in words), None)
        room = room or reason is None
        if reason is not None:
            counts[reason] += int(count)
    return counts, room


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_we_rule_as_kube_scheduler_does(check_node: Judge, seed: int) -> None:
    rng = Random(seed)
    check_node.settle(rng)
    placed_nowhere, seen = 0, Counter[Reason]()
    for number in range(QUESTIONS):
        pod = manifests.a_pod(rng, f"asking-{number}")
        cluster = check_node.as_we_see_it()
        node, message = check_node.rule(pod)
        ours = cluster.ask(fact_of("Pod", pod | {"metadata": pod["metadata"] | {"namespace": "default"}}))
        fitting = {name for name, verdict in ours.items() if verdict}
        if node:
            assert node in fitting, (pod, ours)
            continue
        placed_nowhere += 1
        assert not fitting, (message, ours, pod)
        theirs, room = told(message)
        counted = Counter(verdict.reason for verdict in ours.values() if verdict.reason not in ROOM)
        assert counted == theirs, (message, ours, pod)
        assert room == any(verdict.reason in ROOM for verdict in ours.values()), (message, ours)
        seen += counted
    assert placed_nowhere > QUESTIONS // 10, "a judge who refuses nobody says little"
    assert len(seen) > 3
