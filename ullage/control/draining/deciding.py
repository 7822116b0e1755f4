"""One loop's answers: what is known, put to the planner, and whose turn it is. Nothing is done here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ullage.clock import Clock
from ullage.control.draining.ledger import Ledger
from ullage.control.draining.settings import DrainingSettings
from ullage.decide.assigning import Assigner
from ullage.decide.drain.estate import Estate, is_drained
from ullage.decide.drain.facts import DrainFacts, DrainMemory, DrainPlan, Limits
from ullage.decide.drain.plan import plan_drain
from ullage.decide.drain.timers import Pace, marked_since
from ullage.decide.drain.turns import Begun, Paces, Turns, turns
from ullage.model.drain import Workload
from ullage.model.provisioner import Consolidation, Provisioner
from ullage.state.placements import Placements


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known beside the picture."""

    provisioners: Sequence[Provisioner]
    estate: Estate
    ledger: Ledger
    left: frozenset[str]
    """Nodes whose removal was begun by somebody who is no more."""
    workloads: Mapping[str, Workload]
    workload_kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Decided:
    """One loop's answers."""

    plan: DrainPlan
    turns: Turns
    estate: Estate
    memory: DrainMemory
    """For the next loop."""


def decide(assigner: Assigner, known: Known, memory: DrainMemory, settings: DrainingSettings, clock: Clock) -> Decided:
    """Plan, and see whose time has come. Real time bounds the search; simulated time stands still meanwhile."""
    now, nodes = clock.now(), assigner.placements.state.nodes
    pools = {one.name: one.consolidation for one in known.provisioners if is_drained(one)}
    policy = replace(settings.policy, pools_used_milli={name: one.used_milli for name, one in pools.items()})
    until = clock.steady() + settings.plan_seconds
    limits = Limits(still_time=lambda: clock.steady() < until, least_tried=settings.least_tried)
    plan = plan_drain(assigner, _facts(known, settings), policy, memory, limits, now=now)
    since = {**(plan.memory.since or {}), **_unheard_timers(known.estate, assigner.placements)}
    begun = Begun(going=tuple(known.ledger.going.values()), left=known.left)
    found = turns(plan.removable, since, nodes, begun, _paces(pools, settings), now=now)
    return Decided(plan, found, known.estate, replace(plan.memory, since=since))


def _facts(known: Known, settings: DrainingSettings) -> DrainFacts:
    return DrainFacts(
        candidates=known.estate.candidates,
        removing=known.ledger.busy,
        resumable=known.left,
        failed=known.ledger.failed(),
        pools=known.estate.floors,
        least_nodes=settings.least_nodes,
        workloads=known.workloads,
        workload_kinds=known.workload_kinds,
        evictions=known.ledger.evictions,
        prices=known.estate.prices,
    )


def _paces(pools: Mapping[str, Consolidation], settings: DrainingSettings) -> Paces:
    own = {
        name: Pace(
            unneeded=one.unneeded, unready=one.unready, most_at_once=one.most_at_once, most_drains=one.most_drains
        )
        for name, one in pools.items()
    }
    others = Pace(
        unneeded=settings.unneeded,
        unready=settings.unready,
        most_at_once=settings.most_at_once,
        most_drains=settings.most_drains,
    )
    return Paces(pools=own, others=others, most_at_once=settings.most_at_once, most_drains=settings.most_drains)


def _unheard_timers(estate: Estate, placements: Placements) -> dict[str, float]:
    """Nodes nothing is known of keep the timers that are on them."""
    nodes = placements.state.nodes
    marked = {name: marked_since(nodes[name]) for name in sorted(estate.unheard) if name in nodes}
    return {name: since for name, since in marked.items() if since is not None}
