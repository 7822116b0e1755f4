"""A VM that does not move in time: our migration of it is cancelled, another's is left to whoever began it."""

import pytest

from tests.act.test_vms import MIGRATION, a_machine, running, starting
from ullage.act.vm_moves import VmMovePace, VmMover
from ullage.clock import WallClock
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import PODS
from ullage.kube.read import read_pod

THEIRS = "a-theirs"
OVERDUE = VmMovePace(deadline=-1.0)


@pytest.mark.parametrize(
    ("theirs", "ours", "left", "told"),
    [
        (False, True, [], "ullage-p was not over after -1 s, and was cancelled"),
        (True, False, [THEIRS], f"{THEIRS} was not over after -1 s"),
        (True, True, [THEIRS, "ullage-p"], f"{THEIRS} was not over after -1 s"),
    ],
    ids=["ours", "another's", "another's moves it while ours waits"],
)
async def test_only_our_own_migration_is_cancelled(
    api: KubeApi, ns: str, theirs: bool, ours: bool, left: list[str], told: str
) -> None:
    start = starting(await a_machine(api, ns), await running(api, ns))
    if theirs:
        await api.create(MIGRATION, {"metadata": {"name": THEIRS}, "spec": {"vmName": "v"}}, ns)
    pod = read_pod(await api.get(PODS, "p", ns))
    stays = await VmMover(api, WallClock(), OVERDUE).move([pod], [start] if ours else [])
    assert stays is not None
    assert stays.detail.endswith(told)
    assert [one["metadata"]["name"] for one in (await api.list(MIGRATION, ns)).items] == left
