"""Laws of preemption, on small random fleets: what is promised holds whatever the fleet looks like."""

from dataclasses import dataclass
from itertools import chain, combinations
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.decide.preemption.fleets import A100, H100, NOW, a_budget, a_pod, columns_of, digest, fleet, leased
from ullage.decide.placement.engine import NoFit, Placement, PlacementEngine
from ullage.decide.preemption.assumptions import Assumptions
from ullage.decide.preemption.candidates import candidates
from ullage.decide.preemption.preempt import NoPreemption, NoPreemptionReason, preempt
from ullage.decide.preemption.protection import BoundGang, PreemptionContext, VictimProtection
from ullage.decide.preemption.victims import VictimSelector
from ullage.model.claim import DeviceRequest, TopologyMode
from ullage.model.disruption_budget import PodDisruptionBudget
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import Preempt
from ullage.model.pod import Pod
from ullage.model.stepper import StepMeter, finish
from ullage.state.cluster import Fact

SEEDS = st.integers(0, 2**32)


@dataclass(frozen=True, slots=True)
class Scene:
    """A fleet, and a pod that has no seat in it."""

    engine: PlacementEngine
    pod: Pod
    around: PreemptionContext
    budgets: list[PodDisruptionBudget]


def a_scene(seed: int, *, shuffled: int = 0) -> Scene:
    rng = Random(seed)
    island = rng.choice((2, 2, 4))
    nodes = [leased(name, island, island, model=rng.choice((H100, H100, A100))) for name in "abc"[: rng.randint(1, 3)]]
    pods = list(chain.from_iterable(residents(rng, node.name, 2 * island) for node, _ in nodes))
    budgets = [a_budget(app, app, rng.choice((0, 1, 1, 2))) for app in "xy" if rng.random() < 0.6]
    gangs: dict[ObjectKey, BoundGang] = {}
    for name in ("g", "h"):
        members = [pod.key for pod in pods if pod.key not in gangs and not pod.deleting and rng.random() < 0.25]
        gang = BoundGang(ObjectKey("n", name), rng.randint(1, max(len(members), 1)), tuple(members))
        gangs |= dict.fromkeys(members, gang)
    leaving = frozenset(pod.key for pod in pods if rng.random() < 0.05)
    asked = DeviceRequest(
        topology=rng.choice((TopologyMode.IGNORE, TopologyMode.REQUIRED)), model=rng.choice(("", "H100"))
    )
    pod = a_pod("asker", gpus=rng.randint(1, 4), priority=rng.randint(2, 6), ask=asked)
    facts: list[Fact | tuple[Fact, ...]] = [*nodes, *pods, *budgets]
    Random(shuffled).shuffle(facts)
    return Scene(fleet(*facts), pod, PreemptionContext(gangs=gangs, leaving=leaving), budgets)


def residents(rng: Random, node: str, gpus: int) -> list[Pod]:
    """Pods that hold most of a node's GPUs: at most five of them, so that every set of them can be tried."""
    free = list(range(gpus))
    pods: list[Pod] = []
    sizes = (1, 1, 1, 2) if gpus <= 4 else (1, 2, 2, 3)
    while free and len(pods) < 5 and rng.random() < 0.9:
        taken = sorted(rng.sample(free, min(len(free), rng.choice(sizes))))
        free = [gpu for gpu in free if gpu not in taken]
        labels = {"app": rng.choice("xyz")}
        pods.append(
            a_pod(
                f"{node}{len(pods)}",
                on=node,
                gpus=taken,
                priority=rng.randint(0, 4),
                created=float(rng.randint(0, 2)),
                labels=labels,
                deleting=rng.random() < 0.08,
            )
        )
    return pods


def fits_without(scene: Scene, node: str, gone: frozenset[ObjectKey]) -> bool:
    """Whether the pod gets a seat on a node once these have left, and those who are leaving anyway."""
    snapshot = scene.engine.snapshot
    with snapshot.what_if():
        for pod in list(snapshot.pods.values()):
            if pod.key in gone or (pod.node == node and (pod.deleting or pod.key in scene.around.leaving)):
                snapshot.forget(pod.key)
        return isinstance(scene.engine.place_on(scene.pod, node, now=NOW), Placement)


def is_allowed(scene: Scene, gone: frozenset[ObjectKey]) -> bool:
    """Whether these may be evicted together, told from the facts alone."""
    placed = scene.engine.snapshot.pods
    if any(placed[key].priority >= scene.pod.priority for key in gone):
        return False
    for budget in scene.budgets:
        covered = {key for key, pod in placed.items() if budget.selector.matches(pod.labels)}
        decided = {key for key in covered & set(scene.around.leaving) if not placed[key].deleting}
        if gone & covered and len(gone & covered) + len(decided) > budget.disruptions_allowed:
            return False
    for gang in set(scene.around.gangs.values()):
        live = {key for key in gang.members if not placed[key].deleting and key not in scene.around.leaving}
        if gone & live and not live <= gone and len(live - gone) < gang.min_member:
            return False
    return True


