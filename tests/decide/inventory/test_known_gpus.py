"""Taking stock over time: GPUs that die, vanish, come back, and are read in part."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from tests.decide.inventory.cards import a_sight, switched
from ullage.decide.inventory.gpu_readings import GpuReadError, GpuReading, GpuScan
from ullage.decide.inventory.known_gpus import (
    UNNAMED_MODEL,
    KnownGpus,
    newly_unwell,
    remembered,
    unwell,
    update_known_gpus,
)
from ullage.model.device import DeviceHealth, Inventory
from ullage.model.units import Instant

NOBODY: dict[str, tuple[str, ...]] = {}
QUIET: dict[str, tuple[int, ...]] = {}


def seen(gpus: Iterable[int], *others: GpuReading) -> GpuScan:
    board = switched(16, 18)
    return GpuScan((*(a_sight(gpu, card=board[gpu]) for gpu in gpus), *others))


def known_gpus(*looks: GpuScan, before: KnownGpus = KnownGpus()) -> KnownGpus:  # noqa: B008 - frozen
    for look in looks:
        before = update_known_gpus(before, look, xids=QUIET)
    return before


def health(found: KnownGpus) -> dict[int, DeviceHealth]:
    return {device.id: device.health for device in found.devices}


EIGHT = seen(range(8))


def test_a_whole_board() -> None:
    found = known_gpus(EIGHT)
    assert [device.uuid for device in found.devices] == [f"GPU-{gpu}" for gpu in range(8)]
    assert {device.island for device in found.devices} == {"nvlink-0"}
    assert found.devices[3].peers == (0, 1, 2, 4, 5, 6, 7)
    assert unwell(found) == ""


def test_a_gpu_that_vanishes_stays_and_the_others_keep_their_ids() -> None:
    found = known_gpus(EIGHT, seen([0, 1, 3, 4, 5, 6, 7]))
    assert [device.uuid for device in found.devices] == [f"GPU-{gpu}" for gpu in range(8)]
    assert health(found)[2] is DeviceHealth.UNHEALTHY
    assert unwell(found) == "GPU 2: is not there any more"
    assert {device.island for device in found.devices} == {"nvlink-0"}


def test_a_lost_gpu_keeps_its_looks_and_comes_back() -> None:
    lost = GpuReading(uuid="GPU-2", trouble=GpuReadError.LOST)
    dead = known_gpus(EIGHT, seen([0, 1, 3, 4, 5, 6, 7], lost))
    assert dead.devices[2].memory == known_gpus(EIGHT).devices[2].memory
    assert dead.devices[2].health is DeviceHealth.UNHEALTHY
    assert newly_unwell(known_gpus(EIGHT), dead) == (dead.items[2],)
    assert newly_unwell(dead, known_gpus(seen([0, 1, 3, 4, 5, 6, 7], lost), before=dead)) == ()
    assert unwell(known_gpus(EIGHT, before=dead)) == ""


def test_a_driver_that_does_not_answer_makes_everything_unknown_and_nothing_well_again() -> None:
    dead = known_gpus(EIGHT, seen([0, 1, 3, 4, 5, 6, 7], GpuReading(uuid="GPU-2", trouble=GpuReadError.LOST)))
    found = known_gpus(GpuScan(trouble="the driver does not answer"), before=dead)
    assert health(found) == dict.fromkeys(range(8), DeviceHealth.UNKNOWN) | {2: DeviceHealth.UNHEALTHY}
    assert "the driver does not answer" in unwell(found)
    assert unwell(known_gpus(EIGHT, before=found)) == ""


def test_a_new_gpu_takes_the_lowest_id_nobody_had() -> None:
    found = known_gpus(seen([0, 1, 3]), seen([0, 1, 2, 3]))
    assert {device.uuid: device.id for device in found.devices} == {"GPU-0": 0, "GPU-1": 1, "GPU-3": 2, "GPU-2": 3}


def test_an_agent_that_starts_again_goes_on_with_what_was_reported() -> None:
    report = Inventory(node="n", reported_at=Instant(0.0), devices=known_gpus(seen([0, 2, 3])).devices)
    found = known_gpus(seen([0, 3]), before=remembered(report, same_boot=True))
    assert {device.uuid: device.id for device in found.devices} == {"GPU-0": 0, "GPU-2": 1, "GPU-3": 2}
    assert health(found)[1] is DeviceHealth.UNHEALTHY


def test_after_a_reboot_what_is_gone_is_forgotten_and_ids_stay() -> None:
    report = Inventory(node="n", reported_at=Instant(0.0), devices=known_gpus(seen([0, 2, 3])).devices)
    found = known_gpus(seen([0, 3, 5]), before=remembered(report, same_boot=False))
    assert {device.uuid: device.id for device in found.devices} == {"GPU-0": 0, "GPU-3": 2, "GPU-5": 1}


def test_a_gpu_that_never_said_its_name_is_reported_and_not_missed_later() -> None:
    found = known_gpus(seen([0], GpuReading(uuid="unread-1", trouble=GpuReadError.LOST)))
    assert [(device.model, device.health) for device in found.devices][1] == (UNNAMED_MODEL, DeviceHealth.UNHEALTHY)
    assert [device.uuid for device in known_gpus(seen([0, 1]), before=found).devices] == ["GPU-0", "GPU-1"]


def test_more_gpus_than_a_node_may_have_are_left_out_aloud() -> None:
    board = [a_sight(gpu) for gpu in range(18)]
    found = known_gpus(GpuScan(tuple(board)))
    assert len(found.devices) == 16
    assert "2 more GPUs are left out" in unwell(found)


def test_faults_and_users_are_by_uuid() -> None:
    found = update_known_gpus(known_gpus(EIGHT), EIGHT, xids={"GPU-5": (79,)}, users={"GPU-1": ("b", "a")})
    assert health(found)[5] is DeviceHealth.UNHEALTHY
    assert found.devices[1].in_use_by == ("a", "b")


READINGS = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from([None, None, None, *GpuReadError])),
    unique_by=lambda one: one[0],
    max_size=10,
)
LOOKS = st.lists(st.one_of(READINGS.map(tuple), st.just("silent")), min_size=1, max_size=8)


@given(LOOKS)
def test_whatever_is_seen_ids_stay_and_nothing_gets_lost(
    looks: list[tuple[tuple[int, GpuReadError | None], ...] | str],
) -> None:
    known, ids = KnownGpus(), dict[str, int]()
    for seen_now in looks:
        well: set[str] = set()
        look = GpuScan(trouble="no answer", silent=True)
        if not isinstance(seen_now, str):
            well = {f"GPU-{gpu}" for gpu, trouble in seen_now if trouble is None}
            look = GpuScan(
                tuple(
                    a_sight(gpu) if trouble is None else GpuReading(uuid=f"GPU-{gpu}", trouble=trouble)
                    for gpu, trouble in seen_now
                )
            )
        named_before = {device.uuid for device in known.devices if device.model != UNNAMED_MODEL}
        known = update_known_gpus(known, look, xids=QUIET)
        devices = {device.uuid: device for device in known.devices}
        assert len({device.id for device in devices.values()}) == len(devices)
        assert named_before <= devices.keys()
        assert {uuid for uuid, device in devices.items() if device.health is DeviceHealth.HEALTHY} == well
        for uuid, device in devices.items():
            assert device.model == UNNAMED_MODEL or ids.setdefault(uuid, device.id) == device.id
