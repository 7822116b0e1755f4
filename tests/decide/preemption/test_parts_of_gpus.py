"""Preemption among shares and MIG instances, on small random fleets: as little as can be is lost there, too."""

from itertools import chain, combinations
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.decide.preemption.fleets import GIB, NOW, WHOLE, a_budget, a_pod, fleet, leased
from tests.decide.preemption.test_laws import Scene, fits_without, is_allowed
from ullage.decide.placement.engine import NoFit
from ullage.decide.preemption.preempt import preempt
from ullage.decide.preemption.protection import PreemptionContext, gpus_lost
from ullage.model.claim import DeviceRequest, Exclusivity, TopologyMode
from ullage.model.device import Device, MigInstance
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import Preempt
from ullage.model.pod import Pod
from ullage.model.units import Bytes

SMALL, LARGE = 10, 20
"""GiB of MIG instances."""


def part(exclusivity: Exclusivity, gib: int) -> DeviceRequest:
    return DeviceRequest(exclusivity=exclusivity, memory=Bytes(gib * GIB), topology=TopologyMode.IGNORE)


ASKS = (
    part(Exclusivity.SHARED, 40),
    part(Exclusivity.SHARED, 20),
    part(Exclusivity.MIG, SMALL),
    part(Exclusivity.MIG, LARGE),
    WHOLE,
)


def a_scene(seed: int) -> Scene:
    """Nodes of three GPUs: whole, shared, or split into two small MIG instances and a large one."""
    rng = Random(seed)
    facts, pods = [], list[Pod]()
    for name in "abc"[: rng.randint(1, 3)]:
        node, report = leased(name, 3)
        devices = tuple(_split(device) if rng.random() < 0.4 else device for device in report.devices)
        facts.append((node, replace(report, devices=devices)))
        pods += chain.from_iterable(_residents(rng, name, device) for device in devices)
    budgets = [a_budget(app, app, rng.choice((0, 1, 2))) for app in "xy" if rng.random() < 0.5]
    asker = a_pod("asker", gpus=rng.randint(1, 2), priority=rng.randint(1, 5), ask=rng.choice(ASKS))
    return Scene(fleet(*facts, *pods, *budgets), asker, PreemptionContext(gangs={}, leaving=frozenset()), budgets)


def _split(device: Device) -> Device:
    sizes = (SMALL, SMALL, LARGE)
    parts = (MigInstance(f"M-{device.uuid}-{place}", f"x.{gib}gb", Bytes(gib * GIB)) for place, gib in enumerate(sizes))
    return replace(device, mig=tuple(parts))


def _residents(rng: Random, node: str, device: Device) -> list[Pod]:
    """Pods that hold most of a GPU."""

    def resident(number: int, ask: DeviceRequest) -> Pod:
        labels, came = {"app": rng.choice("xyz")}, float(rng.randint(0, 2))
        name, priority = f"{node}{device.id}{number}", rng.randint(0, 3)
        return a_pod(name, on=node, gpus=(device.id,), priority=priority, created=came, ask=ask, labels=labels)

    if device.mig:
        held = [one.uuid for one in device.mig if rng.random() < 0.85]
        pods = enumerate(held)
        return [replace(resident(n, ASKS[2]), gpu_share=0, gpu_instances=(uuid,)) for n, uuid in pods]
    if rng.random() < 0.4:
        return [resident(0, WHOLE)]
    shares = rng.choice(((500, 500), (500, 250), (250, 250, 500), (250,), ()))
    return [replace(resident(number, ASKS[0]), gpu_share=share) for number, share in enumerate(shares)]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_no_set_of_victims_on_a_node_loses_less(seed: int) -> None:
    """By trying every set of pods on every node: lowest highest priority, then least GPUs."""
    scene = a_scene(seed)
    if not isinstance(scene.engine.place(scene.pod, now=NOW), NoFit):
        return
    found = preempt(scene.engine, scene.pod, scene.around, now=NOW)
    event(type(found).__name__)
    victims = frozenset(one.pod for one in found.victims) if isinstance(found, Preempt) else None
    least = _least(scene, [worth(scene, victims)] if victims is not None else [])
    if victims is None:
        assert least is None
    else:
        assert is_allowed(scene, victims)
        assert worth(scene, victims) == least


def worth(scene: Scene, gone: frozenset[ObjectKey]) -> tuple[int, int]:
    """Highest priority among them, and thousandths of GPUs that are lost."""
    pods = [scene.engine.snapshot.pods[key] for key in gone]
    return max((pod.priority for pod in pods), default=-1), sum(map(gpus_lost, pods))


def _least(scene: Scene, known: list[tuple[int, int]]) -> tuple[int, int] | None:
    """The least that helps; `known` is that of a set of which it is not to be shown again."""
    best = min(known, default=None)
    for node in sorted(scene.engine.snapshot.state.nodes):
        here = sorted(key for key, pod in scene.engine.snapshot.pods.items() if pod.node == node)
        for gone in map(frozenset, chain.from_iterable(combinations(here, count) for count in range(len(here) + 1))):
            if best is not None and worth(scene, gone) >= best:
                continue
            if is_allowed(scene, gone) and fits_without(scene, node, gone):
                best = worth(scene, gone)
    return best
