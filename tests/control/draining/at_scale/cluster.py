"""A cluster whose load has left: some nodes are busy and stay, the others hold a few pods each, or none.

Where pods are is decided by room alone: until everything is placed, a filler on each node leaves exactly as much as the
node is to hold. GPU pods ask for CPU and the others for memory, so that neither takes the other's place.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.fleet import SCHEDULER, each
from tests.kube.crds.bad_provisioners import with_fields
from ullage.cloud.kwok.provider import RECORDS
from ullage.kube.client.api import DELETE_NOW, KubeApi, MergePatch
from ullage.kube.client.resources import (
    BUDGETS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    GPU_CLAIMS,
    NODE_PROVISIONERS,
    NODES,
    POD_GROUPS,
    PODS,
)
from ullage.kube.objects.node import KubeNode
from ullage.model.allocation import CLAIM_TEMPLATE
from ullage.model.fact_event import ObjectKey
from ullage.testing.builders import a_budget, a_pod, a_pod_spec, a_workload
from ullage.testing.checks.disruption import is_available

NS = "default"
POOL = "pool"
MOST_NODES = 400
CPUS, MEMORY_GIB = 96, 768
CPUS_PER_GPU_POD, GIB_PER_PLAIN_POD = 2, 8
FILLER = "filler"


@dataclass(frozen=True)
class Load:
    """What a node is to hold: pods with one GPU each, and pods without."""

    gpu: int = 0
    plain: int = 0


@dataclass(frozen=True)
class Service:
    """A Deployment, and the disruption budget of its pods."""

    name: str
    replicas: int
    budget: dict[str, int | str]
    gpus: int = 0
    notes: tuple[tuple[str, str], ...] = ()
    """Annotations of its pods."""
    finalizers: tuple[str, ...] = ()
    grace: int = 0
    gang: bool = False
    """All its pods run, or none. They take the room of pods without GPUs: so it is known where they are."""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(NS, self.name)


async def until(holds: Callable[[], Awaitable[object]], seconds: float, programs: PoolPrograms) -> None:
    """Wait until it holds."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not await holds():
        programs.check_running()
        assert loop.time() - began < seconds, f"{holds.__qualname__}: not within {seconds:g} s:\n{programs.said()}"
        await asyncio.sleep(0.2)


async def until_right(wrong: Callable[[], Awaitable[list[str]]], seconds: float, programs: PoolPrograms) -> None:
    """Wait until nothing is wrong any more; what still is at the end, is said."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while (found := await wrong()) and loop.time() < deadline:
        programs.check_running()
        await asyncio.sleep(0.5)
    assert found == []


async def buy(api: KubeApi, size: int) -> None:
    """A pool that is bought by its minimum, and from which only empty nodes might be taken, which it does not want."""
    fields = {
        "provider": {"name": "kwok"},
        "template.resources": {"cpu": str(CPUS), "memory": f"{MEMORY_GIB}Gi"},
        "minSize": size,
        "maxSize": size,
    }
    await api.create(NODE_PROVISIONERS, {"metadata": {"name": POOL}, "spec": with_fields(fields)})


async def drain_from_now_on(api: KubeApi, **consolidation: Any) -> None:
    """The pool may shrink to nothing, and nodes with pods may go. It may also grow, and must not."""
    spec = {"minSize": 0, "maxSize": MOST_NODES, "consolidation": {"policy": "Drain"} | consolidation}
    await api.patch(NODE_PROVISIONERS, POOL, MergePatch({"spec": spec}))


async def machines_made(api: KubeApi) -> int:
    """By the books of the cloud."""
    kept = (await api.list(CONFIG_MAPS, selection=RECORDS)).items
    return sum(json.loads(one["data"]["record"]).get("made", 0) for one in kept)


async def nodes_of(api: KubeApi) -> list[KubeNode]:
    return sorted((await api.list(NODES)).items, key=lambda node: node.metadata.name)


async def bought(api: KubeApi, size: int, programs: PoolPrograms) -> list[str]:
    """Names of the pool's nodes, as soon as all of them have their GPUs."""

    async def all_there() -> bool:
        nodes = await nodes_of(api)
        return len(nodes) == size and all("nvidia.com/gpu" in node.status.allocatable for node in nodes)

    await until(all_there, 60 + size, programs)
    return [node.metadata.name for node in await nodes_of(api)]


async def place(api: KubeApi, loads: dict[str, Load], services: list[Service], programs: PoolPrograms) -> None:
    """Put these services on the nodes, so that each holds what it is to hold. The scheduler has to be at work."""
    await each(loads, lambda name: _fill(api, name, loads[name]))
    await each(services, lambda service: start(api, service))
    pods = sum(service.replicas for service in services)
    await until(lambda: all_available(api, services), 60 + pods / 4, programs)
    await each(loads, lambda name: api.delete(PODS, f"{FILLER}-{name}", NS, how=DELETE_NOW))


