"""Settings of smart pods for Karpenter, and the kind of value a NodePool mapping is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ullage.config.declaration import setting
from ullage.config.values import Boolean, Duration, IntRange, MapOf, Price, Text, ValueType, meant, spoken
from ullage.decide.karpenter.policy import DEFAULT_DEADLINES, KarpenterPolicy
from ullage.model.karpenter import NodePoolMapping
from ullage.model.lifecycles import SmartPodState as S
from ullage.model.quantity import quantity
from ullage.model.units import Seconds

_USUAL = KarpenterPolicy()
_NO_POOLS: Mapping[str, NodePoolMapping] = {}


@dataclass(frozen=True, slots=True)
class Bytes(ValueType[int]):
    """An amount of memory."""

    @property
    def allowed(self) -> str:
        return "an amount of memory such as 80Gi"

    def read(self, raw: Any) -> int:
        try:
            amount = quantity(raw) if isinstance(raw, str | int) and not isinstance(raw, bool) else None
        except ValueError:
            amount = None
        if amount is None or amount < 0:
            raise ValueError(f"is {spoken(raw)}; allowed: {self.allowed}")
        return int(amount)

    def write(self, value: int) -> Any:
        gib = 1 << 30
        return f"{value // gib}Gi" if value and value % gib == 0 else value


@dataclass(frozen=True, slots=True)
class Texts(ValueType[tuple[str, ...]]):
    """A list of texts."""

    @property
    def allowed(self) -> str:
        return "a list of texts"

    def read(self, raw: Any) -> tuple[str, ...]:
        if not isinstance(raw, list | tuple) or not all(isinstance(one, str) and one for one in raw):
            raise ValueError(f"is {spoken(raw)}; allowed: {self.allowed}")
        return tuple(raw)

    def write(self, value: tuple[str, ...]) -> Any:
        return list(value)


_FIELDS: Mapping[str, tuple[str, ValueType[Any]]] = {
    "nodePool": ("node_pool", Text()),
    "gpuModel": ("gpu_model", Text()),
    "gpuMemory": ("gpu_memory", Bytes()),
    "tflops": ("tflops", IntRange()),
    "gpusPerNode": ("gpus_per_node", IntRange(1, 16)),
    "pricePerGpu": ("price_per_gpu", Price()),
    "labels": ("labels", MapOf(Text(), "LABEL")),
    "instanceTypes": ("instance_types", Texts()),
    "memoryFromVram": ("memory_from_vram", Boolean()),
}
_NEEDED = ("nodePool", "gpuModel")


@dataclass(frozen=True, slots=True)
class NodePools(ValueType[Mapping[str, NodePoolMapping]]):
    """NodePool mappings by a name of the operator's."""

    @property
    def allowed(self) -> str:
        return f"NAME: {{{', '.join(_FIELDS)}}}, of which {' and '.join(_NEEDED)} are needed"

    def read(self, raw: Any) -> Mapping[str, NodePoolMapping]:
        if not isinstance(raw, Mapping):
            raise ValueError(f"is {spoken(raw)}; allowed: {self.allowed}")
        return {str(name): _mapping(str(name), value) for name, value in raw.items()}

    def write(self, value: Mapping[str, NodePoolMapping]) -> Any:
        return {
            name: {said: kind.write(getattr(value[name], attribute)) for said, (attribute, kind) in _FIELDS.items()}
            for name in sorted(value)
        }


