"""Number of pods of a kind by row, kept up to date as pods come and go.

Rules about other pods ask two things: where are pods that match a filter of mine, and where are pods whose own rules
match me. Both are counts per row; what a domain (a zone, say) has is their sum over its rows, see `domains`.
"""

import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ullage.model.pod import Pod
from ullage.model.selector import Operator, Selector
from ullage.model.shape_terms import PodMatcher, PodTerm
from ullage.state.change_log import ChangeLog, grown
from ullage.state.forking import Forkable, forked

T = TypeVar("T", bound=Hashable)

NamespaceLabels = Callable[[str], Mapping[str, str]]
Filters = tuple[PodMatcher, ...]
"""Pods that match all of these."""


class RowCounts(Forkable):
    """A number per row, with stamps."""

    def __init__(self, rows: Iterable[int] = ()) -> None:
        """Begin with one for each of these rows."""
        self.kept = True
        """False once the counts are no longer kept up to date: ask for them again."""
        self.per_row: npt.NDArray[np.int64] = np.bincount(np.fromiter(rows, np.intp), minlength=64)
        self.total = int(self.per_row.sum())
        self.stamps = ChangeLog()
        self._shared = False
        """True while a fork has the same `per_row`: the first to write makes its own."""

    def fork(self) -> "RowCounts":
        """Return an independent copy."""
        self._shared = True
        twin = object.__new__(RowCounts)
        vars(twin).update(vars(self))
        twin.stamps = self.stamps.fork()
        return twin

    def add(self, row: int, amount: int) -> None:
        if self._shared:
            self.per_row, self._shared = self.per_row.copy(), False
        self.reach(row + 1)
        self.per_row[row] += amount
        self.total += amount
        self.stamps.touch(row)

    def reach(self, rows: int) -> npt.NDArray[np.int64]:
        """The numbers, of at least this many rows."""
        if rows > len(self.per_row):
            self.per_row = grown(self.per_row, rows)
        return self.per_row


class SelectorIndex(Forkable, Generic[T]):
    """Things found by the labels of a pod without trying all of them: most selectors name one value of one label."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[T, None]] = {}
        self._others: dict[T, None] = {}

    def add(self, selector: Selector | None, thing: T) -> None:
        """Add a thing under its selector. One that selects nothing is never found."""
        if selector is None:
            return
        label = _named_label(selector)
        shelf = self._others if label is None else self._by_label.setdefault(label, {})
        shelf[thing] = None

    def remove(self, selector: Selector | None, thing: T) -> None:
        label = None if selector is None else _named_label(selector)
        if label is None:
            self._others.pop(thing, None)
            return
        shelf = self._by_label[label]
        del shelf[thing]
        if not shelf:
            del self._by_label[label]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[T]:
        """Things whose selector may match, and few others."""
        if self._by_label:
            for label in labels.items():
                yield from self._by_label.get(label, ())
        yield from self._others


def _named_label(selector: Selector) -> tuple[str, str] | None:
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None


def _with_label(placed: Iterable[tuple[Pod, int]], selector: Selector | None) -> Iterable[tuple[Pod, int]]:
    """Pods a selector may match, found by the one label it names: most pods of a cluster have another."""
    if selector is None:
        return ()
    label = _named_label(selector)
    if label is None:
        return placed
    key, value = label
    return ((pod, row) for pod, row in placed if pod.labels.get(key) == value)


class MatchCounts:
    """MatchCounts: pods that match filters, by row. Kept up to date for as long as a reader holds the counts."""

    def __init__(self, namespace_labels: NamespaceLabels) -> None:
        self._namespace_labels = namespace_labels
        self._counts: weakref.WeakValueDictionary[Filters, RowCounts] = weakref.WeakValueDictionary()
        self._index: SelectorIndex[Filters] = SelectorIndex()
        self._forked: list[RowCounts] = []
        """Counts taken over from another snapshot, which has the readers that hold them."""

    def fork_for(self, namespace_labels: NamespaceLabels) -> "MatchCounts":
        """Return a copy for a forked snapshot. It keeps all counts there are: to count again costs more."""
        twin = MatchCounts(namespace_labels)
        for filters, counts in self.known():
            twin._counts[filters] = copied = counts.fork()
            twin._forked.append(copied)
            twin._index.add(filters[0].selector, filters)
        return twin

    def of(self, filters: Filters, placed: Callable[[], Iterable[tuple[Pod, int]]]) -> RowCounts:
        """Counts for these filters. `seated` returns all placed pods with their rows, for counts that are new."""
        counts = self._counts.get(filters)
        if counts is None:
            meant = _with_label(placed(), filters[0].selector)
            counts = self._counts[filters] = RowCounts(row for pod, row in meant if self._match(filters, pod))
            self._index.add(filters[0].selector, filters)
        return counts

    def count(self, pod: Pod, row: int, sign: int) -> None:
        """A pod comes to a row or leaves it."""
        for filters in tuple(self._index.candidates(pod.labels)):
            counts = self._counts.get(filters)
            if counts is None:
                self._index.remove(filters[0].selector, filters)  # nobody holds it any more
            elif self._match(filters, pod):
                counts.add(row, sign)

    def forget_by_namespace(self) -> None:
        """Labels of a namespace changed: what was selected by them must be counted anew."""
        for filters, counts in tuple(self._counts.items()):
            if any(each.namespace_selector is not None for each in filters):
                counts.kept = False
                del self._counts[filters]
                self._index.remove(filters[0].selector, filters)

    def known(self) -> Iterator[tuple[Filters, RowCounts]]:
        yield from tuple(self._counts.items())

    def _match(self, filters: Filters, pod: Pod) -> bool:
        namespace = pod.key.namespace
        places = self._namespace_labels(namespace)
        for each in filters:
            if pod.deleting and not each.leaving_too:
                return False
            if not each.matches(namespace, pod.labels, places):
                return False
        return True


class AffinityIndex:
    """AffinityIndex: terms about other pods that placed pods carry, by row. `weight` tells preferred terms apart."""

    def __init__(self, namespace_labels: NamespaceLabels) -> None:
        self._namespace_labels = namespace_labels
        self._counts: dict[tuple[PodTerm, int], RowCounts] = {}
        self._index: SelectorIndex[tuple[PodTerm, int]] = SelectorIndex()

    def fork_for(self, namespace_labels: NamespaceLabels) -> "AffinityIndex":
        """Return a copy for a forked snapshot."""
        twin = AffinityIndex(namespace_labels)
        twin._counts, twin._index = forked(self._counts), self._index.fork()
        return twin

    def count(self, term: PodTerm, row: int, sign: int, weight: int = 0) -> None:
        key = (term, weight)
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = RowCounts()
            self._index.add(term.pods.selector, key)
        counts.add(row, sign)
        if not counts.total:
            del self._counts[key]
            self._index.remove(term.pods.selector, key)

    def about(self, pod: Pod) -> list[tuple[PodTerm, int, RowCounts]]:
        """The rules that mean this pod, in the order they were first carried."""
        if not self._counts:
            return []
        namespace = pod.key.namespace
        labels = self._namespace_labels(namespace)
        return [
            (term, weight, self._counts[term, weight])
            for term, weight in self._index.candidates(pod.labels)
            if term.pods.matches(namespace, pod.labels, labels)
        ]

    def known(self) -> Iterator[tuple[PodTerm, int, RowCounts]]:
        for (term, weight), counts in self._counts.items():
            yield term, weight, counts
