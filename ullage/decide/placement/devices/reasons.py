"""Reasons of device choice: cure, advice and words. The tests that give them are in `requirements` and `fit`."""

from ullage.decide.placement.devices.requirements import ask_of, gib
from ullage.decide.placement.filters.rule import (
    NodeRejections,
    ReasonInfo,
    RejectionAdviser,
    cure,
    says,
)
from ullage.model.claim import DevicePolicy
from ullage.model.pod import Pod
from ullage.model.verdict import ClusterEvent, CuredBy, Reason

_TAKEN = cure(ClusterEvent.POD_LEFT, ClusterEvent.INVENTORY_CHANGED, fewer_pods=True, another_node=True)
_UNFIT = cure(ClusterEvent.INVENTORY_CHANGED)
_BARE = cure(ClusterEvent.NODE_CHANGED, ClusterEvent.INVENTORY_CHANGED)


def _other_ids(_: RejectionAdviser, pod: Pod, rejection: NodeRejections) -> str:
    ask = ask_of(pod.shape)
    ids = ""
    if ask is not None and ask.policy is DevicePolicy.PREFER_IDS:
        ids = ",".join(map(str, ask.prefer_ids))
    return f"other preferIds than {ids}, or policy contiguous: {rejection.detail} on {rejection.example}"


def _share(_: RejectionAdviser, pod: Pod, rejection: NodeRejections) -> str:
    ask = ask_of(pod.shape)
    size = gib(ask.memory) if ask is not None and ask.memory else "a share that large"
    return f"a GPU with {size} free for sharing: {rejection.detail}"


def _instance(_: RejectionAdviser, pod: Pod, __: NodeRejections) -> str:
    ask = ask_of(pod.shape)
    return f"a free MIG instance with {gib(ask.memory)}" if ask is not None else ""


def _gpu_node(adviser: RejectionAdviser, pod: Pod, _: NodeRejections) -> str:
    return adviser.gpu_node(pod)


def _more_gpus(adviser: RejectionAdviser, pod: Pod, _: NodeRejections) -> str:
    return adviser.more_gpus(pod)


def _larger_island(adviser: RejectionAdviser, pod: Pod, _: NodeRejections) -> str:
    return adviser.larger_island(pod)


DEVICE_REASONS = (
    ReasonInfo(
        reason=Reason.NO_GPUS,
        cure=_BARE,
        words="The node has no GPUs.",
        advice=_gpu_node,
        headline="no node that could take it has GPUs",
        nearness=CuredBy.OTHER_NODES,
    ),
    ReasonInfo(
        reason=Reason.INVENTORY_MISSING,
        cure=_BARE,
        words="No agent has reported which GPUs the node has.",
        advice=says("run the GPU agent on {node}: {detail}"),
        headline="no agent reports the GPUs of the nodes that could take it",
        nearness=CuredBy.REPAIR,
    ),
    ReasonInfo(
        reason=Reason.INVENTORY_STALE,
        cure=_UNFIT,
        words="The node's agent has not reported its GPUs for too long.",
        advice=says("start the GPU agent of {node} again: {detail}"),
        headline="the agents of the nodes that could take it are silent",
        nearness=CuredBy.REPAIR,
    ),
    ReasonInfo(
        reason=Reason.GPU_MODEL_MISMATCH,
        cure=_UNFIT,
        words="No GPU of the node is of the model that the claim asks for.",
        advice=_gpu_node,
        headline="no node has GPUs of the model that it asks for",
        nearness=CuredBy.OTHER_NODES,
    ),
    ReasonInfo(
        reason=Reason.GPU_MEMORY_TOO_SMALL,
        cure=_UNFIT,
        words="No GPU of the node has as much memory as the claim asks for.",
        advice=_gpu_node,
        headline="no node has GPUs with as much memory as it asks for",
        nearness=CuredBy.OTHER_NODES,
    ),
    ReasonInfo(
        reason=Reason.GPUS_UNHEALTHY,
        cure=_UNFIT,
        words="Too few GPUs of the node that would do are healthy.",
        advice=says("repair the GPUs of {node}: {detail}"),
        headline="too few GPUs of the nodes that could take it are healthy",
        nearness=CuredBy.REPAIR,
    ),
    ReasonInfo(
        reason=Reason.TOO_FEW_GPUS,
        cure=_TAKEN,
        words="Fewer suitable GPUs are free on the node than the pod asks for.",
        advice=_more_gpus,
        headline="too few suitable GPUs are free",
        lasting_headline="no node has as many suitable GPUs as it asks for",
    ),
    ReasonInfo(
        reason=Reason.PREFERRED_GPUS_TAKEN,
        cure=_TAKEN,
        words="GPUs that the claim names in `preferIds` are taken.",
        advice=_other_ids,
        headline="the GPUs that it names in preferIds are taken",
        lasting_headline="no node has the GPUs that it names in preferIds",
    ),
    ReasonInfo(
        reason=Reason.NO_ROOM_FOR_SHARE,
        cure=_TAKEN,
        words="No GPU of the node has the share free that the claim asks for.",
        advice=_share,
        headline="no GPU has the share free that it asks for",
        lasting_headline="no node can give the share of a GPU that it asks for",
    ),
    ReasonInfo(
        reason=Reason.NO_MIG_INSTANCE,
        cure=_TAKEN,
        words="No MIG instance that is large enough is free on the node.",
        advice=_instance,
        headline="no MIG instance that is large enough is free",
        lasting_headline="no GPU has a MIG instance that is large enough",
    ),
    ReasonInfo(
        reason=Reason.NO_ISLAND_LARGE_ENOUGH,
        cure=_TAKEN,
        words="No NVLink island of the node has enough free GPUs.",
        advice=_larger_island,
        headline="no NVLink island has enough free GPUs",
        lasting_headline="no NVLink island is as large as it asks for",
    ),
    ReasonInfo(
        reason=Reason.BANDWIDTH_TOO_LOW,
        cure=_TAKEN,
        words="The free GPUs of the node are wired more slowly than the claim asks for.",
        advice=_gpu_node,
        headline="the GPUs that are free are wired more slowly than it asks for",
        lasting_headline="no GPUs are wired as fast as it asks for",
    ),
)
