"""Plays recorded steps on a world: what users and machines of a live cluster did, at the same times.

The simulated cluster may have come another way by then: what is to be changed or deleted may be gone.
"""

from collections.abc import Sequence

import msgspec

from ullage.errors import AlreadyExists, ApiError, NotFound, UserError
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_NODE_STATUSES
from ullage.kube.objects.gpu import GpuNodeStatus
from ullage.kube.read.gpu import read_inventory
from ullage.sim.world.admin_client import resource_of
from ullage.sim.world.agents import ImplicitAgents
from ullage.sim.world.spec import Arrival
from ullage.sim.world.world import World
from ullage.state.dump import RecordedStep, StepVerb


async def play_steps(world: World, steps: Sequence[RecordedStep]) -> None:
    """Do each step at its time. Raises UserError for one that the simulated cluster refuses."""
    for step in sorted(steps, key=lambda one: one.at):
        await world.sleep_until(step.at)
        try:
            _do(world, step)
        except (NotFound, AlreadyExists):
            continue
        except ApiError as error:
            name = step.object["metadata"]["name"]
            raise UserError(
                f"the simulated cluster refuses to {step.verb.value} {name} at {step.at:g} s: {error}"
            ) from error


def _do(world: World, step: RecordedStep) -> None:
    manifest = step.object
    if resource_of(manifest) is GPU_NODE_STATUSES:
        _report(world, step)
    elif step.verb is StepVerb.CREATE:
        world.submit(Arrival(at=step.at, objects=(manifest,)))
    elif step.verb is StepVerb.DELETE:
        world.hand.delete(manifest, at_once=step.at_once)
    else:
        _change(world, manifest)


def _change(world: World, manifest: JsonObject) -> None:
    resource, meta = resource_of(manifest), manifest["metadata"]
    patch = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind", "metadata")}
    labels = {"metadata": {"labels": meta["labels"]}} if "labels" in meta else {}
    namespace = meta.get("namespace", "default") if resource.namespaced else ""
    world.hand.merge(resource, meta["name"], {**patch, **labels}, namespace)


def _report(world: World, step: RecordedStep) -> None:
    """Agents of the world report what the recorded ones did."""
    node = step.object["metadata"]["name"]
    if step.verb is StepVerb.DELETE:
        world.agents.remove(node)
        return
    inventory = read_inventory(msgspec.convert(step.object, GpuNodeStatus))
    if node not in world.agents.nodes():
        world.agents.install(inventory)
    elif isinstance(world.agents, ImplicitAgents):
        world.agents.replace(inventory)
    else:
        for device in inventory.devices:
            world.agents.set_health(node, device.id, device.health)
