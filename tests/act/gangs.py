"""Gangs to be placed, and what an API server says of them afterwards."""

from collections.abc import Iterable, Mapping
from typing import Any

from ullage.kube.client.api import Binding, KubeApi
from ullage.kube.client.resources import LEASES, PODS
from ullage.model.allocation import ALLOCATED, lease_name, parse_allocation
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import BindGang, BindPod
from ullage.model.outcomes import GangBindOutcome, PodNotBound
from ullage.testing.builders import a_pod

MemberPlaces = Mapping[str, tuple[str, tuple[int, ...]]]
"""Node and devices by the name of the pod."""


async def a_gang(api: KubeApi, ns: str, placements: MemberPlaces, *, name: str = "gang", **facts: Any) -> BindGang:
    """Its pods are made, and its placement is decided."""
    places = [await a_member(api, ns, pod, node, devices, **facts) for pod, (node, devices) in placements.items()]
    return BindGang(gang=ObjectKey(ns, name), places=tuple(places), why="a test")


async def a_member(api: KubeApi, ns: str, name: str, node: str, devices: tuple[int, ...], **facts: Any) -> BindPod:
    pod = await api.create(PODS, a_pod(name), ns)
    return BindPod(
        pod=ObjectKey(ns, name),
        uid=pod.metadata.uid,
        resource_version=pod.metadata.resource_version,
        node=node,
        why="a test",
        devices=devices,
        visible=tuple(f"GPU-{device}" for device in devices),
        **facts,
    )


async def holders(api: KubeApi, ns: str) -> dict[str, str | None]:
    """Who holds each Lease there is."""
    return {lease.metadata.name: lease.spec.holder_identity for lease in (await api.list(LEASES, ns)).items}


async def nodes_of(api: KubeApi, ns: str) -> dict[str, str]:
    """Where each pod is; empty for those who wait."""
    return {pod.metadata.name: pod.spec.node_name for pod in (await api.list(PODS, ns)).items}


def setbacks(outcome: GangBindOutcome) -> list[str]:
    """What came of each member, in a word: empty if it was placed."""
    return [str(one.setback) if isinstance(one, PodNotBound) else "" for one in outcome.outcomes]


def leaked(outcome: GangBindOutcome) -> list[bool]:
    return [isinstance(one, PodNotBound) and one.leaked for one in outcome.outcomes]


def leases_of(places: Iterable[BindPod]) -> dict[str, str]:
    """The Leases of these placements, each with the uid that is to hold it."""
    return {lease_name(place.node, device): place.uid for place in places for device in place.devices}


async def breaches(api: KubeApi, ns: str) -> list[str]:
    """GPUs that two bound pods were given, or that a bound pod was given and does not hold."""
    pods = (await api.list(PODS, ns)).items
    held, given, found = await holders(api, ns), dict[str, str](), list[str]()
    for pod in pods:
        text = pod.metadata.annotations.get(ALLOCATED, "")
        if not pod.spec.node_name or not text:
            continue
        allocation = parse_allocation(text)
        for device in allocation.devices:
            lease = lease_name(allocation.node, device)
            if lease in given:
                found.append(f"{lease} was given to {given[lease]} and to {pod.metadata.name}")
            if held.get(lease) != pod.metadata.uid:
                found.append(f"{lease} was given to {pod.metadata.name} and is held by {held.get(lease)}")
            given[lease] = pod.metadata.name
    return found


class Listening:
    """An API that writes down, in order, which Leases are made and which pods are bound."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self.heard: list[str] = []

    async def create(self, resource: Any, body: Any, namespace: str = "") -> Any:
        made = await self._api.create(resource, body, namespace)
        self.heard.append(f"lease {made.metadata.name}")
        return made

    async def bind(self, pod: str, namespace: str, binding: Binding) -> None:
        self.heard.append(f"bind {pod}")
        await self._api.bind(pod, namespace, binding)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)
