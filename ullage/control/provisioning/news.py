"""What could change a plan, of all that is heard. That a pod has started, or is ready, changes no pool."""

from typing import Any

from msgspec.structs import replace

from ullage.model.event import Changed, Event
from ullage.model.pod import Pod


def is_news(event: Event[Any]) -> bool:
    """Whether to plan anew because of it."""
    if not isinstance(event, Changed) or not isinstance(event.old, Pod):
        return True
    old, new = event.old, event.new
    if old.phase.over or new.phase.over:
        return True
    return bool(replace(old, resource_version=new.resource_version, marks=new.marks, phase=new.phase) != new)
