"""Settings of smart pods for Karpenter, and the type of value a NodePool mapping is. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ullage.config.compound_values import FieldsOf, MapOf, Texts
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
        gib = 1 << 30
        return f"{value // gib}Gi" if value and value % gib == 0 else value


NODE_POOL_FIELDS = FieldsOf(
    fields=(
        ("nodePool", "node_pool", Text()),
        ("gpuModel", "gpu_model", Text()),
        ("gpuMemory", "gpu_memory", Bytes()),
        ("tflops", "tflops", IntRange()),
        ("gpusPerNode", "gpus_per_node", IntRange(1, 16)),
        ("pricePerGpu", "price_per_gpu", Price()),
        ("labels", "labels", MapOf(Text(), "LABEL")),
        ("instanceTypes", "instance_types", Texts()),
        ("memoryFromVram", "memory_from_vram", Boolean()),
    ),
    needed=("nodePool", "gpuModel"),
)


@dataclass(frozen=True, slots=True)
class NodePools(ValueType[Mapping[str, NodePoolMapping]]):
    """NodePool mappings by a name of the operator's."""

    metavar = "JSON"

    @property
    def allowed(self) -> str:
        return f"NAME: {NODE_POOL_FIELDS.allowed}"

    def read(self, raw: Any) -> Mapping[str, NodePoolMapping]:
        found = MapOf(NODE_POOL_FIELDS).read(raw)
        return {name: NodePoolMapping(name=name, **fields) for name, fields in found.items()}

    def write(self, value: Mapping[str, NodePoolMapping]) -> Any:
        return {name: NODE_POOL_FIELDS.write(value[name]) for name in sorted(value)}


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterSettings:
    """Smart pods that make Karpenter buy nodes for GPU requests that nothing else serves: `ullage controller`."""

    flag_prefix: ClassVar[str] = "karpenter-"

    enabled: bool = setting(False, Boolean(), "Serve GPU requests through Karpenter.")
    node_pools: Mapping[str, NodePoolMapping] = setting(
        _NO_POOLS, NodePools(), "NodePools and the GPUs of their nodes. The cheapest that satisfies a claim is asked."
    )
    namespace: str = setting("tensor-fusion-system", Text(), "Namespace of smart pods.")
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
