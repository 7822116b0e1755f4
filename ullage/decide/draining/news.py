"""Filter of fact events: those that can change a drain plan. Reports that only renew a timestamp cannot."""

from typing import Any

from msgspec.structs import replace

from ullage.model.device import Inventory
from ullage.model.fact_event import FactEvent, Synced, Updated
from ullage.model.pod import Pod


def is_news(event: FactEvent[Any]) -> bool:
    """True if the event can change a plan, so that the loop must plan again."""
    if isinstance(event, Synced):
        return False
    if not isinstance(event, Updated):
        return True
    old, new = event.old, event.new
    if isinstance(old, Pod) and isinstance(new, Pod):
        return replace(old, resource_version=new.resource_version) != new
    if isinstance(old, Inventory) and isinstance(new, Inventory):
        same_time = {"reported_at": new.reported_at, "dated": new.dated, "clock_ahead": new.clock_ahead}
        return replace(old, **same_time) != new
    return bool(old != new)
