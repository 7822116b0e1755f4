"""Remedies of each reason, in the order in which they are offered. What a pool does for the pod comes first."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ullage.decide.explain import remedies_of_gpus as gpus
from ullage.decide.explain import remedies_of_nodes as nodes
from ullage.decide.explain import remedies_of_request as request
from ullage.decide.explain import remedies_of_room as room
from ullage.decide.explain.remedy import Case, Remedy
from ullage.model.verdict import Reason

Maker = Callable[[Case], Iterator[Remedy]]

OF_REASON: Mapping[Reason, tuple[Maker, ...]] = {
    Reason.NOT_THE_NODE_NAMED: (nodes.unnamed,),
    Reason.NODE_UNSCHEDULABLE: (nodes.uncordoned,),
    Reason.NODE_STARTING: (nodes.started,),
    Reason.NODE_NOT_READY: (nodes.made_ready,),
    Reason.TAINT_NOT_TOLERATED: (nodes.tolerating,),
    Reason.NODE_SELECTOR_MISMATCH: (nodes.labelled,),
    Reason.HOST_PORT_TAKEN: (room.ended, nodes.without_host_port),
    Reason.NODE_TOO_SMALL: (nodes.smaller,),
    Reason.TOO_MANY_PODS: (room.ended,),
    Reason.INSUFFICIENT_RESOURCES: (room.ended,),
    Reason.UNBOUNDED_CONTAINER: (nodes.bounded,),
    Reason.VM_INSUFFICIENT_ROOM: (room.ended,),
    Reason.VOLUME_NOT_READY: (nodes.with_ready_volumes,),
    Reason.VOLUME_ELSEWHERE: (room.near_volumes,),
    Reason.VOLUME_IN_USE: (room.ended,),
    Reason.SPREAD_KEY_MISSING: (nodes.with_spread_label,),
    Reason.SPREAD_TOO_UNEVEN: (nodes.softly_spread, room.ended),
    Reason.POD_AFFINITY_UNMET: (nodes.preferring_near,),
    Reason.POD_ANTI_AFFINITY: (room.more_nodes, nodes.preferring_away, room.ended),
    Reason.EXISTING_ANTI_AFFINITY: (room.more_nodes, room.ended),
    Reason.NO_GPUS: (),
    Reason.INVENTORY_MISSING: (gpus.agent_runs,),
    Reason.INVENTORY_STALE: (gpus.agent_back,),
    Reason.GPU_MODEL_MISMATCH: (gpus.other_model,),
    Reason.GPU_MEMORY_TOO_SMALL: (gpus.less_memory,),
    Reason.GPUS_UNHEALTHY: (gpus.repaired,),
    Reason.TOO_FEW_GPUS: (room.ended, gpus.fewer),
    Reason.PREFERRED_GPUS_TAKEN: (room.ended, gpus.other_ids),
    Reason.NO_ROOM_FOR_SHARE: (room.ended, gpus.less_memory, gpus.whole_gpu),
    Reason.NO_MIG_INSTANCE: (room.ended, gpus.smaller_instance),
    Reason.NO_ISLAND_LARGE_ENOUGH: (room.ended, gpus.any_topology),
    Reason.BANDWIDTH_TOO_LOW: (room.ended, gpus.slower),
    Reason.SCHEDULING_GATED: (request.ungated,),
    Reason.RESOURCE_CLAIMS: (request.by_claim_instead,),
    Reason.CLAIM_MISSING: (request.with_a_claim,),
    Reason.CLAIM_INVALID: (request.with_a_right_claim,),
    Reason.CLAIM_IN_USE: (request.with_its_own_claim,),
    Reason.VM_MISSING: (request.with_a_vm,),
    Reason.VM_AMOUNTS_INVALID: (request.with_right_amounts,),
    Reason.VM_SLOT_SIZE_MISMATCH: (request.with_right_slots,),
    Reason.GANG_SIZE_UNKNOWN: (request.with_a_gang_size,),
    Reason.QUOTA_EXCEEDED: (request.with_more_quota,),
    Reason.GANG_INCOMPLETE: (request.with_all_members, room.ended),
}
"""Remedies by reason. A reason that is not listed has none of its own: its advice stands in its ReasonInfo."""

ABOUT_THE_POD = frozenset(
    {
        Reason.SCHEDULING_GATED,
        Reason.RESOURCE_CLAIMS,
        Reason.CLAIM_MISSING,
        Reason.CLAIM_INVALID,
        Reason.CLAIM_IN_USE,
        Reason.VM_MISSING,
        Reason.VM_AMOUNTS_INVALID,
        Reason.VM_SLOT_SIZE_MISMATCH,
        Reason.GANG_SIZE_UNKNOWN,
        Reason.QUOTA_EXCEEDED,
    }
)
"""Reasons that neither another node nor a pool cures."""


def remedies(case: Case) -> Iterator[Remedy]:
    """Remedies for a waiting pod, the most promising first."""
    reason = case.obstacle.reason
    if reason in ABOUT_THE_POD:
        for maker in OF_REASON[reason]:
            yield from maker(case)
        return
    quota = next(request.with_more_quota(case), None) if case.assigner.closed(case.ready) is not None else None
    for remedy in _against_nodes(case):
        yield remedy if quota is None else _both(remedy, quota)


def _against_nodes(case: Case) -> Iterator[Remedy]:
    reason = case.obstacle.reason
    if reason is Reason.NODE_STARTING:
        yield from nodes.started(case)
    yield from room.bought(case)
    if reason is not None and reason is not Reason.NODE_STARTING:
        for maker in OF_REASON.get(reason, ()):
            yield from maker(case)
    yield from room.more_nodes(case)


def _both(one: Remedy, other: Remedy) -> Remedy:
    """Two things are in the way: neither remedy helps alone."""
    return replace(
        one,
        sentence=f"{one.sentence}; and {other.sentence}",
        commands=(*one.commands, *other.commands),
        changes=(*one.changes, *other.changes),
    )
