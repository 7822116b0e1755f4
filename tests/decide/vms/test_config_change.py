"""VM configuration: what is read, what is refused with which field, and what may change at runtime."""

from copy import deepcopy
from typing import Any

import pytest

from tests.state.test_vm_room import DOCUMENT, a_node, a_snapshot
from tests.vms import GI, node_config, size, vm_config
from ullage.decide.vms.config_change import ConfigChange, compare_configs
from ullage.kube.read.vm_config import read_config
from ullage.model.fact_event import Deleted, Updated
from ullage.model.vm import VmAmounts
from ullage.model.vm_config import (
    ConfigRefusal,
    NodeConfig,
    NodeOverride,
    ResourceConfig,
    VmConfig,
    VmNodesDocument,
    node_capacity,
    ordinary_reserved,
)

NODE: dict[str, Any] = {
    "cpu": {"watermark": 0.7, "system": "500m"},
    "memory": {"watermark": 0.9, "system": "0.5Gi"},
    "computeUnit": {"vCPUs": 1, "mem": 4},
}
GOOD: dict[str, Any] = {
    "memorySlotSize": "1Gi",
    "nodeDefaults": NODE,
    "nodeSelector": {"pool": "vms"},
    "nodeOverrides": [{"nodes": ["n1", "n2"], "config": {**NODE, "computeUnit": {"vCPUs": "250m", "mem": 1}}}],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good configuration with another value at `a.b.c`; `...` takes the field away."""
    document = deepcopy(GOOD)
    *parents, last = path.split(".")
    place: Any = document
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place[name]
    if value is ...:
        del place[last]
    elif isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value
    return document


def test_a_whole_configuration() -> None:
    found = read_config(GOOD)
    assert isinstance(found, VmConfig)
    assert found.slot == VmAmounts(1000, GI)
    assert found.for_node("other") == NodeConfig(
        ResourceConfig(700_000, 500), ResourceConfig(900_000, GI // 2), VmAmounts(1000, 4 * GI)
    )
    assert found.for_node("n2").unit == VmAmounts(250, GI)
    assert found.names("n1", {})
    assert found.names("other", {"pool": "vms", "zone": "a"})
    assert not found.names("other", {})


def test_without_a_selector_only_overrides_name_nodes() -> None:
    found = read_config(changed("nodeSelector", {}))
    assert isinstance(found, VmConfig)
    assert not found.names("other", {})


def test_the_first_override_that_names_a_node_wins() -> None:
    document = deepcopy(GOOD)
    document["nodeOverrides"].append({"nodes": ["n1"], "config": NODE})
    found = read_config(document)
    assert isinstance(found, VmConfig)
    assert found.for_node("n1").unit == VmAmounts(250, GI)


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        pytest.param("nodeDefaults", ..., "nodeDefaults", id="no-defaults"),
        pytest.param("nodeDefaults", [], "nodeDefaults", id="defaults-not-an-object"),
        pytest.param("watermark", 1, "watermark", id="unknown-field"),
        pytest.param("nodeDefaults.cpus", {}, "nodeDefaults.cpus", id="unknown-field-below"),
        pytest.param("nodeDefaults.cpu.watermark", 0, "nodeDefaults.cpu.watermark", id="watermark-0"),
        pytest.param("nodeDefaults.cpu.watermark", 1.01, "nodeDefaults.cpu.watermark", id="watermark-above-1"),
        pytest.param("nodeDefaults.cpu.watermark", True, "nodeDefaults.cpu.watermark", id="watermark-true"),
        pytest.param("nodeDefaults.cpu.watermark", "0.7", "nodeDefaults.cpu.watermark", id="watermark-as-text"),
        pytest.param("nodeDefaults.cpu.watermark", float("nan"), "nodeDefaults.cpu.watermark", id="watermark-nan"),
        pytest.param("nodeDefaults.cpu.system", 0, "nodeDefaults.cpu.system", id="system-0"),
        pytest.param("nodeDefaults.cpu.system", "-1", "nodeDefaults.cpu.system", id="system-negative"),
        pytest.param("nodeDefaults.cpu.system", "one", "nodeDefaults.cpu.system", id="system-no-quantity"),
        pytest.param("nodeDefaults.cpu.system", "100u", "nodeDefaults.cpu.system", id="system-finer-than-milli"),
        pytest.param("nodeDefaults.cpu.system", None, "nodeDefaults.cpu.system", id="system-null"),
        pytest.param("nodeDefaults.memory.system", "500m", "nodeDefaults.memory.system", id="memory-in-milli-bytes"),
        pytest.param("nodeDefaults.computeUnit.vCPUs", 0, "nodeDefaults.computeUnit.vCPUs", id="unit-without-cpu"),
        pytest.param("nodeDefaults.computeUnit.mem", 0, "nodeDefaults.computeUnit.mem", id="unit-without-memory"),
        pytest.param("nodeDefaults.computeUnit.mem", "1Gi", "nodeDefaults.computeUnit.mem", id="unit-in-bytes"),
        pytest.param("memorySlotSize", "0", "memorySlotSize", id="slot-0"),
        pytest.param("memorySlotSize", "100m", "memorySlotSize", id="slot-in-milli-bytes"),
        pytest.param("nodeSelector", ["pool"], "nodeSelector", id="selector-not-an-object"),
        pytest.param("nodeSelector.pool", 1, "nodeSelector.pool", id="selector-not-a-text"),
        pytest.param("nodeOverrides", {}, "nodeOverrides", id="overrides-not-a-list"),
        pytest.param("nodeOverrides.0.nodes", [], "nodeOverrides[0].nodes", id="override-of-no-node"),
        pytest.param("nodeOverrides.0.nodes", [""], "nodeOverrides[0].nodes[0]", id="override-of-a-nameless-node"),
        pytest.param("nodeOverrides.0.config.cpu", ..., "nodeOverrides[0].config.cpu", id="override-without-cpu"),
    ],
)
def test_a_wrong_field_is_named(path: str, value: Any, field: str) -> None:
    found = read_config(changed(path, value))
    assert isinstance(found, ConfigRefusal)
    assert found.field == field
    assert str(found).startswith(f"Invalid config at {field}: ")


@pytest.mark.parametrize("raw", [None, [], "text", 3])
def test_a_document_that_is_no_object_is_refused(raw: object) -> None:
    assert read_config(raw) == ConfigRefusal(".", "must be an object")


def test_an_equal_configuration_changes_nothing() -> None:
    assert compare_configs(vm_config(), vm_config()) == ()


def test_changes_are_told_by_node() -> None:
    old, new = vm_config(), vm_config(node_config(), NodeOverride(("n1",), node_config(watermark=0.5)))
    assert compare_configs(old, new) == (ConfigChange("n1", node_config(), node_config(watermark=0.5)),)
    assert compare_configs(old, vm_config(node_config(system=size(2, 2)))) == (
        ConfigChange("", node_config(), node_config(system=size(2, 2))),
    )


@pytest.mark.parametrize(
    ("slot", "field"), [(size(1, 2), "memorySlotSize"), (size(0.5, 1), "cpuSlotSize")], ids=["memory", "cpu"]
)
def test_slot_sizes_cannot_change(slot: VmAmounts, field: str) -> None:
    new = VmConfig(slot=slot, defaults=node_config())
    assert compare_configs(vm_config(), new) == ConfigRefusal(field, "value cannot be changed at runtime")


@pytest.mark.parametrize(
    ("allocatable", "system", "slot", "expected"),
    [
        pytest.param(16_000, 500, 1000, (16_000, 1_000, 12_000), id="half-a-core-costs-a-slot"),
        pytest.param(15_900, 500, 1000, (15_000, 0, 12_000), id="rounding-serves-the-system"),
        pytest.param(16_000, 1_000, 1000, (16_000, 1_000, 12_000), id="nothing-is-left"),
        pytest.param(16_000, 500, 1, (16_000, 500, 12_400), id="slots-of-one"),
        pytest.param(400, 500, 1000, (0, 0, 0), id="smaller-than-the-system"),
        pytest.param(1_400, 2_000, 1000, (1_000, 1_000, 0), id="all-of-it-is-the-systems"),
    ],
)
def test_capacity_of_a_node(allocatable: int, system: int, slot: int, expected: tuple[int, int, int]) -> None:
    found = node_capacity(allocatable, ResourceConfig(800_000, system), slot)
    assert (found.total, found.system, found.watermark) == expected


@pytest.mark.parametrize(
    ("requested", "expected"),
    [(0, 0), (500, 0), (501, 1000), (1500, 1000), (1501, 2000)],
    ids=["none", "all-in-the-margin", "one-more", "to-the-slot", "beyond-it"],
)
def test_ordinary_pods_are_rounded_up_together(requested: int, expected: int) -> None:
    assert ordinary_reserved(requested, margin=500, slot=1000) == expected


def test_a_wrong_document_that_is_deleted_is_refused_no_more() -> None:
    good = vm_config(node_config(watermark=0.5))
    snapshot = a_snapshot(a_node(), config=good)
    wrong = VmNodesDocument(key=DOCUMENT, refusal=ConfigRefusal("nodeDefaults.cpu.watermark", "must be above 0"))
    snapshot.apply(Updated(DOCUMENT, VmNodesDocument(key=DOCUMENT, config=good), wrong))
    assert str(snapshot.vms.refusal) == "Invalid config at nodeDefaults.cpu.watermark: must be above 0"
    snapshot.apply(Deleted(DOCUMENT, wrong))
    assert snapshot.vms.config == good
    assert snapshot.vms.refusal is None
