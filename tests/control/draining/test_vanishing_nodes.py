"""Nodes that go while something is written on the nodes beside them: the controller goes on."""

import asyncio
from dataclasses import replace

import pytest

from tests.control.draining.stage import QUICK, Stage, play
from ullage.kube.client.resources import NODES
from ullage.model.draining import CANDIDATE_TAINT
from ullage.sim.apiserver.network_faults import Latency

pytestmark = [pytest.mark.story, pytest.mark.fault]


def test_a_node_that_a_user_deletes_while_candidates_are_marked_stops_nobody() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(4)
        stage.network.latency = Latency(default=2.0, watch=0.01)
        await stage.may_shrink()

        async def one_is_marked() -> bool:
            return bool(await stage.candidates())

        await stage.until(one_is_marked, every=0.05)
        for name in set(await stage.nodes()) - set(await stage.tainted(CANDIDATE_TAINT)):
            await stage.api.delete(NODES, name)
        await asyncio.sleep(60)
        assert stage.controller.alive
        stage.network.latency = Latency()
        await stage.served()

    play(story, settings=replace(QUICK, max_node_write_parallelism=1))
