"""Making room: the preemptor is nominated, victims leave by the Eviction API, and nobody else is touched."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.contract.steps import condition, judge_budget, running_pod
from tests.contract.worlds import World
from ullage.act.preemption import PreemptionActuator
from ullage.clock import WallClock
from ullage.errors import Forbidden, NotFound, Unreachable
from ullage.kube.client.api import DELETE_NOW, Binding, Deletion, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import BUDGETS, PODS
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import EvictGang, Preempt, Victim
from ullage.model.outcomes import EvictGangOutcome, EvictionFailure, MarkFailure, PreemptOutcome
from ullage.testing.builders import a_budget, a_pod

APP = {"app": "x"}
NODE = "node-of-nobody"
Step = Callable[[KubeApi, str], Awaitable[None]]


def hands(api: Any) -> PreemptionActuator:
    return PreemptionActuator(api, WallClock(), scheduler="gpu-scheduler")


async def a_victim(api: KubeApi, ns: str, name: str, **facts: Any) -> Victim:
    pod = await running_pod(api, ns, name, **facts)
    return Victim(pod=ObjectKey(ns, name), uid=pod["metadata"]["uid"], node=NODE, priority=0)


async def a_preemption(api: KubeApi, ns: str, *victims: Victim) -> Preempt:
    pod = await api.create(PODS, a_pod("p"), ns)
    return Preempt(pod=ObjectKey(ns, "p"), uid=pod.metadata.uid, node=NODE, victims=victims, why="a test")


async def a_spent_budget(api: KubeApi, ns: str) -> None:
    await api.create(BUDGETS, a_budget("b", APP, minAvailable=1), ns)
    await judge_budget(api, ns, "b", disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)


async def going(api: KubeApi, ns: str) -> set[str]:
    return {pod.metadata.name for pod in (await api.list(PODS, ns)).items if pod.metadata.deletion_timestamp}


async def raw(api: KubeApi, ns: str, name: str) -> JsonObject:
    return await api.get(PODS.whole(), name, ns)


async def test_the_preemptor_is_nominated_and_the_victims_leave_saying_why(api: KubeApi, ns: str) -> None:
    victims = (await a_victim(api, ns, "v0"), await a_victim(api, ns, "v1"))
    action = await a_preemption(api, ns, *victims)
    assert await hands(api).perform(action) == PreemptOutcome(action, evicted=victims)
    assert (await raw(api, ns, "p"))["status"]["nominatedNodeName"] == NODE
    assert await going(api, ns) == {"v0", "v1"}
    left = await raw(api, ns, "v0")
    assert condition(left, "DisruptionTarget") == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "gpu-scheduler: preempting to accommodate a higher priority pod",
        "observedGeneration": left["metadata"]["generation"],
    }
    assert condition(left, "Ready")["status"] == "True"


async def test_without_victims_the_node_is_only_nominated(api: KubeApi, ns: str) -> None:
    action = await a_preemption(api, ns)
    assert await hands(api).perform(action) == PreemptOutcome(action)
    assert (await raw(api, ns, "p"))["status"]["nominatedNodeName"] == NODE


async def bound(api: KubeApi, ns: str) -> None:
    await api.bind("p", ns, Binding("node-b"))


async def gone(api: KubeApi, ns: str) -> None:
    await api.delete(PODS, "p", ns, how=DELETE_NOW)


async def replaced(api: KubeApi, ns: str) -> None:
    await gone(api, ns)
    await api.create(PODS, a_pod("p"), ns)


async def leaving(api: KubeApi, ns: str) -> None:
    await api.patch(PODS, "p", MergePatch({"metadata": {"finalizers": ["example.com/hold"]}}), ns)
    await api.delete(PODS, "p", ns)


@pytest.mark.parametrize(
    ("meanwhile", "setback"),
    [
        pytest.param(bound, MarkFailure.POD_BOUND, id="bound"),
        pytest.param(gone, MarkFailure.POD_GONE, id="gone"),
        pytest.param(replaced, MarkFailure.POD_GONE, id="another-has-its-name"),
        pytest.param(leaving, MarkFailure.POD_GONE, id="being-deleted"),
    ],
)
async def test_nobody_leaves_for_a_pod_that_needs_no_room_any_more(
    api: KubeApi, ns: str, meanwhile: Step, setback: MarkFailure
) -> None:
    action = await a_preemption(api, ns, await a_victim(api, ns, "v"))
    await meanwhile(api, ns)
    assert await hands(api).perform(action) == PreemptOutcome(action, nominated=False, setback=setback)
    assert "v" not in await going(api, ns)
    if meanwhile is leaving:
        await api.patch(PODS, "p", MergePatch({"metadata": {"finalizers": None}}), ns)


async def test_a_spent_budget_is_kept_and_those_after_it_are_spared(api: KubeApi, ns: str) -> None:
    before = await a_victim(api, ns, "v0")
    kept = await a_victim(api, ns, "v1", labels=APP)
    spared = await a_victim(api, ns, "v2")
    await a_spent_budget(api, ns)
    action = await a_preemption(api, ns, before, kept, spared)
    expected = PreemptOutcome(action, evicted=(before,), refused=((kept, EvictionFailure.BUDGET_SPENT),))
    assert await hands(api).perform(action) == expected
    assert await going(api, ns) == {"v0"}
    assert condition(await raw(api, ns, "v1"), "DisruptionTarget") == {}


async def test_a_victim_that_is_gone_or_going_is_out_of_the_way(api: KubeApi, ns: str) -> None:
    victims = (await a_victim(api, ns, "v0"), await a_victim(api, ns, "v1", labels=APP))
    action = await a_preemption(api, ns, *victims)
    await api.delete(PODS, "v0", ns, how=DELETE_NOW)
    await api.delete(PODS, "v1", ns)
    await a_spent_budget(api, ns)
    assert await hands(api).perform(action) == PreemptOutcome(action, evicted=victims)


async def test_another_pod_of_the_victims_name_is_left_alone_and_costs_no_budget(api: KubeApi, ns: str) -> None:
    victims = (await a_victim(api, ns, "v0"), await a_victim(api, ns, "v1"))
    action = await a_preemption(api, ns, *victims)
    await api.delete(PODS, "v0", ns, how=DELETE_NOW)
    await running_pod(api, ns, "v0", labels=APP)
    await api.create(BUDGETS, a_budget("b", APP, minAvailable=0), ns)
    await judge_budget(api, ns, "b", disruptionsAllowed=1, currentHealthy=1, desiredHealthy=0)
    expected = PreemptOutcome(action, evicted=victims[1:], refused=((victims[0], EvictionFailure.REPLACED),))
    assert await hands(api).perform(action) == expected
    assert await going(api, ns) == {"v1"}
    assert (await api.get(BUDGETS.whole(), "b", ns))["status"]["disruptionsAllowed"] == 1


class ReplacedJustBefore:
    """An API on which another pod has taken the victim's name when its eviction arrives."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def evict(self, pod: str, namespace: str, *, how: Deletion) -> None:
        await self._api.delete(PODS, pod, namespace, how=DELETE_NOW)
        await running_pod(self._api, namespace, pod, labels=APP)
        await self._api.evict(pod, namespace, how=how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)


