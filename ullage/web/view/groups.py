"""Waiting pods as groups on the page: one row per workload and reason, with one suggested action each."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from ullage.decide.explain.waiting_groups import (
    WaitingEntry,
    WaitingGroup,
    waiting_groups,
    without_generated,
    workload_of,
)
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.web.view.cluster_copy import Suggestion
from ullage.web.view.pacing import is_due
from ullage.web.view.patch import SectionTable
from ullage.web.view.rows import WaitingGroupRow

MOST_GROUPS = 200
NAMED = 5
"""Pods named in a row."""
ASK_AGAIN_SECONDS = 60.0
"""Seconds for which an action stands though the cluster changes. While nothing changes, it stands for ever."""
COST_PER_OBJECT = 0.00015
"""Seconds of a core that a trial takes per node and waiting pod, about: 0.9 s with 5,000 nodes and 1,000 pods."""
FIRST_SHARE, AGAIN_SHARE = 0.5, 0.05
"""Share of time that trials may take, for groups without an action and for those whose action is old."""
MOST_OBJECTS = 10_000
"""Nodes and waiting pods up to which actions are tried: a trial takes seconds of a core."""

_Key = tuple[str, str, str]
_Kind = tuple[object, ...]
Try = Callable[[Pod, Callable[[Suggestion], None]], None]
"""Tries actions for a pod, and tells the first one that works: at once, or later."""


@dataclass(frozen=True, slots=True)
class _Advice:
    """Action that was found by a trial."""

    at: float
    version: object
    """Of the cluster."""
    pod: ObjectKey
    """Pod that was asked about."""
    action: str
    commands: tuple[str, ...]
    names_pod: bool
    """The text is about this pod alone: it is not said of others of its kind."""


class WaitingGroupTable:
    """Rows of groups. An action is tried when a group appears, and again when the cluster changed, one at a time.

    Groups whose oldest pods are alike share a trial.
    """

    def __init__(self, suggest: Try) -> None:
        self.table = SectionTable()
        self._try = suggest
        self._under_way = False
        self._advice: dict[_Key, _Advice] = {}
        self._shared: dict[_Kind, _Advice] = {}
        self._tried_at: float | None = None
        self._groups: list[WaitingGroup] = []
        self.oldest: tuple[tuple[str, Pod], ...] = ()
        """Reason and oldest pod of every group, shown or not."""
        self._oldest: dict[_Key, Pod] = {}

    def regroup(self, entries: Iterable[WaitingEntry]) -> None:
        """Take the waiting pods as they are now."""
        pods = _all_answered(list(entries))
        groups = waiting_groups(pods)
        self._groups = groups[:MOST_GROUPS]
        by_key = {one.pod.key: one.pod for one in pods}
        self.oldest = tuple((group.reason, by_key[group.pods[0]]) for group in groups)
        self._oldest = {_key(group): by_key[group.pods[0]] for group in self._groups}
        self._advice = {key: said for key, said in self._advice.items() if key in self._oldest}
        rows = {"/".join(_key(group)): self._row(group) for group in self._groups}
        for gone in [name for name in self.table.rows if name not in rows]:
            self.table.drop(gone)
        for name, row in rows.items():
            self.table.put(name, row)

    def advise(self, *, now: float, version: object, objects: int) -> None:
        """Try an action that is missing or old. `version` is the cluster's, `objects` its nodes and waiting pods."""
        self._share()
        if self._under_way:
            return
        due = [one for one in self._groups if one.reason and self._is_due(one, now, version)]
        if not due:
            return
        group = min(due, key=self._asked_at)
        share = AGAIN_SHARE if _key(group) in self._advice else FIRST_SHARE
        if not is_due(self._tried_at, objects * COST_PER_OBJECT / share, now=now):
            return
        pod, large = self._oldest[_key(group)], objects > MOST_OBJECTS
        self._tried_at = None if large else now
        report = partial(self._tried, group, pod, now, version)
        if large:
            report(_by_hand(pod))
        else:
            self._under_way = True
            try:
                self._try(pod, report)
            except BaseException:
                self._under_way = False
                raise

    def _tried(self, group: WaitingGroup, pod: Pod, asked_at: float, version: object, found: Suggestion) -> None:
        """Take what came of a trial. The group may have changed meanwhile, or be gone."""
        self._under_way = False
        action, commands = found
        said = _Advice(asked_at, version, pod.key, action, commands, _names(pod, (action, *commands)))
        if not said.names_pod:
            self._shared[_kind(group.reason, pod)] = said
        now = next((one for one in self._groups if _key(one) == _key(group)), None)
        if now is not None and (not said.names_pod or now.pods[0] == pod.key):
            self._record(now, said)
        self._share()

    def _share(self) -> None:
        """Tell every group the newest action that was tried for a pod like its oldest."""
        kinds = {_key(one): _kind(one.reason, self._oldest[_key(one)]) for one in self._groups if one.reason}
        wanted = set(kinds.values())
        self._shared = {kind: said for kind, said in self._shared.items() if kind in wanted}
        for group in self._groups:
            said = self._shared.get(kinds.get(_key(group), ()))
            if said is not None and said.at > self._asked_at(group):
                self._record(group, said)

    def _record(self, group: WaitingGroup, said: _Advice) -> None:
        self._advice[_key(group)] = said
        self.table.put("/".join(_key(group)), self._row(group))

    def _is_due(self, group: WaitingGroup, now: float, version: object) -> bool:
        said = self._advice.get(_key(group))
        if said is None or (said.names_pod and said.pod != group.pods[0]):
            return True
        return said.version != version and is_due(said.at, ASK_AGAIN_SECONDS, now=now)

    def _asked_at(self, group: WaitingGroup) -> float:
        return self._advice[_key(group)].at if _key(group) in self._advice else float("-inf")

    def _row(self, group: WaitingGroup) -> WaitingGroupRow:
        said = self._advice.get(_key(group))
        return WaitingGroupRow(
            namespace=group.namespace,
            workload=group.workload,
            reason=group.reason,
            sentence=group.sentence,
            count=len(group.pods),
            pods=tuple(str(key) for key in group.pods[:NAMED]),
            gpus=group.gpus,
            since=group.since,
            action="" if said is None else said.action,
            commands=() if said is None else said.commands,
        )


