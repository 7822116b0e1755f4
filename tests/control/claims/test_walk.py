"""Whatever happens to pods and claims, in whatever order: when all is quiet, every status is what it has to be."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.control.claims.stage import FULL, NS, OURS, Kept, Scene, World, kept, told
from ullage.decide.claims.status import claim_status, says
from ullage.decide.placement.prefilter import copy_of, last_user_of
from ullage.errors import ApiError
from ullage.kube.client.resources import GPU_CLAIMS
from ullage.kube.read.gpu import read_claim
from ullage.model.refusal import SchedulingFailure
from ullage.sim.apiserver.network_faults import Latency
from ullage.state.snapshot import ClusterSnapshot
from ullage.watch.sources import read_cluster

pytestmark = pytest.mark.story

CLAIMS = ("c0", "c1", "c2", "t")
PODS = ("p0", "p1", "p2", "p3")
HOPELESS = SchedulingFailure(word="ClaimInvalid", message="it makes no sense", permanent=True)


class Walk:
    """Steps that a cluster may take at any time. Those that are impossible now are not taken."""

    def __init__(self, scene: Scene, dice: random.Random) -> None:
        self._scene = scene
        self._dice = dice
        self._steps = (self._claim, self._unclaim, self._create, self._create, self._bind, self._finish, self._remove)

    async def step(self, keeping: Kept) -> None:
        pod = self._dice.choice(PODS)
        if self._dice.random() < 0.2:
            known = [key.name for key in keeping.snapshot.state.pods]
            if pod in known:
                keeping.refuse(pod, self._dice.choice((FULL, HOPELESS)))
            return
        try:
            await self._dice.choice(self._steps)(pod)
        except ApiError:
            return

    async def _claim(self, _: str) -> None:
        await self._scene.claim(self._dice.choice(CLAIMS))

    async def _unclaim(self, _: str) -> None:
        found = sorted(claim.metadata.name for claim in (await self._scene.api.list(GPU_CLAIMS, NS)).items)
        if found:
            await self._scene.api.delete(GPU_CLAIMS, self._dice.choice(found), NS)

    async def _create(self, pod: str) -> None:
        scheduler = self._dice.choice((OURS, OURS, OURS, "default-scheduler"))
        if self._dice.random() < 0.3:
            await self._scene.pod(pod, template="t", schedulerName=scheduler)
        else:
            await self._scene.pod(pod, self._dice.choice(CLAIMS), schedulerName=scheduler)

    async def _bind(self, pod: str) -> None:
        await self._scene.bind(pod, "node-a", *self._dice.sample(range(8), self._dice.randrange(3)))

    async def _finish(self, pod: str) -> None:
        await self._scene.finish(pod, self._dice.choice(("Succeeded", "Failed")))

    async def _remove(self, pod: str) -> None:
        await self._scene.remove(pod)


async def untrue(scene: Scene, keeping: Kept | None) -> list[str]:
    """What statuses say that is not so, by a picture read from nothing. Refusals are the keeper's to remember."""
    snapshot = ClusterSnapshot(await read_cluster(scene.api))
    found = []
    for raw in (await scene.api.list(GPU_CLAIMS, NS)).items:
        claim = read_claim(raw)
        pod = last_user_of(claim.key, snapshot)
        refusal = None if keeping is None or pod is None else keeping.keeper.refusal_of(pod)
        standing = claim_status(
            claim,
            pod,
            refusal=refusal,
            ours=pod is None or pod.scheduler == OURS,
            template=snapshot.state.is_template(claim.key),
        )
        stale = standing.word == "OtherScheduler" and claim.word in ("Waiting", "TooFewGpus", "ClaimInvalid")
        if not says(claim, standing) and not stale:
            found.append(f"{claim.key}: says {claim.phase} {claim.word} {claim.message}, should say {standing}")
    for pod in snapshot.state.pods.values():
        template = any(key.name == "t" for key in snapshot.state.claims)
        wanted = pod.claim_template and template and pod.scheduler == OURS and not (pod.phase.over or pod.deleting)
        if wanted and copy_of(pod, snapshot.state) is None:
            found.append(f"{pod.key} has no claim of its own")
    return found


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), pauses=st.sampled_from((0.0, 0.3, 5.0)), lag=st.sampled_from((0.0, 0.2)))
def test_statuses_are_true_when_all_is_quiet(seed: int, pauses: float, lag: float) -> None:
    async def story() -> None:
        world, dice = World(), random.Random(seed)
        scene = await world.scene()
        world.network.latency = Latency(default=lag, watch=lag)
        walk = Walk(scene, dice)
        for _ in range(2):  # a restart in the middle
            async with kept(world.keepers_api, world.clock) as keeping:
                for _ in range(25):
                    await walk.step(keeping)
                    await asyncio.sleep(dice.uniform(0, pauses))
                await asyncio.sleep(70)
                assert await untrue(scene, keeping) == []
                world.writes.clear()
                await asyncio.sleep(300)
                assert world.writes == []
            for _ in range(5):
                await walk.step(keeping)

    told(story())
