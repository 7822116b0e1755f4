"""Reasons of device choice: cure, advice and words. The tests that give them are in `requirements` and `fit`."""

from ullage.decide.placement.devices.requirements import ask_of, gib
from ullage.decide.placement.filters.rule import (
    Advice,
    NodeRejections,
    ReasonInfo,
    RejectionAdviser,
    cure,
    says,
)
from ullage.model.claim import DevicePolicy
from ullage.model.pod import Pod
from ullage.model.verdict import ClusterEvent, Reason

_TAKEN = cure(ClusterEvent.POD_LEFT, ClusterEvent.INVENTORY_CHANGED, fewer_pods=True, another_node=True)
_UNFIT = cure(ClusterEvent.INVENTORY_CHANGED)


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


_STALE = says("start the GPU agent of {node} again: {detail}")
_ILL = says("repair the GPUs of {node}: {detail}")

_WORDS: tuple[tuple[Reason, str, Advice], ...] = (
    (Reason.INVENTORY_STALE, "The node's agent has not reported its GPUs for too long.", _STALE),
    (Reason.GPU_MODEL_MISMATCH, "No GPU of the node is of the model that the claim asks for.", _gpu_node),
    (Reason.GPU_MEMORY_TOO_SMALL, "No GPU of the node has as much memory as the claim asks for.", _gpu_node),
    (Reason.GPUS_UNHEALTHY, "Too few GPUs of the node that would do are healthy.", _ILL),
)
_WORDS_OF_TAKEN: tuple[tuple[Reason, str, Advice], ...] = (
    (Reason.TOO_FEW_GPUS, "Fewer suitable GPUs are free on the node than the pod asks for.", _more_gpus),
    (Reason.PREFERRED_GPUS_TAKEN, "GPUs that the claim names in `preferIds` are taken.", _other_ids),
    (Reason.NO_ROOM_FOR_SHARE, "No GPU of the node has the share free that the claim asks for.", _share),
    (Reason.NO_MIG_INSTANCE, "No MIG instance that is large enough is free on the node.", _instance),
    (Reason.NO_ISLAND_LARGE_ENOUGH, "No NVLink island of the node has enough free GPUs.", _larger_island),
    (Reason.BANDWIDTH_TOO_LOW, "The free GPUs of the node are wired more slowly than the claim asks for.", _gpu_node),
)

DEVICE_REASONS = (
    ReasonInfo(
        reason=Reason.NO_GPUS,
        cure=cure(ClusterEvent.NODE_CHANGED, ClusterEvent.INVENTORY_CHANGED),
        words="The node has no GPUs.",
        advice=_gpu_node,
    ),
    *(ReasonInfo(reason=reason, cure=_UNFIT, words=words, advice=advice) for reason, words, advice in _WORDS),
    *(ReasonInfo(reason=reason, cure=_TAKEN, words=words, advice=advice) for reason, words, advice in _WORDS_OF_TAKEN),
)
