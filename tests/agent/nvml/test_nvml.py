"""The NVML reader through the real `nvidia-ml-py`, on a driver that is not there."""

import asyncio
import time

import pytest

from tests.agent.conftest import OpenReader
from tests.agent.driver import AMPERE, BLACKWELL, VOLTA, Driver, dgx_h100, mig_box, pcie_box
from tests.contract.expect import eventually
from ullage.agent.nvml.reader import NvmlReader
from ullage.decide.inventory.gpu_readings import GpuErrorCounters, GpuProcess, GpuReadError, GpuScan
from ullage.decide.inventory.known_gpus import KnownGpus, update_known_gpus
from ullage.errors import UserError
from ullage.model.device import Device, MigInstance
from ullage.model.units import Bytes

MIB = 1 << 20


def devices(look: GpuScan) -> tuple[Device, ...]:
    return update_known_gpus(KnownGpus(), look, xids={}).devices


async def test_a_whole_dgx_h100(driver: Driver, open_reader: OpenReader) -> None:
    driver.write(dgx_h100())
    found = devices(await (await open_reader()).look(thorough=True))
    assert [device.uuid for device in found] == [f"GPU-h100-{n}" for n in range(8)]
    assert {device.model for device in found} == {"NVIDIA H100 80GB HBM3"}
    assert {device.memory for device in found} == {81559 * MIB}
    assert {(device.island, device.bandwidth) for device in found} == {("nvlink-0", 450)}
    assert found[7].peers == tuple(range(7))


async def test_a_pcie_box_is_four_gpus_that_stand_alone(driver: Driver, open_reader: OpenReader) -> None:
    driver.write(pcie_box())
    found = devices(await (await open_reader()).look(thorough=True))
    assert [(device.id, device.island, device.bandwidth, device.peers) for device in found] == [
        (n, "", 0, ()) for n in range(4)
    ]


async def test_bridges_and_hidden_fabrics(driver: Driver, open_reader: OpenReader) -> None:
    reaches = [f"reaches {a} {b}" for a, b in ((2, 3), (2, 4), (3, 4))]
    pair = [f"gpu {n} GPU-{n} NVIDIA_A100-PCIE-40GB 40960 {AMPERE}" for n in range(2)]
    fabric = [f"gpu {n} GPU-{n} NVIDIA_B200 183359 {BLACKWELL}" for n in range(2, 5)]
    driver.write([*pair, "bridge 0 1 12", *fabric, *(f"hidden {n} 18" for n in range(2, 5)), *reaches])
    found = devices(await (await open_reader()).look(thorough=True))
    assert [(device.island, device.bandwidth) for device in found] == [
        ("nvlink-0", 300),
        ("nvlink-0", 300),
        ("nvlink-2", 900),
        ("nvlink-2", 900),
        ("nvlink-2", 900),
    ]


async def test_mig_instances(driver: Driver, open_reader: OpenReader) -> None:
    driver.write(mig_box())
    look = await (await open_reader()).look(thorough=True)
    found = devices(look)
    assert found[0].mig == (
        MigInstance("MIG-a", "3g.40gb", Bytes(40192 * MIB)),
        MigInstance("MIG-b", "1g.10gb", Bytes(9728 * MIB)),
    )
    assert found[1].mig == ()
    vitals = look.readings[0].vitals
    assert vitals is not None
    assert vitals.utilisation is None


async def test_vitals_and_processes_of_every_kind(driver: Driver, open_reader: OpenReader) -> None:
    driver.write(
        [*pcie_box(), "use 1 1024 87", "proc 1 400 512 c", "proc 1 400 512 m", "proc 1 401 100 g", "ecc 1 0 3"]
    )
    look = await (await open_reader()).look(thorough=False)
    vitals = look.readings[1].vitals
    assert vitals is not None
    assert (vitals.utilisation, vitals.memory_used) == (87, 1024 * MIB)
    assert vitals.processes == (GpuProcess(400, Bytes(512 * MIB)), GpuProcess(401, Bytes(100 * MIB)))
    assert vitals.counters == GpuErrorCounters(uncorrected_now=0, uncorrected_ever=3)
    assert look.readings[1].card is None


@pytest.mark.parametrize(
    ("line", "arch", "counters"),
    [
        pytest.param("ecc 0 2 5", AMPERE, GpuErrorCounters(uncorrected_now=2, uncorrected_ever=5), id="ecc"),
        pytest.param(
            "remap 0 1 0",
            AMPERE,
            GpuErrorCounters(uncorrected_now=0, uncorrected_ever=0, remap_pending=True),
            id="remap-pending",
        ),
        pytest.param(
            "remap 0 0 1",
            AMPERE,
            GpuErrorCounters(uncorrected_now=0, uncorrected_ever=0, remap_failed=True),
            id="remap-failed",
        ),
        pytest.param(
            "retired 0 7 1",
            VOLTA,
            GpuErrorCounters(uncorrected_now=0, uncorrected_ever=0, retired_pages=7, retirement_pending=True),
            id="retired-pages",
        ),
    ],
)
async def test_counters(
    driver: Driver, open_reader: OpenReader, line: str, arch: int, counters: GpuErrorCounters
) -> None:
    driver.write([f"gpu 0 GPU-0 Some_GPU 1024 {arch}", line])
    vitals = (await (await open_reader()).look(thorough=False)).readings[0].vitals
    assert vitals is not None
    assert vitals.counters == counters


