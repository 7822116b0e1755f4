"""Records of the history: samples of the fleet, and changes. One JSON object a line, `t` tells which. Frozen."""

from enum import StrEnum

import msgspec

FORMAT = "ullage-history"
VERSION = 1


class ChangeSource(StrEnum):
    """Origin of a change. A closed list: the page filters by it."""

    DECISION = "decision"
    """An Event of one of our programs."""
    NODE = "node"
    GPU = "gpu"
    SETTINGS = "settings"
    """NodeProvisioner or quota: somebody changed what is wanted."""
    DASHBOARD = "dashboard"
    """The history itself: started, a gap, a clock that jumped."""


class _Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="t"):
    """Base of all records."""


class PoolSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Nodes and GPUs of one pool."""

    name: str
    """Empty for nodes of no pool."""
    nodes: int = 0
    gpus: int = 0
    allocated: float = 0.0
    broken: int = 0
    target: int | None = None


class QueueSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Waiting pods of one workload and reason."""

    namespace: str
    workload: str
    reason: str = ""
    count: int
    gpus: int = 0


class FleetSample(_Record, frozen=True, kw_only=True, tag="sample"):
    """The fleet over one span: means of the figures, pools and queue as they were at its end."""

    at: float
    """Start of the span."""
    width: float
    nodes: float = 0.0
    gpus: float = 0.0
    allocated: float = 0.0
    broken: float = 0.0
    pending: float = 0.0
    pending_gpus: float = 0.0
    price: float = 0.0
    waste: float = 0.0
    pools: tuple[PoolSample, ...] = ()
    queue: tuple[QueueSample, ...] = ()
    more_pools: int = 0
    more_groups: int = 0
    """Pools and groups of waiting pods that were left out."""
    left_out: dict[str, int] = {}
    """Changes of this span that are not kept one by one, by reason."""


FIGURES = ("nodes", "gpus", "allocated", "broken", "pending", "pending_gpus", "price", "waste")
"""Fields of a sample that are means, and are merged as such."""


class Change(_Record, frozen=True, kw_only=True, tag="change"):
    """Something that changed: a decision, a node that came or went, a setting."""

    at: float
    source: ChangeSource
    reason: str
    """One word: the Event's reason, or what happened."""
    kind: str = ""
    about: str = ""
    note: str = ""
    warning: bool = False
    by: str = ""
    count: int = 1
    """Times an Event was announced, from `first` to `at`."""
    first: float | None = None
    """First announcement; None if it is not known or the only one."""
    key: str = ""
    """Name of the Event: another record of the same name is its repetition."""


HistoryRecord = FleetSample | Change


class HistoryHeader(msgspec.Struct, frozen=True, kw_only=True):
    """First line of a history."""

    format: str
    version: int


_DECODER = msgspec.json.Decoder(FleetSample | Change)
_HEADER = msgspec.json.Decoder(HistoryHeader)
_ENCODER = msgspec.json.Encoder()
HEADER = _ENCODER.encode(HistoryHeader(format=FORMAT, version=VERSION)) + b"\n"


def written(record: HistoryRecord) -> bytes:
    """Line of a record."""
    return _ENCODER.encode(record) + b"\n"


def read(line: bytes) -> HistoryRecord:
    """Record of a line. Raises msgspec.DecodeError."""
    found: HistoryRecord = _DECODER.decode(line)
    return found


def read_header(line: bytes) -> HistoryHeader | None:
    """Header of a history of any version; None for any other file."""
    try:
        found = _HEADER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if found.format == FORMAT else None
