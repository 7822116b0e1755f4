"""Actions of an onlooker on a story's cluster: break and repair GPUs, add a gang, drain a node.

Each acts as somebody outside would (hardware, a user, `kubectl drain`) and says in a sentence what was done.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from ullage.errors import AlreadyExists, ApiError, NotFound, TooManyRequests, UserError
from ullage.kube.client.resources import GPU_CLAIMS, NODES
from ullage.model.device import Device, DeviceHealth
from ullage.sim.demo import manifests as make
from ullage.sim.demo.terminal_model import short_model
from ullage.sim.world.stored_objects import StoredPod
from ullage.sim.world.world import World

GANG_SECONDS = 300
"""Seconds that the workers of an added gang run."""
GANG_MEMBERS = 2
_RETRY_SECONDS = 5.0
"""Seconds between two tries to evict a pod that its budget protects, as `kubectl drain` has it."""
_LATER = 600.0
"""Seconds after which a drain gives up on what is left."""

Start = Callable[[Coroutine[Any, Any, None]], object]
"""Runs work beside the story."""
Announce = Callable[[str], None]


class ClusterActions:
    """Actions on one world. Raises UserError where there is nothing to act on."""

    def __init__(self, world: World, start: Start, announce: Announce) -> None:
        """`announce` gets what happens later on: a drain takes its time."""
        self._world = world
        self._start = start
        self._announce = announce
        self._gangs = 0
        self._broken: list[tuple[str, int]] = []
        self._draining: set[str] = set()

    def nodes(self) -> list[str]:
        """Nodes to choose from, by name."""
        return sorted(self._world.observers.mirror.nodes)

    def break_gpu(self, node: str = "") -> str:
        """Make a GPU of the node fall off the bus: a leased one if there is one. Without a node: the fullest."""
        held = {name: self._holders(name) for name in self._agents(node)}
        for name in sorted(held, key=lambda one: (-len(held[one]), one)):
            well = [one.id for one in self._devices(name) if one.health is DeviceHealth.HEALTHY]
            for gpu in sorted(well, key=lambda one: (one not in held[name], one)):
                self._world.agents.set_health(name, gpu, DeviceHealth.UNHEALTHY)
                self._broken.append((name, gpu))
                holder = f", held by {held[name][gpu]}," if gpu in held[name] else ""
                return f"GPU {gpu} of {name}{holder} fell off the bus."
        raise UserError(f"no healthy GPU is left {f'on {node}' if node else 'in the cluster'}")

    def repair(self) -> str:
        """Make all GPUs healthy again that were broken here."""
        repaired = []
        while self._broken:
            name, gpu = self._broken.pop()
            try:
                self._world.agents.set_health(name, gpu, DeviceHealth.HEALTHY)
            except KeyError:
                continue  # the node is gone, and its GPUs with it
            repaired.append(f"{gpu} of {name}")
        if not repaired:
            raise UserError("no GPU that you broke is broken")
        return f"Repaired: GPU {', GPU '.join(sorted(repaired))}."

    def add_gang(self) -> str:
        """Create a gang of two workers, each with all GPUs of a node."""
        model, count = self._commonest()
        while True:
            self._gangs += 1
            name = f"gang-{self._gangs}"
            try:
                self._world.hand.create(make.claim(name, count, model, gang=name, members=GANG_MEMBERS))
                break
            except AlreadyExists:
                continue
        try:
            self._world.hand.create(make.job(name, GANG_MEMBERS, GANG_SECONDS, template=name))
        except ApiError as error:
            self._world.hand.delete({"apiVersion": GPU_CLAIMS.api_version, "kind": GPU_CLAIMS.kind} | _named(name))
            raise UserError(f"the gang was refused: {error}") from error
        return f"{name}: {GANG_MEMBERS} workers with {count} {model} each, all or nothing, for {GANG_SECONDS} s."

    def drain_node(self, node: str = "") -> str:
        """Cordon the node and evict its pods as budgets allow, like `kubectl drain --force`. Default: the fullest."""
        mirror = self._world.observers.mirror
        if node and node not in mirror.nodes:
            raise UserError(f"there is no node {node}")
        free = [name for name in ([node] if node else mirror.nodes) if name not in self._draining]
        name = min(free, key=lambda one: (-len(self._movable(one)), one), default="")
        if not name:
            raise UserError(f"{node} is being drained already" if node else "every node is being drained already")
        self._world.hand.merge(NODES, name, {"spec": {"unschedulable": True}})
        self._draining.add(name)
        self._start(self._evict(name))
        pods = len(self._movable(name))
        going = f"{pods} pod{'s are' if pods != 1 else ' is'} evicted as budgets allow" if pods else "it has no pods"
        return f"Node {name} is cordoned; {going}. kubectl uncordon {name} takes it back."

    async def _evict(self, node: str) -> None:
        deadline = self._world.elapsed + _LATER
        while (left := self._movable(node)) and self._world.elapsed < deadline:
            for pod in left:
                try:
                    await self._world.api.evict(pod.key.name, pod.key.namespace)
                except (TooManyRequests, NotFound):
                    continue
                except ApiError as error:
                    self._announce(f"Pod {pod.key.name} of {node} was not evicted: {error}")
            await asyncio.sleep(_RETRY_SECONDS)
        self._draining.discard(node)
        if node in self._world.observers.mirror.nodes:
            self._announce(
                f"Node {node} still has {len(left)} pods: their budgets hold them." if left else _emptied(node)
            )

    def _movable(self, node: str) -> list[StoredPod]:
        held = self._world.observers.mirror.on_node.get(node, {})
        return [one for _, one in sorted(held.items()) if not one.stays_behind]

    def _agents(self, node: str) -> list[str]:
        known = self._world.agents.nodes()
        if node and node not in known:
            raise UserError(f"node {node} has no GPUs")
        return [node] if node else sorted(known)

    def _devices(self, node: str) -> tuple[Device, ...]:
        reported = self._world.reported(node)
        return () if reported is None else reported.devices

    def _holders(self, node: str) -> dict[int, str]:
        """Pod of each held GPU of the node."""
        held = self._world.observers.mirror.on_node.get(node, {})
        return {gpu: pod.key.name for _, pod in sorted(held.items()) for gpu in pod.devices}

    def _commonest(self) -> tuple[str, int]:
        """Model and number of GPUs that most nodes have; of a cluster without nodes, those that Karpenter would buy."""
        found = Counter[tuple[str, int]]()
        for name in self._agents(""):
            if devices := self._devices(name):
                found[short_model(devices[0].model), len(devices)] += 1
        if found:
            return min(found, key=lambda one: (-found[one], one))
        if self._world.spec.karpenter is None:
            raise UserError("no node of this cluster has GPUs, and nobody would buy one for a gang")
        gpus = self._world.spec.karpenter.gpus
        return short_model(gpus.model), gpus.count


def _named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": make.NAMESPACE}}


def _emptied(node: str) -> str:
    return f"Node {node} is empty."
