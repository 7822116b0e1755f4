"""What is kept from decision to decision answers as if everything had just been looked at for the first time."""

from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import cast

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.decide.placement.engine.book import place_by_the_book
from tests.state.worlds import NODES, a_node, a_step, a_waiting
from ullage.decide.placement.devices.snapshots import DeviceSnapshots
from ullage.decide.placement.engine import Placement, PlacementEngine
from ullage.decide.placement.filters.codes import CODE, Codes
from ullage.decide.placement.score.fragmentation import FragmentationScorer
from ullage.decide.placement.score.gpu_scorer import GpuScorer
from ullage.decide.placement.score.policies import POLICIES, PolicyMaker
from ullage.decide.placement.score.workload_mix import TypicalDemands
from ullage.model.claim import DevicePolicy, DeviceRequest, Exclusivity, TopologyMode
from ullage.model.device import Device, DeviceHealth, Inventory, MigInstance
from ullage.model.fact_event import Added, ObjectKey, Updated
from ullage.model.node import Node, Taint
from ullage.model.pod import Pod
from ullage.model.selector import Operator, Requirement
from ullage.model.shape import Shape, asking_for, interned
from ullage.model.shape_terms import NodeTerm, Toleration, WeightedNodeTerm
from ullage.model.units import Bytes, Instant
from ullage.model.verdict import Reason
from ullage.state import change_log
from ullage.state.snapshot import ClusterSnapshot

GIB = 1 << 30
IMAGES = (("app:1", 900 << 20), ("base:1", 400 << 20))
SEEDS = st.integers(0, 2**32)


def _scarce_as_ever(typical: TypicalDemands, capacity: NDArray[np.float64]) -> GpuScorer:
    return FragmentationScorer(typical, np.full(len(capacity), 8.0))