@settings(max_examples=300, deadline=None)
@given(SEEDS)
def test_victims_are_allowed_enough_and_all_needed(seed: int) -> None:
    scene = a_scene(seed)
    if isinstance(scene.engine.place(scene.pod, now=NOW), Placement):
        return
    before, columns = digest(scene.engine.snapshot), columns_of(scene.engine.snapshot)
    found = preempt(scene.engine, scene.pod, scene.around, now=NOW)
    assert digest(scene.engine.snapshot) == before
    assert all((one == other).all() for one, other in zip(columns, columns_of(scene.engine.snapshot), strict=True))
    event(found.reason.value if isinstance(found, NoPreemption) else f"{min(len(found.victims), 3)} victims")
    if isinstance(found, NoPreemption):
        return
    victims = frozenset(victim.pod for victim in found.victims)
    placed = scene.engine.snapshot.pods
    assert is_allowed(scene, victims)
    assert not any(placed[key].deleting or key in scene.around.leaving for key in victims)
    assert fits_without(scene, found.node, victims)
    for key in victims:
        gang = scene.around.gangs.get(key)
        if gang is None:
            assert not fits_without(scene, found.node, victims - {key}), f"{key} need not go"
        else:
            spared = victims - set(gang.members)
            assert not fits_without(scene, found.node, spared), f"nobody of {gang.key} need go"


@settings(max_examples=400, deadline=None)
@given(SEEDS)
def test_nobody_is_refused_whom_some_set_of_victims_on_a_node_would_help(seed: int) -> None:
    """By trying every set of pods on every node, with gangs that would fall below their size taken whole."""
    scene = a_scene(seed)
    if not isinstance(scene.engine.place(scene.pod, now=NOW), NoFit):
        return
    found = preempt(scene.engine, scene.pod, scene.around, now=NOW)
    sets = [(node, gone) for node in sorted(scene.engine.snapshot.state.nodes) for gone in possible_sets(scene, node)]
    helping = [(node, gone) for node, gone in sets if is_allowed(scene, gone) and fits_without(scene, node, gone)]
    if isinstance(found, Preempt):
        assert helping
        highest = min(
            max((scene.engine.snapshot.pods[key].priority for key in gone), default=-1) for _, gone in helping
        )
        assert max((victim.priority for victim in found.victims), default=-1) == highest, (
            "there are victims lower than these"
        )
        losses = [
            sum(1000 * len(scene.engine.snapshot.pods[key].gpu_ids) for key in gone)
            for _, gone in helping
            if max((scene.engine.snapshot.pods[key].priority for key in gone), default=-1) == highest
        ]
        lost = sum(1000 * len(scene.engine.snapshot.pods[victim.pod].gpu_ids) for victim in found.victims)
        assert lost == min(losses), "others of that priority would have lost fewer GPUs"
    else:
        assert not helping
        assert found.reason is not NoPreemptionReason.VICTIMS_LEAVING


def possible_sets(scene: Scene, node: str) -> list[frozenset[ObjectKey]]:
    placed = scene.engine.snapshot.pods
    here = [
        key for key, pod in placed.items() if pod.node == node and not pod.deleting and key not in scene.around.leaving
    ]
    sets = []
    for count in range(len(here) + 1):
        for chosen in combinations(here, count):
            gangs = {gang.key: gang.members for key in chosen if (gang := scene.around.gangs.get(key)) is not None}
            for whole in chain.from_iterable(combinations(gangs.values(), size) for size in range(len(gangs) + 1)):
                rest = [key for key in chain.from_iterable(whole) if not placed[key].deleting]
                sets.append(frozenset(chosen) | {key for key in rest if key not in scene.around.leaving})
    return sets


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.integers(0, 100))
def test_the_order_in_which_things_are_heard_of_does_not_matter(seed: int, shuffled: int) -> None:
    answers = []
    for order in (0, shuffled):
        scene = a_scene(seed, shuffled=order)
        answers.append(preempt(scene.engine, scene.pod, scene.around, now=NOW))
    assert answers[0] == answers[1]


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_no_victim_set_ranks_before_the_bound_of_its_node(seed: int) -> None:
    """Else the search would end too early."""
    scene = a_scene(seed)
    protection = VictimProtection(scene.engine.snapshot, scene.around, scene.pod.priority)
    assumed, meter = Assumptions(scene.engine, now=NOW), StepMeter()
    selector = VictimSelector(assumed, protection, scene.pod, meter)
    bounds = {one.node: one.bound for one in finish(candidates(assumed, protection, scene.pod, meter))}
    if isinstance(scene.engine.place(scene.pod, now=NOW), Placement):
        return
    for node in sorted(scene.engine.snapshot.state.nodes):
        found = finish(selector.select(node))
        assert found is None or bounds[node] <= found.rank
