"""Manifests as people keep them: every way to write them down, what is filled in, and errors that name the place."""

import json
from pathlib import Path
from typing import Any

import pytest

from ullage.errors import UserError
from ullage.kube.manifests import documents
from ullage.kube.manifests.manifests import Manifests, read_manifests
from ullage.model.fact_event import ObjectKey
from ullage.model.resources import GPU

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: 4, pods: 10}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: team}
spec: {containers: [{name: main, image: x}]}
"""


def read(text: str, **options: Any) -> Manifests:
    return read_manifests(["-"], stdin=text.encode(), **options)


def a_pod(spec: str) -> str:
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {spec}\n"


def only_pod(found: Manifests) -> Any:
    (pod,) = found.state.pods.values()
    return pod


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{NODE}---{POD}", id="yaml-documents"),
        pytest.param(f"---{NODE}---\n---{POD}...\n", id="empty-documents-between"),
        pytest.param(
            json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
            + json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team"}}),
            id="json-one-after-the-other",
        ),
        pytest.param(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "List",
                    "items": [
                        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}},
                        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team"}},
                    ],
                }
            ),
            id="json-list",
        ),
        pytest.param(
            "apiVersion: v1\nkind: NodeList\nitems: [{metadata: {name: n}}]\n---\n"
            "apiVersion: v1\nkind: PodList\nitems: [{metadata: {name: p, namespace: team}}]\n",
            id="lists-of-a-kind-whose-items-do-not-say-it",
        ),
        pytest.param(
            "{apiVersion: v1, kind: Node, metadata: {name: n}}\n---" + POD, id="yaml-that-begins-with-a-brace"
        ),
        pytest.param("\ufeff" + NODE.lstrip() + "---" + POD, id="byte-order-mark"),
    ],
)
def test_ways_to_write_a_cluster_down(text: str) -> None:
    found = read(text)
    assert list(found.state.nodes) == ["n"]
    assert list(found.state.pods) == [ObjectKey("team", "p")]


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(NODE)
    (tmp_path / "a.yml").write_text(POD)
    (tmp_path / "c.json").write_text('{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}')
    (tmp_path / "notes.txt").write_text("not a manifest")
    found = read_manifests([str(tmp_path)])
    assert (len(found.state.nodes), len(found.state.pods), len(found.state.namespaces)) == (1, 1, 1)
    one_by_one = read_manifests([str(tmp_path / "b.yaml"), "-"], stdin=POD.encode())
    assert (len(one_by_one.state.nodes), len(one_by_one.state.pods)) == (1, 1)


def test_without_the_parser_in_c_the_same_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    import yaml

    with monkeypatch.context() as patched:
        patched.delattr(yaml, "CSafeLoader", raising=False)
        importlib.reload(documents)
        slow = [document.body for document in documents.documents(["-"], (NODE + "---" + POD).encode())]
    importlib.reload(documents)
    assert slow == [document.body for document in documents.documents(["-"], (NODE + "---" + POD).encode())]


def test_of_two_with_one_name_the_later_counts_and_it_is_said() -> None:
    found = read(f"{NODE}---{NODE.replace('cpu: 4', 'cpu: 8')}")
    assert found.state.nodes["n"].allocatable["cpu"] == 8000
    (warning,) = found.warnings
    assert warning == (
        "Node n is in standard input: document 1 and again in standard input: document 2; the later is taken"
    )


def test_kinds_that_do_not_matter_are_counted() -> None:
    web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
    found = read(f"{NODE}---\n{web}---\n{web}---\napiVersion: v2\nkind: Pod\nmetadata: {{name: p}}\n")
    assert found.warnings == ("ignored 2 Deployment, 1 Pod",)
    assert not found.state.pods


def test_what_says_no_namespace_is_in_the_one_that_is_meant() -> None:
    text = a_pod("{}") + "---\napiVersion: gpu.scheduling/v1\nkind: GpuClaim\nmetadata: {name: c}\nspec: {}\n"
    assert list(read(text).state.pods) == [ObjectKey("default", "p")]
    found = read(text, namespace="team")
    assert list(found.state.pods) == [ObjectKey("team", "p")]
    assert list(found.state.claims) == [ObjectKey("team", "c")]
    assert list(read(NODE, namespace="team").state.nodes) == ["n"]


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        pytest.param("{containers: [{resources: {limits: {nvidia.com/gpu: 2}}}]}", {GPU: 2000}, id="limit-is-request"),
        pytest.param(
            "{containers: [{resources: {limits: {cpu: 2, memory: 1Ki}, requests: {cpu: 500m}}}]}",
            {"cpu": 500, "memory": 1024000},
            id="what-is-requested-stays",
        ),
        pytest.param(
            "{initContainers: [{restartPolicy: Always, resources: {limits: {cpu: 1}}}], containers: [{}]}",
            {"cpu": 1000},
            id="sidecars-too",
        ),
        pytest.param(
            "{resources: {limits: {cpu: 3, memory: 1Ki}}, containers: [{}]}",
            {"cpu": 3000, "memory": 1024000},
            id="limit-of-the-whole-pod",
        ),
        pytest.param(
            "{resources: {limits: {cpu: 3}, requests: {cpu: 2}}, containers: [{}]}",
            {"cpu": 2000},
            id="what-the-whole-pod-requests-stays",
        ),
        pytest.param(
            "{resources: {limits: {cpu: 3, memory: 1Ki}}, containers: [{resources: {requests: {cpu: 1}}}]}",
            {"cpu": 1000, "memory": 1024000},
            id="what-containers-request-goes-before-the-limit-of-the-whole-pod",
        ),
        pytest.param("{containers: [{resources: {requests: {cpu: 0.5}}}]}", {"cpu": 500}, id="a-number-as-quantity"),
        pytest.param("{containers: [{resources: {requests: null}}], tolerations: null}", {}, id="null-is-nothing"),
    ],
)
def test_requests_as_the_api_server_fills_them_in(spec: str, needed: dict[str, int]) -> None:
    assert only_pod(read(a_pod(spec))).requests == needed


@pytest.mark.parametrize(
    ("spec", "ports"),
    [
        pytest.param("{containers: [{ports: [{containerPort: 80}]}]}", [], id="in-its-own-network"),
        pytest.param("{hostNetwork: true, containers: [{ports: [{containerPort: 80}]}]}", [80], id="in-the-host-s"),
        pytest.param(
            "{hostNetwork: true, containers: [{ports: [{containerPort: 80, hostPort: 81}]}]}", [81], id="as-said"
        ),
        pytest.param(
            "{hostNetwork: true, containers: [{}], "
            "initContainers: [{restartPolicy: Always, ports: [{containerPort: 80}]}]}",
            [80],
            id="of-a-sidecar",
        ),
    ],
)
def test_ports_of_the_host_as_the_api_server_fills_them_in(spec: str, ports: list[int]) -> None:
    assert [one.port for one in only_pod(read(a_pod(spec))).shape.host_ports] == ports


@pytest.mark.parametrize(
    ("first", "second", "reference"),
    [
        pytest.param("", "", "", id="nobody-says-one"),
        pytest.param(", uid: u-a", ", uid: u-b", "", id="only-the-controllers"),
        pytest.param("", "", ", uid: u", id="only-the-references"),
    ],
)
def test_controllers_written_without_uids_stay_apart_and_keep_their_pods(
    first: str, second: str, reference: str
) -> None:
    """Of two that were one, a plan would take the pods of the one for pods of the other."""
    found = read(
        "".join(
            f"""
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {{name: {name}{uid}}}
spec: {{replicas: {replicas}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}-0, ownerReferences: [{{kind: ReplicaSet, name: {name}, controller: true{owner}}}]}}
spec: {{containers: [{{}}]}}
"""
            for name, uid, replicas in (("a", first, 3), ("b", second, 5))
            for owner in (f"{reference}-{name}" if reference else "",)
        )
    )
    targets = {one.uid: one.target for one in found.workloads}
    owned = {key.name: targets[pod.owner.uid] for key, pod in found.state.pods.items() if pod.owner is not None}
    assert owned == {"a-0": 3, "b-0": 5}


@pytest.mark.parametrize(
    ("spec", "classes", "priority"),
    [
        pytest.param("{}", "", 0, id="none"),
        pytest.param("{priority: 7}", "", 7, id="as-said"),
        pytest.param("{priorityClassName: high}", "", 100, id="by-class"),
        pytest.param("{priorityClassName: system-node-critical}", "", 2_000_001_000, id="a-class-every-cluster-has"),
        pytest.param("{}", "globalDefault: true", 100, id="by-the-default-class"),
        pytest.param("{priorityClassName: nobody}", "", 0, id="a-class-that-is-not-there"),
    ],
)
def test_priorities(spec: str, classes: str, priority: int) -> None:
    high = f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: high}}\nvalue: 100\n{classes}\n"
    found = read(f"{a_pod(spec)}---\n{high}")
    assert only_pod(found).priority == priority
    assert ("nobody" in "".join(found.warnings)) is ("nobody" in spec)


def test_a_node_that_reports_only_its_capacity() -> None:
    found = read("apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {capacity: {cpu: 4, nvidia.com/gpu: 8}}\n")
    assert found.state.nodes["n"].allocatable == {"cpu": 4000, GPU: 8000, "pods": 110_000}
    assert "kubelet's default of 110" in found.warnings[0]


def test_times_need_no_quotes() -> None:
    unquoted = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, creationTimestamp: 2030-01-01T00:00:00Z}\nspec: {}\n"
    assert only_pod(read(unquoted)).created == 1893456000.0


def test_a_claim_that_breaks_a_rule_is_kept_apart_and_all_else_is_read() -> None:
    bad = "apiVersion: gpu.scheduling/v1\nkind: GpuClaim\nmetadata: {name: c}\nspec: {devices: {count: 99}}\n"
    found = read(f"{NODE}---\n{bad}")
    (said,) = found.unreadable_claims.values()
    assert "document 2" in said
    assert "spec.devices.count: no node has more than 16 GPUs" in said
    assert list(found.state.nodes) == ["n"]
    assert any(said in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("version", "spec", "size", "timeout"),
    [
        pytest.param("scheduling.x-k8s.io/v1alpha1", "{minMember: 3}", 3, None, id="of-the-plugins"),
        pytest.param(
            "scheduling.x-k8s.io/v1alpha1", "{minMember: 3, scheduleTimeoutSeconds: 60}", 3, 60.0, id="with-a-timeout"
        ),
        pytest.param(
            "scheduling.k8s.io/v1alpha2", "{schedulingPolicy: {gang: {minCount: 4}}}", 4, None, id="of-kubernetes"
        ),
        pytest.param("scheduling.k8s.io/v1beta1", "{schedulingPolicy: {gang: {minCount: 4}}}", 4, None, id="of-1.37"),
        pytest.param("scheduling.k8s.io/v1alpha2", "{schedulingPolicy: {basic: {}}}", 1, None, id="no-gang-at-all"),
    ],
)
def test_sizes_of_gangs(version: str, spec: str, size: int, timeout: float | None) -> None:
    found = read(f"apiVersion: {version}\nkind: PodGroup\nmetadata: {{name: g}}\nspec: {spec}\n")
    group = found.state.groups[ObjectKey("default", "g")]
    assert (group.min_member, group.timeout) == (size, timeout)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", ("is empty",), id="empty"),
        pytest.param("# only a comment\n", ("is empty",), id="only-a-comment"),
        pytest.param("a: [", ("document 1 is not YAML at line ",), id="not-yaml"),
        pytest.param(f"{NODE}---\na: b: c\n", ("document 2 is not YAML", "line"), id="second-document-not-yaml"),
        pytest.param('{"a": ', ("document 1 is not YAML",), id="broken-json"),
        pytest.param("[" * 5000, ("document 1 is not YAML",), id="nested-without-end"),
        pytest.param("just words", ("document 1: is a text and not an object",), id="a-text"),
        pytest.param("- a\n- b\n", ("document 1: is a list and not an object",), id="a-list"),
        pytest.param("kind: Pod\n", ("document 1: apiVersion: is missing",), id="no-version"),
        pytest.param("apiVersion: v1\n", ("document 1: kind: is missing",), id="no-kind"),
        pytest.param("apiVersion: 1\nkind: Pod\n", ("apiVersion: must be a text",), id="version-is-a-number"),
        pytest.param("apiVersion: v1\nkind: Pod\nspec: {}\n", ("Pod: metadata.name: is missing",), id="no-name"),
        pytest.param(
            a_pod("{containers: 5}"), ("Pod p: spec.containers: expected `array`, got `int`",), id="wrong-type"
        ),
        pytest.param(
            a_pod("{priority: high}"), ("Pod p: spec.priority: expected", "`int | null`, got `str`"), id="not-a-number"
        ),
        pytest.param(
            a_pod("{containers: [{resources: {requests: {cpu: much}}}]}"),
            ("document 1: pod default/p: spec.containers[0].resources.requests.cpu", "much"),
            id="not-a-quantity",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {memory: lots}}\n",
            ("document 1: node n: status.allocatable.memory", "lots"),
            id="not-a-quantity-of-a-node",
        ),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: [x]}}]\n",
            ("document 1, items[0]: Pod", "metadata.name: expected `str`"),
            id="inside-a-list",
        ),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems: 3\n", ("items: is a number and not a list",), id="items-no-list"
        ),
        pytest.param(
            "apiVersion: gpu.scheduling/v1\nkind: GpuNodeStatus\nmetadata: {name: a}\nspec: {nodeName: b}\n",
            ("document 1: GpuNodeStatus a: spec.nodeName",),
            id="inventory-of-another-node",
        ),
        pytest.param(
            "apiVersion: gpu.scheduling/v1\nkind: GpuClaim\nmetadata: {name: c}\nspec: {devices: {count: two}}\n",
            ("GpuClaim c: spec.devices.count: expected `int`, got `str`",),
            id="count-is-a-word",
        ),
        pytest.param(
            "apiVersion: gpu.scheduling/v1\nkind: GpuClaim\nmetadata: {name: c}\n",
            ("GpuClaim c: ", "spec"),
            id="claim-without-spec",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {a: 1}}\nspec: {}\n",
            ("metadata.labels", "expected `str`, got `int`"),
            id="a-label-that-is-a-number",
        ),
    ],
)
def test_bad_input_is_named_by_place_and_field(text: str, said: tuple[str, ...]) -> None:
    with pytest.raises(UserError) as caught:
        read(text)
    message = str(caught.value)
    assert message.startswith("standard input: ")
    for part in said:
        assert part in message
    assert "\n" not in message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.yaml: no such file or directory; check the path after -f"):
        read_manifests([str(tmp_path / "nowhere.yaml")])
    with pytest.raises(UserError, match=r"no \.yaml, \.yml, \.json files in this folder"):
        read_manifests([str(tmp_path)])
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(UserError, match=r"x\.yaml: is not UTF-8 text"):
        read_manifests([str(tmp_path / "x.yaml")])
