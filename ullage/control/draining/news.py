"""What could change a plan, of all that is heard. Reports that only say that all is as before are no news."""

from typing import Any

from msgspec.structs import replace

from ullage.model.device import Inventory
from ullage.model.event import Changed, Event, Synced
from ullage.model.pod import Pod


def is_news(event: Event[Any]) -> bool:
    """Whether to plan anew because of it."""
    if isinstance(event, Synced):
        return False
    if not isinstance(event, Changed):
        return True
    old, new = event.old, event.new
    if isinstance(old, Pod) and isinstance(new, Pod):
        return replace(old, resource_version=new.resource_version) != new
    if isinstance(old, Inventory) and isinstance(new, Inventory):
        return replace(old, reported_at=new.reported_at) != new
    return bool(old != new)
