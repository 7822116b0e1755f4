"""Stored pods as the checks of a world read them, whatever a user wrote on them."""

import pytest

from ullage.model.allocation import ALLOCATED, SHARE
from ullage.sim.world.stored_objects import read_pod
from ullage.testing.builders import a_pod

WHOLE = 1000


@pytest.mark.parametrize(
    ("notes", "devices", "milli"),
    [
        pytest.param({}, (), WHOLE, id="nothing"),
        pytest.param({ALLOCATED: "node-a:0,3"}, (0, 3), WHOLE, id="whole-gpus"),
        pytest.param({ALLOCATED: "node-a:0", SHARE: "250"}, (0,), 250, id="a-share"),
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
