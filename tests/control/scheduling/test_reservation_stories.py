"""Leased GPUs that a DRA driver publishes stay withheld from ResourceClaims, whatever befalls the reservations."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.control.scheduling.fleet import devices, submit
from tests.control.scheduling.stage import LEASE_NAMESPACE, NS, Setting, Stage, play
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import LEASES, RESOURCE_CLAIMS, RESOURCE_SLICES
from ullage.model.allocation import lease_name
from ullage.testing.builders import a_resource_slice

pytestmark = pytest.mark.story

NODE = "node-00"
CLAIMS = RESOURCE_CLAIMS[0].whole()
SLICES = RESOURCE_SLICES[0].whole()


def a_slice(names: str = "gpu") -> dict[str, Any]:
    return a_resource_slice("slice", NODE, {f"{names}-{gpu.id}": gpu.uuid for gpu in devices(NODE)})


async def withheld(stage: Stage) -> Mapping[str, list[str]]:
    """Devices by reservation."""
    found = {}
    for claim in (await stage.api.list(CLAIMS, LEASE_NAMESPACE)).items:
        given = claim.get("status", {}).get("allocation") or {"devices": {"results": []}}
        found[claim["metadata"]["name"]] = [one["device"] for one in given["devices"]["results"]]
    return found


async def reserved(stage: Stage, names: str = "gpu") -> bool:
    """True if every leased GPU is withheld, and no other."""
    return await withheld(stage) == {lease.name: [f"{names}-{gpu}"] for gpu, lease in (await stage.leases()).items()}


async def delete_reservations(stage: Stage) -> None:
    for name in await withheld(stage):
        await stage.api.delete(CLAIMS, name, LEASE_NAMESPACE)


async def force_delete_reservations(stage: Stage) -> None:
    for name in await withheld(stage):
        await stage.api.patch(CLAIMS, name, MergePatch({"metadata": {"finalizers": None}}), LEASE_NAMESPACE)
    await delete_reservations(stage)


async def empty_reservations(stage: Stage) -> None:
    for name in await withheld(stage):
        nothing = MergePatch({"status": {"allocation": None}})
        await stage.api.patch(CLAIMS, name, nothing, LEASE_NAMESPACE, subresource="status")


async def rename_devices(stage: Stage) -> None:
    spec = a_slice("renamed")["spec"]
    await stage.api.patch(SLICES, "slice", MergePatch({"spec": spec}))


@pytest.mark.parametrize(
    ("disturb", "names"),
    [
        pytest.param(force_delete_reservations, "gpu", id="an-admin-deletes-them-by-force"),
        pytest.param(empty_reservations, "gpu", id="an-admin-empties-them"),
        pytest.param(rename_devices, "renamed", id="the-driver-names-its-devices-anew"),
    ],
)
def test_a_reservation_is_restored_within_seconds_while_its_lease_stands(disturb: Any, names: str) -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(SLICES, a_slice())
        await submit(stage.api, NS, "p", 2)
        await stage.at_rest(30)
        assert await reserved(stage), "by the bind itself"
        leases = {gpu: lease.resource_version for gpu, lease in (await stage.leases()).items()}
        await disturb(stage)
        assert not await reserved(stage, names)
        took = await stage.until(lambda: reserved(stage, names), 30, every=0.1)
        assert took < 2
        assert leases == {gpu: lease.resource_version for gpu, lease in (await stage.leases()).items()}
        await stage.delete("p")
        await asyncio.sleep(60)
        assert (await withheld(stage), await stage.leases()) == ({}, {})

    play(Setting(nodes=1), story)


def test_a_reservation_that_is_deleted_withholds_until_its_lease_ends() -> None:
    """kube-scheduler would hear of it as soon as we do, so making it again would be too late."""

    async def story(stage: Stage) -> None:
        await stage.api.create(SLICES, a_slice())
        await submit(stage.api, NS, "p", 2)
        await stage.at_rest(30)
        await delete_reservations(stage)
        for _ in range(120):
            assert await reserved(stage)
            await asyncio.sleep(0.5)
        await stage.delete("p")

        async def gone() -> bool:
            return not await withheld(stage) and not await stage.leases()

        assert await stage.until(gone, 60) < 10
        await submit(stage.api, NS, "q", 2)
        await stage.at_rest(30)
        assert await reserved(stage)

    play(Setting(nodes=1), story)


def test_the_next_lease_takes_over_a_reservation_that_is_deleted() -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(SLICES, a_slice())
        await submit(stage.api, NS, "p", 8)
        await submit(stage.api, NS, "q", 8)
        await stage.until(lambda: reserved(stage), 30)
        await delete_reservations(stage)
        await stage.delete("p")
        await stage.at_rest(60)
        assert set(await stage.bound()) == {"q"}
        await asyncio.sleep(30)
        assert await reserved(stage)
        await stage.delete("q")
        await asyncio.sleep(30)
        assert await withheld(stage) == {}

    play(Setting(nodes=1), story)


def test_a_driver_that_comes_later_finds_leased_gpus_withheld() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage.api, NS, "p", 2)
        await stage.at_rest(30)
        await stage.api.create(SLICES, a_slice())
        assert await stage.until(lambda: reserved(stage), 30, every=0.1) < 2

    play(Setting(nodes=1), story)


def test_a_reservation_whose_lease_goes_is_not_made_again() -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(SLICES, a_slice())
        await submit(stage.api, NS, "p", 1)
        await stage.at_rest(30)
        await stage.delete("p")
        await delete_reservations(stage)
        await asyncio.sleep(30)
        assert (await withheld(stage), await stage.leases()) == ({}, {})

    play(Setting(nodes=1), story)


def test_reservations_that_stand_cost_no_requests() -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(SLICES, a_slice())
        await submit(stage.api, NS, "p", 2)
        await stage.at_rest(30)
        await asyncio.sleep(30)
        before = {claim["metadata"]["resourceVersion"] for claim in (await stage.api.list(CLAIMS)).items}
        await asyncio.sleep(600)
        assert {claim["metadata"]["resourceVersion"] for claim in (await stage.api.list(CLAIMS)).items} == before

    play(Setting(nodes=1), story)


def test_a_gpu_another_claim_got_meanwhile_is_not_allocated_twice() -> None:
    """kube-scheduler keeps a set of allocated devices: a second claim on one device would free it when either goes."""

    async def story(stage: Stage) -> None:
        await submit(stage.api, NS, "p", 1)
        await stage.at_rest(30)
        (gpu,) = await stage.leases()
        await stage.api.create(CLAIMS, {"metadata": {"name": "theirs"}, "spec": {"devices": {}}}, NS)
        result = {"request": "r", "driver": "gpu.nvidia.com", "pool": NODE, "device": f"gpu-{gpu}"}
        status = {"status": {"allocation": {"devices": {"results": [result]}}}}
        await stage.api.patch(CLAIMS, "theirs", MergePatch(status), NS, subresource="status")
        await stage.api.create(SLICES, a_slice())
        await asyncio.sleep(60)
        assert await withheld(stage) == {lease_name(NODE, gpu): []}
        await stage.api.delete(CLAIMS, "theirs", NS)
        await stage.until(lambda: reserved(stage), 60)

    play(Setting(nodes=1), story)


def test_a_lease_made_again_is_withheld_again() -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(SLICES, a_slice())
        await submit(stage.api, NS, "p", 2)
        await stage.at_rest(30)
        for lease in (await stage.leases()).values():
            await stage.api.delete(LEASES, lease.name, LEASE_NAMESPACE)

        async def back() -> bool:
            return len(await stage.leases()) == 2 and await reserved(stage)

        assert await stage.until(back, 60) < 20

    play(Setting(nodes=1, leases_vanish=True), story)
