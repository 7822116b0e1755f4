"""Placing a pod: what holds whatever happens in between."""

from dataclasses import replace
from typing import Any

import pytest

from ullage.act.bind import PodBinder
from ullage.act.leases import LeaseClient, LeaseHolder, LeaseRequest
from ullage.clock import WallClock
from ullage.errors import Unreachable
from ullage.kube.client.api import DELETE_NOW, Binding, KubeApi, MergePatch
from ullage.kube.client.resources import LEASES, PODS
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import BindPod
from ullage.model.outcomes import BindFailure, PodBound, PodNotBound
from ullage.model.units import Milli
from ullage.testing.builders import a_pod


class LosesAnswers:
    """An API whose bind is done, or not done, and then gets no answer."""

    def __init__(self, api: KubeApi, *, done: bool, late: list[Binding] | None = None) -> None:
        self._api = api
        self._done = done
        self._late = late

    async def bind(self, pod: str, namespace: str, binding: Binding) -> None:
        if self._done:
            await self._api.bind(pod, namespace, binding)
        if self._late is not None:
            self._late.append(binding)
        raise Unreachable("the answer was lost")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)


async def a_place(api: KubeApi, ns: str, *devices: int, name: str = "p") -> BindPod:
    pod = await api.create(PODS, a_pod(name), ns)
    return BindPod(
        pod=ObjectKey(ns, name),
        uid=pod.metadata.uid,
        resource_version=pod.metadata.resource_version,
        node="node-a",
        why="a test",
        devices=devices,
        visible=tuple(f"GPU-{device}" for device in devices),
    )


def hands(api: KubeApi, ns: str, *, through: Any = None) -> PodBinder:
    return PodBinder(through or api, LeaseClient(api, ns, WallClock()))


async def leased(api: KubeApi, ns: str) -> set[str]:
    return {lease.metadata.name for lease in (await api.list(LEASES, ns)).items}


async def notes(api: KubeApi, action: BindPod) -> dict[str, str]:
    return (await api.get(PODS, action.pod.name, action.pod.namespace)).metadata.annotations


async def test_a_placed_pod_is_bound_told_and_leased(api: KubeApi, ns: str) -> None:
    action = await a_place(api, ns, 0, 1)
    assert await hands(api, ns).perform(action) == PodBound(action)
    pod = await api.get(PODS, "p", ns)
    assert pod.spec.node_name == "node-a"
    assert pod.metadata.annotations["gpu.scheduling/allocated"] == "node-a:0,1"
    assert pod.metadata.annotations["gpu.scheduling/visible-devices"] == "GPU-0,GPU-1"
    assert pod.metadata.annotations["gpu.scheduling/visible-indices"] == "0,1"
    assert await leased(api, ns) == {"gpu-node-a-0", "gpu-node-a-1"}


async def test_instances_are_told_by_uuid_also_to_programs_that_count(api: KubeApi, ns: str) -> None:
    action = replace(await a_place(api, ns, 3), visible=("MIG-3-0",), milli=Milli(250))
    assert await hands(api, ns).perform(action) == PodBound(action)
    assert (await notes(api, action))["gpu.scheduling/visible-indices"] == "MIG-3-0"


async def test_a_pod_without_gpus_is_only_bound(api: KubeApi, ns: str) -> None:
    action = await a_place(api, ns)
    assert await hands(api, ns).perform(action) == PodBound(action)
    assert await leased(api, ns) == set()
    assert "gpu.scheduling/allocated" not in await notes(api, action)


async def test_placing_twice_is_placing_once(api: KubeApi, ns: str) -> None:
    action = await a_place(api, ns, 0)
    assert await hands(api, ns).perform(action) == PodBound(action)
    assert await hands(api, ns).perform(action) == PodBound(action)
    assert await leased(api, ns) == {"gpu-node-a-0"}


