"""Stories from seeds. Each seed draws a subset of features and fault kinds, so that rare pairs meet often enough."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ullage.sim.chaos.aimed import aimed_faults
from ullage.sim.chaos.changing_places import change_of_places
from ullage.sim.chaos.network import CRASHES, POSSIBLE
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

FAULTS_END = 900.0
"""Seconds in which jobs arrive and faults strike."""
LONGEST_FAULT = 120.0
STALE_SECONDS = 180.0
"""Seconds that an agent with a wrong clock is silent, at least: its report is stale then."""
_STRUCK_VERBS = ("create", "create", "patch", "update", "delete", "delete", "get", "list")
_LONG = (FaultKind.OUTLIVED, FaultKind.FREEZE, FaultKind.FREEZE_AFTER_CALL, FaultKind.STALE_WATCH)
"""Faults that matter only while something else happens: they last longer."""
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
    impossible = _impossible(real_agents, karpenter, vms)
    dra = not real_agents and random.Random(f"chaos/{seed}/dra").random() < 0.4  # other draws stay as they are
    jobs = _jobs(chance, mig, vms)
    faults = tuple(_narrowed(_faults(chance, impossible if dra else impossible | {_DRA_FAULT}), seed))
    beside = tuple(_beside_faults(jobs, faults, seed))
    places = None if karpenter else change_of_places(seed, nodes)
    if places is not None:
        pools, beside = (places.pool,), tuple(places.beside(beside))
        faults = tuple(sorted((*faults, places.stopped), key=lambda one: one.at))
    story = ChaosStory(
        seed=seed,
        nodes=nodes,
        pools=pools,
        jobs=beside,
        faults=faults,
        karpenter=karpenter,
        replicas=chance.choice((1, 1, 2)),
        real_agents=real_agents,
        dra=dra,
        ends_at=FAULTS_END,
    )
    return replace(story, faults=(*faults, *aimed_faults(story)))


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


def _beside_faults(jobs: Sequence[ChaosJob], faults: Sequence[ChaosFault], seed: int) -> Iterator[ChaosJob]:
    """Jobs, of which half come while a fault lasts or just after it: what is bound then may be bound wrongly."""
    chance = random.Random(f"chaos/{seed}/beside")
    for job in jobs:
        if not faults or chance.random() < 0.5:
            yield job
            continue
        fault = chance.choice(faults)
        at = round(max(0.0, fault.at + chance.uniform(-2.0, fault.seconds + 15.0)), 1)
        stays = None if job.leaves_at is None else job.leaves_at - job.at
        yield replace(job, at=at, leaves_at=None if stays is None else round(at + stays, 1))


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
    if kind in _LONG:
        seconds = round(chance.uniform(20.0, LONGEST_FAULT), 1)
    seconds += STALE_SECONDS if kind is FaultKind.AGENT_CLOCK else 0.0
    return ChaosFault(at=at, kind=kind, pick=chance.randrange(1000), seconds=seconds, amount=_amount(chance, kind))


def _narrowed(faults: Sequence[ChaosFault], seed: int) -> Iterator[ChaosFault]:
    """Faults of single calls, of which two in three strike one verb: else calls that are seldom are hardly struck."""
    chance = random.Random(f"chaos/{seed}/only")
    for fault in faults:
        counted = fault.kind in CRASHES
        verbs = _STRUCK_VERBS if counted else [verb for verb in _STRUCK_VERBS if fault.kind.value in POSSIBLE[verb]]
        if not (counted or fault.kind in NETWORK_FAULTS) or not verbs or chance.random() >= 2 / 3:
            yield fault
            continue
        only = chance.choice(verbs)
        yield replace(fault, only=only, amount=float(chance.randint(1, 4)) if counted else chance.choice((0.5, 1.0)))
        if only == "list":  # which happens only to whoever has to begin anew
            yield ChaosFault(at=round(fault.at + 0.1, 1), kind=FaultKind.COMPACT)
            yield ChaosFault(at=round(fault.at + 0.2, 1), kind=FaultKind.CUT_WATCHES, pick=fault.pick)


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
