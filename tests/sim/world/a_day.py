"""A day with everything in it, told in one line: `python -m tests.sim.world.a_day SEED` prints a digest of its report.

Pods of all sizes, shares, a gang, nodes bought, tainted, drained and given back.
"""

import hashlib
import random
import sys

from tests.sim.world.making import arrives, claim, fleet, pod, pool
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.kubelet.timings import KubeletTimings
from ullage.sim.world.decisions import Decision
from ullage.sim.world.run import SimulationResult, simulate
from ullage.sim.world.scores import report_bytes
from ullage.sim.world.spec import Arrival, WorldSpec

SHARE = {"exclusivity": "Shared", "memory": "30Gi"}
PODS = 60


def spec(seed: int) -> WorldSpec:
    drained = pool("drained", most=3, consolidation={"policy": "Drain", "unneededTime": "5m"})
    return WorldSpec(
        seed=seed,
        nodes=fleet(2),
        objects=(pool("emptied", most=3), drained),
        actors=ControllerManagerSettings(seed=seed, behaviour=KubeletTimings(seed=seed)),
    )


def arrivals(seed: int) -> list[Arrival]:
    chance = random.Random(seed)
    found = []
    for number in range(PODS):
        at, seconds = chance.uniform(0, 40_000), chance.uniform(60, 20_000)
        name = f"p{number}"
        if number % 5 == 0:
            found.append(arrives(at, claim(name, devices=SHARE), pod(name, claim=name, seconds=seconds)))
        elif number % 7 == 0:
            members = [f"{name}-{member}" for member in range(3)]
            gang = [one for each in members for one in (_member(each, name), pod(each, claim=each, seconds=seconds))]
            found.append(arrives(at, *gang))
        else:
            found.append(arrives(at, pod(name, chance.choice((0, 1, 2, 4, 8)), seconds=seconds)))
    return found


def _member(name: str, gang: str) -> dict[str, object]:
    return claim(name, 4, gangRef=gang, gangMinMember=3)


def day(seed: int) -> tuple[SimulationResult, list[Decision]]:
    told: list[Decision] = []
    return simulate(spec(seed), arrivals(seed), on_decision=told.append), told


def digest(result: SimulationResult, told: list[Decision]) -> str:
    text = report_bytes(result.report) + repr(result.violation).encode() + "\n".join(map(repr, told)).encode()
    return hashlib.sha256(text).hexdigest()


if __name__ == "__main__":
    sys.stdout.write(digest(*day(int(sys.argv[1]))))
