"""Stories from seeds. Each seed draws a subset of features and fault kinds, so that rare pairs meet often enough."""

import random
from collections.abc import Sequence

from ullage.sim.chaos.story import (
    KARPENTER_FAULTS,
    NETWORK_FAULTS,
    VM_FAULTS,
    ChaosFault,
    ChaosJob,
    ChaosNode,
    ChaosPool,
    ChaosStory,
    FaultKind,
    JobKind,
)

FAULTS_END = 1200.0
"""Seconds in which jobs arrive and faults strike."""
LONGEST_FAULT = 120.0
STALE_SECONDS = 180.0
"""Seconds that an agent with a wrong clock is silent, at least: its report is stale then."""
_DRA_FAULT = FaultKind.DELETE_RESERVATION


def generated_story(seed: int) -> ChaosStory:
    """Story of a seed. Equal seeds give equal stories."""
    chance = random.Random(f"chaos/{seed}")
    real_agents = chance.random() < 0.5
    mig = chance.random() < 0.35
    nodes = tuple(
        ChaosNode(gpus=chance.choice((2, 4, 8)), islands=chance.choice((1, 2)), mig=mig and number == 0)
        for number in range(chance.randint(1, 4))
    )
    pools = tuple(
        ChaosPool(name=name, most=chance.randint(1, 3), least=chance.choice((0, 0, 1)), drain=name == "drained")
        for name in ("emptied", "drained")
        if chance.random() < 0.7
    )
    karpenter, vms = chance.random() < 0.35, chance.random() < 0.3
    dra = not real_agents and random.Random(f"chaos/{seed}/dra").random() < 0.4  # other draws stay as they are
    return ChaosStory(
        seed=seed,
        nodes=nodes,
        pools=pools,
        jobs=tuple(_jobs(chance, mig, vms)),
        faults=tuple(_faults(chance, _impossible(real_agents, karpenter, vms) | ({_DRA_FAULT} if not dra else set()))),
        karpenter=karpenter,
        replicas=chance.choice((1, 1, 2)),
        real_agents=real_agents,
        dra=dra,
        ends_at=FAULTS_END,
    )


def _jobs(chance: random.Random, mig: bool, vms: bool) -> list[ChaosJob]:
    wanted = {JobKind.MIG: mig, JobKind.VM: vms}
    kinds = [kind for kind in JobKind if wanted.get(kind, chance.random() < 0.6)] or [JobKind.CLAIM]
    return [_job(chance, number, kinds) for number in range(chance.randint(4, 14))]


def _job(chance: random.Random, number: int, kinds: Sequence[JobKind]) -> ChaosJob:
    at = round(chance.uniform(0, FAULTS_END * 0.8), 1)
    return ChaosJob(
        name=f"j{number}",
        at=at,
        kind=chance.choice(kinds),
        gpus=chance.choice((1, 1, 2, 2, 4)),
        seconds=None if chance.random() < 0.35 else round(chance.uniform(20, 900), 1),
        priority=chance.choice((0, 0, 0, 100)),
        leaves_at=round(at + chance.uniform(1, 600), 1) if chance.random() < 0.25 else None,
    )


def _impossible(real_agents: bool, karpenter: bool, vms: bool) -> set[FaultKind]:
    """Faults that this story has no target for."""
    return {
        *((FaultKind.MIG_SWITCHED, FaultKind.AGENT_CLOCK) if real_agents else ()),
        *(() if karpenter else KARPENTER_FAULTS),
        *(() if vms else VM_FAULTS),
    }


def _faults(chance: random.Random, impossible: set[FaultKind]) -> list[ChaosFault]:
    possible = [kind for kind in FaultKind if kind not in impossible]
    kinds = [kind for kind in possible if chance.random() < 0.35] or [chance.choice(possible)]
    return sorted((_fault(chance, kinds) for _ in range(chance.randint(2, 16))), key=lambda one: one.at)


def _fault(chance: random.Random, kinds: Sequence[FaultKind]) -> ChaosFault:
    kind = chance.choice(kinds)
    at = round(chance.uniform(5, FAULTS_END - LONGEST_FAULT), 1)
    seconds = round(min(LONGEST_FAULT, chance.expovariate(1 / 25.0)) + 0.1, 1)
    seconds += STALE_SECONDS if kind is FaultKind.AGENT_CLOCK else 0.0
    return ChaosFault(at=at, kind=kind, pick=chance.randrange(1000), seconds=seconds, amount=_amount(chance, kind))


def _amount(chance: random.Random, kind: FaultKind) -> float:
    if kind in NETWORK_FAULTS:
        return chance.choice((0.05, 0.2, 0.5, 1.0))
    match kind:
        case FaultKind.SLOW | FaultKind.STALE_WATCH | FaultKind.CLOUD_SLOW | FaultKind.CLOUD_STALE:
            return round(chance.uniform(0.5, 40.0), 1)
        case FaultKind.CRASH_BEFORE_CALL | FaultKind.CRASH_AFTER_CALL | FaultKind.FREEZE_AFTER_CALL:
            return float(chance.randint(1, 30))
        case FaultKind.CLOCK | FaultKind.AGENT_CLOCK:
            return chance.choice((-3600.0, -120.0, 120.0, 3600.0))
        case FaultKind.CLOUD_LOST | FaultKind.CLOUD_NO_CAPACITY | FaultKind.CLOUD_THROTTLED:
            return float(chance.randint(1, 4))
        case _:
            return 0.0
