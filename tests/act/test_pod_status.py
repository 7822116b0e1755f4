"""Saying on a pod why it has no place: once, and without touching what others say."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ullage.act.pod_status import SCHEDULED, PodConditionWriter
from ullage.clock import Instant, WallClock
from ullage.errors import Unreachable
from ullage.kube.client.api import DELETE_NOW, Binding, JsonPatch, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import PODS
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import MarkUnschedulable
from ullage.model.outcomes import MarkFailure, PodMarked, PodNotMarked
from ullage.model.refusal import PodScheduledReason, SchedulingFailure
from ullage.model.units import Steady
from ullage.testing.builders import a_pod

FULL = SchedulingFailure(word="TooFewGpus", message="0/3 nodes fit: 3 TooFewGpus")


class Watch:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.moment = 1_700_000_000.0

    def now(self) -> Instant:
        return Instant(self.moment)

    def steady(self) -> Steady:
        return Steady(self.moment)

    async def charge(self, cpu_seconds: float) -> None:
        self.moment += cpu_seconds


async def a_refusal(
    api: KubeApi, ns: str, why: SchedulingFailure = FULL, nominated: str | None = None
) -> MarkUnschedulable:
    pod = await api.create(PODS, a_pod("p"), ns)
    return MarkUnschedulable(pod=ObjectKey(ns, "p"), uid=pod.metadata.uid, why=why, nominated=nominated)


async def pod_of(api: KubeApi, action: MarkUnschedulable) -> JsonObject:
    return await api.get(PODS.whole(), action.pod.name, action.pod.namespace)


def said(pod: JsonObject) -> JsonObject:
    (condition,) = (one for one in pod["status"]["conditions"] if one["type"] == SCHEDULED)
    return dict(condition)


async def test_a_refused_pod_says_why(api: KubeApi, ns: str) -> None:
    action = await a_refusal(api, ns)
    assert await PodConditionWriter(api, Watch()).perform(action) == PodMarked(action, written=True)
    told = said(await pod_of(api, action))
    assert (told["status"], told["reason"], told["message"]) == ("False", "Unschedulable", FULL.message)
    assert told["lastTransitionTime"] == "2023-11-14T22:13:20Z"


async def test_what_the_pod_says_already_is_not_written_again(api: KubeApi, ns: str) -> None:
    action, watch = await a_refusal(api, ns, nominated="node-a"), Watch()
    await PodConditionWriter(api, watch).perform(action)
    before = await pod_of(api, action)
    watch.moment += 3600
    assert await PodConditionWriter(api, watch).perform(action) == PodMarked(action, written=False)
    assert await pod_of(api, action) == before


async def test_another_message_keeps_the_time_of_the_transition(api: KubeApi, ns: str) -> None:
    action, watch = await a_refusal(api, ns), Watch()
    await PodConditionWriter(api, watch).perform(action)
    watch.moment += 3600
    waits = SchedulingFailure(word="TooFewGpus", message="a node is coming", waiting=PodScheduledReason.FOR_CAPACITY)
    other = MarkUnschedulable(pod=action.pod, uid=action.uid, why=waits)
    assert await PodConditionWriter(api, watch).perform(other) == PodMarked(other, written=True)
    told = said(await pod_of(api, action))
    assert (told["reason"], told["message"]) == ("WaitingForCapacity", "a node is coming")
    assert told["lastTransitionTime"] == "2023-11-14T22:13:20Z"


async def test_what_others_say_is_left_alone(api: KubeApi, ns: str) -> None:
    action = await a_refusal(api, ns)
    theirs = {"type": "example.com/Audited", "status": "True", "lastProbeTime": "2020-01-01T00:00:00Z"}
    add = [{"op": "add", "path": "/status/conditions", "value": [theirs]}]
    add.append({"op": "add", "path": "/status/hostIP", "value": "10.0.0.1"})
    before = await api.patch(PODS.whole(), "p", JsonPatch(add), ns, subresource="status")
    await PodConditionWriter(api, Watch()).perform(action)
    after = await pod_of(api, action)
    assert after["status"]["conditions"][0] == before["status"]["conditions"][0]
    assert after["status"]["hostIP"] == "10.0.0.1"
    assert after["spec"] == before["spec"]


@pytest.mark.parametrize(
    ("nominated", "expected"),
    [
        pytest.param("node-b", "node-b", id="another-node"),
        pytest.param("", None, id="taken-back"),
        pytest.param(None, "node-a", id="left-as-it-is"),
    ],
)
async def test_a_nomination_is_set_and_taken_back(
    api: KubeApi, ns: str, nominated: str | None, expected: str | None
) -> None:
    first = await a_refusal(api, ns, nominated="node-a")
    await PodConditionWriter(api, Watch()).perform(first)
    second = MarkUnschedulable(pod=first.pod, uid=first.uid, why=FULL, nominated=nominated)
    assert await PodConditionWriter(api, Watch()).perform(second) == PodMarked(second, written=nominated is not None)
    assert (await pod_of(api, first))["status"].get("nominatedNodeName") == expected


async def bound(api: KubeApi, ns: str) -> None:
    await api.bind("p", ns, Binding("node-a"))


async def gone(api: KubeApi, ns: str) -> None:
    await api.delete(PODS, "p", ns, how=DELETE_NOW)


async def replaced(api: KubeApi, ns: str) -> None:
    await gone(api, ns)
    await api.create(PODS, a_pod("p"), ns)


async def going(api: KubeApi, ns: str) -> None:
    await api.patch(PODS, "p", MergePatch({"metadata": {"finalizers": ["example.com/hold"]}}), ns)
    await api.delete(PODS, "p", ns)


@pytest.mark.parametrize(
    ("meanwhile", "setback"),
    [
        pytest.param(bound, MarkFailure.POD_BOUND, id="bound"),
        pytest.param(gone, MarkFailure.POD_GONE, id="gone"),
        pytest.param(replaced, MarkFailure.POD_GONE, id="another-has-its-name"),
        pytest.param(going, MarkFailure.POD_GONE, id="being-deleted"),
    ],
)
async def test_a_pod_that_needs_no_refusal_any_more_is_left_alone(
    api: KubeApi, ns: str, meanwhile: Callable[[KubeApi, str], Awaitable[None]], setback: MarkFailure
) -> None:
    action = await a_refusal(api, ns)
    await meanwhile(api, ns)
    before = [pod.metadata.resource_version for pod in (await api.list(PODS, ns)).items]
    outcome = await PodConditionWriter(api, WallClock()).perform(action)
    assert isinstance(outcome, PodNotMarked)
    assert outcome.setback is setback
    assert [pod.metadata.resource_version for pod in (await api.list(PODS, ns)).items] == before
    if meanwhile is going:
        await api.patch(PODS, "p", MergePatch({"metadata": {"finalizers": None}}), ns)


async def test_no_answer_is_an_outcome(api: KubeApi, ns: str) -> None:
    action = await a_refusal(api, ns)
    silent: Any = Silent()
    outcome = await PodConditionWriter(silent, WallClock()).perform(action)
    assert outcome == PodNotMarked(action, MarkFailure.API_FAILED, "nobody there")


class Silent:
    """An API that is not there."""

    async def get(self, *_: object) -> None:
        raise Unreachable("nobody there")
