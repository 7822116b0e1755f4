"""What is on a node, sorted by what becomes of it when the node goes."""

from dataclasses import dataclass, field

from ullage.decide.drain.rules import Blocked, Ruling, Rulings
from ullage.model.drain import Unremovable, WhyStays
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.state.device_claims import holder_key
from ullage.state.placements import Placements


@dataclass(slots=True)
class Load:
    """The pods of one node."""

    node: str
    moving: list[Pod] = field(default_factory=list)
    """By name."""
    waited_for: list[ObjectKey] = field(default_factory=list)
    blocked: Unremovable | None = None
    """The first pod by name that must stay, or that nobody has heard of there yet."""


def load_of(node: str, placements: Placements, rulings: Rulings) -> Load:
    """Ask the rules about every pod on a node."""
    load, heard = Load(node), placements.state.pods
    holder = holder_key(node)
    here = placements.pods_on(node)
    for key in sorted(here):
        pod = here[key]
        known = heard.get(key)
        if known is None or known.node != node:
            if key == holder:
                continue  # devices given away by Kubernetes' own allocation: the pods they are for are here, too
            load.blocked = Unremovable(
                node=node, why=WhyStays.DESTINATION, pod=_named(known), detail="it is about to come"
            )
            return load
        answer = rulings.of(pod)
        if answer is Ruling.MOVES:
            load.moving.append(pod)
        elif isinstance(answer, Blocked):
            load.blocked = Unremovable(node=node, why=answer.why, pod=key, detail=answer.detail)
            return load
        elif answer is Ruling.IS_WAITED_FOR:
            load.waited_for.append(key)
    return load


def _named(pod: Pod | None) -> ObjectKey | None:
    return None if pod is None else pod.key
