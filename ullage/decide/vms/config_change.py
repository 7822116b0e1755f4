"""VM configuration: read strictly, compared with the one in force, and the rule on compute units across a change.

A wrong configuration is refused with the field that is wrong; the one in force stays.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ullage.model.quantity import quantity
from ullage.model.vm import Vm, VmAmounts
from ullage.model.vm_config import MILLIONTHS, NodeConfig, NodeOverride, ResourceConfig, VmConfig

GIBIBYTE = 1 << 30
CORE = 1000


@dataclass(frozen=True, slots=True)
class ConfigRefusal:
    field: str
    message: str

    def __str__(self) -> str:
        return f"Invalid config at {self.field}: {self.message}"


class _Wrong(ValueError):
    """A field that cannot be read."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.refusal = ConfigRefusal(field, message)


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One node configuration that differs. Node is empty for the defaults."""

    node: str
    old: NodeConfig
    new: NodeConfig


def read_config(raw: object) -> VmConfig | ConfigRefusal:
    """The configuration in a decoded JSON document."""
    try:
        return _config(_fields(raw, "", _CONFIG_FIELDS))
    except _Wrong as wrong:
        return wrong.refusal


def compare_configs(old: VmConfig, new: VmConfig) -> tuple[ConfigChange, ...] | ConfigRefusal:
    """Changes that a running scheduler takes over; or the field that cannot change while it runs."""
    if old.slot.memory != new.slot.memory:
        return ConfigRefusal("memorySlotSize", "value cannot be changed at runtime")
    if old.slot.cpu != new.slot.cpu:
        return ConfigRefusal("cpuSlotSize", "value cannot be changed at runtime")
    changes = [ConfigChange("", old.defaults, new.defaults)]
    named = {node for config in (old, new) for one in config.overrides for node in one.nodes}
    changes += [ConfigChange(node, old.for_node(node), new.for_node(node)) for node in sorted(named)]
    return tuple(one for one in changes if one.old != one.new)


def divides_cleanly(wanted: VmAmounts, unit: VmAmounts, vm: Vm) -> bool:
    """True if the amounts are a whole number of the compute units last sent to this VM's agent.

    Exempt where a resource is at the VM's minimum or maximum: those need not be whole units.
    """
    if wanted.cpu in (vm.minimum.cpu, vm.maximum.cpu) or wanted.memory in (vm.minimum.memory, vm.maximum.memory):
        return True
    if wanted.cpu % unit.cpu or wanted.memory % unit.memory:
        return False
    return wanted.cpu // unit.cpu == wanted.memory // unit.memory


def whole_core_unit(unit: VmAmounts) -> VmAmounts:
    """The smallest number of compute units that is whole cores: agents of versions 1-2 count no less."""
    return unit.times(CORE // math.gcd(unit.cpu, CORE))


_CONFIG_FIELDS = {"memorySlotSize": False, "cpuSlotSize": False, "nodeDefaults": True, "nodeSelector": False,
                  "nodeOverrides": False}  # fmt: skip
_NODE_FIELDS = {"cpu": True, "memory": True, "computeUnit": True}
_RESOURCE_FIELDS = {"watermark": True, "system": True}
_UNIT_FIELDS = {"vCPUs": True, "mem": True}
_OVERRIDE_FIELDS = {"nodes": True, "config": True}


def _config(fields: Mapping[str, Any]) -> VmConfig:
    slot = VmAmounts(
        _amount(fields.get("cpuSlotSize", 1), "cpuSlotSize", 1000),
        _amount(fields.get("memorySlotSize", GIBIBYTE), "memorySlotSize", 1),
    )
    selector = _mapping(fields.get("nodeSelector", {}), "nodeSelector")
    for label, value in selector.items():
        if not isinstance(value, str):
            raise _Wrong(f"nodeSelector.{label}", "must be a text")
    return VmConfig(
        slot=slot,
        defaults=_node(fields["nodeDefaults"], "nodeDefaults", slot),
        node_selector=tuple(sorted(selector.items())),
        overrides=tuple(
            _override(one, f"nodeOverrides[{index}]", slot)
            for index, one in enumerate(_list(fields.get("nodeOverrides", []), "nodeOverrides"))
        ),
    )


def _override(raw: object, path: str, slot: VmAmounts) -> NodeOverride:
    fields = _fields(raw, path, _OVERRIDE_FIELDS)
    nodes = _list(fields["nodes"], f"{path}.nodes")
    if not nodes:
        raise _Wrong(f"{path}.nodes", "must name at least one node")
    for index, node in enumerate(nodes):
        if not isinstance(node, str) or not node:
            raise _Wrong(f"{path}.nodes[{index}]", "must be the name of a node")
    return NodeOverride(tuple(nodes), _node(fields["config"], f"{path}.config", slot))


def _node(raw: object, path: str, slot: VmAmounts) -> NodeConfig:
    fields = _fields(raw, path, _NODE_FIELDS)
    unit = _fields(fields["computeUnit"], f"{path}.computeUnit", _UNIT_FIELDS)
    slots = unit["mem"]
    if isinstance(slots, bool) or not isinstance(slots, int) or slots < 1:
        raise _Wrong(f"{path}.computeUnit.mem", "must be a whole number of memory slots, at least 1")
    return NodeConfig(
        _resource(fields["cpu"], f"{path}.cpu", 1000),
        _resource(fields["memory"], f"{path}.memory", 1),
        VmAmounts(_amount(unit["vCPUs"], f"{path}.computeUnit.vCPUs", 1000), slots * slot.memory),
    )


def _resource(raw: object, path: str, scale: int) -> ResourceConfig:
    fields = _fields(raw, path, _RESOURCE_FIELDS)
    part = fields["watermark"]
    if isinstance(part, bool) or not isinstance(part, int | float) or not 0 < part <= 1:
        raise _Wrong(f"{path}.watermark", "must be above 0 and at most 1")
    watermark = max(1, int(Decimal(str(part)) * MILLIONTHS))
    return ResourceConfig(watermark, _amount(fields["system"], f"{path}.system", scale))


def _amount(raw: object, path: str, scale: int) -> int:
    """A quantity above 0, in whole units of 1/scale."""
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise _Wrong(path, "must be a quantity such as 1, 500m or 1Gi")
    try:
        exact = quantity(raw) * scale
    except ValueError as error:
        raise _Wrong(path, str(error)) from error
    if exact <= 0:
        raise _Wrong(path, "must be above 0")
    if exact != int(exact):
        raise _Wrong(path, "must be whole bytes" if scale == 1 else "must be whole thousandths of a core")
    return int(exact)


def _fields(raw: object, path: str, known: Mapping[str, bool]) -> Mapping[str, Any]:
    """The fields of an object: none unknown, none missing that is required."""
    fields = _mapping(raw, path or ".")
    for name in fields:
        if name not in known:
            raise _Wrong(f"{path}.{name}" if path else str(name), f"unknown field; known: {', '.join(known)}")
    for name, required in known.items():
        if required and name not in fields:
            raise _Wrong(f"{path}.{name}" if path else name, "is missing")
    return fields


def _mapping(raw: object, path: str) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise _Wrong(path, "must be an object")
    return raw


def _list(raw: object, path: str) -> list[Any]:
    if not isinstance(raw, list):
        raise _Wrong(path, "must be a list")
    return raw
