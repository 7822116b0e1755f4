"""The stories of the fidelity certificate: what comes, goes and fails, by number. Pure; chance is the number's.

Everything here both sides can do. A story lasts at most three minutes.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from ullage.kube.client.resource import JsonObject
from ullage.model.device import DeviceHealth
from ullage.model.units import Seconds
from ullage.sim.recording.objects import name_of
from ullage.state.dump import RecordedStep, StepVerb
from ullage.testing.fidelity.manifests import claim, node, pod, pool, priority, report, template

MOST_SECONDS = 180.0
BEGINS = 1.0
"""Seconds before anybody comes."""
CALL_SECONDS = 0.02
"""Seconds from one call of a user to the next."""


@dataclass(slots=True)
class FidelityStory:
    """Objects that are there at first, and steps."""

    name: str
    chance: random.Random
    objects: list[JsonObject] = field(default_factory=list)
    steps: list[RecordedStep] = field(default_factory=list)
    now: float = BEGINS
    rest: float = 3.0
    """Seconds after the last step."""

    @property
    def seconds(self) -> float:
        return self.now + self.rest

    @property
    def arrivals(self) -> Mapping[str, float]:
        """Times at which pods come."""
        created = [one for one in self.steps if one.verb is StepVerb.CREATE and one.object["kind"] == "Pod"]
        return {one.object["metadata"]["name"]: one.at for one in created}

    def create(self, *manifests: JsonObject) -> None:
        """One after the other, as a user's calls are."""
        for one in manifests:
            self.steps.append(RecordedStep(at=Seconds(self.now), verb=StepVerb.CREATE, object=one))
            self.now = round(self.now + CALL_SECONDS, 3)

    def delete(self, manifest: JsonObject) -> None:
        self.steps.append(RecordedStep(at=Seconds(self.now), verb=StepVerb.DELETE, object=name_of(manifest)))

    def change(self, manifest: JsonObject) -> None:
        self.steps.append(RecordedStep(at=Seconds(self.now), verb=StepVerb.CHANGE, object=manifest))

    def wait(self, least: float = 0.6, most: float = 1.2) -> None:
        """Let time pass: by chance, in milliseconds."""
        self.now += round(self.chance.uniform(least, most), 3)


def story(number: int) -> FidelityStory:
    """Story of this number."""
    names = list(KINDS)
    kind = names[number % len(names)]
    made = FidelityStory(f"{number:02} {kind}", random.Random(f"fidelity/{number}"))
    KINDS[kind](made)
    return made


def short_story() -> FidelityStory:
    """A story of a few seconds, for every run of the tests."""
    made = FidelityStory("short", random.Random("fidelity/short"))
    made.objects += [*node("a", 4), pool("pool", 8, 1)]
    part = {"exclusivity": "Shared", "memory": "10Gi"}
    for name, gpus in (("p0", 1), ("p1", 2)):
        made.create(pod(name, gpus))
        made.wait()
    made.create(claim("p2", 1, devices=part), pod("p2", 0, claimed=True))
    made.wait()
    made.create(pod("p3", 8))
    made.wait()
    made.delete(pod("p1", 2))
    made.wait()
    made.create(pod("p4", 1))
    made.rest = 3.0
    return made


def _apart(made: FidelityStory) -> None:
    """Whole GPUs by request, one pod after another; some leave."""
    made.objects += [*node("a", 8), *node("b", 8), *node("c", 4)]
    there: list[JsonObject] = []
    for number in range(14):
        one = pod(f"p{number:02}", made.chance.choice((1, 1, 2, 2, 4)))
        made.create(one)
        there.append(one)
        made.wait()
        if made.chance.random() < 0.3:
            made.delete(there.pop(made.chance.randrange(len(there))))
            made.wait()


def _claims(made: FidelityStory) -> None:
    """Claims: whole GPUs, parts, joined GPUs."""
    made.objects += [*node("a", 8), *node("b", 8)]
    for number in range(14):
        name, sort = f"p{number:02}", made.chance.choice(("whole", "part", "part", "joined"))
        gpus = {"whole": made.chance.choice((1, 2)), "part": 1, "joined": 2}[sort]
        if sort == "part":
            devices = {"exclusivity": "Shared", "memory": made.chance.choice(("10Gi", "20Gi", "40Gi"))}
            made.create(claim(name, 1, devices=devices), pod(name, 0, claimed=True))
        else:
            topology = {"mode": "Required" if sort == "joined" else "Preferred"}
            made.create(claim(name, gpus, topology=topology), pod(name, gpus, claimed=True))
        made.wait()


