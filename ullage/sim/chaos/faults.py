"""Injection of faults into a running world: each kind is one short function that begins it and returns its end."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from msgspec.structs import replace

from ullage.cloud.api import CloudError, NoCapacity, Throttled
from ullage.errors import ApiError
from ullage.kube.client.resources import NODES
from ullage.model.device import DeviceHealth
from ullage.model.resources import GPU
from ullage.sim.apiserver.network_faults import NetworkConditions
from ullage.sim.apiserver.transport import InMemoryTransport
from ullage.sim.chaos.container_faults import CONTAINER_FAULTS, stopped_kubelet
from ullage.sim.chaos.containers import ContainerTable
from ullage.sim.chaos.coverage import CLOUD, FaultCoverage
from ullage.sim.chaos.guest_faults import GUEST_FAULTS, End, bare, heal_guests, nothing
from ullage.sim.chaos.manifests import partitioned
from ullage.sim.chaos.network import NETWORK_FAULT_OF, ChaosNetwork
from ullage.sim.chaos.story import ChaosFault, FaultKind
from ullage.sim.chaos.user_faults import USER_FAULTS
from ullage.sim.process import SimulatedProcess
from ullage.sim.world.agents import ImplicitAgents
from ullage.sim.world.world import World

RESTART_SECONDS = 2.0
"""Seconds until a crashed process is started again, at least."""


class FaultInjector:
    """Faults of one story on one world."""

    def __init__(
        self,
        world: World,
        coverage: FaultCoverage,
        containers: ContainerTable,
        networks: Mapping[str, ChaosNetwork],
    ) -> None:
        """`networks`: those of programs beside the world's processes."""
        self._containers = containers
        self._world = world
        self._networks: Mapping[str, NetworkConditions] = {**world.loops.network, **networks}
        self._coverage = coverage
        self._boot_latency = world.cloud.behaviour.latency

    async def play(self, faults: tuple[ChaosFault, ...]) -> None:
        """Begin and end every fault at its time."""
        moments = [(one.at, False, number) for number, one in enumerate(faults)]
        moments += [(one.at + one.seconds, True, number) for number, one in enumerate(faults)]
        ends: dict[int, End] = {}
        for at, over, number in sorted(moments):
            await self._world.sleep_until(at)
            if over:
                if (end := ends.pop(number, None)) is not None:
                    end()
            elif (begun := self._begin(faults[number])) is not None:
                self._coverage.injected[faults[number].kind.value] += 1
                ends[number] = begun

    def heal(self) -> None:
        """End everything that is wrong: whatever a fault left behind is put right, as people would in the end."""
        world = self._world
        for network in self._networks.values():
            if isinstance(network, ChaosNetwork):
                network.heal()
        for process in world.loops.processes.values():
            process.set_clock(0.0)
            if not process.alive:
                process.start()
        world.actors.let_controllers_go_on()
        world.cloud.behaviour.latency = self._boot_latency
        world.cloud.behaviour.list_lag = 0.0
        world.cloud.faults.clear()
        heal_guests(world)

    def _begin(self, fault: ChaosFault) -> End | None:
        """Begin a fault. None if there is nothing it could strike."""
        if fault.kind in NETWORK_FAULT_OF or fault.kind in _NETWORK:
            return self._network(fault)
        of_world = {**GUEST_FAULTS, **USER_FAULTS}.get(fault.kind)
        handler = _HANDLERS.get(fault.kind)
        container = CONTAINER_FAULTS.get(fault.kind)
        try:
            if container is not None:
                return container(self._world, self._containers, fault)
            if of_world is not None:
                return of_world(self._world, fault)
            return None if handler is None else handler(self, fault)
        except ApiError:
            return None  # refused by the API server, as it refuses people too

    def _network(self, fault: ChaosFault) -> End:
        name = _chosen(fault, self._networks)
        network = self._networks[name]
        if not isinstance(network, ChaosNetwork):
            raise TypeError(f"{name} has no chaos network")
        return network.begin(fault)

    def _cut_watches(self, fault: ChaosFault) -> End | None:
        """Cut the watches of a process: the one that a fault of its network with the same number strikes."""
        name = _chosen(fault, self._networks)
        process, network = self._world.loops.processes.get(name), self._networks[name]
        if process is None:
            return None
        for transport in self._transports(process):
            transport.break_streams()
            if isinstance(network, ChaosNetwork):
                network.count_watches(FaultKind.CUT_WATCHES)
        return nothing

    def _transports(self, process: SimulatedProcess) -> list[InMemoryTransport]:
        wire = process.life.wire if process.alive else None
        return [wire] if isinstance(wire, InMemoryTransport) else []

    def _compact(self, _fault: ChaosFault) -> End:
        self._world.server.compact()
        return nothing

    def _crash(self, fault: ChaosFault) -> End | None:
        process = self._process(fault)
        if not process.alive:
            return None
        self._kill(process, fault.seconds)
        return nothing

    def _kill(self, process: SimulatedProcess, down: float) -> None:
        if process.alive:
            process.crash()
            asyncio.get_running_loop().call_later(max(RESTART_SECONDS, down), _start, process)

    def _crash_at_call(self, fault: ChaosFault) -> End | None:
        process = self._process(fault)
        network = self._world.loops.network[process.name]
        if not isinstance(network, ChaosNetwork) or not process.alive:
            return None
        kill = fault.kind is not FaultKind.FREEZE_AFTER_CALL
        network.crash_at(fault, lambda: (self._kill if kill else _stop)(process, fault.seconds))
        return nothing

    def _freeze(self, fault: ChaosFault) -> End | None:
        process = self._process(fault)
        if not process.alive:
            return None
        process.life.freeze(fault.seconds)
        return nothing

    def _clock(self, fault: ChaosFault) -> End:
        process = self._process(fault)
        process.set_clock(fault.amount)
        return lambda: process.set_clock(0.0)

    def _cloud(self, fault: ChaosFault) -> End:
        cloud, verb = self._world.cloud, ("create", "delete", "list")[fault.pick % 3]
        behaviour = cloud.behaviour
        struck = _CLOUD_VERB.get(fault.kind, verb)
        self._coverage.faults[f"{CLOUD} {struck} instances", fault.kind.value] += 1
        match fault.kind:
            case FaultKind.CLOUD_NO_CAPACITY:
                cloud.faults.fail("create", NoCapacity("no H100 left in this zone"), times=int(fault.amount))
            case FaultKind.CLOUD_THROTTLED:
                error: CloudError = Throttled("too many requests", retry_after=5.0)
                cloud.faults.fail(verb, error, times=int(fault.amount))
            case FaultKind.CLOUD_LOST:
                cloud.faults.lose_answer(verb)
            case FaultKind.CLOUD_NEVER_JOINS:
                cloud.faults.never_joins += 1
            case FaultKind.CLOUD_SLOW:
                behaviour.latency = fault.amount
                return lambda: setattr(behaviour, "latency", self._boot_latency)
            case FaultKind.CLOUD_STALE:
                behaviour.list_lag = fault.amount
                return lambda: setattr(behaviour, "list_lag", 0.0)
        return nothing

    def _gpu_dies(self, fault: ChaosFault) -> End | None:
        node = self._node_with_gpus(fault)
        if node is None:
            return None
        agents, gpu = self._world.agents, fault.pick % max(1, self._world.observers.mirror.nodes[node].gpus)
        agents.set_health(node, gpu, DeviceHealth.UNHEALTHY)
        return lambda: self._if_there(node, lambda: agents.set_health(node, gpu, DeviceHealth.HEALTHY))

    def _agent_silent(self, fault: ChaosFault) -> End | None:
        node = self._node_with_gpus(fault)
        if node is None:
            return None
        self._world.agents.silence(node)
        return lambda: self._if_there(node, lambda: self._world.agents.resume(node))

    def _mig_switched(self, fault: ChaosFault) -> End | None:
        agents, node = self._world.agents, self._node_with_gpus(fault)
        if node is None or not isinstance(agents, ImplicitAgents):
            return None
        busy = self._world.observers.mirror.on_node.get(node)
        if busy:
            return None  # the driver refuses while a process uses the GPU
        before = agents.inventory(node)
        on = any(device.mig for device in before.devices)
        plain = tuple(replace(device, mig=()) for device in before.devices)
        agents.replace(replace(before, devices=plain if on else partitioned(before.devices)))
        return nothing

    def _device_plugin(self, fault: ChaosFault) -> End | None:
        name = self._node_with_gpus(fault)
        node = None if name is None else self._world.observers.mirror.nodes.get(name)
        if node is None:
            return None
        hand, node_name = self._world.hand, node.name

        def advertise(gpus: int) -> None:
            amounts = {"capacity": {GPU: str(gpus)}, "allocatable": {GPU: str(gpus)}}
            with suppress(ApiError):  # the node may be gone
                hand.merge(NODES, node_name, {"status": amounts}, part="status")

        before = node.gpus
        advertise(0)
        return lambda: advertise(before)

    def _machine_dies(self, fault: ChaosFault) -> End | None:
        there = [one for one in self._world.cloud.machine_ids() if one in self._world.observers.mirror.nodes]
        if not there:
            return None
        machine = fault.one_of(there)
        self._world.cloud.take_back(machine)
        self._world.actors.kubelets.fail(machine)
        if machine in self._world.agents.nodes():
            self._world.agents.silence(machine)

        def forget() -> None:
            """Delete its Node, as the cloud's controller does with a Node that is not ready and has no instance."""
            self._world.hand.delete(bare(NODES, machine))

        return forget

    def _kubelet_stops(self, fault: ChaosFault) -> End | None:
        node = self._node(fault)
        if node is None:
            return None
        return stopped_kubelet(self._world, self._containers, node)

    def _controllers_stop(self, _fault: ChaosFault) -> End:
        self._world.actors.stop_controllers()
        return self._world.actors.let_controllers_go_on

    def _process(self, fault: ChaosFault) -> SimulatedProcess:
        return self._world.loops.processes[_chosen(fault, self._world.loops.processes)]

    def _node(self, fault: ChaosFault) -> str | None:
        nodes = sorted(self._world.observers.mirror.nodes)
        return fault.one_of(nodes) if nodes else None

    def _node_with_gpus(self, fault: ChaosFault) -> str | None:
        """A node whose agent has reported."""
        nodes = sorted(self._world.agents.nodes())
        return fault.one_of(nodes) if nodes else None

    def _if_there(self, node: str, act: Callable[[], None]) -> None:
        if node in self._world.agents.nodes():
            act()


