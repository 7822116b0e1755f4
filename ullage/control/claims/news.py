"""What has to be looked at again when something is heard. Cheap: it is asked about everything the scheduler hears."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from ullage.model.claim import Claim, copy_key
from ullage.model.device import Inventory
from ullage.model.event import Appeared, Changed, Event, ObjectKey, Vanished
from ullage.model.node import Node
from ullage.model.pod import Pod


class Kind(StrEnum):
    """What is looked at."""

    STATUS = "status"
    """Of a claim."""
    COPY = "copy"
    """The claim made for a pod that names a template."""
    QUOTA = "quota"
    """All quotas of a namespace."""


class Errand(NamedTuple):
    """Something to look at, and to put right if it is wrong."""

    kind: Kind
    key: ObjectKey
    """A claim, a pod, or a namespace."""


def about_quotas(namespace: str) -> Errand:
    return Errand(Kind.QUOTA, ObjectKey(namespace, ""))


def about_claims_of(pod: Pod) -> Iterator[Errand]:
    """The claims whose status may speak of this pod."""
    if pod.claim:
        yield Errand(Kind.STATUS, ObjectKey(pod.key.namespace, pod.claim))
    if pod.claim_template:
        yield Errand(Kind.STATUS, copy_key(pod.key, pod.uid))


def about_pod(pod: Pod) -> Iterator[Errand]:
    """All that may have to be put right when a pod comes, goes or becomes another."""
    yield from about_claims_of(pod)
    if pod.claim_template:
        yield Errand(Kind.STATUS, ObjectKey(pod.key.namespace, pod.claim_template))
        yield Errand(Kind.COPY, pod.key)


def asks_differently(old: Pod, new: Pod) -> bool:
    """A refusal of the one says nothing of the other."""
    return (old.uid, old.shape, old.claim, old.claim_template, old.scheduler, old.gated) != (
        new.uid,
        new.shape,
        new.claim,
        new.claim_template,
        new.scheduler,
        new.gated,
    )


def stands_differently(old: Pod, new: Pod) -> bool:
    """Most changes of a pod are its kubelet's, and none of a claim's business."""
    return (old.node, old.gpu_ids, old.phase.over, old.deleting) != (
        new.node,
        new.gpu_ids,
        new.phase.over,
        new.deleting,
    )


def moves_quotas(event: Event[Any]) -> bool:
    """Whether what any namespace holds may be counted differently now, beside what its own pods and quotas say."""
    match event:
        case Changed(old=Inventory() as old, new=Inventory() as new):
            return [(one.id, one.model, one.memory) for one in old.devices] != [
                (one.id, one.model, one.memory) for one in new.devices
            ]
        case Appeared(new=Inventory() | Node()) | Vanished(old=Inventory() | Node()):
            return True
        case _:
            return False


def fact_of(event: Event[Any]) -> Any:
    """What an event is about, as it is or was."""
    match event:
        case Appeared(new=new) | Changed(new=new):
            return new
        case Vanished(old=old):
            return old
        case _:
            return None


def is_new_ask(event: Event[Claim]) -> bool:
    """Whether pods may be asking for something else through this claim than before. A copy asks as its template did."""
    match event:
        case Appeared(new=claim):
            return not claim.pod
        case Changed(old=old, new=new):
            return old.generation != new.generation
        case _:
            return True