async def test_a_taken_gpu_leaves_the_pod_alone(api: KubeApi, ns: str) -> None:
    action = await a_place(api, ns, 0, 1)
    rival = LeaseHolder(ObjectKey(ns, "q"), "other-uid")
    await LeaseClient(api, ns, WallClock()).reserve(rival, LeaseRequest("node-a", (1,)))
    outcome = await hands(api, ns).perform(action)
    assert isinstance(outcome, PodNotBound)
    assert (outcome.setback, outcome.leaked) == (BindFailure.GPU_TAKEN, False)
    assert await leased(api, ns) == {"gpu-node-a-1"}
    assert (await api.get(PODS, "p", ns)).spec.node_name == ""


async def bound_elsewhere(api: KubeApi, action: BindPod) -> None:
    await api.bind(action.pod.name, action.pod.namespace, Binding("node-b"))


async def changed(api: KubeApi, action: BindPod) -> None:
    patch = MergePatch({"metadata": {"labels": {"x": "y"}}})
    await api.patch(PODS, action.pod.name, patch, action.pod.namespace)


async def gone(api: KubeApi, action: BindPod) -> None:
    await api.delete(PODS, action.pod.name, action.pod.namespace, how=DELETE_NOW)


async def replaced(api: KubeApi, action: BindPod) -> None:
    await gone(api, action)
    await api.create(PODS, a_pod(action.pod.name), action.pod.namespace)


@pytest.mark.parametrize(
    ("meanwhile", "setback"),
    [
        pytest.param(bound_elsewhere, BindFailure.POD_CHANGED, id="another-scheduler-bound-it"),
        pytest.param(gone, BindFailure.POD_GONE, id="it-is-gone"),
        pytest.param(replaced, BindFailure.POD_GONE, id="another-has-its-name"),
    ],
)
async def test_a_pod_that_changed_since_holds_nothing(
    api: KubeApi, ns: str, meanwhile: Any, setback: BindFailure
) -> None:
    action = await a_place(api, ns, 0, 1)
    await meanwhile(api, action)
    outcome = await hands(api, ns).perform(action)
    assert isinstance(outcome, PodNotBound)
    assert (outcome.setback, outcome.leaked) == (setback, False)
    assert await leased(api, ns) == set()


async def test_a_pod_that_was_only_written_to_is_placed_all_the_same(api: KubeApi, ns: str) -> None:
    action = await a_place(api, ns, 0, 1)
    await changed(api, action)
    assert await hands(api, ns).perform(action) == PodBound(action)
    assert await leased(api, ns) == {"gpu-node-a-0", "gpu-node-a-1"}


class WrittenToAllTheTime:
    """An API on which somebody writes on the pod just before each bind."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._times = 0

    async def bind(self, pod: str, namespace: str, binding: Binding) -> None:
        self._times += 1
        await self._api.patch(PODS, pod, MergePatch({"metadata": {"labels": {"x": str(self._times)}}}), namespace)
        await self._api.bind(pod, namespace, binding)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)


async def test_a_pod_that_is_written_to_all_the_time_is_given_up_for_now(api: KubeApi, ns: str) -> None:
    action = await a_place(api, ns, 0)
    outcome = await hands(api, ns, through=WrittenToAllTheTime(api)).perform(action)
    assert isinstance(outcome, PodNotBound)
    assert (outcome.setback, outcome.leaked) == (BindFailure.POD_CHANGED, False)
    assert await leased(api, ns) == set()


async def test_a_bind_that_was_done_unheard_is_done(api: KubeApi, ns: str) -> None:
    action = await a_place(api, ns, 0)
    assert await hands(api, ns, through=LosesAnswers(api, done=True)).perform(action) == PodBound(action)
    assert await leased(api, ns) == {"gpu-node-a-0"}


async def test_a_bind_that_comes_late_finds_the_door_closed(api: KubeApi, ns: str) -> None:
    action = await a_place(api, ns, 0)
    late: list[Binding] = []
    outcome = await hands(api, ns, through=LosesAnswers(api, done=False, late=late)).perform(action)
    assert isinstance(outcome, PodNotBound)
    assert (outcome.setback, outcome.leaked) == (BindFailure.API_FAILED, False)
    assert await leased(api, ns) == set()
    with pytest.raises(Exception, match=r"[Pp]recondition|modified"):
        await api.bind("p", ns, late[0])
    assert (await api.get(PODS, "p", ns)).spec.node_name == ""
