"""Waiting pods as groups on the page: one row per workload and reason, with one suggested action each."""

from collections.abc import Iterable

from ullage.decide.explain.waiting_groups import Suggest, WaitingEntry, WaitingGroup, waiting_groups, workload_of
from ullage.model.pod import Pod
from ullage.web.view.patch import SectionTable
from ullage.web.view.rows import WaitingGroupRow

MOST_GROUPS = 200
NAMED = 5
"""Pods named in a row."""
ASKED_AT_A_TIME = 2
"""Groups whose action is asked for in one patch: an action is tried on a copy of the cluster."""
ASK_AGAIN_SECONDS = 60.0

_Key = tuple[str, str, str]
_Advice = tuple[float, str, tuple[str, ...]]


class WaitingGroupTable:
    """Rows of groups. An action is asked for when a group appears, and again from time to time."""

    def __init__(self, suggest: Suggest) -> None:
        self.table = SectionTable()
        self._suggest = suggest
        self._advice: dict[_Key, _Advice] = {}
        self._groups: list[WaitingGroup] = []
        self._oldest: dict[_Key, Pod] = {}

    def regroup(self, entries: Iterable[WaitingEntry]) -> None:
        """Take the waiting pods as they are now."""
        pods = _all_answered(list(entries))
        self._groups = waiting_groups(pods)[:MOST_GROUPS]
        by_key = {one.pod.key: one.pod for one in pods}
        self._oldest = {_key(group): by_key[group.pods[0]] for group in self._groups}
        self._advice = {key: said for key, said in self._advice.items() if key in self._oldest}
        rows = {"/".join(_key(group)): self._row(group) for group in self._groups}
        for gone in [name for name in self.table.rows if name not in rows]:
            self.table.drop(gone)
        for name, row in rows.items():
            self.table.put(name, row)

    def advise(self, *, now: float) -> None:
        """Ask for the actions that are missing or old, a few at a time."""
        due = [one for one in self._groups if one.reason and self._asked_at(one) <= now - ASK_AGAIN_SECONDS]
        for group in sorted(due, key=self._asked_at)[:ASKED_AT_A_TIME]:
            self._advice[_key(group)] = (now, *self._suggest(self._oldest[_key(group)]))
            self.table.put("/".join(_key(group)), self._row(group))

    def _asked_at(self, group: WaitingGroup) -> float:
        return self._advice[_key(group)][0] if _key(group) in self._advice else float("-inf")

    def _row(self, group: WaitingGroup) -> WaitingGroupRow:
        _, action, commands = self._advice.get(_key(group), (0.0, "", ()))
        return WaitingGroupRow(
            namespace=group.namespace,
            workload=group.workload,
            reason=group.reason,
            sentence=group.sentence,
            count=len(group.pods),
            pods=tuple(str(key) for key in group.pods[:NAMED]),
            gpus=group.gpus,
            since=group.since,
            action=action,
            commands=commands,
        )


def _all_answered(entries: list[WaitingEntry]) -> list[WaitingEntry]:
    """Entries in which pods that were not asked about yet have the answer of another pod of their workload."""
    known: dict[tuple[str, str], WaitingEntry] = {}
    for one in entries:
        if one.word:
            known.setdefault((one.pod.key.namespace, workload_of(one.pod, one.gang)), one)

    def answered(one: WaitingEntry) -> WaitingEntry:
        like = None if one.word else known.get((one.pod.key.namespace, workload_of(one.pod, one.gang)))
        return one if like is None else WaitingEntry(one.pod, like.word, like.sentence, one.gang)

    return [answered(one) for one in entries]


def _key(group: WaitingGroup) -> _Key:
    return (group.namespace, group.workload, group.reason)
