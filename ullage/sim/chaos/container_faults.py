"""Faults of containers and of the agents that report them. Each function begins one and returns its end."""

import asyncio
from collections.abc import Callable, Mapping

from ullage.kube.client.resources import PODS
from ullage.sim.chaos.containers import ContainerTable
from ullage.sim.chaos.guest_faults import End, bare, nothing
from ullage.sim.chaos.liveness import free_gpus
from ullage.sim.chaos.manifests import foreign_pod
from ullage.sim.chaos.story import ChaosFault, FaultKind
from ullage.sim.world.agents import ImplicitAgents
from ullage.sim.world.world import World

FOREIGN_SECONDS = 240.0
"""Seconds that a foreign pod runs, at least."""
SILENT_AFTER = 20.0
"""Seconds after which an agent with a wrong clock falls silent, until the fault is over."""


def stopped_kubelet(world: World, containers: ContainerTable, node: str) -> End:
    """Stop a kubelet. Its containers run on."""
    kubelets = world.actors.kubelets

    def go_on() -> None:
        kubelets.recover(node)
        containers.kubelet_back(node)

    kubelets.fail(node)
    return go_on


def _foreign_pod(world: World, _containers: ContainerTable, fault: ChaosFault) -> End | None:
    nodes = [node for node in sorted(world.agents.nodes()) if free_gpus(world, node)]
    if not nodes:
        return None
    node = nodes[fault.pick % len(nodes)]
    free, found = free_gpus(world, node), world.reported(node)
    if found is None:
        return None
    device = free[fault.pick % len(free)]
    uuid = next(one.uuid for one in found.devices if one.id == device)
    world.hand.create(foreign_pod(f"foreign-{fault.pick}", node, uuid, FOREIGN_SECONDS + fault.seconds))
    return nothing


def _outlived(world: World, containers: ContainerTable, fault: ChaosFault) -> End | None:
    running = [pod for pod in world.observers.mirror.pods.values() if pod.phase == "Running" and pod.sees]
    if not running:
        return None
    pod = sorted(running, key=lambda one: one.key)[fault.pick % len(running)]
    if world.actors.kubelets.is_stopped(pod.node):
        return None
    end = stopped_kubelet(world, containers, pod.node)
    world.hand.delete(bare(PODS, pod.key.name, pod.key.namespace), at_once=True)
    return end


def _agent_clock(world: World, _containers: ContainerTable, fault: ChaosFault) -> End | None:
    agents = world.agents
    nodes = sorted(agents.nodes())
    if not nodes or not isinstance(agents, ImplicitAgents):
        return None
    node = nodes[fault.pick % len(nodes)]

    def if_there(act: Callable[[], None]) -> None:
        if node in agents.nodes():
            act()

    def right() -> None:
        agents.resume(node)
        agents.set_clock(node, 0.0)

    agents.set_clock(node, fault.amount)
    asyncio.get_running_loop().call_later(SILENT_AFTER, if_there, lambda: agents.silence(node))
    return lambda: if_there(right)


CONTAINER_FAULTS: Mapping[FaultKind, Callable[[World, ContainerTable, ChaosFault], End | None]] = {
    FaultKind.FOREIGN_POD: _foreign_pod,
    FaultKind.OUTLIVED: _outlived,
    FaultKind.AGENT_CLOCK: _agent_clock,
}
