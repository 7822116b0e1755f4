"""Settings of smart pods for Karpenter, and the type of value a NodePool mapping is. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ullage.config.compound_values import FieldsOf, MapOf, NestedValueError, Texts
from ullage.config.declaration import setting
from ullage.config.values import Boolean, Duration, IntRange, Price, Text, ValueType
from ullage.model.karpenter import NodePoolMapping
from ullage.model.quantity import quantity
from ullage.model.units import Seconds

_NO_POOLS: Mapping[str, NodePoolMapping] = {}


@dataclass(frozen=True, slots=True)
class Bytes(ValueType[int]):
    """An amount of memory."""

    metavar = "AMOUNT"

    @property
    def allowed(self) -> str:
        return "an amount of memory such as 80Gi"

    def read(self, raw: Any) -> int:
        try:
            amount = quantity(raw) if isinstance(raw, str | int) and not isinstance(raw, bool) else None
        except ValueError:
            amount = None
        if amount is None or amount < 0:
            raise self.refuse(raw)
        return int(amount)

    def write(self, value: int) -> Any:
        for size, unit in ((1 << 30, "Gi"), (1 << 20, "Mi")):
            if value and value % size == 0:
                return f"{value // size}{unit}"
        return value


@dataclass(frozen=True, slots=True)
class ShortText(ValueType[str]):
    """A text of limited length that may have to match a pattern."""

    longest: int
    what: str
    pattern: str = ".+"
    metavar = "TEXT"

    @property
    def allowed(self) -> str:
        return f"{self.what}, at most {self.longest} characters"

    def read(self, raw: Any) -> str:
        if not isinstance(raw, str) or len(raw) > self.longest or not re.fullmatch(self.pattern, raw):
            raise self.refuse(raw)
        return raw

    def parse(self, text: str) -> str:
        return self.read(text)


_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
NODE_POOL_NAME = ShortText(253, "a name of lower case letters, digits, dashes and dots", rf"{_PART}(\.{_PART})*")
NAMESPACE_NAME = ShortText(63, "a name of lower case letters, digits and dashes", _PART)
GPU_MODEL = ShortText(128, "a GPU model such as NVIDIA A100-SXM4-80GB", r".*\S.*")
"""As long as the model of a GpuClaim may be: a longer one would match none."""

_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_NAME = ShortText(317, "a label such as example.com/team", rf"({_PART}(\.{_PART})*/)?{_NAME}")
_LABEL_VALUE = ShortText(63, "a label's value: letters, digits, dashes, dots and underscores", rf"({_NAME})?")


@dataclass(frozen=True, slots=True)
class NodeLabels(MapOf[str]):
    """Labels of nodes: names and values that the API server takes."""

    def read(self, raw: Any) -> Mapping[str, str]:
        found = MapOf.read(self, raw)
        for name in found:
            try:
                _LABEL_NAME.read(name)
            except ValueError as error:
                raise NestedValueError(name, error) from error
        return found


NODE_POOL_FIELDS = FieldsOf(
    fields=(
        ("nodePool", "node_pool", NODE_POOL_NAME),
        ("gpuModel", "gpu_model", GPU_MODEL),
        ("gpuMemory", "gpu_memory", Bytes()),
        ("tflops", "tflops", IntRange()),
        ("gpusPerNode", "gpus_per_node", IntRange(0, 16)),
        ("pricePerGpu", "price_per_gpu", Price()),
        ("labels", "labels", NodeLabels(_LABEL_VALUE, "LABEL")),
        ("instanceTypes", "instance_types", Texts()),
        ("memoryFromVram", "memory_from_vram", Boolean()),
    ),
    needed=("nodePool",),
)
_OF_GPUS = ("gpuModel", "gpuMemory", "tflops", "pricePerGpu", "memoryFromVram")
"""Fields that say what the GPUs of a NodePool are: it has them, or says `gpusPerNode: 0`."""


@dataclass(frozen=True, slots=True)
class NodePools(ValueType[Mapping[str, NodePoolMapping]]):
    """NodePool mappings by a name of the operator's."""

    metavar = "JSON"

    @property
    def allowed(self) -> str:
        return f"NAME: {NODE_POOL_FIELDS.allowed}, and gpuModel unless gpusPerNode is 0"

    def read(self, raw: Any) -> Mapping[str, NodePoolMapping]:
        found = MapOf(NODE_POOL_FIELDS).read(raw)
        for name, fields in found.items():
            try:
                _check_gpus(fields)
            except ValueError as error:
                raise NestedValueError(name, error) from error
        return {name: NodePoolMapping(name=name, **fields) for name, fields in found.items()}

    def write(self, value: Mapping[str, NodePoolMapping]) -> Any:
        found = {name: NODE_POOL_FIELDS.write(value[name]) for name in sorted(value)}
        for name, fields in found.items():
            if not value[name].gpus_per_node:
                found[name] = {field: said for field, said in fields.items() if field not in _OF_GPUS}
        return found


