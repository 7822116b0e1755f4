"""Work items of the ClaimController for each event. Cheap: called for every event the scheduler observes."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from ullage.model.claim import Claim, copy_key
from ullage.model.device import Inventory
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.node import Node
from ullage.model.pod import Pod


class ClaimWorkKind(StrEnum):
    """Kinds of work items."""

    STATUS = "status"
    """The status of a claim."""
    PROTECTION = "protection"
    """The finalizer that protects a claim in use against deletion."""
    COPY = "copy"
    """The claim made for a pod that names a template."""
    QUOTA = "quota"
    """All quotas of a namespace."""


class ClaimWorkItem(NamedTuple):
    """An object to check, and to correct if it is wrong."""

    kind: ClaimWorkKind
    key: ObjectKey
    """A claim, a pod, or a namespace."""


def about_quotas(namespace: str) -> ClaimWorkItem:
    return ClaimWorkItem(ClaimWorkKind.QUOTA, ObjectKey(namespace, ""))


def about_claims_of(pod: Pod) -> Iterator[ClaimWorkItem]:
    """Work items for the claims that this pod may use, and whose status depends on it."""
    if pod.claim:
        yield from about_claim(ObjectKey(pod.key.namespace, pod.claim))
    if pod.claim_template:
        yield from about_claim(copy_key(pod.key, pod.uid))


def about_claim(key: ObjectKey) -> Iterator[ClaimWorkItem]:
    yield ClaimWorkItem(ClaimWorkKind.STATUS, key)
    yield ClaimWorkItem(ClaimWorkKind.PROTECTION, key)


def about_pod(pod: Pod) -> Iterator[ClaimWorkItem]:
    """All work items for a pod that was added, deleted or replaced."""
    yield from about_claims_of(pod)
    if pod.claim_template:
        yield ClaimWorkItem(ClaimWorkKind.STATUS, ObjectKey(pod.key.namespace, pod.claim_template))
        yield ClaimWorkItem(ClaimWorkKind.COPY, pod.key)


def asks_differently(old: Pod, new: Pod) -> bool:
    """True if the pods ask for different things: a refusal of one says nothing about the other."""
    return (old.uid, old.shape, old.claim, old.claim_template, old.claim_unnamed, old.scheduler, old.gated) != (
        new.uid,
        new.shape,
        new.claim,
        new.claim_template,
        new.claim_unnamed,
        new.scheduler,
        new.gated,
    )


def stands_differently(old: Pod, new: Pod) -> bool:
    """True if the change can change a claim's status. Most changes of a pod are its kubelet's and cannot."""
    return (old.node, old.gpu_ids, old.phase.over, old.deleting) != (
        new.node,
        new.gpu_ids,
        new.phase.over,
        new.deleting,
    )


def moves_quotas(event: FactEvent[Any]) -> bool:
    """True if any namespace's usage may be counted differently now, its own pods and quotas unchanged."""
    match event:
        case Updated(old=Inventory() as old, new=Inventory() as new):
            return [(one.id, one.model, one.memory) for one in old.devices] != [
                (one.id, one.model, one.memory) for one in new.devices
            ]
        case Added(new=Inventory() | Node()) | Deleted(old=Inventory() | Node()):
            return True
        case _:
            return False


def fact_of(event: FactEvent[Any]) -> Any:
    """The fact of an event, as it is or was."""
    match event:
        case Added(new=new) | Updated(new=new):
            return new
        case Deleted(old=old):
            return old
        case _:
            return None


def is_new_ask(event: FactEvent[Claim]) -> bool:
    """True if pods may ask for something else through this claim than before. A copy asks as its template did."""
    match event:
        case Added(new=claim):
            return not claim.pod
        case Updated(old=old, new=new):
            return old.generation != new.generation
        case _:
            return True
