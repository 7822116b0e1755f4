"""Storms: lost answers, partitions, freezes, thoughts and crashes at once, and still only the holder acts."""

import asyncio
import random

import pytest

from tests.control.leader.candidates import Act, Team
from ullage.sim.apiserver.network_faults import FaultRates, Latency, NetworkConditions, NetworkFault
from ullage.sim.virtual_time import loop_clock, run_virtual

pytestmark = pytest.mark.fault


def storm(seed: int, *, guarded: bool) -> list[Act]:
    """Ten minutes of lost answers, partitions, freezes, thoughts and crashes; returns what nobody should have done."""

    async def story() -> Team:
        dice = random.Random(seed)
        team = Team(loop_clock(), seed=seed, guarded=guarded, thinks=6.0)
        await team.prepare()
        odds = FaultRates(
            {
                NetworkFault.LOST: 0.04,
                NetworkFault.REFUSED: 0.04,
                NetworkFault.BROKEN: 0.02,
                NetworkFault.THROTTLED: 0.02,
            }
        )
        latency = Latency(default=0.1, spread=12.0)
        replicas = [
            team.replica(f"r{n}", NetworkConditions(seed=seed * 10 + n, latency=latency, odds=odds)) for n in range(3)
        ]
        for replica in replicas:
            replica.start()
        while asyncio.get_running_loop().time() < 600:
            await asyncio.sleep(dice.uniform(1, 20))
            victim = dice.choice(replicas)
            match dice.randrange(4):
                case 0:
                    victim.life.freeze(dice.uniform(1, 40))
                case 1:
                    team.network[victim.name].partitioned = True
                case 2:
                    team.network[victim.name].partitioned = False
                case _:
                    victim.restart()
        return team

    team = run_virtual(story())
    assert len(team.server.acts) > 20, "nobody got anything done"
    return team.server.fouls


@pytest.mark.parametrize("seed", range(12))
def test_in_any_storm_only_the_holder_acts(seed: int) -> None:
    assert storm(seed, guarded=True) == []


@pytest.mark.full
@pytest.mark.parametrize("seed", range(12, 300))
def test_in_many_storms_only_the_holder_acts(seed: int) -> None:
    assert storm(seed, guarded=True) == []


def test_without_the_guard_the_same_storms_break_the_rule() -> None:
    assert any(storm(seed, guarded=False) for seed in range(12))
