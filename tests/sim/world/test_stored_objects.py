"""Stored objects as the checks of a world read them, whatever a user wrote on them."""

import pytest

from ullage.kube.client.resource import JsonObject
from ullage.kube.read.leases import DEVICE, INSTANCES, MANAGED, NODE, SHARED_HOLDER, SHARES
from ullage.model.allocation import ALLOCATED, SHARE, VISIBLE_DEVICES
from ullage.model.resources import GPU
from ullage.sim.world.nodes import PRICE
from ullage.sim.world.stored_objects import read_lease, read_node, read_pod
from ullage.testing.builders import a_pod

WHOLE = 1000


@pytest.mark.parametrize(
    ("notes", "devices", "milli"),
    [
        pytest.param({}, (), WHOLE, id="nothing"),
        pytest.param({ALLOCATED: "node-a:0,3"}, (0, 3), WHOLE, id="whole-gpus"),
        pytest.param({ALLOCATED: "node-a:0", SHARE: "250"}, (0,), 250, id="a-share"),
        pytest.param({ALLOCATED: "node-a:0", SHARE: "0"}, (0,), WHOLE, id="a-share-of-nothing-is-the-whole-gpu"),
        pytest.param({ALLOCATED: "node-a:0", SHARE: "5000"}, (0,), WHOLE, id="a-share-of-five-gpus"),
        pytest.param({ALLOCATED: "node-a:0", SHARE: "0", VISIBLE_DEVICES: "MIG-a"}, (0,), 0, id="a-mig-instance"),
        pytest.param({ALLOCATED: "node-a:"}, (), WHOLE, id="no-gpu"),
        pytest.param({ALLOCATED: "nonsense", SHARE: "half"}, (), WHOLE, id="no-numbers"),
        pytest.param({ALLOCATED: "node-a:x,1"}, (), WHOLE, id="a-letter"),
        pytest.param({ALLOCATED: f"node-a:{'9' * 5000}", SHARE: "9" * 5000}, (), WHOLE, id="5000-digits"),
    ],
)
def test_annotations_that_make_no_sense_end_no_simulation(
    notes: dict[str, str], devices: tuple[int, ...], milli: int
) -> None:
    manifest = a_pod("p")
    manifest["metadata"] |= {"namespace": "default", "uid": "u", "annotations": notes}
    read = read_pod(manifest)
    assert (read.devices, read.milli) == (devices, milli)


@pytest.mark.parametrize(
    ("notes", "capacity", "price", "gpus"),
    [
        pytest.param({PRICE: "250"}, {GPU: "8"}, 250, 8, id="as-written-by-the-simulator"),
        pytest.param({PRICE: "cheap"}, {GPU: "2k"}, 0, 2000, id="no-number-and-a-suffix"),
        pytest.param({PRICE: "9" * 5000}, {}, 0, 0, id="5000-digits-and-no-gpus"),
    ],
)
def test_a_node_is_read_whatever_is_noted_on_it(
    notes: dict[str, str], capacity: dict[str, str], price: int, gpus: int
) -> None:
    read = read_node({"metadata": {"name": "n", "uid": "u", "annotations": notes}, "status": {"capacity": capacity}})
    assert (read.price, read.gpus) == (price, gpus)


def _lease(holder: str, notes: dict[str, str]) -> JsonObject:
    meta = {"name": "gpu-n-0", "labels": {MANAGED: "true"}, "annotations": notes}
    return {"metadata": meta, "spec": {"holderIdentity": holder}}


PLACE = {NODE: "n", DEVICE: "0"}


@pytest.mark.parametrize(
    ("lease", "holders"),
    [
        pytest.param(_lease("u", PLACE), {"u": WHOLE}, id="whole"),
        pytest.param(_lease(SHARED_HOLDER, {**PLACE, SHARES: '{"u": 250}'}), {"u": 250}, id="a-share"),
        pytest.param(_lease(SHARED_HOLDER, {**PLACE, SHARES: "[", INSTANCES: '{"a": 1}'}), {}, id="no-holders"),
        pytest.param(_lease("u", {NODE: "n"}), None, id="no-device"),
        pytest.param(_lease("u", {DEVICE: "0"}), None, id="no-node"),
        pytest.param(_lease("u", {NODE: "n", DEVICE: "9" * 5000}), None, id="5000-digits"),
    ],
)
def test_a_lease_is_read_whatever_is_noted_on_it(lease: JsonObject, holders: dict[str, int] | None) -> None:
    read = read_lease(lease)
    assert (None if read is None else read.holders) == holders
