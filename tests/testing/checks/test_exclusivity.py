"""The judge of exclusivity finds every way in which a GPU can be seen twice, and knows the API's objects only."""

import ast
from pathlib import Path
from typing import Any

import pytest

from ullage.testing.checks import exclusivity
from ullage.testing.checks.exclusivity import ApiChange, breaches

FROM_ANNOTATION = {
    "name": "NVIDIA_VISIBLE_DEVICES",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['gpu.scheduling/visible-devices']"}},
}


def pod(version: int, name: str, *gpus: int, node: str = "n", milli: int = 0, **more: Any) -> ApiChange:
    notes = {
        "gpu.scheduling/allocated": f"{node}:{','.join(map(str, gpus))}",
        "gpu.scheduling/visible-devices": ",".join(f"GPU-{node}-{gpu}" for gpu in gpus),
    } | ({"gpu.scheduling/share-milli": str(milli)} if milli else {})
    thing = {
        "metadata": {"uid": more.get("uid", f"uid-{name}"), "annotations": notes},
        "spec": {"nodeName": node, "containers": [{"env": more.get("env", [FROM_ANNOTATION])}]},
        "status": {"phase": more.get("phase", "Running")},
    }
    return ApiChange(version, "pods", f"default/{name}", thing)


def lease(version: int, gpu: int, holder: str, *, node: str = "n", shares: str = "{}") -> ApiChange:
    notes = {"gpu.scheduling/node": node, "gpu.scheduling/device": str(gpu), "gpu.scheduling/shares": shares}
    thing = {"metadata": {"annotations": notes}, "spec": {"holderIdentity": holder}}
    return ApiChange(version, "leases", f"ullage-system/gpu-{node}-{gpu}", thing)


def gone(version: int, kind: str, key: str) -> ApiChange:
    return ApiChange(version, kind, key, None)


def shared(**holders: int) -> str:
    return str({f"uid-{name}": milli for name, milli in holders.items()}).replace("'", '"')


SOUND = [
    pytest.param([lease(1, 0, "uid-a"), pod(2, "a", 0)], id="one-pod"),
    pytest.param(
        [lease(1, 0, "uid-a"), pod(2, "a", 0), gone(3, "pods", "default/a"), lease(4, 0, "uid-b"), pod(5, "b", 0)],
        id="one-after-the-other",
    ),
    pytest.param(
        [lease(1, 0, "uid-a"), pod(2, "a", 0), pod(3, "a", 0, phase="Failed"), lease(4, 0, "uid-b"), pod(5, "b", 0)],
        id="one-that-is-over-and-still-there",
    ),
    pytest.param(
        [lease(1, 0, "shared", shares=shared(a=400, b=600)), pod(2, "a", 0, milli=400), pod(3, "b", 0, milli=600)],
        id="two-shares-of-one",
    ),
    pytest.param(
        [lease(1, 0, "uid-a"), lease(2, 0, "uid-b", node="m"), pod(3, "a", 0), pod(4, "b", 0, node="m")],
        id="one-number-on-two-nodes",
    ),
    pytest.param([pod(5, "a", 0), lease(1, 0, "uid-a")], id="watches-that-are-read-one-after-the-other"),
    pytest.param([ApiChange(1, "leases", "x/election", {"metadata": {}, "spec": {}})], id="an-election"),
]
BAD = [
    pytest.param(
        [lease(1, 0, "uid-a"), pod(2, "a", 0), lease(3, 0, "uid-b"), pod(4, "b", 0)],
        ["at 3 the Lease of GPU 0 of n was taken", "at 4 GPU-n-0 of n is seen by default/a and default/b"],
        id="two-pods",
    ),
    pytest.param([pod(2, "a", 0)], ["at 2 default/a was bound to GPU 0 of n without its Lease"], id="no-lease"),
    pytest.param(
        [lease(1, 0, "uid-a"), pod(2, "a", 0), gone(3, "leases", "ullage-system/gpu-n-0")],
        ["at 3 the Lease of GPU 0 of n was taken from default/a"],
        id="a-lease-deleted-under-its-pod",
    ),
    pytest.param(
        [lease(1, 0, "shared", shares=shared(a=600, b=600)), pod(2, "a", 0, milli=600), pod(3, "b", 0, milli=600)],
        ["at 3 GPU-n-0 of n is seen by"],
        id="more-shares-than-a-whole",
    ),
    pytest.param(
        [lease(1, 0, "uid-a"), pod(2, "a", 0), lease(3, 1, "uid-a"), pod(4, "a", 1)],
        ["at 4 default/a sees GPU-n-1, and saw GPU-n-0"],
        id="a-pod-that-is-moved",
    ),
    pytest.param(
        [lease(1, 0, "uid-a"), pod(2, "a", 0), pod(3, "b", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])],
        ["at 3 default/b sees every GPU of n"],
        id="a-container-that-sees-all",
    ),
    pytest.param(
        [lease(1, 0, "uid-a"), pod(2, "a", 0), pod(3, "b", env=[{"name": exclusivity.VARIABLE, "value": "GPU-n-0"}])],
        ["at 3 GPU-n-0 of n is seen by default/a and default/b"],
        id="a-foreign-pod-that-names-a-gpu",
    ),
    pytest.param(
        [lease(1, 0, "uid-a"), pod(2, "a", 0), pod(3, "a", 0, uid="another")],
        ["at 3 default/a was bound to GPU 0 of n without its Lease"],
        id="a-pod-of-the-same-name",
    ),
]


@pytest.mark.parametrize("changes", SOUND)
def test_nothing_is_wrong_where_nothing_is(changes: list[ApiChange]) -> None:
    assert list(breaches(changes)) == []


@pytest.mark.parametrize(("changes", "says"), BAD)
def test_a_breach_is_found_at_its_version(changes: list[ApiChange], says: list[str]) -> None:
    found = list(breaches(changes))
    assert [one for one in says if not any(line.startswith(one) for line in found)] == []
    assert len(found) == len(says)


def test_the_judge_imports_nothing_of_ours() -> None:
    tree = ast.parse(Path(exclusivity.__file__).read_text())
    modules = [one.module or "" for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)]
    assert [one for one in modules if one.startswith("ullage")] == []
