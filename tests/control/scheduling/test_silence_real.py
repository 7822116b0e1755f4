"""`ullage scheduler` as a user who may not bind pods, on the real API server: it says so, and binds once it may."""

import asyncio
import re

import aiohttp
import pytest

from tests.contract.expect import eventually
from tests.control.scheduling.fleet import add_nodes, submit
from tests.control.scheduling.programs import Programs
from ullage.clock import WallClock
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import EVENTS, GPU_CLAIMS, PODS
from ullage.testing.controlplane import ControlPlane

pytestmark = pytest.mark.real

RBAC = "rbac.authorization.k8s.io"
ROLES: Resource[JsonObject] = Resource(RBAC, "v1", "clusterroles", "ClusterRole", False, dict)
BINDINGS: Resource[JsonObject] = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False, dict)
USER = "half-a-scheduler"
SAID = f'User "{USER}" cannot create resource "pods/binding"'
CORE = ("nodes", "pods", "pods/status", "namespaces", "persistentvolumes", "persistentvolumeclaims")


async def grant(api: KubeApi, role: str) -> None:
    subject = {"kind": "User", "name": USER, "apiGroup": RBAC}
    reference = {"kind": "ClusterRole", "name": role, "apiGroup": RBAC}
    await api.create(BINDINGS, {"metadata": {"name": f"{USER}-{role}"}, "subjects": [subject], "roleRef": reference})


async def all_but_binding(api: KubeApi) -> None:
    others = ("events", "storage", "coordination", "resource", "scheduling")
    groups = [*(f"{name}.k8s.io" for name in others), "scheduling.x-k8s.io", "gpu.scheduling", "policy"]
    rules = [
        {"apiGroups": [""], "resources": list(CORE), "verbs": ["*"]},
        {"apiGroups": groups, "resources": ["*"], "verbs": ["*"]},
    ]
    await api.create(ROLES, {"metadata": {"name": "half"}, "rules": rules})
    await grant(api, "half")


async def page(address: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"{address}/readyz") as ready:
        return ready.status, await ready.text()


def ready_page(programs: Programs) -> str:
    found = re.search(r"metrics at (http://[^/]+)", programs.said())
    return "" if found is None else found[1]


async def test_a_scheduler_that_may_not_bind_says_so_and_its_standby_that_it_stands_by(
    plane: ControlPlane, api: KubeApi, programs: Programs
) -> None:
    await all_but_binding(api)
    kubeconfig = plane.kubeconfig_for(USER)
    await add_nodes(api, ["node-000"], WallClock())
    programs.scheduler(kubeconfig, "--listen", "127.0.0.1:0")

    async def said() -> str:
        return programs.said()

    await eventually(said, until=lambda words: " leads" in words, seconds=30)
    programs.scheduler(kubeconfig)
    await submit(api, "default", "p", 1)

    async def told() -> list[str]:
        return [one["note"] for one in (await api.list(EVENTS, "default")).items]

    def once(notes: list[str]) -> bool:
        """Beside it there may be one from before its node's report was heard of."""
        return sum(SAID in note for note in notes) == 1

    await eventually(told, until=once, seconds=30)
    (condition,) = (await api.get(PODS, "p", "default")).status.conditions
    assert (condition.reason, SAID in condition.message) == ("SchedulerError", True)

    async def claim() -> str:
        return (await api.get(GPU_CLAIMS, "p", "default")).status.message

    await eventually(claim, until=lambda words: SAID in words, seconds=30)
    status, words = await page(ready_page(programs))
    assert (status, SAID in words) == (503, True)
    words = await eventually(said, until=lambda words: "stands by" in words, seconds=30)
    assert words.count("placement failed") == 1
    await grant(api, "cluster-admin")

    async def node() -> str:
        return (await api.get(PODS, "p", "default")).spec.node_name

    assert await eventually(node, until=bool, seconds=60) == "node-000"
    await asyncio.sleep(0.5)
    assert (await page(ready_page(programs)))[0] == 200
