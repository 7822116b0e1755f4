"""Admission settings that an operator chooses."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.admission import LEASED_TAINT, AdmissionPod
from ullage.model.lease import LEASE_NAMESPACE
from ullage.model.scoring import DEFAULT_SCHEDULER as GPU_SCHEDULER

DEFAULT_SCHEDULER = "default-scheduler"
"""Name Kubernetes fills in where a pod names no scheduler."""


class DeviceNaming(StrEnum):
    """Form in which the env of a container names its GPUs."""

    UUID = "uuid"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    """Scheduler names, scheduler identities, and the form in which containers name their GPUs."""

    schedulers: tuple[str, ...] = (GPU_SCHEDULER,)
    """Names our schedulers go by; pods that name none get the first."""
    identities: tuple[str, ...] = (f"system:serviceaccount:{LEASE_NAMESPACE}:ullage-scheduler",)
    """User names our schedulers write with."""
    visible_by: DeviceNaming = DeviceNaming.UUID
    taint: str = LEASED_TAINT
    unconfined: bool = False
    """Pods with claims may be privileged, mount the host's devices and the like."""
    controllers: tuple[str, ...] = (f"system:serviceaccount:{LEASE_NAMESPACE}:ullage-controller",)
    """User names our controllers write with: they alone may create smart pods that tolerate the taint."""

    def is_smart_pod(self, pod: AdmissionPod, user: str) -> bool:
        """True if the pod is a smart pod of our own controller. A user's pod with its labels is not."""
        return pod.smart and user in self.controllers

    def is_scheduler(self, user: str) -> bool:
        """True if this user is a scheduler, which may write GPU assignments."""
        return user in self.identities
