"""Events that can change a provisioning plan. A pod's start or readiness changes no pool."""

from typing import Any

from msgspec.structs import replace

from ullage.model.fact_event import FactEvent, Updated
from ullage.model.pod import Pod


def is_news(event: FactEvent[Any]) -> bool:
    """True if the event calls for a new plan."""
    if not isinstance(event, Updated) or not isinstance(event.old, Pod):
        return True
    old, new = event.old, event.new
    if old.phase.over or new.phase.over:
        return True
    return bool(replace(old, resource_version=new.resource_version, marks=new.marks, phase=new.phase) != new)
