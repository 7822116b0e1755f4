"""Pods: what the server fills in, what a binding writes, what an eviction costs, and how they go."""

from typing import Any

import pytest

from tests.sim.apiserver.asking import BUDGETS, PODS, Client, HandClock, events
from ullage.testing.builders import a_pod


def bind(client: Client, name: str, node: str = "n", **metadata: Any) -> int:
    body = {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}
    return client.post(f"{PODS}/{name}/binding", body).status


def running(client: Client, name: str, *, ready: bool = True, **labels: str) -> None:
    client.post(PODS, a_pod(name, labels=labels))
    bind(client, name)
    conditions = [{"type": "Ready", "status": str(ready)}]
    client.merge(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": conditions}})


def evict(client: Client, name: str, options: dict[str, Any] | None = None, **query: str) -> Any:
    body: dict[str, Any] = {"metadata": {"name": name}}
    if options:
        body["deleteOptions"] = options
    return client.post(f"{PODS}/{name}/eviction", body, **query)


def budget(client: Client, name: str, /, **status: int) -> None:
    """A budget for pods labelled a=b, with the status a controller would have written."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    client.post(BUDGETS, {"metadata": {"name": name}, "spec": spec})
    if status:
        client.merge(f"{BUDGETS}/{name}/status", {"status": {"observedGeneration": 1, **status}})


def test_a_new_pod_is_completed(client: Client) -> None:
    limits = {"limits": {"cpu": "1000m", "nvidia.com/gpu": 2}}
    pod = client.post(PODS, a_pod("a", containers=[{"name": "c", "image": "i:1", "resources": limits}])).body
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert container["resources"] == {
        "limits": {"cpu": "1", "nvidia.com/gpu": "2"},
        "requests": {"cpu": "1", "nvidia.com/gpu": "2"},
    }
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert (spec["schedulerName"], spec["restartPolicy"], spec["priority"]) == ("default-scheduler", "Always", 0)
    assert [t["tolerationSeconds"] for t in spec["tolerations"]] == [300, 300]
    assert pod["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert pod["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
def test_quality_of_service(client: Client, resources: dict[str, Any], quality: str) -> None:
    pod = client.post(PODS, a_pod("a", containers=[{"name": "c", "image": "i", "resources": resources}])).body
    assert pod["status"]["qosClass"] == quality


def test_a_binding_is_one_write(client: Client) -> None:
    client.post("/api/v1/nodes", {"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z1"}}})
    client.post(PODS, a_pod("a", labels={"l": "old"}))
    client.merge(f"{PODS}/a/status", {"status": {"nominatedNodeName": "n"}})
    watcher = client.watch(PODS, resourceVersion=str(client.server.revision))
    assert bind(client, "a", annotations={"gpu": "0,1"}, labels={"l": "new"}) == 201
    ((kind, pod),) = events(watcher)
    assert (kind, pod["spec"]["nodeName"]) == ("MODIFIED", "n")
    assert pod["metadata"]["annotations"] == {"gpu": "0,1"}
    assert pod["metadata"]["labels"] == {"l": "new", "topology.kubernetes.io/zone": "z1"}
    assert "nominatedNodeName" not in pod["status"]
    assert [(c["type"], c["status"]) for c in pod["status"]["conditions"]] == [("PodScheduled", "True")]


def test_who_is_bound_going_or_gated_is_not_bound(client: Client) -> None:
    client.post(PODS, a_pod("bound"))
    bind(client, "bound")
    client.post(PODS, a_pod("gated", schedulingGates=[{"name": "g"}]))
    going = a_pod("going")
    going["metadata"]["finalizers"] = ["a/b"]
    client.post(PODS, going)
    client.delete(f"{PODS}/going")
    for name in ("bound", "gated", "going"):
        before = client.server.revision
        assert bind(client, name) == 409
        assert client.server.revision == before
    assert bind(client, "nobody") == 404


def test_an_eviction_is_charged_to_the_budget(client: Client, clock: HandClock) -> None:
    running(client, "a", a="b")
    running(client, "c", a="b")
    budget(client, "b", disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    assert evict(client, "a", dryRun="All").status == 201
    assert client.get(f"{BUDGETS}/b").body["status"]["disruptionsAllowed"] == 1
    assert evict(client, "a").status == 201
    status = client.get(f"{BUDGETS}/b").body["status"]
    assert status["disruptionsAllowed"] == 0
    assert status["disruptedPods"] == {"a": "2026-01-01T00:00:00Z"}
    gone = client.get(f"{PODS}/a").body
    assert gone["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    assert "DisruptionTarget" in [condition["type"] for condition in gone["status"]["conditions"]]
    refused = evict(client, "c")
    assert (refused.status, refused.retry_after) == (429, None)
    clock.moment += 1
    assert evict(client, "a").status == 201, "who is going needs no budget"


@pytest.mark.parametrize(
    ("status", "ready", "code", "retry_after"),
    [
        pytest.param({}, True, 429, 10, id="never-looked-at"),
        pytest.param(
            {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}, True, 429, None, id="no-room"
        ),
        pytest.param(
            {"currentHealthy": 1, "desiredHealthy": 1}, False, 201, None, id="unready-while-enough-are-healthy"
        ),
        pytest.param({"currentHealthy": 0, "desiredHealthy": 1}, False, 429, None, id="unready-while-too-few-are"),
        pytest.param({"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}, True, 201, None, id="room"),
    ],
)
def test_evictions(client: Client, status: dict[str, int], ready: bool, code: int, retry_after: int | None) -> None:
    running(client, "a", ready=ready, a="b")
    budget(client, "b", **status)
    answer = evict(client, "a")
    assert (answer.status, answer.retry_after) == (code, retry_after)


def test_two_budgets_block_for_ever_and_a_pending_pod_needs_none(client: Client) -> None:
    running(client, "a", a="b")
    client.post(PODS, a_pod("pending", labels={"a": "b"}))
    budget(client, "one", disruptionsAllowed=1)
    budget(client, "two", disruptionsAllowed=1)
    assert evict(client, "a").status == 500
    assert evict(client, "pending").status == 201
    assert client.get(f"{PODS}/pending").status == 404


def test_grace_can_only_get_shorter(client: Client, clock: HandClock) -> None:
    running(client, "a")
    watcher = client.watch(PODS, resourceVersion=str(client.server.revision))
    for asked, left in (({}, 30), ({"gracePeriodSeconds": "60"}, 30), ({"gracePeriodSeconds": "10"}, 10)):
        assert client.delete(f"{PODS}/a", **asked).body["metadata"]["deletionGracePeriodSeconds"] == left
    clock.moment += 20
    late = client.delete(f"{PODS}/a", gracePeriodSeconds="5").body["metadata"]
    assert (late["deletionGracePeriodSeconds"], late["deletionTimestamp"]) == (1, "2026-01-01T00:00:20Z")
    client.delete(f"{PODS}/a", gracePeriodSeconds="0")
    seen = [(kind, pod["metadata"]["deletionGracePeriodSeconds"]) for kind, pod in events(watcher)]
    assert seen == [("MODIFIED", 30), ("MODIFIED", 10), ("MODIFIED", 1), ("MODIFIED", 0), ("DELETED", 0)]


def test_field_selectors_of_pods(client: Client) -> None:
    running(client, "a")
    client.post(PODS, a_pod("b", schedulerName="gpu-scheduler"))
    wanted = {
        "spec.nodeName=n": ["a"],
        "spec.nodeName=": ["b"],
        "status.phase!=Running": ["b"],
        "spec.schedulerName=gpu-scheduler,spec.nodeName=": ["b"],
        "metadata.name=a": ["a"],
        "spec.restartPolicy=Never": [],
    }
    for selector, names in wanted.items():
        found = client.get(PODS, fieldSelector=selector).body["items"]
        assert [pod["metadata"]["name"] for pod in found] == names, selector


def test_many_pages_under_deletion_show_one_moment(client: Client) -> None:
    for number in range(2_000):
        client.post(PODS, a_pod(f"p{number:05}"))
    found: list[str] = []
    token = ""
    while True:
        page = client.get(PODS, limit="500", **({"continue": token} if token else {})).body
        found += [pod["metadata"]["name"] for pod in page["items"]]
        client.delete(f"{PODS}/{found[-1]}")
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert found == [f"p{number:05}" for number in range(2_000)]
