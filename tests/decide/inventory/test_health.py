"""What speaks against a GPU, and what does not."""

from dataclasses import replace

import pytest

from tests.decide.inventory.cards import a_card, a_sight
from ullage.decide.inventory.gpu_readings import GpuErrorCounters, GpuReadError, GpuReading, GpuSample
from ullage.decide.inventory.health import health_of
from ullage.model.device import DeviceHealth, MigInstance
from ullage.model.units import Bytes

HEALTHY, UNHEALTHY, UNKNOWN = DeviceHealth.HEALTHY, DeviceHealth.UNHEALTHY, DeviceHealth.UNKNOWN


@pytest.mark.parametrize(
    ("counters", "health", "word"),
    [
        pytest.param(GpuErrorCounters(), HEALTHY, "", id="counts-nothing"),
        pytest.param(
            GpuErrorCounters(uncorrected_now=0, uncorrected_ever=12), HEALTHY, "", id="old-errors-are-history"
        ),
        pytest.param(
            GpuErrorCounters(uncorrected_now=2), UNHEALTHY, "2 uncorrected ECC", id="errors-since-the-driver-loaded"
        ),
        pytest.param(GpuErrorCounters(remap_pending=True), UNHEALTHY, "waits for a reset", id="remap-pending"),
        pytest.param(
            GpuErrorCounters(remap_failed=True, remap_pending=True), UNHEALTHY, "could not", id="remap-failed"
        ),
        pytest.param(
            GpuErrorCounters(retirement_pending=True), UNHEALTHY, "waits for a reset", id="retirement-pending"
        ),
        pytest.param(GpuErrorCounters(retired_pages=59), HEALTHY, "", id="some-retired-pages"),
        pytest.param(GpuErrorCounters(retired_pages=60), UNHEALTHY, "60 pages", id="too-many-retired-pages"),
    ],
)
def test_counters(counters: GpuErrorCounters, health: DeviceHealth, word: str) -> None:
    found = health_of(a_sight(0, GpuSample(counters=counters)))
    assert found.health is health
    assert word in found.why


def test_a_fabric_that_is_not_up() -> None:
    found = health_of(a_sight(0, GpuSample(fabric="not started")))
    assert (found.health, found.why) == (UNHEALTHY, "its NVLink fabric is not up: not started")


@pytest.mark.parametrize(
    ("xids", "health", "word"),
    [
        pytest.param((), HEALTHY, "", id="none"),
        pytest.param((13, 31, 43, 45), HEALTHY, "", id="faulty-programs"),
        pytest.param((63, 94), HEALTHY, "", id="repaired-and-contained"),
        pytest.param((79,), UNHEALTHY, "Xid 79: fell off the bus", id="fell-off"),
        pytest.param((31, 48), UNHEALTHY, "Xid 48", id="a-fault-after-a-faulty-program"),
        pytest.param((999,), UNHEALTHY, "Xid 999", id="one-nobody-knows"),
    ],
)
def test_xids(xids: tuple[int, ...], health: DeviceHealth, word: str) -> None:
    found = health_of(a_sight(0), xids)
    assert found.health is health
    assert word in found.why


@pytest.mark.parametrize(
    ("trouble", "health"),
    [
        (GpuReadError.LOST, UNHEALTHY),
        (GpuReadError.RESET_REQUIRED, UNHEALTHY),
        (GpuReadError.SILENT, UNHEALTHY),
        (GpuReadError.MISSING, UNHEALTHY),
        (GpuReadError.UNREADABLE, UNKNOWN),
    ],
)
def test_what_cannot_be_read_is_not_healthy(trouble: GpuReadError, health: DeviceHealth) -> None:
    found = health_of(GpuReading(uuid="GPU-0", trouble=trouble, detail="as the driver said"))
    assert found.health is health
    assert "as the driver said" in found.why


def test_what_nvml_says_counts_before_an_old_xid() -> None:
    assert "bus" in health_of(GpuReading(uuid="GPU-0", trouble=GpuReadError.LOST), (48,)).why


@pytest.mark.parametrize(
    ("parts", "health"),
    [
        pytest.param((), UNHEALTHY, id="nothing-to-give"),
        pytest.param((MigInstance("MIG-1", "1g.10gb", Bytes(10 << 30)),), HEALTHY, id="parts"),
    ],
)
def test_a_gpu_with_mig_on(parts: tuple[MigInstance, ...], health: DeviceHealth) -> None:
    card = replace(a_card(0), partitioned=True, mig=parts)
    assert health_of(a_sight(0, card=card)).health is health