async def test_a_pod_that_takes_the_victims_name_at_the_last_moment_is_left_alone(api: KubeApi, ns: str) -> None:
    action = await a_preemption(api, ns, await a_victim(api, ns, "v"))
    outcome = await hands(ReplacedJustBefore(api)).perform(action)
    assert outcome == PreemptOutcome(action, refused=((action.victims[0], EvictionFailure.REPLACED),))
    assert await going(api, ns) == set()


class Evictions:
    """An API whose evictions end as said, after they were done or not."""

    def __init__(self, api: KubeApi, error: Exception, *, done: bool = False, times: int = 1000) -> None:
        self._api = api
        self._error = error
        self._done = done
        self._times = times

    async def evict(self, pod: str, namespace: str, *, how: Deletion) -> None:
        self._times -= 1
        if self._done or self._times < 0:
            await self._api.evict(pod, namespace, how=how)
        if self._times >= 0:
            raise self._error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)


async def test_an_eviction_that_was_done_unheard_is_done(api: KubeApi, ns: str) -> None:
    action = await a_preemption(api, ns, await a_victim(api, ns, "v"))
    outcome = await hands(Evictions(api, Unreachable("lost"), done=True)).perform(action)
    assert outcome == PreemptOutcome(action, evicted=action.victims)


@pytest.mark.parametrize(
    ("error", "word"),
    [
        pytest.param(Unreachable("lost"), EvictionFailure.API_FAILED, id="not-done-unheard"),
        pytest.param(Forbidden("no"), EvictionFailure.FORBIDDEN, id="not-allowed"),
    ],
)
async def test_an_eviction_that_was_not_done_says_why(
    api: KubeApi, ns: str, error: Exception, word: EvictionFailure
) -> None:
    action = await a_preemption(api, ns, await a_victim(api, ns, "v"))
    outcome = await hands(Evictions(api, error)).perform(action)
    assert outcome == PreemptOutcome(action, refused=((action.victims[0], word),))
    assert await going(api, ns) == set()


@pytest.mark.parametrize(
    ("missing", "times", "word", "leaves"),
    [
        pytest.param("poddisruptionbudgets", 1, None, True, id="a-budget-that-was-deleted-meanwhile"),
        pytest.param("poddisruptionbudgets", 2, EvictionFailure.API_FAILED, False, id="and-another"),
        pytest.param("", 1, None, True, id="nobody-says-what"),
    ],
)
async def test_not_found_is_not_said_of_the_victim(
    api: KubeApi, ns: str, missing: str, times: int, word: EvictionFailure | None, leaves: bool
) -> None:
    action = await a_preemption(api, ns, await a_victim(api, ns, "v"))
    outcome = await hands(Evictions(api, NotFound("not there", kind=missing), times=times)).perform(action)
    assert [refusal for _, refusal in outcome.refused] == ([word] if word else [])
    assert (bool(outcome.evicted), await going(api, ns)) == (leaves, {"v"} if leaves else set())


async def test_who_may_not_look_evicts_nobody(api: KubeApi, ns: str, world: World) -> None:
    action = await a_preemption(api, ns, await a_victim(api, ns, "v"))
    stranger = world.enter_as("nobody")
    outcome = await hands(stranger).perform(action)
    await stranger.close()
    assert outcome == PreemptOutcome(action, nominated=False, setback=MarkFailure.API_FAILED)


async def test_of_a_gang_everybody_leaves_who_may(api: KubeApi, ns: str) -> None:
    victims = tuple([await a_victim(api, ns, f"v{number}") for number in range(3)])
    kept = await a_victim(api, ns, "kept", labels=APP)
    await a_spent_budget(api, ns)
    await api.delete(PODS, "v2", ns, how=DELETE_NOW)
    action = EvictGang(gang=ObjectKey(ns, "g"), victims=(kept, *victims), why="1 of 4 members is bound")
    outcome = await hands(api).evict_gang(action)
    assert outcome == EvictGangOutcome(action, evicted=victims, refused=((kept, EvictionFailure.BUDGET_SPENT),))
    assert await going(api, ns) == {"v0", "v1"}
    assert condition(await raw(api, ns, "v0"), "DisruptionTarget")["reason"] == "EvictionByEvictionAPI"
