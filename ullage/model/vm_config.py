"""VM configuration of nodes: slot sizes, watermark, system reserve, compute unit; overrides by node. Frozen.

Documents are read in `kube.read.vm_config`; configurations are compared in `decide.vms.config_change`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from ullage.model.fact_event import ObjectKey
from ullage.model.vm import VmAmounts

MILLIONTHS = 1_000_000
VM_SOURCES = frozenset({"virtualmachines.vm.neon.tech", "configmaps"})
"""Resource ids of VirtualMachines and of the node configuration: the ledger counts from when both are synced."""


class ResourceConfig(msgspec.Struct, frozen=True, gc=False):
    """One resource of a node."""

    watermark: int
    """Part of total - system above which VMs are moved away, in millionths: exact."""
    system: int


class NodeConfig(msgspec.Struct, frozen=True, gc=False):
    """Configuration of one node, or of all that no override names."""

    cpu: ResourceConfig
    memory: ResourceConfig
    unit: VmAmounts
    """Compute unit."""


class NodeOverride(msgspec.Struct, frozen=True, gc=False):
    nodes: tuple[str, ...]
    config: NodeConfig


class VmConfig(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The whole configuration."""

    slot: VmAmounts
    """Unit in which a node's room is counted."""
    defaults: NodeConfig
    node_selector: tuple[tuple[str, str], ...] = ()
    """Labels of nodes meant for VMs, sorted. Empty: only overrides name nodes."""
    overrides: tuple[NodeOverride, ...] = ()

    def for_node(self, node: str) -> NodeConfig:
        """Configuration of a node. The first override that names it wins."""
        return next((one.config for one in self.overrides if node in one.nodes), self.defaults)

    def names(self, node: str, labels: Mapping[str, str]) -> bool:
        """True if the node is meant for VMs by name or label. Containers without request and limit are refused."""
        if any(node in one.nodes for one in self.overrides):
            return True
        return bool(self.node_selector) and all(labels.get(key) == value for key, value in self.node_selector)


@dataclass(frozen=True, slots=True)
class ConfigRefusal:
    """A field of a configuration that is wrong, or that cannot be changed while the scheduler runs."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"Invalid config at {self.field}: {self.message}"


class VmNodesDocument(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The ConfigMap of node configuration, as last observed: what it says, or the field that is wrong."""

    key: ObjectKey
    config: VmConfig | None = None
    refusal: ConfigRefusal | None = None


def unchangeable(old: VmConfig, new: VmConfig) -> ConfigRefusal | None:
    """The first field that differs and cannot change while the scheduler runs."""
    for field, before, after in (
        ("memorySlotSize", old.slot.memory, new.slot.memory),
        ("cpuSlotSize", old.slot.cpu, new.slot.cpu),
    ):
        if before != after:
            return ConfigRefusal(field, "value cannot be changed at runtime")
    return None


DEFAULT_VM_CONFIG = VmConfig(
    slot=VmAmounts(1000, 1 << 30),
    defaults=NodeConfig(
        cpu=ResourceConfig(700_000, 500), memory=ResourceConfig(700_000, 512 << 20), unit=VmAmounts(1000, 4 << 30)
    ),
)
"""In force where there is no ConfigMap, or where it could not be read since the start."""


class NodeCapacity(msgspec.Struct, frozen=True, gc=False):
    """One resource of a node in whole slots."""

    total: int
    system: int
    watermark: int


def node_capacity(allocatable: int, config: ResourceConfig, slot: int) -> NodeCapacity:
    """Total, system and watermark of a node. A system reserve larger than the node leaves nothing to reserve."""
    total = allocatable // slot * slot
    reservable = max(0, allocatable - config.system) // slot * slot
    watermark = reservable * config.watermark // MILLIONTHS // slot * slot
    return NodeCapacity(total, total - reservable, watermark)


def node_size(amount: int, config: ResourceConfig, slot: int) -> int:
    """Least allocatable of a node that has so much room below its watermark."""
    slots = -(-amount // slot)
    reservable = -(-slots * slot * MILLIONTHS // config.watermark)
    return -(-reservable // slot) * slot + config.system


def ordinary_reserved(requested: int, margin: int, slot: int) -> int:
    """Amount that ordinary pods of a node reserve together: whole slots, beyond the margin rounding left of the node.

    The margin does not depend on the system reserve: a changed reserve must not change what pods count.
    """
    return -(-max(0, requested - margin) // slot) * slot
