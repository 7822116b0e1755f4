"""Placement beside Kubernetes' own device allocation: no GPU is given twice, and people are told why."""

from typing import Any

import pytest

from tests.decide.scenes import Scene, claim, leased, node, pod
from ullage.decide.explain.plan_schedule import plan_schedule
from ullage.decide.explain.pod import PodExplanation, explain_pod
from ullage.model.units import Instant
from ullage.model.verdict import Reason


def resource_claim(name: str, *devices: str, on: str = "n", version: str = "v1") -> dict[str, Any]:
    """A ResourceClaim that has been allocated these devices."""
    results = [{"request": "gpu", "driver": "gpu.nvidia.com", "pool": on, "device": device} for device in devices]
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "dra", "uid": name},
        "status": {"allocation": {"devices": {"results": results}}},
    }


def resource_slice(on: str = "n", version: str = "v1") -> dict[str, Any]:
    """What a driver says of eight GPUs, which it numbers in its own way: from the last."""
    devices: list[dict[str, Any]] = []
    for gpu in range(8):
        said = {"attributes": {"uuid": {"string": f"GPU-{on}-{7 - gpu}"}}}
        devices.append({"name": f"gpu-{gpu}", **({"basic": said} if version == "v1beta1" else said)})
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{on}-gpus"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": on, "pool": {"name": on}, "devices": devices},
    }


def placed(scene: Scene) -> dict[str, tuple[int, ...]]:
    plan = plan_schedule(scene.snapshot, scene.known, now=Instant(scene.now))
    return {one.pod.name: one.placement.choice.ids if one.placement.choice else () for one in plan.placements}


def explained(scene: Scene, name: str) -> PodExplanation:
    return explain_pod(scene.snapshot, scene.pod(name), scene.known, now=Instant(scene.now))


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_gpus_of_resource_claims_are_not_offered(version: str) -> None:
    held = resource_claim("taken", "gpu-0", "gpu-1", "gpu-2", "gpu-3", version=version)
    scene = Scene(leased("n"), resource_slice(version=version), held, claim("c", 4), pod("train", claim="c"))
    assert placed(scene) == {"train": (0, 1, 2, 3)}


def test_explain_names_who_holds_them() -> None:
    scene = Scene(
        leased("n"), resource_slice(), resource_claim("taken", "gpu-7"), claim("c", 8), pod("train", claim="c")
    )
    verdict = explained(scene, "train").nodes["n"]
    assert verdict.reason is Reason.INSUFFICIENT_RESOURCES
    assert "GPU 0 held by ResourceClaim dra/taken" in verdict.detail


def test_explain_says_it_also_where_the_pod_fits() -> None:
    scene = Scene(
        leased("n"), resource_slice(), resource_claim("taken", "gpu-0"), claim("c", 2), pod("train", claim="c")
    )
    verdict = explained(scene, "train").nodes["n"]
    assert verdict
    assert "GPU 7 held by ResourceClaim dra/taken" in verdict.detail


def test_a_device_nobody_can_name_closes_the_gpus_of_its_node() -> None:
    scene = Scene(leased("n"), resource_claim("taken", "gpu-0"), claim("c", 1), pod("train", claim="c"))
    assert placed(scene) == {}
    assert "held by ResourceClaim dra/taken" in explained(scene, "train").nodes["n"].detail


def test_counted_nodes_count_them() -> None:
    scene = Scene(node("n", 4), resource_claim("taken", "gpu-0", "gpu-1"), pod("a", 2), pod("b", 1))
    assert list(placed(scene)) == ["a"]


def test_nobody_is_preempted_for_what_dra_holds() -> None:
    held = resource_claim("taken", *(f"gpu-{gpu}" for gpu in range(8)))
    scene = Scene(leased("n"), resource_slice(), held, claim("c", 1), pod("urgent", claim="c", priority=1_000_000))
    said = explained(scene, "urgent")
    assert not any(bool(verdict) for verdict in said.nodes.values())
    assert not any("resourceclaims" in step for step in said.steps)


def test_pods_with_resource_claims_are_refused_by_name() -> None:
    asking = pod("train", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}])
    said = explained(Scene(leased("n"), asking), "train")
    assert said.verdict == Reason.RESOURCE_CLAIMS
    assert "spec.resourceClaims (gpu)" in said.message
    assert any("gpu.scheduling/claim" in step for step in said.steps)