async def test_errors_are_added_up_where_the_driver_does_not(driver: Driver, open_reader: OpenReader) -> None:
    driver.write([*pcie_box(), "ecc 0 2 5", "fail nvmlDeviceGetTotalEccErrors 13"])
    vitals = (await (await open_reader()).look(thorough=False)).readings[0].vitals
    assert vitals is not None
    assert (vitals.counters.uncorrected_now, vitals.counters.uncorrected_ever) == (2, 5)


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        pytest.param("3 0", "", id="up"),
        pytest.param("0 0", "", id="none"),
        pytest.param("1 0", "not started", id="nobody-manages-it"),
        pytest.param("2 0", "still starting", id="on-its-way"),
        pytest.param("3 999", "failed with NVML error 999", id="failed"),
    ],
)
async def test_the_fabric(driver: Driver, open_reader: OpenReader, said: str, wrong: str) -> None:
    driver.write([*dgx_h100(), f"fabric 0 {said}"])
    vitals = (await (await open_reader()).look(thorough=False)).readings[0].vitals
    assert vitals is not None
    assert vitals.fabric == wrong


async def test_a_gpu_dies_between_two_calls(driver: Driver, open_reader: OpenReader) -> None:
    driver.write(dgx_h100())
    reader = await open_reader()
    on_event: list[tuple[str, int]] = []
    reader.listen(lambda uuid, xid: on_event.append((uuid, xid)))
    await reader.look(thorough=True)
    driver.also("dies 3 5")
    look = await reader.look(thorough=False)
    assert [sight.trouble for sight in look.readings] == [None] * 3 + [GpuReadError.LOST] + [None] * 4
    assert look.readings[3].uuid == "GPU-h100-3"
    await eventually(lambda: _now(on_event), until=lambda told: told == [("GPU-h100-3", 79)], seconds=30)


async def test_a_gpu_that_is_lost_before_the_start_is_there_without_a_name(
    driver: Driver, open_reader: OpenReader
) -> None:
    driver.write([*pcie_box(), "fail nvmlDeviceGetHandleByIndex_v2 15 2"])
    look = await (await open_reader()).look(thorough=True)
    assert [sight.uuid for sight in look.readings] == ["GPU-a100-0", "GPU-a100-1", "unread-2", "GPU-a100-3"]
    assert look.readings[2].trouble is GpuReadError.LOST
    driver.no_longer("fail")


async def test_a_call_that_hangs_hides_one_gpu_for_as_long_as_it_hangs(driver: Driver, open_reader: OpenReader) -> None:
    driver.write(dgx_h100())
    limit = 2.0
    reader = await open_reader(limit)
    driver.also("hang nvmlDeviceGetUtilizationRates 5")
    look = await reader.look(thorough=False)
    assert [sight.trouble for sight in look.readings] == [None] * 5 + [GpuReadError.SILENT] + [None] * 2
    began = time.monotonic()
    again = await reader.look(thorough=False)
    assert again.readings[5].trouble is GpuReadError.SILENT
    assert time.monotonic() - began < limit, "a lane that is stuck refuses at once"
    driver.no_longer("hang")
    await eventually(lambda: reader.look(thorough=False), until=lambda now: now.readings[5].trouble is None, seconds=30)


async def test_a_driver_that_hangs_as_a_whole_is_trouble_and_no_end(driver: Driver, open_reader: OpenReader) -> None:
    driver.write(pcie_box())
    reader = await open_reader(0.5)
    driver.also("hang nvmlDeviceGetCount_v2")
    look = await reader.look(thorough=True)
    assert look.silent
    assert "no answer" in look.trouble


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        pytest.param(15, GpuReadError.LOST, id="lost"),
        pytest.param(16, GpuReadError.RESET_REQUIRED, id="reset-required"),
        pytest.param(999, GpuReadError.UNREADABLE, id="unknown-error"),
    ],
)
async def test_errors_of_one_gpu(driver: Driver, open_reader: OpenReader, code: int, trouble: GpuReadError) -> None:
    driver.write([*pcie_box(), f"fail nvmlDeviceGetMemoryInfo {code} 1"])
    look = await (await open_reader()).look(thorough=False)
    assert [sight.trouble for sight in look.readings] == [None, trouble, None, None]


async def test_a_driver_that_is_not_loaded_is_told_in_a_sentence(driver: Driver) -> None:
    driver.write(["driver 9"])
    with pytest.raises(UserError, match=r"driver is not loaded.*--simulate"):
        await NvmlReader.open()


async def test_xids_are_told_as_they_come(driver: Driver, open_reader: OpenReader) -> None:
    driver.write(pcie_box())
    reader = await open_reader()
    on_event: list[tuple[str, int]] = []
    reader.listen(lambda uuid, xid: on_event.append((uuid, xid)))
    driver.also("xid 1 31", "xid 2 79")
    expected = [("GPU-a100-1", 31), ("GPU-a100-2", 79)]
    await eventually(lambda: _now(on_event), until=lambda told: told == expected, seconds=30)


async def _now(on_event: list[tuple[str, int]]) -> list[tuple[str, int]]:
    await asyncio.sleep(0)
    return list(on_event)
