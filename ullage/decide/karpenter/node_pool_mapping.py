"""Choose the NodePool for a capacity request: the cheapest mapping that satisfies it and may buy."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ullage.decide.placement.devices.gpu_models import is_model, tflops_of
from ullage.decide.placement.devices.requirements import gib, share_of
from ullage.model.admission import LEASED_TAINT
from ullage.model.claim import DeviceRequest, Exclusivity
from ullage.model.device import KIND_LABEL, MILLI_GPU
from ullage.model.intents import MarkNodePool
from ullage.model.karpenter import (
    HANDOVER,
    NODE_POOL_LABEL,
    REQUEST_LABEL,
    UNCLAIMED,
    CapacityRequest,
    NodePool,
    NodePoolMapping,
    Tristate,
)
from ullage.model.karpenter_failure import FailureReason, RequestFailure
from ullage.model.resources import GPU, MILLI
from ullage.model.shape_terms import tolerated
from ullage.model.units import Micros, Milli

NODES = "nodes"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Mapping to buy from, with the number of GPUs."""

    mapping: NodePoolMapping
    gpus: int
    """Whole GPUs of one node."""
    milli: Milli
    """Part of each GPU the request takes."""


def choose(
    request: CapacityRequest,
    mappings: Iterable[NodePoolMapping],
    pools: Mapping[str, NodePool],
    *,
    passed_over: Collection[str] = (),
    in_flight: Mapping[str, int] | None = None,
) -> Chosen | RequestFailure:
    """Choose the cheapest mapping. `passed_over`: mappings out of capacity. `in_flight`: GPUs requested per NodePool.

    For a VM without GPUs, NodePools without GPUs come first.
    The failure returned is that of the mapping that passed most checks; among equals, of the cheapest.
    """
    refusals: list[tuple[int, RequestFailure]] = []
    ordered = sorted(mappings, key=lambda one: (not request.ask.count and one.gpus_per_node > 0, *_price_order(one)))
    for mapping in ordered:
        if mapping.name in passed_over:
            refusals.append((4, RequestFailure(FailureReason.INSUFFICIENT_CAPACITY, f"{mapping.name} has no capacity")))
            continue
        answer = _suits(request.ask, mapping)
        if isinstance(answer, Chosen):
            gpus = (in_flight or {}).get(mapping.node_pool, 0) + answer.gpus
            refusal = may_buy(mapping, pools.get(mapping.node_pool), gpus) or _unfit(request, pools[mapping.node_pool])
            if refusal is None:
                return answer
            refusals.append((3, refusal))
        else:
            refusals.append(answer)
    if not refusals:
        return RequestFailure(FailureReason.NO_MAPPING, "karpenter.nodePools: no mapping is configured")
    best = max(rank for rank, _ in refusals)
    return next(refusal for rank, refusal in refusals if rank == best)


def _price_order(mapping: NodePoolMapping) -> tuple[bool, Micros, str]:
    return (mapping.price_per_gpu == 0, mapping.price_per_gpu, mapping.name)


def _suits(ask: DeviceRequest, mapping: NodePoolMapping) -> Chosen | tuple[int, RequestFailure]:
    """Return the choice if a new node of the mapping could serve the request; else the failure with its rank.

    The rank grows with the checks passed: GPU model, then memory and TFLOPS, then count.
    """
    where = f"karpenter.nodePools.{mapping.name}"
    if ask.count and not mapping.gpus_per_node:
        return -1, RequestFailure(FailureReason.NO_MAPPING, f"no mapping has GPUs for it: {where}.gpusPerNode is 0")
    if not is_model(mapping.gpu_model, ask.model):
        return 0, RequestFailure(
            FailureReason.NO_MAPPING,
            f"no mapping has GPU model {ask.model!r}: {where}.gpuModel is {mapping.gpu_model!r}",
        )
    if ask.exclusivity is Exclusivity.MIG:
        return 1, RequestFailure(FailureReason.NO_MAPPING, f"MIG instances asked, nodes of {where} come without any")
    if ask.memory > mapping.gpu_memory:
        has = gib(mapping.gpu_memory) if mapping.gpu_memory else "not set"
        return 1, RequestFailure(
            FailureReason.NO_MAPPING, f"{gib(ask.memory)} per GPU asked, {where}.gpuMemory is {has}"
        )
    tflops = mapping.tflops or tflops_of(mapping.gpu_model) or 0
    if ask.tflops > tflops:
        return 1, RequestFailure(
            FailureReason.NO_MAPPING, f"{ask.tflops} TFLOPs per GPU asked, {where}.tflops is {tflops or 'not set'}"
        )
    if ask.count > mapping.gpus_per_node:
        return 2, RequestFailure(
            FailureReason.LARGER_THAN_ANY_NODE,
            f"{ask.count} GPUs of one node asked, {where}.gpusPerNode is {mapping.gpus_per_node}",
        )
    milli = share_of(ask, mapping.gpu_memory, mapping.gpu_model) if ask.exclusivity is Exclusivity.SHARED else MILLI_GPU
    return Chosen(mapping, ask.count, Milli(min(milli, MILLI_GPU)))