def _chosen(fault: ChaosFault, names: Collection[str]) -> str:
    """Process of a fault: one of those that it names, which may have replicas, or else any."""
    process = fault.only.partition(" ")[0]
    return fault.one_of(sorted(name for name in names if name.rstrip("-0123456789") == process) or sorted(names))


def _stop(process: SimulatedProcess, seconds: float) -> None:
    if process.alive:
        process.life.freeze(seconds)


def _start(process: SimulatedProcess) -> None:
    if not process.alive:
        process.start()


_NETWORK = (FaultKind.SLOW, FaultKind.PARTITION, FaultKind.STALE_WATCH)
_CLOUD = tuple(kind for kind in FaultKind if kind.name.startswith("CLOUD_"))
_CLOUD_VERB = {
    FaultKind.CLOUD_NO_CAPACITY: "create",
    FaultKind.CLOUD_NEVER_JOINS: "create",
    FaultKind.CLOUD_SLOW: "create",
    FaultKind.CLOUD_STALE: "list",
}
"""Call that a fault of the cloud strikes, where it is always the same."""
_Handler = Callable[[FaultInjector, ChaosFault], End | None]
_HANDLERS: Mapping[FaultKind, _Handler] = {
    FaultKind.CUT_WATCHES: FaultInjector._cut_watches,
    FaultKind.COMPACT: FaultInjector._compact,
    FaultKind.CRASH: FaultInjector._crash,
    FaultKind.CRASH_BEFORE_CALL: FaultInjector._crash_at_call,
    FaultKind.CRASH_AFTER_CALL: FaultInjector._crash_at_call,
    FaultKind.FREEZE_AFTER_CALL: FaultInjector._crash_at_call,
    FaultKind.FREEZE: FaultInjector._freeze,
    FaultKind.CLOCK: FaultInjector._clock,
    **dict.fromkeys(_CLOUD, FaultInjector._cloud),
    FaultKind.GPU_DIES: FaultInjector._gpu_dies,
    FaultKind.AGENT_SILENT: FaultInjector._agent_silent,
    FaultKind.MIG_SWITCHED: FaultInjector._mig_switched,
    FaultKind.DEVICE_PLUGIN: FaultInjector._device_plugin,
    FaultKind.MACHINE_DIES: FaultInjector._machine_dies,
    FaultKind.KUBELET_STOPS: FaultInjector._kubelet_stops,
    FaultKind.CONTROLLERS_STOP: FaultInjector._controllers_stop,
}
