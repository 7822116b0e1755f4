"""Node agents of a simulated fleet: they report their GPUs, and only when a report changes.

A report dated at the end of time is fresh until the next one. So agents cost nothing while nothing happens, and readers
judge the age of reports as they always do. Where machines may fail, reports are dated and repeated.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import msgspec

from ullage.clock import Clock
from ullage.errors import NotFound
from ullage.kube.client.json_codec import to_json
from ullage.kube.client.resources import GPU_NODE_STATUSES
from ullage.kube.write.gpu import node_report
from ullage.model.device import Device, DeviceHealth, Inventory
from ullage.sim.world.admin_client import AdminClient
from ullage.sim.world.nodes import report_manifest

ALWAYS_FRESH = 253_402_300_799.0
"""9999-12-31T23:59:59Z: time of an agent's report while heartbeats are implicit."""
REPORT_SECONDS = 30.0


class AgentFleet(Protocol):
    """Agents of all nodes."""

    def install(self, inventory: Inventory) -> None:
        """Start an agent for a node."""
        ...

    def remove(self, node: str) -> None:
        """Remove the agent of a deleted node."""
        ...

    def nodes(self) -> Collection[str]:
        """Nodes that have an agent."""
        ...

    def silence(self, node: str) -> None:
        """Stop the reports of this node's agent."""
        ...

    def resume(self, node: str) -> None:
        """Start the reports of this node's agent again."""
        ...

    def set_health(self, node: str, gpu: int, health: DeviceHealth) -> None:
        """Change the health of a GPU, and have the agent report it."""
        ...

    async def run(self) -> None:
        """Run until cancelled."""
        ...


GpuUsers = Callable[[str], Mapping[str, Collection[str]]]
"""Uids of the pods whose containers use each GPU or MIG instance of a node, by UUID."""


def no_users(_node: str) -> Mapping[str, Collection[str]]:
    """Nobody: agents report no processes."""
    return {}


MakeAgents = Callable[[AdminClient, Clock, bool], AgentFleet]
"""Factory of an AgentFleet. Arguments: the client that writes its reports, the clock, and True for real heartbeats."""


class ImplicitAgents:
    """Reports once, and again after a change; with `heartbeats` every half minute."""

    def __init__(self, hand: AdminClient, clock: Clock, heartbeats: bool, users: GpuUsers = no_users) -> None:
        self._hand = hand
        self._clock = clock
        self._heartbeats = heartbeats
        self._users = users
        self._ahead: dict[str, float] = {}
        self._known: dict[str, Inventory] = {}
        self._silent: set[str] = set()

    def install(self, inventory: Inventory) -> None:
        self._known[inventory.node] = inventory
        dated = msgspec.structs.replace(inventory, reported_at=self._date(inventory.node))
        self._hand.create(report_manifest(dated))

    def remove(self, node: str) -> None:
        if self._known.pop(node, None) is not None:
            self._silent.discard(node)
            self._ahead.pop(node, None)
            self._hand.delete(_bare(node))

    def nodes(self) -> Collection[str]:
        return self._known

    def inventory(self, node: str) -> Inventory:
        """GPUs of a node as its agent knows them. Raises KeyError if the node has no agent."""
        return self._known[node]

    def replace(self, inventory: Inventory) -> None:
        """Change the GPUs of a node, as an administrator does who switches MIG on, and have the agent report them."""
        self._known[inventory.node] = inventory
        if inventory.node not in self._silent:
            self._say(inventory.node, self._date(inventory.node))

    def silence(self, node: str) -> None:
        if not self._heartbeats and node not in self._silent:
            self._say(node, self._clock.now())
        self._silent.add(node)

    def resume(self, node: str) -> None:
        self._silent.discard(node)
        self._say(node, self._date(node))

    def set_health(self, node: str, gpu: int, health: DeviceHealth) -> None:
        before = self._known[node]
        devices = tuple(msgspec.structs.replace(one, health=health) if one.id == gpu else one for one in before.devices)
        self._known[node] = msgspec.structs.replace(before, devices=devices)
        if node not in self._silent:
            self._say(node, self._date(node))

    async def run(self) -> None:
        if not self._heartbeats:
            return
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            for node in [one for one in self._known if one not in self._silent]:
                self._say(node, self._date(node))

    def set_clock(self, node: str, ahead: float) -> None:
        """Date the reports of a node by so many seconds too late; negative: too early."""
        self._ahead[node] = ahead
        if node not in self._silent:
            self._say(node, self._date(node))

    def _date(self, node: str) -> float:
        return self._clock.now() + self._ahead.get(node, 0.0) if self._heartbeats else ALWAYS_FRESH

    def _say(self, node: str, at: float) -> None:
        users = self._users(node)
        devices = tuple(_used(one, users) for one in self._known[node].devices) if users else self._known[node].devices
        status = node_report(msgspec.structs.replace(self._known[node], reported_at=at, devices=devices))
        try:
            self._hand.merge(GPU_NODE_STATUSES, node, {"status": to_json(status)}, part="status")
        except NotFound:
            self._known.pop(node)


def users_of(device: Device, users: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Uids of the pods that use a GPU or one of its MIG instances."""
    names = (device.uuid, *(one.uuid for one in device.mig))
    return tuple(sorted({uid for name in names for uid in users.get(name, ())}))


def _used(device: Device, users: Mapping[str, Collection[str]]) -> Device:
    return msgspec.structs.replace(device, in_use_by=users_of(device, users))


def _bare(node: str) -> dict[str, object]:
    return {"apiVersion": GPU_NODE_STATUSES.api_version, "kind": GPU_NODE_STATUSES.kind, "metadata": {"name": node}}