def _check_gpus(fields: Mapping[str, Any]) -> None:
    """Raise if a mapping with GPUs has no model, or one without GPUs says what they are."""
    if fields.get("gpus_per_node", 1):
        if "gpu_model" not in fields:
            raise NestedValueError("gpuModel", ValueError("is missing; nodes without GPUs say gpusPerNode: 0"))
        return
    for name, attribute, _ in NODE_POOL_FIELDS.fields:
        if name in _OF_GPUS and fields.get(attribute):
            raise NestedValueError(name, ValueError("is set, and gpusPerNode is 0: these nodes have no GPUs"))


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterSettings:
    """Smart pods that make Karpenter buy nodes for GPU requests that nothing else serves: `ullage controller`."""

    flag_prefix: ClassVar[str] = "karpenter-"

    enabled: bool = setting(False, Boolean(), "Serve GPU requests through Karpenter.")
    node_pools: Mapping[str, NodePoolMapping] = setting(
        _NO_POOLS, NodePools(), "NodePools and the GPUs of their nodes. The cheapest that satisfies a claim is asked."
    )
    namespace: str = setting("tensor-fusion-system", NAMESPACE_NAME, "Namespace of smart pods.")
    image: str = setting("pause:3.9", Text(), "Image of the one container of a smart pod, which does nothing.")
    priority_class: str = setting("ullage-smart-pod", Text(), "PriorityClass of smart pods. Its value should be 0.")
    batch_window: Seconds = setting(Seconds(0.2), Duration(), "Time requests are collected before they go out.")
    max_in_flight: int = setting(15, IntRange(1, 1000), "Smart pods that exist at the same time.")
    max_retry_attempts: int = setting(
        3,
        IntRange(1, 100),
        "NodeClaims lost for want of capacity before another NodePool is asked.",
    )
    cleanup_interval: Seconds = setting(
        Seconds(60.0), Duration(1.0), "The longest time until every smart pod is looked at again without news."
    )
    initial_backoff: Seconds = setting(Seconds(10.0), Duration(0.1), "Pause after the first failed attempt; doubles.")
    max_backoff: Seconds = setting(Seconds(300.0), Duration(1.0), "The longest pause between two attempts.")
    pending_deadline: Seconds = setting(
        Seconds(120.0), Duration(1.0), "Longest time a smart pod waits for its NodeClaim."
    )
    launch_deadline: Seconds = setting(Seconds(360.0), Duration(1.0), "Longest time until a NodeClaim is launched.")
    registration_deadline: Seconds = setting(
        Seconds(960.0), Duration(1.0), "Longest time until a launched node joins the cluster."
    )
    initialization_deadline: Seconds = setting(
        Seconds(600.0), Duration(1.0), "Longest time until a joined node is Ready with its GPUs."
    )
    inventory_deadline: Seconds = setting(
        Seconds(300.0), Duration(1.0), "Longest time until a node's agent reports its GPUs."
    )
    gang_deadline: Seconds = setting(
        Seconds(1200.0), Duration(1.0), "Longest time a gang's first node waits for its last."
    )
    handover_deadline: Seconds = setting(Seconds(60.0), Duration(1.0), "Longest time of each half of a hand-over.")
