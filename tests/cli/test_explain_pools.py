"""`ullage explain` where there are NodeProvisioners: which of them buys a node for the pod, or why none does."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.test_plan_scale import node, provisioner
from tests.decide.scenes import NOON, claim, leased, pod
from ullage.cli.main import run
from ullage.kube.client.resource import JsonObject

BACKED_OFF = {"backOff": {"failure": "NoCapacity", "failures": 1, "until": "2030-01-01T13:00:00Z", "message": "none"}}
OPEN = {"purchases": 1, "purchase": {"serial": 0, "count": 1, "since": NOON}}
SEEN = leased("seen", 1)
"""A small node whose report says what time it is."""
DOOMED = {"taints": [{"key": "gpu.scheduling/deletion-time", "value": "1893500000", "effect": "NoSchedule"}]}


def helped(folder: Path, capsys: pytest.CaptureFixture[str], *objects: Any) -> list[str]:
    """What is said of pod `p` about NodeProvisioners."""
    flat = [one for each in (SEEN, *objects) for one in (each if isinstance(each, list) else [each])]
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all(flat))
    assert run(["explain", "pod/team/p", "-f", str(folder), "-o", "json"]) == 0, capsys.readouterr().err
    said = json.loads(capsys.readouterr().out)
    assert set(said) == {"pod", "verdict", "reason", "message", "nodes", "helps", "remedies"}
    advised = {one["advice"] for one in said["remedies"] if not one["advice"].startswith("wait")}
    return [step for step in said["helps"] if "NodeProvisioner" in step and step not in advised]


def waiting_for_capacity() -> JsonObject:
    condition = {"type": "PodScheduled", "status": "False", "reason": "WaitingForCapacity"}
    return pod("p", 8) | {"status": {"phase": "Pending", "conditions": [condition]}}


@pytest.mark.parametrize(
    ("objects", "says"),
    [
        pytest.param([pod("p", 8)], [], id="no-provisioners"),
        pytest.param(
            [provisioner("dear", template__pricePerHour="9"), provisioner("cheap", template__pricePerHour="1")],
            ["wait: NodeProvisioner cheap buys a node for it"],
            id="the-best-one-buys",
        ),
        pytest.param(
            [provisioner(recommendOnly=True)],
            ["NodeProvisioner pool would buy a node, and only recommends it (spec.recommendOnly)"],
            id="advice-only",
        ),
        pytest.param(
            [provisioner(scaleUpBatch="30s"), pod("p", 8, created=NOON)],
            ["wait: NodeProvisioner pool buys a node for it in 30 s, with those of other pods that come until then"],
            id="at-the-end-of-its-batch",
        ),
        pytest.param(
            [
                provisioner("idle", paused=True),
                provisioner("none-left") | {"status": BACKED_OFF},
                provisioner("small", template__gpus__count=4, template__gpus__islands=1),
            ],
            [
                "NodeProvisioner idle buys no node: it is paused (Paused)",
                "NodeProvisioner none-left buys no node: NoCapacity: none (BackedOff)",
                "NodeProvisioner small buys no node: a new node would refuse the pod (NodeTooSmall)",
            ],
            id="nobody-buys",
        ),
        pytest.param(
            [provisioner(maxSize=1), node("n"), pod("other", 8, on="n")],
            ["NodeProvisioner pool buys no node: all who wait need more than its maxSize of 1 (MaxSizeReached)"],
            id="full",
        ),
        pytest.param(
            [provisioner() | {"status": OPEN}],
            ["wait: it fits on the coming node ullage-pool-0-0 of NodeProvisioner pool"],
            id="on-a-node-that-is-coming",
        ),
        pytest.param(
            [provisioner(), [node("n")[0] | {"spec": DOOMED}, node("n")[1]]],
            ["wait: the deletion taint is taken off for it from node n of NodeProvisioner pool"],
            id="on-a-node-that-was-to-go",
        ),
        pytest.param(
            [provisioner(), waiting_for_capacity()],
            ["no NodeProvisioner buys a node: one is on its way already (WaitingForCapacity)"],
            id="served-by-other-means",
        ),
        pytest.param(
            [provisioner(), pod("p", requests={"cpu": "1000"})],
            ["no NodeProvisioner buys a node: the pod asks for no GPU"],
            id="no-gpu",
        ),
    ],
)
def test_what_the_autoscaler_does(
    objects: list[Any], says: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    has_pod = any(isinstance(one, dict) and one["metadata"]["name"] == "p" for one in objects)
    assert helped(tmp_path, capsys, *objects, *([] if has_pod else [pod("p", 8)])) == says


def test_a_gang_is_bought_for_as_a_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    members = [
        part for name in ("p", "q") for part in (claim(name, 8, gangRef="g", gangMinMember=2), pod(name, claim=name))
    ]
    assert helped(tmp_path, capsys, provisioner(maxSize=2), members) == [
        "wait: NodeProvisioner pool buys a node for it"
    ]
    assert helped(tmp_path, capsys, provisioner(maxSize=1), members) == [
        "NodeProvisioner pool buys no node: all who wait need more than its maxSize of 1 (MaxSizeReached)"
    ]


def test_who_fits_or_has_a_node_is_told_nothing_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert helped(tmp_path, capsys, provisioner(), pod("p", 1)) == []
    assert helped(tmp_path, capsys, provisioner(), pod("p", 1, on="seen")) == []
