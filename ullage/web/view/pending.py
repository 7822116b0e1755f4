"""Pending pods, each with the reason the scheduler's own rules give now.

A few are asked at a time, oldest answer first.
"""

from collections import Counter
from collections.abc import Mapping

from ullage.decide.explain.waiting_groups import WaitingEntry, workload_of
from ullage.decide.gang.membership import gang_of
from ullage.decide.gang.placement import GangNoFit
from ullage.decide.placement.engine import NoFit, device_ask
from ullage.decide.placement.prefilter import claim_of
from ullage.decide.scheduling.assignment import PodAssigner, queue_order, waits
from ullage.model.claim import DeviceRequest, Exclusivity
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import is_smart_pod
from ullage.model.pod import Pod
from ullage.model.units import Instant
from ullage.model.verdict import Reason, Verdict
from ullage.web.view.patch import SectionTable
from ullage.web.view.rows import PendingRow

MOST_SHOWN = 500
"""Rows, at most. Further pods are only counted."""
MOST_KINDS = 200
"""Kinds of pods beyond those rows of which one pod is asked about, for its group."""
ASKED_AT_A_TIME, ASKED_NODES = 24, 60_000
"""Pods and gangs that are asked about in one patch, at most: as many as ask no more than so many nodes in all."""
MEMBERS_A_QUESTION = 4
"""Gang members whose placement costs about as much as the question about one pod."""

Answer = tuple[str, str]
"""Reason word and sentence."""