@pytest.fixture(autouse=True, scope="module")
def _capacity_stands_still() -> Iterator[None]:
    """A policy knows how many GPUs there were when the mix last moved: who comes later would see other numbers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(cast("dict[str, PolicyMaker]", POLICIES), "fragmentation", _scarce_as_ever)
        yield


class World:
    """A small cluster in which things happen, and two who decide on it: one who remembers, and one who does not."""

    def __init__(self, seed: int, policy: str) -> None:
        self.rng = Random(seed)
        self.policy = policy
        self.snapshot = ClusterSnapshot()
        self.now = 0.0
        self.kept = PlacementEngine(self.snapshot, policy)
        self.waiting = [an_asking(self.rng, f"asks-{number}") for number in range(6)]
        for name in NODES:
            self._hear(a_gpu_node(self.rng, name), name)
            self._hear(an_inventory(self.rng, name), name)

    def step(self) -> None:
        """One thing happens, or nothing."""
        rng = self.rng
        match rng.choice(("event", "event", "node", "report", "seat", "seat", "seat", "remove", "time", "trial")):
            case "event":
                self.snapshot.apply(a_step(rng, self.snapshot.state))
            case "node":
                name = rng.choice(NODES)
                self._hear(a_gpu_node(rng, name), name)
            case "report":
                name = rng.choice(NODES)
                self._hear(an_inventory(rng, name, self.now), name)
            case "seat":
                self._place(rng.choice(self.waiting))
            case "remove" if self.snapshot.pods:
                self.snapshot.forget(rng.choice(sorted(self.snapshot.pods)))
            case "time":
                self.now += rng.choice((1.0, 40.0, 91.0, -30.0))
            case "trial":
                with self.snapshot.what_if() as trial:
                    self._place(rng.choice(self.waiting))
                    self.compare(rng.choice(self.waiting))
                    if rng.random() < 0.3:
                        trial.keep()
            case _:
                pass

    def compare(self, pod: Pod) -> None:
        """Both must say the same of this pod, and so must the book."""
        if pod.key in self.snapshot.pods:
            return
        closed = self._closed()
        fresh = PlacementEngine(self.snapshot, self.policy, deepcopy(self.kept.mix))
        book = place_by_the_book(self.snapshot, pod, POLICIES[self.policy], deepcopy(self.kept.mix), self.now, closed)
        codes = fresh.codes(pod, now=Instant(self.now))
        assert self.kept.codes(pod, now=Instant(self.now)).tolist() == codes.tolist()
        answer = self.kept.place(pod, now=Instant(self.now), closed=closed)
        assert answer == fresh.place(pod, now=Instant(self.now), closed=closed)
        assert (answer.node if isinstance(answer, Placement) else None) == book

    def _closed(self) -> Codes | None:
        if self.rng.random() < 0.7:
            return None
        size = self.snapshot.columns.size
        refused = [self.rng.random() < 0.3 for _ in range(size)]
        return np.where(refused, CODE[Reason.QUOTA_EXCEEDED], 0).astype(np.uint8)

    def _place(self, pod: Pod) -> None:
        pod = msgspec.structs.replace(pod, key=ObjectKey(pod.key.namespace, f"seated-{self.rng.randint(0, 9)}"))
        if pod.key in self.snapshot.pods:
            return
        answer = self.kept.place(pod, now=Instant(self.now))
        if isinstance(answer, Placement):
            self.kept.commit(pod, answer)

    def _hear(self, fact: Node | Inventory, name: str) -> None:
        state = self.snapshot.state
        old = state.nodes.get(name) if isinstance(fact, Node) else state.inventories.get(name)
        key = ObjectKey("", name)
        self.snapshot.apply(Added(key, fact) if old is None else Updated(key, old, fact))


def a_gpu_node(rng: Random, name: str) -> Node:
    """Large enough for a few pods, with images and soft taints."""
    node = a_node(rng, name)
    kind = rng.choice(("leased", "leased", "counted", ""))
    taints = node.taints if rng.random() < 0.3 else ()
    if rng.random() < 0.2:
        taints = (*taints, Taint("leaving", "", "PreferNoSchedule"))
    return msgspec.structs.replace(
        node,
        ready=rng.random() < 0.95,
        labels=node.labels | ({"gpu.scheduling/node-kind": kind} if kind else {}),
        taints=taints,
        allocatable={"cpu": 32_000, "memory": 64 * GIB * 1000, "pods": 20_000, "nvidia.com/gpu": rng.choice((0, 8000))},
        images=tuple(image for image in IMAGES if rng.random() < 0.4),
    )


def an_inventory(rng: Random, node: str, at: float = 0.0) -> Inventory:
    model, count = rng.choice((("A100", 4), ("H100", 8), ("H100", 8))), rng.choice((4, 8))
    devices = []
    for number in range(count):
        split = rng.random() < 0.2
        mig = [
            MigInstance(f"{node}-{number}-{n}", f"{g}g.{10 * g}gb", Bytes(10 * g * GIB))
            for n, g in enumerate((1, 1, 3))
        ]
        devices.append(
            Device(
                id=number,
                uuid=f"{node}-{number}",
                model=model[0],
                memory=Bytes(80 * GIB),
                health=DeviceHealth.UNHEALTHY if rng.random() < 0.1 else DeviceHealth.HEALTHY,
                island=f"i{number // 4}",
                bandwidth=rng.choice((100, 400)),
                mig=tuple(mig) if split else (),
            )
        )
    return Inventory(node=node, reported_at=Instant(at), devices=tuple(devices))


def an_asking(rng: Random, name: str) -> Pod:
    """A pod that asks for GPUs in one way or another, or for none."""
    pod = a_waiting(rng, name)
    shape = pod.shape if rng.random() < 0.3 else Shape(tolerations=(Toleration(exists=True),))
    wishes = (NodeTerm(labels=(Requirement("tier", Operator.IN, ("1",)),)),) if rng.random() < 0.2 else ()
    shape = msgspec.structs.replace(
        shape,
        requests=(("cpu", rng.choice((500, 2000, 4000))), ("memory", rng.choice((1, 8)) * GIB * 1000)),
        images=("app:1",) if rng.random() < 0.3 else (),
        preferred_nodes=tuple(WeightedNodeTerm(weight=rng.choice((1, 9)), term=term) for term in wishes),
        containers=1,
    )
    kind = rng.choice(("none", "plain", "plain", "claim", "claim", "share", "mig"))
    if kind == "plain":
        shape = msgspec.structs.replace(shape, requests=(*shape.requests, ("nvidia.com/gpu", rng.randint(1, 4) * 1000)))
    elif kind != "none":
        shape = asking_for(shape, an_ask(rng, kind))
    return msgspec.structs.replace(pod, shape=interned(shape))


def an_ask(rng: Random, kind: str) -> DeviceRequest:
    topology = rng.choice(tuple(TopologyMode))
    match kind:
        case "share":
            memory = rng.choice((8, 20, 30)) * GIB
            return DeviceRequest(
                count=rng.choice((1, 1, 2)), exclusivity=Exclusivity.SHARED, memory=Bytes(memory), topology=topology
            )
        case "mig":
            memory = rng.choice((8, 20)) * GIB
            return DeviceRequest(count=rng.randint(1, 2), exclusivity=Exclusivity.MIG, memory=Bytes(memory))
        case _:
            policy = rng.choice((DevicePolicy.CONTIGUOUS, DevicePolicy.SPREAD))
            return DeviceRequest(
                count=rng.randint(1, 4), model=rng.choice(("", "H100")), topology=topology, policy=policy
            )


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from(sorted(POLICIES)), st.integers(5, 40))
def test_whatever_happened_the_answer_is_as_from_nothing(seed: int, policy: str, steps: int) -> None:
    world = World(seed, policy)
    for _ in range(steps):
        for _ in range(world.rng.choice((1, 1, 3, 12))):
            world.step()
        world.compare(world.rng.choice(world.waiting))


def test_when_more_is_new_than_is_remembered_everything_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "_REMEMBERED", 3)
    monkeypatch.setattr("ullage.decide.placement.devices.snapshots.MOST_DISTINCT", 4)
    monkeypatch.setattr("ullage.decide.placement.score.fragmentation_states.MOST_STATES", 4)
    generations = set()
    world = World(11, "fragmentation")
    for _ in range(150):
        world.step()
        world.compare(world.rng.choice(world.waiting))
        generations.add(world.kept.devices.generation)
    assert len(generations) > 2, "numbers were given anew on the way"


def test_a_row_without_a_node_shows_nothing() -> None:
    snapshot = ClusterSnapshot()
    world = World(3, "fragmentation")
    assert DeviceSnapshots(snapshot).refresh().tolist() == []
    numbers = DeviceSnapshots(world.snapshot).refresh()
    assert 0 not in numbers[: world.snapshot.columns.size].tolist()
