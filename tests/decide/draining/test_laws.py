"""What holds of every plan, whatever the cluster."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decide.draining.fleets import NOW, a_picture
from tests.decide.draining.worlds import World, crowded, worlds
from tests.decide.preemption.fleets import digest
from ullage.decide.draining.inputs import FRESH, DrainInputs, DrainPlan, DrainPolicy, PlannerMemory
from ullage.decide.draining.pdb import RemainingPdbTracker
from ullage.decide.draining.planner import plan_drain
from ullage.decide.draining.relocation import as_recreated
from ullage.decide.gang.membership import gang_size
from ullage.decide.placement.filters.pod_query import PodQuery
from ullage.decide.placement.filters.rules import check_node
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.fact_event import Deleted, ObjectKey
from ullage.model.units import Milli
from ullage.state.snapshot import ClusterSnapshot
from ullage.testing.checks.drain_plan import left_behind, violations

ANY = worlds(fussy=True, gpus=True) | crowded()
PLAIN = worlds() | crowded()


def planned(assigner: PodAssigner, world: World, memory: PlannerMemory = FRESH) -> DrainPlan:
    policy = DrainPolicy(used_milli=Milli(800), in_turn=world.in_turn)
    return plan_drain(assigner, DrainInputs(removing=world.removing), policy, memory, now=NOW)


def without(snapshot: ClusterSnapshot, plan: DrainPlan) -> ClusterSnapshot:
    """The cluster when all nodes of a plan are gone and nobody is back."""
    moved = {move.pod for one in plan.removable for move in one.moves}
    gone = {one.node for one in plan.removable}
    for key, pod in list(snapshot.state.pods.items()):
        if key in moved or pod.node in gone:
            snapshot.apply(Deleted(key, pod))
    for name in sorted(gone):
        snapshot.apply(Deleted(ObjectKey("", name), snapshot.state.nodes[name]))
    return snapshot


@given(PLAIN, st.randoms(use_true_random=False))
def test_candidates_can_go_together_in_whatever_order_their_pods_come_back(world: World, chance: Random) -> None:
    plan = planned(a_picture(*world.facts), world)
    moves = [(move.pod, move.to) for one in plan.removable for move in one.moves]
    chance.shuffle(moves)
    left = without(a_picture(*world.facts).snapshot, plan)
    before = a_picture(*world.facts).snapshot.pods
    for key, to in moves:
        back = as_recreated(before[key], left.state)
        verdict = check_node(PodQuery(back, left), left.state.nodes[to])
        assert verdict, f"{key} does not fit on {to}: {verdict}"
        left.assume(back, to)


@given(ANY, st.randoms(use_true_random=False))
def test_what_depends_on_the_order_is_reported(world: World, chance: Random) -> None:
    assigner = a_picture(*world.facts)
    plan = planned(assigner, world)
    keys = sorted(move.pod for one in plan.removable for move in one.moves)
    chance.shuffle(keys)
    before = digest(assigner.snapshot)
    unplaced = violations(assigner, plan, keys, now=NOW)
    assert set(unplaced) <= set(keys)
    assert digest(assigner.snapshot) == before
    fussy = [key for key in keys if key.name.startswith("f")]
    assert fussy or not unplaced


@given(ANY)
def test_the_picture_is_as_before(world: World) -> None:
    assigner = a_picture(*world.facts)
    before = digest(assigner.snapshot)
    plan = planned(assigner, world)
    assert digest(assigner.snapshot) == before
    planned(assigner, world, plan.memory)
    assert digest(assigner.snapshot) == before


@given(ANY, st.randoms(use_true_random=False))
def test_plans_are_the_same_however_things_were_heard(world: World, chance: Random) -> None:
    plan = planned(a_picture(*world.facts), world)
    shuffled = list(world.facts)
    chance.shuffle(shuffled)
    assert planned(a_picture(*shuffled), world) == plan


@given(ANY)
def test_every_node_has_one_answer(world: World) -> None:
    assigner = a_picture(*world.facts)
    plan = planned(assigner, world)
    answered = [one.node for one in plan.removable] + [one.node for one in plan.unremovable]
    assert sorted(answered) == sorted(assigner.snapshot.state.nodes)


@given(ANY)
def test_no_budget_is_charged_below_zero_nor_more_than_it_has(world: World) -> None:
    assigner = a_picture(*world.facts)
    state = assigner.snapshot.state
    plan = planned(assigner, world)
    assert all(0 <= left <= state.budgets[key].disruptions_allowed for key, left in plan.budgets_left.items())
    if world.in_turn or world.removing:
        return
    asked = RemainingPdbTracker(state.budgets)
    for key in sorted({move.pod for one in plan.removable for move in one.moves}):
        cost = asked.cost(state.pods[key])
        assert cost is None or asked.left[cost] > 0
        asked.charge([state.pods[key]])
    assert plan.budgets_left == asked.left


@given(ANY)
def test_nobody_is_left_on_a_node_that_goes(world: World) -> None:
    assigner = a_picture(*world.facts)
    plan = planned(assigner, world)
    assert left_behind(assigner, plan) == []
    gone = {one.node for one in plan.removable}
    # Hints have all places that were promised, to pods of nodes that are being removed, too.
    assert not gone.intersection(plan.memory.hints.values())
    assert not world.removing.intersection(plan.memory.hints.values())


@given(ANY)
def test_gangs_move_whole_or_enough_of_them_stay(world: World) -> None:
    assigner = a_picture(*world.facts)
    members = [pod for pod in assigner.snapshot.pods.values() if pod.claim and not pod.deleting]
    least = max((gang_size(gang, assigner.snapshot.state) for gang in assigner.snapshot.state.gangs), default=0)
    for one in planned(assigner, world).removable:
        moved = {move.pod for move in one.moves}
        leaving = [pod for pod in members if pod.key in moved]
        assert not leaving or len(leaving) == len(members) or len(members) - len(leaving) >= least > 0


@settings(max_examples=30)
@given(ANY)
def test_hints_change_nothing_when_nothing_has_changed(world: World) -> None:
    assigner = a_picture(*world.facts)
    first = planned(assigner, world)
    second = planned(assigner, world, first.memory)
    assert [(one.node, one.moves) for one in second.removable] == [(one.node, one.moves) for one in first.removable]
