"""Events as the API server keeps them."""

import asyncio

from ullage.act.events import KubeEventWriter
from ullage.clock import WallClock
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import EVENTS, NODES, PODS
from ullage.model.fact_event import ObjectKey
from ullage.observe.events import EventMessage, EventReason, EventRecorder, EventWriteResult, ObjectReference
from ullage.testing.builders import a_node, a_pod


def recorder(api: KubeApi, fates: list[EventWriteResult]) -> EventRecorder:
    writer = KubeEventWriter(api, controller="ullage.dev/scheduler", instance="scheduler-0")
    return EventRecorder(writer, WallClock(), instance="scheduler-0", on_fate=fates.append)


async def events(api: KubeApi, ns: str) -> list[JsonObject]:
    return list((await api.list(EVENTS, ns)).items)


async def a_subject(api: KubeApi, ns: str, name: str = "p") -> ObjectReference:
    pod = await api.create(PODS, a_pod(name), ns)
    return ObjectReference("Pod", ObjectKey(ns, name), pod.metadata.uid)


async def test_an_event_says_what_happened_to_whom(api: KubeApi, ns: str) -> None:
    pod, fates = await a_subject(api, ns), list[EventWriteResult]()
    node = ObjectReference("Node", ObjectKey("", "node-a"))
    async with recorder(api, fates) as told:
        told.record(EventMessage(pod, EventReason.SCHEDULED, "placed on node-a with GPUs 0,1", related=node))
    assert fates == [EventWriteResult.CREATED]
    (event,) = await events(api, ns)
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Pod", "namespace": ns, "name": "p", "uid": pod.uid}
    assert event["related"] == {"apiVersion": "v1", "kind": "Node", "name": "node-a"}
    assert (event["type"], event["reason"], event["action"]) == ("Normal", "Scheduled", "Binding")
    assert event["note"] == "placed on node-a with GPUs 0,1"
    assert (event["reportingController"], event["reportingInstance"]) == ("ullage.dev/scheduler", "scheduler-0")


async def test_what_happens_again_is_counted(api: KubeApi, ns: str) -> None:
    pod, fates = await a_subject(api, ns), list[EventWriteResult]()
    again = EventMessage(pod, EventReason.FAILED_SCHEDULING, "0/3 nodes fit")
    async with recorder(api, fates) as told:
        for number in range(1, 4):
            told.record(again)
            while len(fates) < number:  # noqa: ASYNC110 - nobody tells when a server is through
                await asyncio.sleep(0.01)
    assert fates == [EventWriteResult.CREATED, EventWriteResult.REPEATED, EventWriteResult.REPEATED]
    (event,) = await events(api, ns)
    assert event["series"]["count"] == 3
    assert event["type"] == "Warning"


async def test_a_note_of_any_length_and_a_name_of_any_length_are_accepted(api: KubeApi, ns: str) -> None:
    pod, fates = await a_subject(api, ns, "p" * 240 + ".x"), list[EventWriteResult]()
    async with recorder(api, fates) as told:
        told.record(EventMessage(pod, EventReason.FAILED_SCHEDULING, "ä" * 2000))
    assert fates == [EventWriteResult.CREATED]
    (event,) = await events(api, ns)
    assert len(event["note"].encode()) <= 1024
    assert event["note"].endswith("ä...")


async def test_events_about_nodes_are_in_the_default_namespace(api: KubeApi, ns: str) -> None:
    node = await api.create(NODES, a_node(f"{ns}-node"))
    subject, fates = ObjectReference("Node", ObjectKey("", f"{ns}-node"), node.metadata.uid), list[EventWriteResult]()
    async with recorder(api, fates) as told:
        told.record(EventMessage(subject, EventReason.GPU_UNHEALTHY, "GPU 0 is still in use"))
    assert fates == [EventWriteResult.CREATED]
    assert [event["note"] for event in await events(api, "default") if event["regarding"]["name"] == f"{ns}-node"]


async def test_a_namespace_that_is_gone_is_no_trouble(api: KubeApi, ns: str) -> None:
    pod, fates = ObjectReference("Pod", ObjectKey(f"{ns}-gone", "p"), "u"), list[EventWriteResult]()
    async with recorder(api, fates) as told:
        told.record(EventMessage(pod, EventReason.SCHEDULED, "too late"))
    assert fates == [EventWriteResult.FAILED]
