"""Pods without a claim that tolerate the taint of leased nodes: they are kept off them, or see no GPU there.

A leased GPU is kept from other pods by the env of their containers. A pod that requests GPUs without a claim would see
GPUs of other pods there, so no scheduler may choose a leased node for it. A pod that requests none does harm only by
its image: CUDA images ask for all GPUs by themselves, unless the pod's env says otherwise.
"""

from collections.abc import Iterator

from ullage.decide.admission.environment import NVIDIA
from ullage.model.admission import (
    AdmissionDenied,
    AdmissionPod,
    AvoidNodes,
    ContainerRole,
    DenialReason,
    EnvVar,
    PodChange,
    SetEnv,
)
from ullage.model.device import KIND_LABEL, GpuNodeKind

LEASED = GpuNodeKind.LEASED.value.lower()
NO_GPUS = EnvVar(NVIDIA, value="void")
"""NVIDIA's word for a container that gets no GPU."""


def changes(pod: AdmissionPod) -> Iterator[PodChange]:
    """Changes at CREATE of a pod without a claim; none for pods that the taint keeps off leased nodes."""
    if not pod.tolerates_leased or pod.keeps_off_leased:
        return
    if pod.asks_for_gpus:
        yield AvoidNodes(KIND_LABEL, LEASED)
        return
    yield from blinded(pod)


def blinded(pod: AdmissionPod) -> Iterator[PodChange]:
    """Changes that keep GPUs from the containers of a pod that may be placed on leased nodes."""
    for container in pod.containers:
        if container.spot.role is not ContainerRole.EPHEMERAL and all(one.name != NVIDIA for one in container.env):
            yield SetEnv(container.spot, (), (NO_GPUS,))


def warning(pod: AdmissionPod) -> str:
    """Warning for a pod that requests GPUs without a claim and tolerates the taint."""
    return f"{pod.key} names no claim, so it is kept off leased nodes, though it tolerates their taint"


def refusal(pod: AdmissionPod) -> AdmissionDenied | None:
    """Denial at CREATE, after all mutating webhooks; None if the pod is allowed."""
    if not pod.tolerates_leased or pod.keeps_off_leased or not pod.asks_for_gpus:
        return None
    words = f"{pod.key} tolerates the taint of leased nodes and names no claim: it would see GPUs of others there"
    return AdmissionDenied(DenialReason.LEASED_TOLERATED, words)
