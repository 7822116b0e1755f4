"""Longest holds of event loops on the large cluster of `bench.scale`, by kind of work of the scheduler.

The real SchedulerLoop on its SchedulerCore; its writes are answered at once. Before this was bounded, one preemption
held the loop for 109 ms, one where disruption budgets protect everybody for 551 ms, a pod with 800 made-up resource
names for 6,344 ms (commit f13395a).
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from typing import Any, cast

from prometheus_client import CollectorRegistry

from bench.loop_holds import AT_P999, CpuClock, LoopHolds
from bench.record import Figure
from bench.scale_cluster import NOW, a_pod, named
from ullage.act.concurrency import ended
from ullage.control.scheduling.loop import SchedulerActuator, SchedulerLoop
from ullage.control.scheduling.reporter import SchedulerReporter
from ullage.decide.scheduling.core import SchedulerCore
from ullage.model.claim import Claim, DeviceRequest
from ullage.model.disruption_budget import PodDisruptionBudget
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey
from ullage.model.intents import BindGang, BindPod, MarkUnschedulable, Preempt
from ullage.model.outcomes import GangBindOutcome, PlaceOutcome, PodBound, PodMarked, PreemptOutcome
from ullage.model.pod import Phase, Pod
from ullage.model.selector import Selector
from ullage.observe.events import EventRecorder
from ullage.observe.scheduler_metrics import SchedulerMetrics
from ullage.runtime import drive, keep_garbage_collection_short

DECISIONS, BACKGROUND = 1_000, 200
PREEMPTIONS = 3
GANG = 16


class AnsweredAtOnce:
    """Actuators of the scheduler, and the writer of Events: everything succeeds at once."""

    def __init__(self) -> None:
        self.bound: list[ObjectKey] = []
        self.preempted: list[Preempt] = []
        self.refused: list[ObjectKey] = []

    async def perform(self, action: Any) -> Any:
        match action:
            case BindPod():
                return self._bind(action)
            case BindGang():
                return GangBindOutcome(action, tuple(map(self._bind, action.places)))
            case Preempt():
                self.preempted.append(action)
                return PreemptOutcome(action, evicted=action.victims)
            case MarkUnschedulable():
                self.refused.append(action.pod)
                return PodMarked(action, written=True)
            case _:
                raise TypeError(f"nobody asked for {action}")

    async def write(self, *_: object) -> None:
        return None

    def _bind(self, action: BindPod) -> PlaceOutcome:
        self.bound.append(action.pod)
        return PodBound(action)


class Stage:
    """The scheduler's loop at work, and what has come of it."""

    def __init__(self, core: SchedulerCore, holds: LoopHolds) -> None:
        self.core = core
        self.holds = holds
        self.answers = AnsweredAtOnce()
        clock = CpuClock(NOW)
        actuators = cast(Any, self.answers)
        events = EventRecorder(actuators, clock, instance="bench")
        reporter = SchedulerReporter(events, SchedulerMetrics(CollectorRegistry()), clock)
        self.loop = SchedulerLoop(core, SchedulerActuator(actuators, actuators, actuators, actuators), reporter, clock)

    def observe(self, *events: FactEvent[Any]) -> None:
        for event in events:
            self.loop.observe(event)

    async def until(self, kind: str, done: Callable[[], bool]) -> None:
        """Let the loop work; its steps count for this kind."""
        self.holds.kind = kind
        while not done():  # noqa: ASYNC110 - it asks after every step
            await asyncio.sleep(0)
        self.holds.kind = ""


def scheduler_holds(core: SchedulerCore) -> list[Figure]:
    """Figures of all kinds of work of the scheduler."""
    holds = LoopHolds()

    async def live() -> None:
        asyncio.get_running_loop().set_task_factory(cast(Any, holds))
        stage = Stage(core, holds)
        keep_garbage_collection_short()
        holds.kind = "warm-up before the first decision"
        warm_up = drive(core.warm_up(), CpuClock(NOW), budget=math.inf, slice_time=0.0)
        await asyncio.get_running_loop().create_task(warm_up)
        holds.kind = ""
        running = asyncio.get_running_loop().create_task(stage.loop.run())
        try:
            await _work(stage)
        finally:
            await ended(running)

    asyncio.run(live())
    return holds.figures(promised=True)


