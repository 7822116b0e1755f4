"""What an event may change for pods that wait. Events about pods themselves are the desk's own business."""

from typing import Any

from ullage.model.claim import Claim
from ullage.model.device import Inventory
from ullage.model.device_claim import DeviceClaim, DeviceSlice
from ullage.model.event import Appeared, Changed, Event, Vanished
from ullage.model.gang import PodGroup
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.quota import Quota
from ullage.model.verdict import Wake
from ullage.model.volume import StorageClass, Volume, VolumeClaim

_SILENCE = 90.0
"""A node that did not report for so long was refused meanwhile."""


def news(event: Event[Any]) -> Wake | None:
    """Whom to wake, if anybody."""
    match event:
        case Appeared(new=Node()):
            return Wake.NODE_APPEARED
        case Changed(old=Node(), new=Node()):
            return Wake.NODE_CHANGED
        case Changed(old=Inventory() as old, new=Inventory() as new):
            # Every node reports twice a minute; what it says rarely changes.
            return Wake.INVENTORY_CHANGED if _says_more(old, new) else None
        case Changed(old=Claim() as old, new=Claim() as new):
            # Statuses are written by ourselves, and change nothing.
            same = (old.uid, old.generation) == (new.uid, new.generation)
            return None if same else Wake.CLAIM_CHANGED
        case Changed(old=DeviceClaim() | DeviceSlice()) | Vanished(old=DeviceClaim()) | Appeared(new=DeviceSlice()):
            return Wake.POD_LEFT
        case Vanished():
            return Wake.QUOTA_CHANGED if isinstance(event.old, Quota) else None
        case Appeared(new=new) | Changed(new=new):
            return _KINDS.get(type(new))
        case _:
            return None


_KINDS: dict[type[Any], Wake] = {
    Inventory: Wake.INVENTORY_CHANGED,
    Volume: Wake.VOLUME_CHANGED,
    VolumeClaim: Wake.VOLUME_CHANGED,
    StorageClass: Wake.VOLUME_CHANGED,
    Claim: Wake.CLAIM_CHANGED,
    Quota: Wake.QUOTA_CHANGED,
    PodGroup: Wake.GANG_CHANGED,
}


def asks_differently(old: Pod, new: Pod) -> bool:
    """Whether a pod may now be placed otherwise than before."""
    return (old.shape, old.claim, old.claim_template, old.labels) != (
        new.shape,
        new.claim,
        new.claim_template,
        new.labels,
    )


def _says_more(old: Inventory, new: Inventory) -> bool:
    silent = new.reported_at - old.reported_at > _SILENCE
    return silent or old.devices != new.devices
