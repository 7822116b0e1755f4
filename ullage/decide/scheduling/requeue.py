"""ClusterEvents from fact events: changes that may help refused pods. Events of pods are SchedulerCore's own."""

from typing import Any

from ullage.model.claim import Claim
from ullage.model.device import Inventory
from ullage.model.dra import ResourceClaim, ResourceSlice
from ullage.model.fact_event import Added, Deleted, FactEvent, Updated
from ullage.model.gang import PodGroup
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.quota import Quota
from ullage.model.units import Seconds
from ullage.model.verdict import ClusterEvent
from ullage.model.vm import Vm, VmMigration
from ullage.model.vm_config import VmNodesDocument
from ullage.model.volume import PersistentVolume, PersistentVolumeClaim, StorageClass

_SILENCE = Seconds(90.0)
"""Seconds. A node without a report for so long was refused meanwhile."""


def cluster_event_of(event: FactEvent[Any]) -> ClusterEvent | None:
    """The ClusterEvent of a fact event; None if it can help no pod."""
    match event:
        case Added(new=Node()):
            return ClusterEvent.NODE_APPEARED
        case Updated(old=Node() as old, new=Node() as new):
            # Most updates of a Node are heartbeats, which change no fact.
            return None if old == new else ClusterEvent.NODE_CHANGED
        case Updated(old=Inventory() as old, new=Inventory() as new):
            # Every agent reports twice a minute; the inventory rarely changes.
            return ClusterEvent.INVENTORY_CHANGED if _says_more(old, new) else None
        case Updated(old=Claim() as old, new=Claim() as new):
            # Statuses are written by the ClaimController, and change nothing here.
            same = (old.uid, old.generation) == (new.uid, new.generation)
            return None if same else ClusterEvent.CLAIM_CHANGED
        case Updated(old=ResourceClaim() | ResourceSlice()) | Deleted(old=ResourceClaim()) | Added(new=ResourceSlice()):
            return ClusterEvent.POD_LEFT
        case Deleted():
            return ClusterEvent.QUOTA_CHANGED if isinstance(event.old, Quota) else None
        case Added(new=new) | Updated(new=new):
            return _KINDS.get(type(new))
        case _:
            return None


_KINDS: dict[type[Any], ClusterEvent] = {
    Inventory: ClusterEvent.INVENTORY_CHANGED,
    PersistentVolume: ClusterEvent.VOLUME_CHANGED,
    PersistentVolumeClaim: ClusterEvent.VOLUME_CHANGED,
    StorageClass: ClusterEvent.VOLUME_CHANGED,
    Claim: ClusterEvent.CLAIM_CHANGED,
    Quota: ClusterEvent.QUOTA_CHANGED,
    PodGroup: ClusterEvent.GANG_CHANGED,
    Vm: ClusterEvent.VM_CHANGED,
    VmMigration: ClusterEvent.VM_CHANGED,
    VmNodesDocument: ClusterEvent.VM_CHANGED,
}


def asks_differently(old: Pod, new: Pod) -> bool:
    """True if the pod asks for something else than before: a toleration, a gate, a claim, a VM."""
    if (old.vm is None, old.vm and old.vm.name) != (new.vm is None, new.vm and new.vm.name):
        return True
    return (old.shape, old.claim, old.claim_template, old.claim_unnamed) != (
        new.shape,
        new.claim,
        new.claim_template,
        new.claim_unnamed,
    )


def _says_more(old: Inventory, new: Inventory) -> bool:
    silent = new.reported_at - old.reported_at > _SILENCE
    return silent or old.devices != new.devices
