"""Plays fidelity stories on a real control plane: etcd, kube-apiserver, kube-controller-manager, KWOK, our programs.

Scheduler and controller are started anew for each story: what they learned from one must not count in the next.
"""

import asyncio
import math
import random
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from ullage.clock import WallClock
from ullage.cloud.kwok.provider import RECORDS
from ullage.errors import AlreadyExists, ApiError, NotFound, UllageError
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import DELETE_NOW, EVERYTHING, KubeApi, ListSelector, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import (
    CONFIG_MAPS,
    GPU_CLAIMS,
    GPU_NODE_STATUSES,
    LEASES,
    NAMESPACES,
    NODE_PROVISIONERS,
    NODES,
    POD_GROUPS,
    PODS,
)
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.kube.crds.install import install
from ullage.kube.read.leases import OUR_LEASES
from ullage.model.fact_event import Deleted, FactEvent, Synced
from ullage.model.lease import LEASE_NAMESPACE
from ullage.sim.fidelity.outcome import OutcomeRecorder, StoryOutcome
from ullage.sim.world.admin_client import resource_of
from ullage.state.dump import RecordedStep, StepVerb
from ullage.testing.builders import a_namespace
from ullage.testing.controlplane import WORKLOADS, ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.launcher import wait_until
from ullage.testing.controlplane.ports import reserve_port
from ullage.testing.controlplane.processes import Processes
from ullage.testing.fidelity.calibration import MeasuredLatency, measured_latency
from ullage.testing.fidelity.stories import FidelityStory
from ullage.watch.informer import Informer, InformerSpec, run_all

PROGRAM = Path(sys.executable).with_name("ullage")
READY_SECONDS = 60.0
PULSE_SECONDS = 0.05
"""Time between two looks at the clock while a story is played."""


class StoodStill(UllageError):
    """The player itself stood still while a story was played: what came late then says nothing of the cluster."""


_LEFT: tuple[tuple[Resource[Any], ListSelector], ...] = (
    (NODE_PROVISIONERS, EVERYTHING),
    (PODS, EVERYTHING),
    (GPU_CLAIMS, EVERYTHING),
    (POD_GROUPS, EVERYTHING),
    (NODES, EVERYTHING),
    (GPU_NODE_STATUSES, EVERYTHING),
    (CONFIG_MAPS, RECORDS),
    (LEASES, OUR_LEASES),
)
"""Objects that a story leaves behind, owners first."""


@contextmanager
def fidelity_plane() -> Iterator[ControlPlane]:
    """A control plane for any number of stories. Raises MissingProgram where it is not built."""
    with ControlPlane(ControlPlaneSpec(components=WORKLOADS)) as plane:
        yield plane


async def measure(plane: ControlPlane) -> MeasuredLatency:
    """Latency of the control plane now."""
    api = connect(plane.kubeconfig, seed=0)
    try:
        await install(api, (*OURS, POD_GROUP))
        return await measured_latency(api, WallClock())
    finally:
        await api.close()


async def play_real(plane: ControlPlane, story: FidelityStory, *, most_held: float = math.inf) -> StoryOutcome:
    """Outcome on the real control plane, which is empty before and after.

    Raises StoodStill if the player could see nothing for more than `most_held` seconds.
    """
    api = connect(plane.kubeconfig, seed=0)
    try:
        await install(api, (*OURS, POD_GROUP))
        with suppress(AlreadyExists):
            await api.create(NAMESPACES, a_namespace(LEASE_NAMESPACE))
        for manifest in story.objects:
            await _create(api, manifest)
        with _programs(plane):
            async with _recorded(api) as record:
                held = await _play(api, story)
                if held > most_held:
                    raise StoodStill(f"{story.name}: nothing could be seen for {held:.1f} s")
                return record.outcome()
    finally:
        await _clear(api)
        await api.close()


async def _play(api: KubeApi, story: FidelityStory) -> float:
    """Each step at its time, whether the one before has been answered or not. Returns the longest time of stillness.

    It begins at a whole second, as the simulator does: timestamps of Kubernetes are whole seconds, and who is older
    may depend on where in a second it came.
    """
    loop, clock = asyncio.get_running_loop(), WallClock()
    began = loop.time() + 1.0 - clock.now() % 1.0
    pulse = asyncio.create_task(_longest_held(began + story.seconds))
    async with asyncio.TaskGroup() as group:
        moments = sorted({step.at for step in story.steps})
        for moment in moments:
            await asyncio.sleep(max(0.0, began + moment - loop.time()))
            group.create_task(_at_once(api, [one for one in story.steps if one.at == moment]))
    return await pulse


