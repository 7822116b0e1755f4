"""Shape of a pod: the fields placement uses, and no others. Pods of one shape fit the same nodes.

Priority, age, name and owner are not part of it. Labels and namespace are part of it only where the shape's own rules
about other pods look at them, and then only the labels those rules name: a thousand pods of one workload have one
shape.

One rule cannot be seen from a shape: anti-affinity of placed pods may match a pod by the labels the shape leaves out.
Code that checks this rule must look at the pod.
"""

import weakref
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from ullage.model.claim import DeviceRequest, Exclusivity
from ullage.model.resources import GPU, MILLI
from ullage.model.shape_terms import (
    ClaimUse,
    HostPort,
    NodeTerm,
    Pairs,
    PodTerm,
    ShapePart,
    SpreadConstraint,
    Toleration,
    WeightedNodeTerm,
    WeightedPodTerm,
)
from ullage.model.vm import VmAmounts


class Shape(ShapePart, frozen=True, gc=True, kw_only=True, cache_hash=True, weakref=True):
    """Fields of a pod that decide on which nodes it fits. Hashable; equal shapes are one object after `interned`."""

    requests: tuple[tuple[str, int], ...] = ()
    """Requests that must be free on the node, in thousandths, sorted by name. Each pod takes one pod slot too."""
    scored_cpu: int = 0
    scored_memory: int = 0
    """Requests for scoring only, as is `scored_cpu`: containers without requests count as 100m of cpu and 200 MiB."""
    node_name: str = ""
    """Node the pod's spec asks for. The node of a bound pod is a fact of the pod: here it would multiply shapes."""
    node_selector: Pairs = ()
    node_affinity: tuple[NodeTerm, ...] | None = None
    """Alternatives, one of which must hold. None requires nothing; an empty tuple cannot be satisfied."""
    preferred_nodes: tuple[WeightedNodeTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    near: tuple[PodTerm, ...] = ()
    """Required pod affinity: all terms must hold."""
    away: tuple[PodTerm, ...] = ()
    """Required pod anti-affinity."""
    preferred_pods: tuple[WeightedPodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    claims: tuple[ClaimUse, ...] = ()
    images: tuple[str, ...] = ()
    """Images of every container and image volume, with the tag spelled out, sorted; twice if used twice."""
    containers: int = 0
    devices: DeviceRequest | None = None
    unbounded: bool = False
    """A container says neither request nor limit of cpu or of memory."""
    vm: VmAmounts | None = None
    """Room a VM pod needs in the VM ledger of its node. Set by the scheduler; None for ordinary pods."""
    vm_elsewhere: tuple[str, ...] = ()
    """Nodes with another pod of its VM: a migration leads away from them."""
    vm_watermark: bool = False
    """A VM pod that is supposed to be moved here or there: it fits below watermarks only."""
    namespace: str = ""
    labels: Pairs = ()
    """Set only where `near`, `spread` or the like look at them; see `looks_at_itself`."""

    @property
    def looks_at_itself(self) -> bool:
        """True if a rule of this shape may select the pod itself."""
        return bool(self.near or self.away or self.preferred_pods or self.spread)


_KNOWN: "weakref.WeakKeyDictionary[Shape, weakref.ref[Shape]]" = weakref.WeakKeyDictionary()


def interned(shape: Shape) -> Shape:
    """Canonical object of all shapes equal to this one, for as long as it is referenced."""
    known = _KNOWN.get(shape)
    one = None if known is None else known()
    if one is None:
        _KNOWN[shape] = weakref.ref(shape)
        return shape
    return one


def own_labels(labels: Mapping[str, str], keys: Iterable[str]) -> Pairs:
    """Labels a shape keeps: those its own rules name."""
    return tuple((key, labels[key]) for key in sorted(set(keys)) if key in labels)


@lru_cache(maxsize=4096)  # asked again with every attempt to place a pod
def asking_for(shape: Shape, ask: DeviceRequest, node_labels: Pairs = ()) -> Shape:
    """Shape of a pod with a claim: it needs these devices, on a node with these labels.

    Its need of whole GPUs is the larger of its request and the claim's count. Parts of GPUs are no whole ones: a node
    with one GPU has room for as many shares as fit on it, so they are counted on the devices alone.
    """
    requests = dict(shape.requests)
    if ask.exclusivity is Exclusivity.EXCLUSIVE:
        count = max(-(-requests.get(GPU, 0) // MILLI), ask.count)
        requests[GPU] = max(requests.get(GPU, 0), count * MILLI)
        ask = msgspec.structs.replace(ask, count=count)
    return interned(
        msgspec.structs.replace(
            shape,
            devices=ask,
            requests=tuple(sorted(requests.items())),
            node_selector=tuple(sorted({*shape.node_selector, *node_labels})),
        )
    )
