"""Making a claim of its own for a pod that names a template."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.event import ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyClaim:
    """Make a claim for this very pod, as this template says."""

    pod: ObjectKey
    uid: str
    template: str
    template_uid: str
    generation: int
    """Of the template: two with the same uid and generation say the same."""


class NotCopying(StrEnum):
    """Why a pod has no claim of its own. The closed list: it labels the metric."""

    TEMPLATE_GONE = "TemplateGone"
    NAME_TAKEN = "NameTaken"
    API_FAILED = "ApiFailed"


@dataclass(frozen=True, slots=True)
class Copied:
    """The pod has its claim."""

    action: CopyClaim
    written: bool
    """False where it was there already."""


@dataclass(frozen=True, slots=True)
class NotCopied:
    """The pod has none of its own."""

    action: CopyClaim
    setback: NotCopying
    detail: str = ""


CopyOutcome = Copied | NotCopied