def _waiting(made: FidelityStory) -> None:
    """More than fits: pods wait until others end."""
    made.objects += [*node("a", 8)]
    for number in range(10):
        made.create(
            pod(f"p{number:02}", made.chance.choice((2, 4)), runs=made.chance.randint(4, 9), restartPolicy="Never")
        )
        made.wait()
    made.rest = 25.0


def _burst(made: FidelityStory) -> None:
    """Several at once, on nodes of two shapes."""
    made.objects += [*node("a", 8), *node("b", 8), *node("c", 4), *node("d", 4)]
    for burst in range(3):
        made.create(*(pod(f"p{burst}{number}", made.chance.choice((1, 2))) for number in range(5)))
        made.wait(2.0, 3.0)


def _buying(made: FidelityStory) -> None:
    """Nodes are bought for pods, and given back when they have left."""
    made.objects += [pool("pool", 8, 4)]
    there = []
    for number in range(6):
        there.append(pod(f"p{number:02}", made.chance.choice((2, 4, 8))))
        made.create(there[-1])
        made.wait(3.0, 5.0)
    for one in there:
        made.delete(one)
        made.wait()
    made.rest = 25.0


def _buying_in_bursts(made: FidelityStory) -> None:
    """Bursts that need several nodes of two pools."""
    made.objects += [pool("eight", 8, 2), pool("four", 4, 4)]
    there = []
    for burst in range(2):
        some = [pod(f"p{burst}{number}", made.chance.choice((1, 2, 4))) for number in range(5)]
        made.create(*some)
        there += some
        made.wait(8.0, 10.0)
    for one in there:
        made.delete(one)
    made.rest = 25.0


def _preempting(made: FidelityStory) -> None:
    """Pods of high priority come when everything is taken."""
    made.objects += [priority("low", 10), priority("high", 1000), *node("a", 8), *node("b", 8)]
    for number in range(8):
        made.create(pod(f"low{number}", 2, priorityClassName="low"))
        made.wait()
    for number in range(3):
        made.create(pod(f"high{number}", made.chance.choice((2, 4)), priorityClassName="high"))
        made.wait(1.5, 2.5)


def _gangs(made: FidelityStory) -> None:
    """Gangs of two and three beside single pods."""
    made.objects += [*node("a", 8), *node("b", 8), *node("c", 8)]
    for number in range(4):
        size = made.chance.choice((2, 3))
        gang = {"gangRef": f"g{number}", "gangMinMember": size}
        for member in range(size):
            name = f"g{number}-{member}"
            made.create(claim(name, 2, **gang), pod(name, 2, claimed=True))
        made.wait(2.0, 3.0)
        made.create(pod(f"p{number}", 1))
        made.wait(1.0, 1.5)


def _failing(made: FidelityStory) -> None:
    """GPUs die, a node is cordoned, another one is deleted."""
    made.objects += [*node("a", 8), *node("b", 8), *node("c", 8)]
    for number in range(12):
        made.create(pod(f"p{number:02}", made.chance.choice((1, 2))))
        made.wait()
        if number == 3:
            devices = template(8).gpus.devices("a")
            ill = tuple(
                msgspec.structs.replace(one, health=DeviceHealth.UNHEALTHY) if one.id in (4, 5, 6) else one
                for one in devices
            )
            made.change(report("a", ill))
            made.wait()
        if number == 6:
            made.change(
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}, "spec": {"unschedulable": True}}
            )
            made.wait()
        if number == 9:
            made.delete(made.objects[4])
            made.wait()


def _draining(made: FidelityStory) -> None:
    """Pods leave thin nodes behind, which are drained: others take their pods."""
    drain = {"policy": "Drain", "unneededTime": "5s"}
    made.objects += [pool("pool", 8, 4, consolidation=drain)]
    notes = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
    there = []
    for number in range(4):
        one = pod(f"p{number:02}", 4)
        one["metadata"]["annotations"] = notes
        there.append(one)
        made.create(one)
        made.wait(4.0, 5.0)
    made.delete(there[0])
    made.wait()
    made.delete(there[3])
    made.rest = 35.0


KINDS: Mapping[str, Callable[[FidelityStory], None]] = {
    "apart": _apart,
    "claims": _claims,
    "waiting": _waiting,
    "burst": _burst,
    "buying": _buying,
    "buying-in-bursts": _buying_in_bursts,
    "preempting": _preempting,
    "gangs": _gangs,
    "failing": _failing,
    "draining": _draining,
}
"""Kinds of stories, in the order of their numbers."""
STORIES = 20