class PendingPods:
    """Pods without a node, and the reason as far as known."""

    def __init__(self, assigner: PodAssigner) -> None:
        self.table = SectionTable()
        self.gpus = 0
        """Whole GPUs that all pending pods request, shown or not."""
        self.entries: tuple[WaitingEntry, ...] = ()
        """Every pending pod with its answer at the last renewal. Pods that were not asked about have an empty word."""
        self._assigner = assigner
        self._pods: dict[ObjectKey, Pod] = {}
        self._queue: list[Pod] | None = None
        """Pods shown, in order; None if pods came or went since."""
        self._others: list[Pod] = []
        """Pods that are asked about for their groups, though they are not shown."""
        self._answers: dict[ObjectKey, tuple[int, Answer]] = {}
        """Answers, each with the version of the model it was given for."""

    def answer(self, key: ObjectKey) -> Answer:
        """Answer about a pod so far; empty if it was not asked about, or does not wait."""
        return self._answers.get(key, (0, ("", "")))[1]

    def nominated(self) -> list[Pod]:
        """Pending pods for which room is being made on a node."""
        return [pod for pod in self._pods.values() if pod.nominated]

    def refused_for(self, reason: Reason) -> Counter[str]:
        """Pods by namespace whose answer is this reason."""
        return Counter(key.namespace for key, (_, (word, _)) in self._answers.items() if word == reason.value)

    def __len__(self) -> int:
        return len(self._pods)

    def observe(self, pod: Pod, *, gone: bool) -> None:
        """Apply a change of a pod. Smart pods are no demand of their own: they are shown with their requests."""
        if not gone and waits(pod) and not is_smart_pod(pod.labels):
            self._pods[pod.key] = pod
            self._queue = None
        elif self._pods.pop(pod.key, None) is not None:
            self._answers.pop(pod.key, None)
            self._queue = None

    def renew(self, *, now: float, version: int) -> bool:
        """Ask about the pods with the oldest answers, and update the rows. `version` is the model's.

        Returns True if pods or answers may differ from before.
        """
        written = self._queue is not None
        if self._queue is None:
            ordered = sorted(self._pods.values(), key=queue_order)
            self._queue = ordered[:MOST_SHOWN]
            self._others = _one_of_each(ordered, MOST_SHOWN)
        due = [pod for pod in (*self._queue, *self._others) if self._age(pod) != version]
        due.sort(key=self._age)
        asked, most = 0, min(ASKED_AT_A_TIME, 1 + ASKED_NODES // max(1, len(self._assigner.snapshot.columns.rows)))
        for pod in due:
            if asked >= most:
                break
            if self._age(pod) != version:  # else it was answered with its gang
                answers = self._ask(pod, now)
                asked += 1 + len(answers) // MEMBERS_A_QUESTION
                self._answers |= {key: (version, said) for key, said in answers.items()}
        if asked or not written:
            self._write(self._queue)
            self.entries = tuple(map(self._entry, self._pods.values()))
            self.gpus = sum(one.gpus or 0 for one in self.entries)
            return True
        return False

    def _age(self, pod: Pod) -> int:
        return self._answers[pod.key][0] if pod.key in self._answers else -1

    def _write(self, shown: list[Pod]) -> None:
        keys = {str(pod.key) for pod in shown}
        for key in [key for key in self.table.rows if key not in keys]:
            self.table.drop(key)
        for pod in shown:
            row = self._row(pod)
            self.table.put(row.pod, row)

    def _entry(self, pod: Pod) -> WaitingEntry:
        word, message = self.answer(pod.key)
        claim = claim_of(pod, self._assigner.snapshot.state)
        ask = device_ask(pod) if claim is None else claim.ask
        return WaitingEntry(pod, word, message, claim.gang if claim is not None else "", _whole(ask))

    def _row(self, pod: Pod) -> PendingRow:
        claim = claim_of(pod, self._assigner.snapshot.state)
        ask = device_ask(pod) if claim is None else claim.ask
        _, (word, message) = self._answers.get(pod.key, (0, ("", "")))
        return PendingRow(
            pod=str(pod.key),
            asks=_spoken(ask),
            gpus=_whole(ask),
            since=pod.created,
            priority=pod.priority,
            scheduler=pod.scheduler,
            gang=claim.gang if claim is not None else "",
            reason=word,
            message=message,
            nominated=pod.nominated,
            workload=workload_of(pod, claim.gang if claim is not None else ""),
        )

    def _ask(self, pod: Pod, now: float) -> Mapping[ObjectKey, Answer]:
        ready = self._assigner.entitled(pod)
        if isinstance(ready, Verdict):
            return {pod.key: (ready.reason.value, ready.detail)}
        gang = gang_of(pod, self._assigner.snapshot.state)
        if gang is not None:
            return self._ask_gang(pod, gang, now)
        answer = self._assigner.engine.place(ready, now=Instant(now), closed=self._assigner.closed(ready))
        if isinstance(answer, NoFit):
            return {pod.key: self._assigner.why(ready, answer, now=Instant(now))}
        nodes = "1 node fits" if answer.fitting == 1 else f"{answer.fitting} nodes fit"
        return {pod.key: (Reason.FITS.value, f"{nodes}: it waits for its turn")}

    def _ask_gang(self, pod: Pod, gang: ObjectKey, now: float) -> Mapping[ObjectKey, Answer]:
        """One answer for all pending members of the gang."""
        ask = self._assigner.gang_ask(gang)
        with self._assigner.snapshot.what_if():
            answer = self._assigner.assign_gang(ask, (), now=Instant(now))
        if isinstance(answer, GangNoFit):
            said = self._assigner.why(ask.pending[0] if ask.pending else pod, answer, now=Instant(now))
        else:
            said = (Reason.FITS.value, f"gang {gang}: there is room for all: it waits for its turn")
        return dict.fromkeys((pod.key, *(one.key for one in ask.pending)), said)


def _one_of_each(ordered: list[Pod], shown: int) -> list[Pod]:
    """The first pod of each kind of which none is shown."""
    if len(ordered) <= shown:
        return []

    def kind(pod: Pod) -> tuple[object, ...]:
        return pod.key.namespace, workload_of(pod), pod.claim, pod.claim_template, pod.shape, pod.scheduler, pod.gated

    known = set(map(kind, ordered[:shown]))
    found: dict[tuple[object, ...], Pod] = {}
    for pod in ordered[shown:]:
        if kind(pod) not in known:
            found.setdefault(kind(pod), pod)
    return list(found.values())[:MOST_KINDS]


def _whole(ask: DeviceRequest | None) -> int:
    """Whole GPUs of a request."""
    return ask.count if ask is not None and ask.exclusivity is Exclusivity.EXCLUSIVE else 0


def _spoken(ask: DeviceRequest | None) -> str:
    """GPU request of a pod in a few words."""
    if ask is None:
        return "no GPU"
    model = ask.model or "GPU"
    if ask.exclusivity is Exclusivity.EXCLUSIVE:
        return f"{ask.count} x {model}"
    part = "MIG of " if ask.exclusivity is Exclusivity.MIG else "part of "
    return f"{ask.count} x {part}{model}"
