"""The scheduler's desk: the picture, the queue, and the next decision. No I/O; time is told.

Decisions do not wait for writes: a pod that got a seat holds it in the picture at once, and `settle` takes it back if
the write did not happen.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from ullage.decide.seat.deciding import Refusal, Seat, Seating, hold
from ullage.model.action import Place
from ullage.model.allocation import lease_name
from ullage.model.claim import Claim
from ullage.model.device import MILLI_GPU, Inventory
from ullage.model.event import Appeared, Changed, Event, ObjectKey, Vanished
from ullage.model.lease import GpuLease
from ullage.model.node import Node
from ullage.model.outcome import NotPlaced, Placed, PlaceOutcome, Setback
from ullage.model.pod import Pod
from ullage.model.shape import asking_for
from ullage.model.verdict import Wake
from ullage.model.volume import StorageClass, Volume, VolumeClaim
from ullage.state.foreign import ForeignHolds
from ullage.state.placements import Placements
from ullage.state.queue import QueuePace, SchedulingQueue


@dataclass(frozen=True, slots=True)
class Refused:
    """A pod that has no place now."""

    pod: Pod
    message: str
    word: str


Decision = Place | Refused


class Desk:
    """Everything a scheduler knows and what it has to decide next."""

    def __init__(self, names: Collection[str], policy: str, pace: QueuePace = QueuePace()) -> None:  # noqa: B008 - frozen
        self.placements = Placements()
        self.queue = SchedulingQueue(pace)
        self._names = frozenset(names)
        self._foreign = ForeignHolds(self.placements)
        self._policy = policy
        self._seating = Seating(self.placements, policy)

    def hear(self, event: Event[Any], *, now: float) -> None:
        """Take in one thing, and wake whom it may help."""
        fact = None
        if isinstance(event, Appeared | Changed):
            fact = event.new
        elif isinstance(event, Vanished):
            fact = event.old
        if isinstance(fact, GpuLease):
            self._foreign.apply(event)
            if isinstance(event, Vanished):
                self.queue.wake(Wake.POD_LEFT, now=now)
            return
        self.placements.apply(event)
        if isinstance(fact, Pod):
            self._pod_heard(event, fact, now)
        elif (news := _news(event)) is not None:
            self.queue.wake(news, now=now)

    def next_decision(self, *, now: float) -> Decision | None:
        """Decide on the pod whose turn it is; None if nobody's."""
        while (key := self.queue.pop(now=now)) is not None:
            pod = self.placements.state.pods.get(key)
            if pod is None or not self._wants_seat(pod):
                self.queue.remove(key)
                continue
            return self._decide(pod, now)
        return None

    def settle(self, outcome: PlaceOutcome, *, now: float) -> None:
        """A write has ended."""
        action = outcome.action
        if isinstance(outcome, Placed):
            self.queue.remove(action.pod)
            return
        held = self.placements.pods.get(action.pod)
        heard = self.placements.state.pods.get(action.pod)
        if held is not None and held.uid == action.uid and (heard is None or not heard.holds_room):
            self.placements.remove(action.pod)
        self._learn_from(outcome)
        if outcome.setback is Setback.POD_GONE:
            self.queue.remove(action.pod)
        else:
            self.queue.retry(action.pod, now=now)
        self.queue.wake(Wake.POD_LEFT, now=now)

    def _learn_from(self, outcome: NotPlaced) -> None:
        """A device somebody else holds is not offered again until its Lease has been heard of."""
        if outcome.setback is Setback.GPU_TAKEN and outcome.device is not None:
            node = outcome.action.node
            self._foreign.taken(node, outcome.device, lease_name(node, outcome.device))

    def _decide(self, pod: Pod, now: float) -> Decision:
        claimed = self._with_claim(pod)
        if isinstance(claimed, Refused):
            self.queue.refuse(pod.key, Wake, now=now)
            return claimed
        answer = self._seating.seat(claimed, now=now)
        if isinstance(answer, Refusal):
            self.queue.refuse(pod.key, answer.wakes_on, now=now)
            return Refused(pod, str(answer), next(iter(answer.reasons), "NoNodes"))
        hold(self.placements, claimed, answer)
        return self._action(claimed, answer)

    def _action(self, pod: Pod, seat: Seat) -> Place:
        choice = seat.choice
        return Place(
            pod=pod.key,
            uid=pod.uid,
            resource_version=pod.resource_version,
            node=seat.node,
            why=f"best of {seat.fitting} that fit, by {self._policy}",
            devices=choice.ids if choice is not None else (),
            milli=choice.share_milli if choice is not None else MILLI_GPU,
            visible=seat.uuids,
        )

    def _with_claim(self, pod: Pod) -> Pod | Refused:
        """The pod as it is to be placed: with what its claim asks for."""
        name = pod.claim or pod.claim_template
        if not name:
            return pod
        claim = self.placements.state.claims.get(ObjectKey(pod.key.namespace, name))
        if claim is None:
            return Refused(pod, f"GpuClaim {pod.key.namespace}/{name} is not there", "ClaimMissing")
        return replace(pod, shape=asking_for(pod.shape, claim.ask, claim.node_labels))

    def _wants_seat(self, pod: Pod) -> bool:
        return pod.scheduler in self._names and not (pod.node or pod.deleting or pod.gated or pod.phase.over)

    def _pod_heard(self, event: Event[Pod], pod: Pod, now: float) -> None:
        self._foreign.pod_heard(pod, gone=isinstance(event, Vanished))
        if isinstance(event, Vanished):
            self.queue.remove(pod.key)
        elif self._wants_seat(pod):
            self.queue.add(pod.key, priority=pod.priority, now=now)
            if isinstance(event, Changed) and _asks_differently(event.old, pod):
                self.queue.reconsider(pod.key, now=now)
        else:
            self.queue.remove(pod.key)
        before = event.old if isinstance(event, Changed | Vanished) else None
        after = None if isinstance(event, Vanished) else pod
        had, has = before is not None and before.holds_room, after is not None and after.holds_room
        if had and not has:
            self.queue.wake(Wake.POD_LEFT, now=now)
        elif has and not had:
            self.queue.wake(Wake.POD_ARRIVED, now=now)


def _asks_differently(old: Pod, new: Pod) -> bool:
    return (old.shape, old.claim, old.claim_template, old.labels) != (
        new.shape,
        new.claim,
        new.claim_template,
        new.labels,
    )


def _news(event: Event[Any]) -> Wake | None:
    """What an event about anything but pods may change for those who wait."""
    match event:
        case Appeared(new=Node()):
            return Wake.NODE_APPEARED
        case Changed(old=Node(), new=Node()):
            return Wake.NODE_CHANGED
        case Changed(old=Inventory() as old, new=Inventory() as new):
            # Every node reports twice a minute; what it says rarely changes.
            return Wake.INVENTORY_CHANGED if _says_more(old, new) else None
        case Appeared(new=Inventory()):
            return Wake.INVENTORY_CHANGED
        case (
            Appeared(new=Volume() | VolumeClaim() | StorageClass())
            | Changed(new=Volume() | VolumeClaim() | StorageClass())
        ):
            return Wake.VOLUME_CHANGED
        case Appeared(new=Claim()) | Changed(new=Claim()):
            return Wake.CLAIM_CHANGED
        case _:
            return None


def _says_more(old: Inventory, new: Inventory) -> bool:
    silent = new.reported_at - old.reported_at > 90.0
    return silent or old.devices != new.devices
