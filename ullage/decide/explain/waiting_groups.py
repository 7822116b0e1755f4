"""Waiting pods in groups, by workload and obstacle, each with one suggested action: what on-call looks at first."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ullage.decide.placement.engine import device_ask
from ullage.model.claim import Exclusivity
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.units import Instant

_GENERATED = re.compile(r"(-[0-9]+|-[bcdfghjklmnpqrstvwxz2456789]{5}|-[a-f0-9]{8,10})+$")
"""Ends of names that controllers append: numbers of a StatefulSet or a gang, hashes of a ReplicaSet, random letters."""


@dataclass(frozen=True, slots=True)
class WaitingEntry:
    """A pod that waits, as it is to be placed, with its obstacle in one word and in a sentence."""

    pod: Pod
    word: str
    sentence: str
    gang: str = ""
    gpus: int | None = None
    """Whole GPUs it asks for, by its claim; None to take them from the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGroup:
    """Pods of one workload that wait for the same reason."""

    namespace: str
    workload: str
    """Kind and name, as `Deployment/chat`."""
    reason: str
    sentence: str
    """The obstacle, without numbers. Where it is not the same for all, that of the oldest, and that others differ."""
    pods: tuple[ObjectKey, ...]
    """All of them, the oldest first."""
    gpus: int
    """Whole GPUs that they ask for."""
    since: Instant
    """Creation of the oldest."""
    action: str = ""
    """One suggested action; empty where none is known."""
    commands: tuple[str, ...] = ()


def without_generated(name: str) -> str:
    """A pod's name without what its controller appended."""
    return _GENERATED.sub("", name)


def workload_of(pod: Pod, gang: str = "") -> str:
    """Workload of a pod: its gang, else its owner, else its name without what a controller adds."""
    if gang:
        return f"Gang/{gang}"
    owner = pod.owner
    if owner is None:
        return f"Pod/{without_generated(pod.key.name)}"
    if owner.kind == "ReplicaSet" and "-" in owner.name:
        return f"Deployment/{owner.name.rpartition('-')[0]}"
    return f"{owner.kind}/{owner.name}"


Suggest = Callable[[Pod], tuple[str, tuple[str, ...]]]
"""One action for a pod, with its commands. Asked once per group, of its oldest pod."""


def waiting_groups(waiting: Iterable[WaitingEntry], suggest: Suggest | None = None) -> list[WaitingGroup]:
    """Groups of waiting pods, those with most GPUs first, then with most pods, then by name."""
    found: dict[tuple[str, str, str], list[WaitingEntry]] = {}
    for one in waiting:
        found.setdefault((one.pod.key.namespace, workload_of(one.pod, one.gang), one.word), []).append(one)
    groups = [_group(workload, reason, pods, suggest) for (_, workload, reason), pods in found.items()]
    return sorted(groups, key=lambda one: (-one.gpus, -len(one.pods), one.namespace, one.workload, one.reason))


def _group(workload: str, reason: str, waiting: list[WaitingEntry], suggest: Suggest | None) -> WaitingGroup:
    ordered = sorted(waiting, key=lambda one: (one.pod.created, one.pod.key))
    first = ordered[0]
    action, commands = ("", ()) if suggest is None else suggest(first.pod)
    return WaitingGroup(
        namespace=first.pod.key.namespace,
        workload=workload,
        reason=reason,
        sentence=_sentence(ordered),
        pods=tuple(one.pod.key for one in ordered),
        gpus=sum(_whole_gpus(one.pod) if one.gpus is None else one.gpus for one in ordered),
        since=first.pod.created,
        action=action,
        commands=commands,
    )


def _sentence(waiting: list[WaitingEntry]) -> str:
    """Sentence that is true of all of them. One that names one pod's claim is not said of another pod."""
    said = [_headline(one.sentence) for one in waiting]
    others = sum(one != said[0] for one in said)
    if not others:
        return said[0]
    return f"{said[0]} ({waiting[0].pod.key.name}); {others} {'other differs' if others == 1 else 'others differ'}"


def _headline(sentence: str) -> str:
    return sentence.partition(" (")[0].partition(". ")[0]


def _whole_gpus(pod: Pod) -> int:
    ask = device_ask(pod)
    return ask.count if ask is not None and ask.exclusivity is Exclusivity.EXCLUSIVE else 0
