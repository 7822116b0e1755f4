"""What speaks against a GPU, and what does not."""

from dataclasses import replace

import pytest

from tests.decide.inventory.cards import a_card, a_sight
from ullage.decide.inventory.health import health_of
from ullage.decide.inventory.sights import Counters, Sight, Trouble, Vitals
from ullage.model.device import Health, MigSlice

HEALTHY, UNHEALTHY, UNKNOWN = Health.HEALTHY, Health.UNHEALTHY, Health.UNKNOWN


@pytest.mark.parametrize(
    ("counters", "health", "word"),
    [
        pytest.param(Counters(), HEALTHY, "", id="counts-nothing"),
        pytest.param(Counters(uncorrected_now=0, uncorrected_ever=12), HEALTHY, "", id="old-errors-are-history"),
        pytest.param(Counters(uncorrected_now=2), UNHEALTHY, "2 uncorrected ECC", id="errors-since-the-driver-loaded"),
        pytest.param(Counters(remap_pending=True), UNHEALTHY, "waits for a reset", id="remap-pending"),
        pytest.param(Counters(remap_failed=True, remap_pending=True), UNHEALTHY, "could not", id="remap-failed"),
        pytest.param(Counters(retirement_pending=True), UNHEALTHY, "waits for a reset", id="retirement-pending"),
        pytest.param(Counters(retired_pages=59), HEALTHY, "", id="some-retired-pages"),
        pytest.param(Counters(retired_pages=60), UNHEALTHY, "60 pages", id="too-many-retired-pages"),
    ],
)
def test_counters(counters: Counters, health: Health, word: str) -> None:
    found = health_of(a_sight(0, Vitals(counters=counters)))
    assert found.health is health
    assert word in found.why


def test_a_fabric_that_is_not_up() -> None:
    found = health_of(a_sight(0, Vitals(fabric="not started")))
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
def test_xids(xids: tuple[int, ...], health: Health, word: str) -> None:
    found = health_of(a_sight(0), xids)
    assert found.health is health
    assert word in found.why


@pytest.mark.parametrize(
    ("trouble", "health"),
    [
        (Trouble.LOST, UNHEALTHY),
        (Trouble.RESET_REQUIRED, UNHEALTHY),
        (Trouble.SILENT, UNHEALTHY),
        (Trouble.MISSING, UNHEALTHY),
        (Trouble.UNREADABLE, UNKNOWN),
    ],
)
def test_what_cannot_be_read_is_not_healthy(trouble: Trouble, health: Health) -> None:
    found = health_of(Sight(uuid="GPU-0", trouble=trouble, detail="as the driver said"))
    assert found.health is health
    assert "as the driver said" in found.why


def test_what_nvml_says_counts_before_an_old_xid() -> None:
    assert "bus" in health_of(Sight(uuid="GPU-0", trouble=Trouble.LOST), (48,)).why


@pytest.mark.parametrize(
    ("parts", "health"),
    [
        pytest.param((), UNHEALTHY, id="nothing-to-give"),
        pytest.param((MigSlice("MIG-1", "1g.10gb", 10 << 30),), HEALTHY, id="parts"),
    ],
)
def test_a_gpu_with_mig_on(parts: tuple[MigSlice, ...], health: Health) -> None:
    card = replace(a_card(0), partitioned=True, mig=parts)
    assert health_of(a_sight(0, card=card)).health is health