async def _longest_held(until: float) -> float:
    """Look at the clock until then. Returns the longest time by which a look was late."""
    loop, longest = asyncio.get_running_loop(), 0.0
    while (now := loop.time()) < until:
        await asyncio.sleep(PULSE_SECONDS)
        longest = max(longest, loop.time() - now - PULSE_SECONDS)
    return longest


async def _at_once(api: KubeApi, steps: list[RecordedStep]) -> None:
    for step in steps:
        with suppress(NotFound):
            await _do(api, step)


async def _do(api: KubeApi, step: RecordedStep) -> None:
    manifest = step.object
    resource, meta = resource_of(manifest), manifest["metadata"]
    namespace = meta.get("namespace", "")
    if step.verb is StepVerb.CREATE:
        await _create(api, manifest)
    elif step.verb is StepVerb.DELETE:
        await api.delete(resource, meta["name"], namespace)
    else:
        part = "status" if resource is GPU_NODE_STATUSES else ""
        body = {"status": manifest["status"]} if part else {"spec": manifest["spec"]}
        await api.patch(resource, meta["name"], MergePatch(body), namespace, subresource=part)


async def _create(api: KubeApi, manifest: JsonObject) -> None:
    resource, meta = resource_of(manifest), manifest["metadata"]
    with suppress(AlreadyExists):
        await api.create(resource, manifest, meta.get("namespace", ""))
    if resource is GPU_NODE_STATUSES:
        await api.patch(resource, meta["name"], MergePatch({"status": manifest["status"]}), subresource="status")


@contextmanager
def _programs(plane: ControlPlane) -> Iterator[None]:
    """Scheduler and controller, which have read the cluster."""
    processes, ports = Processes(), [reserve_port(), reserve_port()]
    try:
        for verb, port in zip(("scheduler", "controller"), ports, strict=True):
            where = ["--kubeconfig", str(plane.kubeconfig), "--listen", f"127.0.0.1:{port.port}"]
            command = [str(PROGRAM), verb, "--no-leader-election", *where]
            processes.start(verb, command, log=processes.folder / f"{verb}.log")
        for port in ports:
            if not wait_until(lambda: _is_ready(port.port), READY_SECONDS):  # noqa: B023 - called in this turn only
                raise TimeoutError(f"a program is not ready within {READY_SECONDS:g} s")
        yield
    finally:
        processes.close()
        for port in ports:
            port.release()


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@asynccontextmanager
async def _recorded(api: KubeApi) -> AsyncIterator[OutcomeRecorder]:
    """Record from informers on pods and nodes."""
    record, clock, synced = OutcomeRecorder(), WallClock(), asyncio.Event()
    waiting = {PODS.id, NODES.id}

    def pod(event: FactEvent[JsonObject]) -> None:
        if isinstance(event, Synced):
            _note(event)
        elif not isinstance(event, Deleted):
            record.pod(event.new, clock.steady())

    def node(event: FactEvent[JsonObject]) -> None:
        if isinstance(event, Synced):
            _note(event)
        else:
            gone = isinstance(event, Deleted)
            record.node(event.old if isinstance(event, Deleted) else event.new, gone=gone)

    def _note(event: Synced) -> None:
        waiting.discard(event.source)
        if not waiting:
            record.begin()
            synced.set()

    rng = random.Random(0)
    informers = [
        Informer(api, InformerSpec(resource.whole(), _as_it_is), deliver, rng=rng, clock=clock)
        for resource, deliver in ((PODS, pod), (NODES, node))
    ]
    following = asyncio.create_task(run_all(*informers))
    try:
        await asyncio.wait_for(synced.wait(), READY_SECONDS)
        yield record
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def _as_it_is(manifest: JsonObject) -> JsonObject:
    return manifest


async def _clear(api: KubeApi) -> None:
    """Remove everything. Programs have ended by now: nothing comes back."""
    while await _swept(api):  # noqa: ASYNC110 - nobody tells when controllers have made their last pod
        await asyncio.sleep(0.3)


async def _swept(api: KubeApi) -> bool:
    found = False
    for resource, selection in _LEFT:
        for one in (await api.list(resource.whole(), selection=selection)).items:
            meta = one["metadata"]
            found = True
            with suppress(ApiError):
                if meta.get("finalizers"):
                    patch = MergePatch({"metadata": {"finalizers": None}})
                    await api.patch(resource, meta["name"], patch, meta.get("namespace", ""))
                await api.delete(resource, meta["name"], meta.get("namespace", ""), how=DELETE_NOW)
    return found
