"""The claim keeper on the real control plane: what an API server and its garbage collector make of it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.contract.expect import eventually
from tests.control.claims.stage import NS, OURS, Scene, kept
from ullage.clock import WallClock
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import GPU_CLAIMS, JOBS, NODES, PODS
from ullage.kube.crds.install import install
from ullage.model.allocation import CLAIM_TEMPLATE
from ullage.model.claim import copy_key
from ullage.model.fact_event import ObjectKey
from ullage.testing.builders import a_job, a_node, a_pod_spec
from ullage.testing.controlplane import ControlPlaneSpec, GoProgram
from ullage.testing.controlplane.fixtures import StartControlPlane

pytestmark = pytest.mark.real

SECONDS = 60.0


@pytest.fixture
async def scene(start_control_plane: StartControlPlane) -> AsyncIterator[Scene]:
    """A control plane of its own: a keeper looks at every claim there is."""
    plane = start_control_plane(ControlPlaneSpec(components=(GoProgram.CONTROLLER_MANAGER,)))
    api: KubeApi = connect(plane.kubeconfig)
    await install(api)
    # The garbage collector asks for new kinds only now and then; from its start on it knows them.
    await asyncio.to_thread(plane.kill, GoProgram.CONTROLLER_MANAGER)
    await asyncio.to_thread(plane.start, GoProgram.CONTROLLER_MANAGER)
    yield Scene(api)
    await api.close()


async def said(scene: Scene, claim: str, phase: str, word: str, held: str = "") -> None:
    await eventually(lambda: scene.said(claim), until=lambda now: now == (phase, word, held), seconds=SECONDS)


async def test_claims_and_copies_are_true_and_go_with_their_pods(scene: Scene) -> None:
    await scene.api.create(NODES, a_node("node-a", gpus=8))
    await scene.claim("c")
    await scene.claim("t", 2, devices={"memory": "40Gi"})
    job = a_job("train", pod=a_pod_spec(schedulerName=OURS), parallelism=2, completions=2)
    job["spec"]["template"]["metadata"]["annotations"] = {CLAIM_TEMPLATE: "t"}
    async with kept(scene.api, WallClock()) as keeping:
        await said(scene, "c", "Pending", "Unused")
        await scene.pod("p", "c", terminationGracePeriodSeconds=0)
        await scene.bind("p", "node-a", 0)
        await said(scene, "c", "Bound", "Bound", "node-a:0")
        await scene.remove("p")
        await said(scene, "c", "Pending", "Unused")

        await scene.api.create(JOBS, job, NS)
        state = keeping.snapshot.state
        pods = await eventually(lambda: _copied(scene), until=lambda names: len(names) == 4, seconds=SECONDS)
        assert {"c", "t"} < pods
        first, second = sorted(key for key in state.pods if key.name.startswith("train"))
        await scene.bind(first.name, "node-a", 2, 3)
        copy = copy_key(first, state.pods[first].uid).name
        await said(scene, copy, "Bound", "Bound", "node-a:2,3")
        assert (await scene.fact(copy)).ask == (await scene.fact("t")).ask
        keeping.refuse(second.name)
        await said(scene, copy_key(second, state.pods[second].uid).name, "Pending", "TooFewGpus")
        await said(scene, "t", "Pending", "Unused")
        await scene.remove(first.name)
        await eventually(lambda: _copied(scene), until=lambda names: copy not in names, seconds=SECONDS)


async def protected(scene: Scene, claim: str) -> None:
    await eventually(lambda: scene.fact(claim), until=lambda now: now.protected, seconds=SECONDS)


async def _copied(scene: Scene) -> set[str]:
    return {claim.metadata.name for claim in (await scene.api.list(GPU_CLAIMS, NS)).items}


async def test_statuses_of_a_restarted_keeper_are_put_right_and_the_others_left(scene: Scene) -> None:
    await scene.api.create(NODES, a_node("node-a", gpus=8))
    async with kept(scene.api, WallClock()):
        for number in range(4):
            await scene.claim(f"c{number}")
            await scene.pod(f"p{number}", f"c{number}", terminationGracePeriodSeconds=0)
            await scene.bind(f"p{number}", "node-a", number)
        for number in range(4):
            await said(scene, f"c{number}", "Bound", "Bound", f"node-a:{number}")
            await protected(scene, f"c{number}")
    versions = {number: (await scene.fact(f"c{number}")).resource_version for number in range(4)}
    await scene.remove("p0")
    async with kept(scene.api, WallClock()) as keeping:
        await said(scene, "c0", "Pending", "Unused")
        assert ObjectKey(NS, "p0") not in keeping.snapshot.state.pods
    assert {number: (await scene.fact(f"c{number}")).resource_version for number in range(1, 4)} == {
        number: versions[number] for number in range(1, 4)
    }
    assert len((await scene.api.list(PODS, NS)).items) == 3