def _mapping(name: str, raw: Any) -> NodePoolMapping:
    if not isinstance(raw, Mapping):
        raise ValueError(f"{name}: is {spoken(raw)}; allowed: a mapping with {', '.join(_FIELDS)}")
    for needed in _NEEDED:
        if needed not in raw:
            raise ValueError(f"{name}.{needed}: is missing")
    found: dict[str, Any] = {}
    for said, value in raw.items():
        if said not in _FIELDS:
            near = meant(str(said), tuple(_FIELDS))
            raise ValueError(f"{name}.{said}: there is no such field; allowed: {', '.join(_FIELDS)}{near}")
        attribute, kind = _FIELDS[said]
        try:
            found[attribute] = kind.read(value)
        except ValueError as error:
            raise ValueError(f"{name}.{said}: {error}") from error
    return NodePoolMapping(name=name, **found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Karpenter:
    """Smart pods that make Karpenter buy nodes for GPU requests that nothing else serves: `ullage controller`."""

    enabled: bool = setting(False, Boolean(), "Serve GPU requests through Karpenter.")
    node_pools: Mapping[str, NodePoolMapping] = setting(
        _NO_POOLS, NodePools(), "NodePools and the GPUs of their nodes. The cheapest that satisfies a claim is asked."
    )
    namespace: str = setting(_USUAL.namespace, Text(), "Where smart pods are created.")
    image: str = setting(_USUAL.image, Text(), "Image of the one container of a smart pod, which does nothing.")
    priority_class: str = setting(_USUAL.priority_class, Text(), "PriorityClass of smart pods. Its value should be 0.")
    batch_window: float = setting(
        _USUAL.batch_window, Duration(), "How long requests are collected before they go out."
    )
    max_in_flight: int = setting(_USUAL.max_in_flight, IntRange(1, 1000), "Smart pods that exist at the same time.")
    max_retry_attempts: int = setting(
        _USUAL.max_retry_attempts,
        IntRange(1, 100),
        "NodeClaims lost for want of capacity before another NodePool is asked.",
    )
    cleanup_interval: float = setting(
        60.0, Duration(1.0), "The longest time until every smart pod is looked at again without news."
    )
    first_backoff: float = setting(
        _USUAL.first_backoff, Duration(0.1), "Pause after the first failed attempt; doubles."
    )
    longest_backoff: float = setting(_USUAL.longest_backoff, Duration(1.0), "The longest pause between two attempts.")
    pending_deadline: float = setting(
        float(DEFAULT_DEADLINES[S.PENDING]), Duration(1.0), "How long a smart pod may wait for its NodeClaim."
    )
    launch_deadline: float = setting(
        float(DEFAULT_DEADLINES[S.NOMINATED]), Duration(1.0), "How long a NodeClaim may take to be launched."
    )
    registration_deadline: float = setting(
        float(DEFAULT_DEADLINES[S.LAUNCHED]), Duration(1.0), "How long a launched node may take to join the cluster."
    )
    initialization_deadline: float = setting(
        float(DEFAULT_DEADLINES[S.REGISTERED]), Duration(1.0), "How long a node may take to be Ready with its GPUs."
    )
    inventory_deadline: float = setting(
        float(DEFAULT_DEADLINES[S.INITIALIZED]), Duration(1.0), "How long a node's agent may take to report its GPUs."
    )
    gang_deadline: float = setting(
        float(DEFAULT_DEADLINES[S.INVENTORY_READY]), Duration(1.0), "How long a gang's first node waits for its last."
    )
    handover_deadline: float = setting(
        float(DEFAULT_DEADLINES[S.RESERVED]), Duration(1.0), "How long each half of a hand-over may take."
    )

    def policy(self) -> KarpenterPolicy:
        """Return these settings as the core's policy."""
        deadlines = (
            self.pending_deadline,
            self.launch_deadline,
            self.registration_deadline,
            self.initialization_deadline,
            self.inventory_deadline,
            self.gang_deadline,
            self.handover_deadline,
            self.handover_deadline,
        )
        return KarpenterPolicy(
            mappings=tuple(self.node_pools[name] for name in sorted(self.node_pools)),
            namespace=self.namespace,
            image=self.image,
            priority_class=self.priority_class,
            batch_window=self.batch_window,
            max_in_flight=self.max_in_flight,
            max_retry_attempts=self.max_retry_attempts,
            first_backoff=self.first_backoff,
            longest_backoff=self.longest_backoff,
            deadlines=dict(zip(DEFAULT_DEADLINES, map(Seconds, deadlines), strict=True)),
        )