def _all_answered(entries: list[WaitingEntry]) -> list[WaitingEntry]:
    """Entries in which pods that were not asked about yet have the answer of another of their workload and shape."""
    known: dict[tuple[object, ...], WaitingEntry] = {}

    def alike(one: WaitingEntry) -> tuple[object, ...]:
        pod = one.pod
        return pod.key.namespace, workload_of(pod, one.gang), pod.shape, pod.scheduler, pod.gated, one.gpus

    for one in entries:
        if one.word:
            known.setdefault(alike(one), one)

    def answered(one: WaitingEntry) -> WaitingEntry:
        like = None if one.word else known.get(alike(one))
        return one if like is None else replace(one, word=like.word, sentence=like.sentence)

    return [answered(one) for one in entries]


def _key(group: WaitingGroup) -> _Key:
    return (group.namespace, group.workload, group.reason)


def _kind(reason: str, pod: Pod) -> _Kind:
    """All that an action depends on, of the pod it is for."""
    whose = (pod.key.namespace, pod.claim, pod.claim_template)
    return reason, *whose, pod.shape, pod.priority, pod.scheduler, pod.gated, pod.unplaced


def _names(pod: Pod, texts: Iterable[str]) -> bool:
    """True if one of the texts is about this pod, its claim or its owner."""
    names = {pod.key.name, without_generated(pod.key.name), pod.claim, pod.claim_template}
    names |= set() if pod.owner is None else {pod.owner.name, workload_of(pod).partition("/")[2]}
    return any(name and name in text for text in texts for name in names)


def _by_hand(pod: Pod) -> tuple[str, tuple[str, ...]]:
    return "ask on the command line: the cluster is too large to try it here", (f"ullage explain pod/{pod.key}",)
