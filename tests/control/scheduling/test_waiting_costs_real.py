"""A pod that waits costs the real API server nothing after its first two minutes, by the server's own audit log."""

import asyncio

import pytest

from tests.contract.expect import eventually
from tests.control.scheduling.conftest import StartInstalled
from tests.control.scheduling.fleet import add_nodes, submit
from tests.control.scheduling.programs import ALONE, Programs
from tests.control.scheduling.test_silence_real import USER, grant
from ullage.clock import WallClock
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import EVENTS, NODES, PODS
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec

pytestmark = [pytest.mark.real, pytest.mark.full]

FIRST_TWO_MINUTES, MEASURED = 125.0, 60.0
WAITING = 20


def asked(plane: ControlPlane) -> list[str]:
    """Requests of the scheduler, watches apart: those are opened again every few minutes whoever waits."""
    mine = (one for one in plane.audit() if one.user == USER and one.verb != "watch")
    return [f"{one.verb} {one.resource} {one.name}" for one in mine]


async def test_waiting_pods_are_quiet_while_nodes_come_and_go(
    start_installed: StartInstalled, programs: Programs
) -> None:
    plane = start_installed(ControlPlaneSpec(audit=True))
    api = connect(plane.kubeconfig)
    try:
        await grant(api, "cluster-admin")
        await add_nodes(api, ["node-000", "node-001"], WallClock())
        programs.scheduler(plane.kubeconfig_for(USER), ALONE)
        for number in range(WAITING):
            await submit(api, "default", f"w{number:02}", 16)

        async def told() -> int:
            pods = (await api.list(PODS, "default")).items
            return sum(any(one.type == "PodScheduled" for one in pod.status.conditions) for pod in pods)

        await eventually(told, until=lambda count: count == WAITING, seconds=60)
        await asyncio.sleep(FIRST_TWO_MINUTES)
        before = len(asked(plane))
        for second in range(int(MEASURED / 5)):
            await api.patch(NODES, "node-001", MergePatch({"spec": {"unschedulable": second % 2 == 0}}))
            await asyncio.sleep(5)
        assert asked(plane)[before:] == []
        events = (await api.list(EVENTS, "default")).items
        assert sorted({one["regarding"]["name"] for one in events}) == [f"w{number:02}" for number in range(WAITING)]
        assert len(events) == WAITING, "one Event per pod and reason"
        programs.check_running()
    finally:
        await api.close()
