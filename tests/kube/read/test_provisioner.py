"""NodeProvisioners to facts."""

import msgspec
import pytest

from tests.kube.crds.bad_objects import Bad
from tests.kube.crds.bad_provisioners import BY_RULE, SOUND, with_fields
from ullage.errors import Unreadable
from ullage.kube.client.resource import JsonObject
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.kube.read.provisioner import read_price, read_provisioner
from ullage.model.node import Taint
from ullage.model.provisioner import CapacityType, Consolidation, ConsolidationPolicy, Provisioner, template_node
from ullage.model.units import Instant, Milli, Seconds


def read(spec: JsonObject, name: str = "pool") -> Provisioner:
    return read_provisioner(msgspec.convert({"metadata": {"name": name}, "spec": spec}, NodeProvisioner))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param({}, Consolidation(), id="nothing-said"),
        pytest.param(
            {"policy": "Drain", "unneededTime": "1m", "unreadyTime": "2m", "utilizationThresholdPercent": 30},
            Consolidation(
                policy=ConsolidationPolicy.DRAIN, unneeded=Seconds(60.0), unready=Seconds(120.0), used_milli=Milli(300)
            ),
            id="drained",
        ),
        pytest.param(
            {"maxScaleDownParallelism": 20, "maxDrainParallelism": 0},
            Consolidation(most_at_once=20, most_drains=0),
            id="empty-ones-only",
        ),
        pytest.param(
            {"maxScaleDownParallelism": 3}, Consolidation(most_at_once=3, most_drains=3), id="drains-among-them"
        ),
        pytest.param({"maxScaleDownParallelism": 1}, Consolidation(most_at_once=1, most_drains=1), id="one-by-one"),
        pytest.param(
            {"maxEmptyBulkDelete": 7},
            Consolidation(most_at_once=7, most_drains=5, deprecated=("spec.consolidation.maxEmptyBulkDelete",)),
            id="by-its-old-name",
        ),
    ],
)
def test_consolidation(said: JsonObject, expected: Consolidation) -> None:
    assert read(with_fields({"consolidation": said})).consolidation == expected


def test_prices_are_exact() -> None:
    assert [read_price(text) for text in ("98.32", "0.000001", 3, None)] == [98_320_000, 1, 3_000_000, 0]


def test_a_template_is_what_its_nodes_will_be() -> None:
    pool = read(
        with_fields(
            {
                "template.labels": {"tier": "gold"},
                "template.taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
                "template.gpus": {"model": "H100", "count": 8, "memory": "80Gi", "islands": 2, "bandwidthGBps": 450},
                "template.capacityType": "Spot",
            }
        )
    )
    node, inventory = template_node(pool, "n", zone="a", now=Instant(5.0))
    assert node.labels == {
        "kubernetes.io/hostname": "n",
        "gpu.scheduling/node-kind": "leased",
        "tier": "gold",
        "gpu.scheduling/provisioner": "pool",
        "gpu.scheduling/capacity-type": CapacityType.SPOT,
        "topology.kubernetes.io/zone": "a",
    }
    assert node.taints == (Taint("team", "a", "NoSchedule"),)
    assert node.allocatable == {
        "cpu": 96_000,
        "memory": (1 << 40) * 1000,
        "pods": 110_000,
        "nvidia.com/gpu": 8000,
    }
    assert [device.island for device in inventory.devices] == ["island-0"] * 4 + ["island-1"] * 4
    assert inventory.devices[5].peers == (4, 6, 7)


def test_gpus_that_stand_alone_are_in_no_island() -> None:
    pool = read(with_fields({"template.gpus.islands": 8}))
    _, inventory = template_node(pool, "n", now=Instant(0.0))
    assert {(device.island, device.peers) for device in inventory.devices} == {("", ())}


@pytest.mark.parametrize("bad", BY_RULE)
def test_what_breaks_a_rule_is_unreadable_and_the_field_is_named(bad: Bad) -> None:
    with pytest.raises(Unreadable, match=f"NodeProvisioner pool: {bad.field.partition('[')[0]}"):
        read(bad.spec)


def test_a_name_too_long_for_a_label_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="it is the value of a label"):
        read(SOUND, name="x" * 64)
