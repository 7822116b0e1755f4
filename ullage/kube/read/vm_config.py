"""Node configuration of VMs: the JSON document in its ConfigMap, read strictly.

A document that is wrong is refused with the field that is wrong. Which configuration is in force is not known here.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from ullage.kube.objects.config_map import KubeConfigMap
from ullage.model.fact_event import ObjectKey
from ullage.model.quantity import quantity
from ullage.model.vm import VmAmounts
from ullage.model.vm_config import (
    MILLIONTHS,
    ConfigRefusal,
    NodeConfig,
    NodeOverride,
    ResourceConfig,
    VmConfig,
    VmNodesDocument,
)

CONFIG_MAP = "vm-nodes"
"""Name of the ConfigMap, in the namespace of the scheduler."""
CONFIG_KEY = "config.json"
GIBIBYTE = 1 << 30


class _Wrong(ValueError):
    """A field that cannot be read."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.refusal = ConfigRefusal(field, message)


def read_vm_nodes(raw: KubeConfigMap) -> VmNodesDocument:
    """The ConfigMap's document. One that is wrong is a fact, too."""
    key = ObjectKey(raw.metadata.namespace, raw.metadata.name)
    read = read_config_text(raw.data.get(CONFIG_KEY))
    if isinstance(read, ConfigRefusal):
        return VmNodesDocument(key=key, refusal=read)
    return VmNodesDocument(key=key, config=read)


def read_config_text(text: str | None) -> VmConfig | ConfigRefusal:
    """The configuration in a text; None where the ConfigMap has no such key."""
    if text is None:
        return ConfigRefusal(CONFIG_KEY, "is missing")
    try:
        raw = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return ConfigRefusal(CONFIG_KEY, f"is not JSON: {error}")
    return read_config(raw)


def read_config(raw: object) -> VmConfig | ConfigRefusal:
    """The configuration in a decoded JSON document."""
    try:
        return _config(_fields(raw, "", _CONFIG_FIELDS))
    except _Wrong as wrong:
        return wrong.refusal


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
