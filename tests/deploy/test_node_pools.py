"""NodePools that are shipped or shown: each serves requests, closes its nodes from the start, and gives them back."""

from pathlib import Path

import msgspec
import pytest
import yaml

from ullage.decide.karpenter.node_pool_mapping import is_protected, may_buy
from ullage.kube.client.resource import JsonObject
from ullage.kube.objects.karpenter import KubeNodePool
from ullage.kube.read.karpenter import read_node_pool
from ullage.model.karpenter import GPU_TAINT, NodePoolMapping

ROOT = Path(__file__).parents[2]
FOLDERS = ("deploy/karpenter", "docs/tasks", "examples")
CLOUDS = {
    "aws": "karpenter.k8s.aws",
    "azure": "karpenter.azure.com",
    "gcp": "karpenter.k8s.gcp",
    "kwok": "karpenter.kwok.sh",
}


def node_pools() -> list[tuple[str, JsonObject]]:
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            bodies = [one for one in yaml.safe_load_all(path.read_text()) if one and one.get("kind") == "NodePool"]
            found += [(str(path.relative_to(ROOT)), one) for one in bodies]
    return found


@pytest.mark.parametrize(("path", "body"), node_pools(), ids=[path for path, _ in node_pools()])
def test_a_node_pool_serves_requests_and_closes_its_nodes(path: str, body: JsonObject) -> None:
    pool = read_node_pool(msgspec.convert(body, KubeNodePool))
    mapping = NodePoolMapping(name="m", node_pool=pool.name, gpu_model="H100")
    refusal = may_buy(mapping, pool, 8)
    assert refusal is None, f"{path}: {refusal}"
    assert is_protected(pool), f"{path}: nodes are open before their hand-over"
    assert [one.key for one in pool.taints] == [GPU_TAINT]
    assert set(pool.labels) >= {"tensor-fusion.ai/gpu-type", "tensor-fusion.ai/managed"}
    assert body["spec"]["disruption"]["consolidationPolicy"] == "WhenEmpty"


def test_there_is_one_per_cloud() -> None:
    shipped = {path: body for path, body in node_pools() if path.startswith("deploy/")}
    groups = {
        Path(path).stem.removeprefix("nodepool-"): body["spec"]["template"]["spec"]["nodeClassRef"]["group"]
        for path, body in shipped.items()
    }
    assert groups == CLOUDS
    assert all(body["spec"]["disruption"]["consolidateAfter"] == "30s" for body in shipped.values())


def test_the_labels_of_the_quick_start_are_those_of_its_node_pool() -> None:
    page = (ROOT / "docs" / "karpenter.md").read_text()
    text = page.split("```yaml\n", 1)[1].split("```", 1)[0]
    (mapping,) = yaml.safe_load(text)["karpenter"]["nodePools"].values()
    pool = yaml.safe_load((ROOT / "deploy/karpenter/nodepool-aws.yaml").read_text())
    assert pool["metadata"]["name"] == mapping["nodePool"]
    allowed = {one["key"]: one.get("values") for one in pool["spec"]["template"]["spec"]["requirements"]}
    assert all(value in allowed[key] for key, value in mapping["labels"].items())
