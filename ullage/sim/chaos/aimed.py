"""Faults aimed at call sites that faults drawn at random would hardly meet: calls that are seldom, and beginnings."""

import random
from collections.abc import Iterator, Mapping

from ullage.sim.chaos.coverage import verb_of
from ullage.sim.chaos.network import CRASHES, NETWORK_FAULT_OF, POSSIBLE
from ullage.sim.chaos.story import ChaosFault, ChaosStory, FaultKind

SELDOM: Mapping[str, tuple[str, ...]] = {
    "agent": (
        "create events",
        "delete gpunodestatuses",
        "get gpunodestatuses",
        "get leases",
        "patch events",
        "patch gpunodestatuses",
        "patch nodes/status",
        "update nodes",
    ),
    "controller": (
        "create leases",
        "create namespaces",
        "create pods",
        "create pods/eviction",
        "create virtualmachinemigrations",
        "delete nodes",
        "delete pods",
        "get leases",
        "get nodeprovisioners",
        "get nodes",
        "get pods",
        "get virtualmachinemigrations",
        "patch events",
        "patch pods",
        "patch virtualmachines",
        "update nodes",
        "update pods/status",
    ),
    "scheduler": (
        "create gpuclaims",
        "create pods/eviction",
        "create resourceclaims",
        "delete resourceclaims",
        "delete virtualmachinemigrations",
        "get gpuclaims",
        "get gpuquotas",
        "get nodes",
        "get resourceclaims",
        "get virtualmachines",
        "patch events",
        "patch gpuquotas/status",
        "patch leases",
        "patch pods/status",
        "patch resourceclaims",
        "patch resourceclaims/status",
    ),
}
"""Calls that a process makes less than twice in a story: verb and resource."""
_STRIKES = 5
"""Seldom calls that a story aims at. Most stories never make some of them."""
_BEGINS_ANEW = 0.3
"""Share of stories in which a process opens all its watches, or lists everything, under one fault."""
_LASTING = (FaultKind.SLOW, FaultKind.PARTITION)
TOO_SELDOM = (
    "a process is slow or cut off as a whole, and this call is made less than twice in a story; refused connections "
    "and lost answers, which is what it sees of that, are aimed at it"
)
"""Reason that explains a seldom call which hardly meets a fault that lasts."""
_PROCESSES = ("controller", "scheduler")
_EVERYTHING = ("list", "watch")


def aimed_faults(story: ChaosStory) -> Iterator[ChaosFault]:
    """Faults for a story beside those of its own draws, which stay as they are."""
    chance, ends_at = random.Random(f"chaos/{story.seed}/aimed"), story.ends_at
    sites = list(_sites(story))
    for _ in range(_STRIKES):
        yield _strike(chance, chance.choice(sites), ends_at)
    if chance.random() < _BEGINS_ANEW:
        yield from _beginning(chance, ends_at)


def pairs_too_seldom() -> Iterator[str]:
    """Pairs of a seldom call and a fault that lasts and that cannot be aimed at it."""
    for process, calls in SELDOM.items():
        yield from (f"{process} {call}: {kind.value}" for call in calls for kind in _LASTING)


def _sites(story: ChaosStory) -> Iterator[str]:
    """Seldom call sites of the processes that run in a story, without those for features that it does not have."""
    absent = [word for word, there in (("virtualmachine", story.vms), ("resourceclaim", story.dra)) if not there]
    for process in (*_PROCESSES, *(("agent",) if story.real_agents else ())):
        yield from (f"{process} {call}" for call in SELDOM[process] if not any(word in call for word in absent))


def _strike(chance: random.Random, site: str, ends_at: float) -> ChaosFault:
    """Fault of the next call at one site, whenever it comes."""
    crashes, possible = () if site.startswith("agent ") else CRASHES, POSSIBLE[verb_of(site)]
    kind = chance.choice([one for one in (*NETWORK_FAULT_OF, *crashes) if one.value in possible])
    at = round(chance.uniform(0.0, ends_at / 2), 1)
    down = round(chance.uniform(1.0, 60.0), 1) if kind in CRASHES else round(ends_at - at, 1)
    return ChaosFault(at=at, kind=kind, pick=chance.randrange(2), seconds=down, amount=1.0, only=site)


def _beginning(chance: random.Random, ends_at: float) -> Iterator[ChaosFault]:
    """Fault of everything that a process does when it begins, or begins anew."""
    process, verb = chance.choice(_PROCESSES), chance.choice(_EVERYTHING)
    kinds = [one for one in (*NETWORK_FAULT_OF, *_LASTING) if one.value in POSSIBLE[verb]]
    kind, at = chance.choice(kinds), round(chance.uniform(30.0, ends_at - 60.0), 1)
    if kind in _LASTING:
        # It asks what the API server serves after two seconds, and lists all that in the moments after.
        yield ChaosFault(at=at, kind=FaultKind.CRASH, only=process)
        then = round(at + chance.uniform(2.0, 2.2), 2)
        yield ChaosFault(at=then, kind=kind, seconds=20.0, amount=0.5, only=process)
        return
    yield ChaosFault(at=at, kind=kind, seconds=10.0, amount=0.7, only=f"{process} {verb}")
    if verb == "list":
        yield ChaosFault(at=round(at + 0.1, 1), kind=FaultKind.COMPACT)
    yield ChaosFault(at=round(at + 0.2, 1), kind=FaultKind.CUT_WATCHES, only=process)