def why_unavailable(mapping: NodePoolMapping, pool: NodePool | None) -> RequestFailure | None:
    """Return the failure of every request to the NodePool; None if it can serve requests."""
    name, where = mapping.node_pool, f"karpenter.nodePools.{mapping.name}.nodePool"
    if pool is None:
        return RequestFailure(FailureReason.NODE_POOL_NOT_FOUND, f"{where}: NodePool {name} does not exist")
    if pool.deleting:
        return RequestFailure(FailureReason.NODE_POOL_NOT_READY, f"{where}: NodePool {name} is being deleted")
    if pool.ready.status is Tristate.FALSE:
        said = ": ".join(word for word in (pool.ready.reason, pool.ready.message) if word)
        return RequestFailure(FailureReason.NODE_POOL_NOT_READY, f"{where}: NodePool {name} is not Ready ({said})")
    if not pool.has_request_key:
        return RequestFailure(
            FailureReason.NO_REQUEST_KEY,
            f"NodePool {name}: spec.template.spec.requirements needs {{key: {REQUEST_LABEL}, operator: Exists}}",
        )
    return None


def may_buy(mapping: NodePoolMapping, pool: NodePool | None, gpus: int) -> RequestFailure | None:
    """Return the failure of a request to the NodePool; None if it can serve it. `gpus` includes GPUs in flight."""
    unavailable = why_unavailable(mapping, pool)
    return unavailable if pool is None or unavailable is not None else _over_limits(pool, gpus)


def _over_limits(pool: NodePool, gpus: int) -> RequestFailure | None:
    name = pool.name
    used = pool.usage.get(GPU, 0) + gpus * MILLI
    if GPU in pool.limits and used > pool.limits[GPU]:
        return RequestFailure(
            FailureReason.NODE_POOL_LIMIT,
            f"NodePool {name}: spec.limits.{GPU} is {pool.limits[GPU] // MILLI}, {used // MILLI} would be used",
        )
    if NODES in pool.limits and pool.usage.get(NODES, 0) + MILLI > pool.limits[NODES]:
        return RequestFailure(
            FailureReason.NODE_POOL_LIMIT,
            f"NodePool {name}: spec.limits.nodes ({pool.limits[NODES] // MILLI}) is reached",
        )
    return None


def _unfit(request: CapacityRequest, pool: NodePool) -> RequestFailure | None:
    """Failure if the waiting pod would be refused by the nodes of the NodePool: their taints, or their kind.

    The smart pod tolerates more than the waiting pod: without this check its node would be bought in vain.
    """
    for taint in pool.taints:
        if taint.key not in (HANDOVER, LEASED_TAINT) and not tolerated(taint, request.tolerations):
            return RequestFailure(
                FailureReason.TAINT_NOT_TOLERATED,
                f"the pod does not tolerate taint {taint.key}:{taint.effect} of NodePool {pool.name}",
            )
    labels = {NODE_POOL_LABEL: pool.name, **pool.labels}
    if request.vm_nodes is not None and any(labels.get(key) != value for key, value in request.vm_nodes):
        return RequestFailure(
            FailureReason.INCOMPATIBLE, f"nodes of NodePool {pool.name} are not meant for VMs: nodeSelector of vm-nodes"
        )
    asked = dict(request.node_selector).get(KIND_LABEL, "").lower()
    kind = pool.labels.get(KIND_LABEL, "").lower()
    if asked and kind and asked != kind:
        return RequestFailure(
            FailureReason.INCOMPATIBLE, f"{KIND_LABEL}={asked} asked, NodePool {pool.name} makes {kind} nodes"
        )
    return None


UNPROTECTED = (
    "nodes are open to other schedulers before their hand-over; add the startup taint "
    f"{HANDOVER}={UNCLAIMED}:NoSchedule to spec.template.spec.startupTaints"
)


def mark_node_pools(mappings: Iterable[NodePoolMapping], pools: Mapping[str, NodePool]) -> Iterator[MarkNodePool]:
    """Conditions of mapped NodePools that differ from what the NodePools are."""
    for name in sorted({one.node_pool for one in mappings}):
        pool = pools.get(name)
        if pool is None or pool.deleting:
            continue
        is_open, told = not is_protected(pool), pool.unprotected.status is Tristate.TRUE
        if is_open != told:
            yield MarkNodePool(
                node_pool=name,
                uid=pool.uid,
                generation=pool.generation,
                unprotected=is_open,
                why=UNPROTECTED if is_open else "new nodes are closed from their first moment",
            )


def is_protected(pool: NodePool) -> bool:
    """True if new nodes are closed to other pods from the start, by the hand-over taint or by the leased taint."""
    return any(taint.key in (HANDOVER, LEASED_TAINT) for taint in (*pool.startup_taints, *pool.taints))


def scale_up_note(pool: str, *, for_vm: bool) -> str:
    """Words for those who wait: what is missing, and that it is bought."""
    if for_vm:
        return f"no node has room for the VM below its watermarks, auto-scaling triggered in pool {pool}"
    return f"insufficient GPU resources in pool {pool}, auto-scaling triggered"
