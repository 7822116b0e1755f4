"""Description of a key on an object, for the reference of names."""

from dataclasses import dataclass
from enum import StrEnum


class NameKind(StrEnum):
    """Place of a key on an object."""

    LABEL = "label"
    ANNOTATION = "annotation"
    TAINT = "taint"
    FINALIZER = "finalizer"
    TAG = "tag in the cloud"


@dataclass(frozen=True, slots=True)
class ObjectName:
    """A key: what it is, on what, who writes it, what it says."""

    key: str
    kind: NameKind
    on: str
    writer: str
    meaning: str
