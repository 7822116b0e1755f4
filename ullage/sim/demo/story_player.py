"""Plays a story on a simulated world: waits for each step, shows its caption, and acts as a user would."""

import asyncio
from collections.abc import Callable
from typing import Any, assert_never

from ullage.errors import AlreadyExists, ApiError, NotFound
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import PODS
from ullage.model.allocation import ALLOCATED
from ullage.model.device import DeviceHealth
from ullage.model.fact_event import ObjectKey
from ullage.sim.controllers.objects import DEPLOYMENTS
from ullage.sim.demo.manifests import NAMESPACE
from ullage.sim.demo.story import (
    BreakGpu,
    CreateManifest,
    DeleteManifest,
    ForbiddenWrite,
    LoadVm,
    RepairGpus,
    ScaleDeployment,
    Step,
    Story,
    StoryStep,
)
from ullage.sim.world.admin_client import resource_of
from ullage.sim.world.world import World

_GONE_WITHIN = 60
"""Seconds to wait for the deletion of an object of the same name before creating another one."""

OnStep = Callable[[StoryStep], None]
OnNote = Callable[[str], None]
"""Receives a note on a step: a response of the API server, or the reason why an action failed."""


class StoryPlayer:
    """One performance of a story. Viewers may change the cluster meanwhile; actions that then fail are noted."""

    def __init__(self, world: World, story: Story, on_step: OnStep, on_note: OnNote) -> None:
        self._world = world
        self._story = story
        self._on_step = on_step
        self._on_note = on_note
        self._broken: list[tuple[str, int]] = []

    async def play(self) -> None:
        """Play to the end."""
        for story_step in self._story.story_steps:
            await self._world.sleep_until(story_step.at)
            self._on_step(story_step)
            for step in story_step.steps:
                try:
                    await self._perform(step)
                except ApiError as error:
                    self._on_note(str(error))

    async def _perform(self, step: Step) -> None:
        match step:
            case CreateManifest(manifest):
                await self._create(manifest)
            case DeleteManifest(manifest):
                resource, name, namespace = _place(manifest)
                await self._world.api.delete(resource, name, namespace)
            case ScaleDeployment(deployment, replicas):
                wanted = MergePatch({"spec": {"replicas": replicas}})
                await self._world.api.patch(DEPLOYMENTS, deployment, wanted, NAMESPACE)
            case ForbiddenWrite(pod, annotations):
                written = MergePatch({"metadata": {"annotations": dict(annotations)}})
                await self._world.api.patch(PODS, pod, written, NAMESPACE)
            case BreakGpu(pod):
                await self._break(pod)
            case RepairGpus():
                self._repair()
            case LoadVm(vm, cores):
                if self._world.vms is not None:
                    self._world.vms.guests.set_load(ObjectKey(NAMESPACE, vm), cores)
            case _:
                assert_never(step)

    async def _create(self, manifest: JsonObject) -> None:
        resource, _, namespace = _place(manifest)
        for _ in range(_GONE_WITHIN):
            try:
                await self._world.api.create(resource, manifest, namespace)
                return
            except AlreadyExists:
                await asyncio.sleep(1.0)
        await self._world.api.create(resource, manifest, namespace)

    async def _break(self, name: str) -> None:
        pod = await self._world.api.get(PODS, name, NAMESPACE)
        node, _, ids = pod.metadata.annotations.get(ALLOCATED, "").rpartition(":")
        if not node:
            raise NotFound(f"pod {name} has no GPU that could break")
        gpu = int(ids.split(",")[0])
        try:
            self._world.agents.set_health(node, gpu, DeviceHealth.UNHEALTHY)
        except KeyError:
            raise NotFound(f"node {node} is gone, and its GPUs with it") from None
        self._broken.append((node, gpu))

    def _repair(self) -> None:
        """Repair all broken GPUs. GPUs of nodes deleted meanwhile are skipped."""
        while self._broken:
            node, gpu = self._broken.pop()
            try:
                self._world.agents.set_health(node, gpu, DeviceHealth.HEALTHY)
            except KeyError:
                continue


def _place(manifest: JsonObject) -> tuple[Resource[Any], str, str]:
    resource = resource_of(manifest)
    return resource, manifest["metadata"]["name"], NAMESPACE if resource.namespaced else ""
