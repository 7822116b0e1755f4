"""One ReasonInfo per Reason, gathered from the families that declare them, and the page printed from them."""

from collections.abc import Iterable, Mapping

from ullage.decide.placement.devices.reasons import DEVICE_REASONS
from ullage.decide.placement.filters.rule import ClusterRule, FilterRule, Reads, ReasonInfo
from ullage.decide.placement.filters.rules import CLUSTER_RULES, ROW_RULES
from ullage.decide.placement.prefilter import POD_REASONS
from ullage.model.verdict import Cure, CuredBy, Reason

DECLARED: tuple[ReasonInfo, ...] = (*ROW_RULES, *CLUSTER_RULES, *DEVICE_REASONS, *POD_REASONS)
"""Every declaration there is. A test asks for exactly one per Reason but FITS."""

REASON_INFO: Mapping[Reason, ReasonInfo] = {info.reason: info for info in DECLARED}

CURES: Mapping[Reason, Cure] = {reason: info.cure for reason, info in REASON_INFO.items()}

_CURED_BY: Mapping[CuredBy, str] = {
    CuredBy.TIME: "time",
    CuredBy.LIMIT: "a higher limit",
    CuredBy.ROOM: "pods that leave",
    CuredBy.REPAIR: "repair",
    CuredBy.REQUEST: "another request",
    CuredBy.CHOICE: "another choice of nodes",
    CuredBy.OTHER_NODES: "other nodes",
}

_READ = {Reads.NODE: "node", Reads.ROW: "node and its pods"}


def reasons_page() -> str:
    """Reasons as a page: docs/generated/reasons.md."""
    lines = [
        "# Reasons why a pod does not go on a node",
        "",
        "Generated from the rules by `make format`; do not edit. The first rule that rejects a node gives its reason,",
        "in the order of this page. The same word labels the metric, the Event, `ullage explain` and the dashboard.",
        "",
        "*Preemption*: taking pods off the node can help. *New node*: an empty node like this one can help. *Tried",
        "again on*: cluster events that move a refused pod back to the queue.",
        "",
        "*Cured by* ranks the reasons, the nearest cure first: " + ", ".join(_CURED_BY.values()) + ". A node",
        "is as far from taking a pod as the worst of all its reasons, not only of the first; the nearest nodes",
        "say why the pod waits. A reason of GPUs that an empty node would give as well counts as *other nodes*.",
    ]
    sections = (
        ("Filters of one node", ROW_RULES),
        ("Filters that look at other nodes", CLUSTER_RULES),
        ("GPUs of the node", DEVICE_REASONS),
        ("The pod itself", POD_REASONS),
    )
    for title, infos in sections:
        lines += ["", f"## {title}", "", *_table(infos)]
    return "\n".join(lines) + "\n"


def _table(infos: Iterable[ReasonInfo]) -> list[str]:
    head = [
        "| Reason | Meaning | Cured by | Reads | Preemption | New node | Tried again on |",
        "|---|---|---|---|---|---|---|",
    ]
    return head + [_line(info) for info in infos]


def _line(info: ReasonInfo) -> str:
    reads = "cluster" if isinstance(info, ClusterRule) else ""
    if isinstance(info, FilterRule):
        reads = _READ[info.reads]
    cure = info.cure
    events = ", ".join(sorted(event.value for event in cure.wakes_on)) or "its own change"
    marks = ("yes" if cure.fewer_pods else "", "yes" if cure.another_node else "")
    cured_by = _CURED_BY[info.cured_by]
    return f"| `{info.reason.value}` | {info.words} | {cured_by} | {reads} | {marks[0]} | {marks[1]} | {events} |"
