"""What an operator has decided about admission."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.admission import LEASED_TAINT

DEFAULT_SCHEDULER = "default-scheduler"
"""What Kubernetes fills in where a pod names no scheduler."""


class VisibleBy(StrEnum):
    """How a container names its GPUs."""

    UUID = "uuid"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    """Who is who, and how GPUs are shown."""

    schedulers: tuple[str, ...] = ("gpu-scheduler",)
    """Names our schedulers go by; pods that name none get the first."""
    identities: tuple[str, ...] = ("system:serviceaccount:ullage-system:ullage-scheduler",)
    """User names our schedulers write with."""
    visible_by: VisibleBy = VisibleBy.UUID
    taint: str = LEASED_TAINT

    def is_scheduler(self, user: str) -> bool:
        """Whether this user may say who has which GPU."""
        return user in self.identities