async def _fill(api: KubeApi, node: str, load: Load) -> None:
    taken = {
        "cpu": str(CPUS - load.gpu * CPUS_PER_GPU_POD),
        "memory": f"{MEMORY_GIB - load.plain * GIB_PER_PLAIN_POD}Gi",
    }
    body = a_pod(f"{FILLER}-{node}", requests=taken, nodeName=node, terminationGracePeriodSeconds=0)
    await api.create(PODS, body, NS)


async def start(api: KubeApi, service: Service) -> None:
    """Its budget, its claims' template, and its pods."""
    await api.create(BUDGETS, a_budget(service.name, {"app": service.name}, **service.budget), NS)
    plain = service.gang or not service.gpus
    asked = {"memory": f"{GIB_PER_PLAIN_POD}Gi"} if plain else {"cpu": str(CPUS_PER_GPU_POD)}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": service.name}},
    }
    spec = a_pod_spec(
        requests=asked,
        gpus=service.gpus,
        schedulerName=SCHEDULER,
        terminationGracePeriodSeconds=service.grace,
        topologySpreadConstraints=[spread],
    )
    body = a_workload(service.name, pod=spec, replicas=service.replicas)
    notes = dict(service.notes)
    if service.gpus:
        await _offer_claims(api, service)
        notes[CLAIM_TEMPLATE] = service.name
    body["spec"]["template"]["metadata"] |= {"annotations": notes, "finalizers": list(service.finalizers)}
    await api.create(DEPLOYMENTS, body, NS)


async def _offer_claims(api: KubeApi, service: Service) -> None:
    """The claim every pod of it gets a copy of."""
    spec: dict[str, Any] = {"devices": {"count": service.gpus}}
    if service.gang:
        group = {"metadata": {"name": service.name}, "spec": {"minMember": service.replicas}}
        await api.create(POD_GROUPS, group, NS)
        spec["gangRef"] = service.name
    await api.create(GPU_CLAIMS, {"metadata": {"name": service.name}, "spec": spec}, NS)


async def all_available(api: KubeApi, services: list[Service]) -> bool:
    """Every service has all its pods, and its budget has counted them."""
    pods = (await api.list(PODS, NS)).items
    running = [pod.metadata.labels.get("app", "") for pod in pods if is_available(pod)]
    healthy = {one.metadata.name: one.status.current_healthy for one in (await api.list(BUDGETS, NS)).items}
    return all(running.count(one.name) == one.replicas == healthy.get(one.name) for one in services)


async def pods_on(api: KubeApi, node: str) -> list[str]:
    """Names of pods there that are not fillers."""
    names = [pod.metadata.name for pod in (await api.list(PODS, NS)).items if pod.spec.node_name == node]
    return sorted(name for name in names if not name.startswith(FILLER))


async def drained(api: KubeApi, loads: dict[str, Load], services: list[Service]) -> bool:
    """The end that any run comes to: nodes with work for most of their GPUs are left, and nobody misses a pod."""
    busy = {name for name, load in loads.items() if load.gpu > 4}
    names = {node.metadata.name for node in await nodes_of(api)}
    assert busy <= names, f"{busy - names} went, and had work for most of their GPUs"
    return names == busy and await all_available(api, services)


def thin(names: list[str]) -> Iterator[tuple[str, Load]]:
    """Two of five nodes are busy: with five of eight GPUs in use they stay. Of the others each third is empty."""
    for place_, name in enumerate(names):
        if place_ % 5 < 2:
            yield name, Load(gpu=5, plain=1)
        else:
            spare = (place_ // 5 * 3 + place_ % 5 - 2) % 3
            yield name, Load(gpu=spare, plain=min(spare, 1))


GPU_BUDGETS: tuple[dict[str, int | str], ...] = (
    {"maxUnavailable": 1},
    {"minAvailable": 11},
    {"maxUnavailable": "25%"},
    {"minAvailable": "80%"},
)
PLAIN_BUDGETS: tuple[dict[str, int | str], ...] = ({"maxUnavailable": 2}, {"minAvailable": "50%"})


def services_for(loads: dict[str, Load]) -> list[Service]:
    """As many as fill these loads exactly: Deployments of 13 pods with GPUs, and of 8 without."""
    gpu, rest = divmod(sum(load.gpu for load in loads.values()), 13)
    plain, left = divmod(sum(load.plain for load in loads.values()), 8)
    assert rest == left == 0, f"these loads cannot be filled: {rest} and {left} pods over"
    return [
        *(Service(f"infer-{n:02}", 13, GPU_BUDGETS[n % 4], gpus=1) for n in range(gpu)),
        *(Service(f"web-{n:02}", 8, PLAIN_BUDGETS[n % 2]) for n in range(plain)),
    ]