async def _work(stage: Stage) -> None:
    await _decisions(stage, "decisions", [a_plain_pod(f"plain-{number}") for number in range(DECISIONS)])
    for gpus in (1, 8):
        for number in range(PREEMPTIONS):
            await _preemption(stage, f"preemption for {gpus} GPUs, beside decisions", f"vip-{gpus}-{number}", gpus)
    await _gang(stage)
    namespaces = sorted({key.namespace for key in stage.core.snapshot.state.pods})
    budgets = [_spent(ObjectKey(namespace, "all")) for namespace in namespaces]
    stage.observe(*(Added(one.key, one) for one in budgets))
    for number in range(PREEMPTIONS):
        await _preemption(stage, "preemption, everybody protected, beside decisions", f"vain-{number}", 1)
    await _decisions(stage, "a pod that makes up 800 names", [named(800)])


def a_plain_pod(name: str) -> Pod:
    """A pod without GPUs, which fits."""
    plain = a_pod(name, "somewhere")
    return Pod(
        **{field: getattr(plain, field) for field in plain.__struct_fields__} | {"node": "", "phase": Phase.PENDING}
    )


async def _decisions(stage: Stage, kind: str, pods: Iterable[Pod]) -> None:
    wanted = {pod.key for pod in pods}
    stage.observe(*(Added(pod.key, pod) for pod in pods))
    await stage.until(kind, lambda: wanted <= {*stage.answers.bound, *stage.answers.refused})


async def _preemption(stage: Stage, kind: str, name: str, gpus: int) -> None:
    """One preemption to its end; meanwhile no pod that fits waits longer for the next bind than a step may take."""
    pod = a_pod(name, "", gpus=gpus, priority=100)
    others = [a_plain_pod(f"beside-{name}-{number}") for number in range(BACKGROUND)]
    bound, all_bound = stage.answers.bound, len(stage.answers.bound) + BACKGROUND
    stage.observe(Added(pod.key, pod), *(Added(other.key, other) for other in others))
    last, count, longest = time.thread_time(), len(bound), 0.0

    def done() -> bool:
        nonlocal last, count, longest
        now = time.thread_time()
        if count < all_bound:
            longest = max(longest, now - last)
        if len(bound) > count:
            last, count = now, len(bound)
        return pod.key in stage.answers.refused

    await stage.until(kind, done)
    if longest * 1000 > AT_P999:
        raise RuntimeError(f"{kind}: other pods had to wait {longest * 1000:.0f} ms for it")
    await stage.until("", lambda: len(bound) >= all_bound)
    stage.observe(Deleted(pod.key, stage.core.snapshot.state.pods[pod.key]))


async def _gang(stage: Stage) -> None:
    """A gang for which pods are preempted."""
    namespace, members = "team-0", [f"member-{number}" for number in range(GANG)]
    for name in members:
        claim = Claim(
            key=ObjectKey(namespace, name),
            uid=name,
            generation=1,
            ask=DeviceRequest(count=8),
            gang="gang",
            gang_min_member=GANG,
        )
        stage.observe(Added(claim.key, claim))
    pods = [_member(name) for name in members]
    stage.observe(*(Added(pod.key, pod) for pod in pods))
    before = len(stage.answers.preempted)
    await stage.until(f"preemption for a gang of {GANG}", lambda: len(stage.answers.preempted) >= before + GANG)
    stage.observe(*(Deleted(pod.key, stage.core.snapshot.state.pods[pod.key]) for pod in pods))


def _member(name: str) -> Pod:
    plain = a_plain_pod(name)
    fields = {field: getattr(plain, field) for field in plain.__struct_fields__}
    return Pod(**fields | {"claim": name, "priority": 100})


def _spent(key: ObjectKey) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        key=key,
        uid=str(key),
        selector=Selector(()),
        current=True,
        disruptions_allowed=0,
        current_healthy=5,
        desired_healthy=5,
        evict_unhealthy=False,
    )
