"""Clusters by chance, for laws that hold in all of them."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.decide.draining.fleets import WEB, gpu_node, node, pod
from tests.decide.draining.test_gangs import claim, member
from tests.decide.draining.test_spread import avoiding, spread
from tests.decide.preemption.fleets import a_budget
from ullage.model.node import Taint
from ullage.model.pod_marks import SafeToEvict
from ullage.state.cluster import Fact

APPS = ("web", "db", "free")
_TAINT = Taint("dedicated", "x", "NoSchedule")


@dataclass(frozen=True)
class World:
    """Facts of a cluster, and of how it is drained."""

    facts: list[Fact]
    removing: frozenset[str]
    in_turn: bool


@st.composite
def plain_pods(draw: st.DrawFn, names: list[str]) -> list[Fact]:
    count = draw(st.integers(0, 14))
    found: list[Fact] = []
    for place in range(count):
        facts: dict[str, Any] = {
            "labels": {"app": draw(st.sampled_from(APPS))},
            "cpu": draw(st.sampled_from((1, 1, 1, 2, 4))),
        }
        facts["marks"] = {
            "ready": draw(st.booleans()),
            "safe_to_evict": draw(st.sampled_from([SafeToEvict.UNSAID, SafeToEvict.UNSAID, *SafeToEvict])),
        }
        facts["owner"] = draw(st.sampled_from([WEB, WEB, WEB, None]))
        facts["deleting"] = draw(st.sampled_from([False, False, False, True]))
        found.append(pod(f"p{place:02}", draw(st.sampled_from([*names, ""])), **facts))
    return found


@st.composite
def fussy_pods(draw: st.DrawFn, names: list[str]) -> list[Fact]:
    """Those who count others, or avoid them."""
    kinds = st.sampled_from([spread, avoiding])
    return [draw(kinds)(f"f{place}", draw(st.sampled_from(names))) for place in range(draw(st.integers(0, 5)))]


@st.composite
def worlds(draw: st.DrawFn, *, fussy: bool = False, gpus: bool = False) -> World:
    names = [f"n{place}" for place in range(draw(st.integers(1, 6)))]
    facts: list[Fact] = []
    for name in names:
        taints = (_TAINT,) if draw(st.integers(0, 5)) == 0 else ()
        ready = draw(st.integers(0, 5)) > 0
        facts.append(node(name, draw(st.integers(3, 10)), taints=taints, ready=ready))
    facts += draw(plain_pods(names))
    if fussy:
        facts += draw(fussy_pods(names))
    if gpus:
        facts += draw(gpu_facts())
    facts += [a_budget(app, app, draw(st.integers(0, 4))) for app in APPS[:2] if draw(st.booleans())]
    removing = frozenset(draw(st.sets(st.sampled_from(names), max_size=1))) if draw(st.booleans()) else frozenset()
    return World(facts, removing, draw(st.booleans()))


@st.composite
def gpu_facts(draw: st.DrawFn) -> list[Fact]:
    """GPU nodes with pods on exact GPUs, some of which are a gang."""
    found: list[Fact] = []
    least = draw(st.integers(0, 3))
    for place in range(draw(st.integers(1, 4))):
        found += gpu_node(f"g{place}")
        taken = draw(st.sets(st.integers(0, 3), max_size=3))
        for gpu in sorted(taken):
            name = f"g{place}-{gpu}"
            if draw(st.integers(0, 2)):
                found.append(pod(name, f"g{place}", gpus=(gpu,)))
            else:
                found += [claim(f"c-{name}", least), member(name, f"g{place}", gpu)]
    return found


@st.composite
def crowded(draw: st.DrawFn) -> World:
    """Many pods that are all alike, which are moved by the dozen."""
    facts: list[Fact] = []
    for place in range(draw(st.integers(2, 7))):
        size = draw(st.integers(2, 8))
        facts.append(node(f"n{place}", size))
        facts += [pod(f"p{place}-{number}", f"n{place}") for number in range(draw(st.integers(0, size)))]
    return World(facts, frozenset(), in_turn=False)
