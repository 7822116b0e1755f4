"""The story `vms`: VMs shrink, grow by permits, move under pressure and shrink again."""

import pytest

from tests.sim.demo.onlooker import NS, Onlooker, look_on
from ullage.kube.client.resources import EVENTS, VIRTUAL_MACHINES
from ullage.kube.read.vm import read_vm
from ullage.model.vm import Vm
from ullage.sim.demo.vms import VMS

AT = {moment.name: moment.at for moment in VMS.story_steps}


async def sizes(eye: Onlooker) -> dict[str, int]:
    """Cores of each VM."""
    vms: list[Vm] = [read_vm(raw) for raw in (await eye.world.api.list(VIRTUAL_MACHINES, NS)).items]
    return {vm.key.name: vm.use.cpu // 1000 for vm in vms}


@pytest.mark.story
def test_vms_shrink_grow_by_permits_move_under_pressure_and_shrink_again() -> None:
    async def seen(eye: Onlooker) -> None:
        await eye.world.sleep_until(AT["growing"] - 1)
        assert set((await sizes(eye)).values()) == {1}

        async def grown() -> bool:
            return (await sizes(eye))["db-1"] == 12

        assert await eye.until(grown, within=60) < AT["growing"] + 30
        await eye.world.sleep_until(AT["calm"] - 1)
        assert set((await sizes(eye)).values()) == {12}, "pressure is over, and everybody has what it needs"
        placed = [raw.status.node for raw in (await eye.world.api.list(VIRTUAL_MACHINES, NS)).items]
        assert len(set(placed)) > 1, "some were moved"
        notes = "\n".join(one["note"] for one in (await eye.world.api.list(EVENTS, NS)).items)
        assert "best of 3 that fit, by how full it is with the VM" in notes
        assert "best of 2 that fit, by room below the watermark" in notes
        assert "is under pressure: 40 CPU and 155Gi of memory too much" in notes

        async def calm() -> bool:
            return set((await sizes(eye)).values()) == {1}

        await eye.until(calm, within=250)
        assert eye.world.violation is None

    look_on(VMS, seen)
