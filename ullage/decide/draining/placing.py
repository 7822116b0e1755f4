"""Relocation of pods: a place for all of them, or the first without one. Hints first, then a search; shared filters."""

from collections.abc import Iterable, Sequence
from itertools import chain

from msgspec.structs import replace

from ullage.decide.draining.destinations import DestinationSearch
from ullage.decide.draining.inputs import PlannerMemory
from ullage.decide.draining.loners import BatchablePods
from ullage.decide.placement.claiming import POOL_LABEL, claim_of
from ullage.decide.placement.engine import Placement, PlacementEngine, hold
from ullage.decide.scheduling.assignment import queue_order
from ullage.model.device import MILLI_GPU
from ullage.model.draining import DRAINING_TAINT
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Taint
from ullage.model.pod import Phase, Pod
from ullage.model.shape import Shape, asking_for
from ullage.state.cluster import ClusterState

_DRAINING = Taint(DRAINING_TAINT, "", "NoSchedule")

Places = dict[ObjectKey, str]
Crowds = dict[Shape, list[Pod]]
"""Batchable pods by shape: those of one shape differ only in their names."""


def anew(pod: Pod, state: ClusterState) -> Pod:
    """The pod as its controller will create it again: on no node, without GPUs, with the request of its claim."""
    claim = claim_of(pod, state)
    shape = pod.shape
    if claim is not None:
        pool = ((POOL_LABEL, claim.pool),) if claim.pool else ()
        shape = asking_for(shape, claim.ask, (*claim.node_labels, *pool))
    return replace(
        pod,
        node="",
        phase=Phase.PENDING,
        gpu_ids=(),
        gpu_share=MILLI_GPU,
        gpu_instances=(),
        deleting=False,
        shape=shape,
    )


class PodRelocator:
    """Finds places for pods on one snapshot."""

    def __init__(
        self,
        seating: PlacementEngine,
        destinations: DestinationSearch,
        memory: PlannerMemory,
        *,
        now: float,
        also: Iterable[Pod] = (),
    ) -> None:
        """`also`: pods that will need a place and hold no room now."""
        self._seating = seating
        self.placements = self._placements = seating.placements
        self._destinations = destinations
        self._now = now
        self._memory = memory
        self.loners = BatchablePods(
            chain(self._placements.pods.values(), also), self._placements.state.namespace_labels
        )

    def move(self, pods: Sequence[Pod]) -> Places | Pod:
        """Take pods off their nodes and place each elsewhere: all places, or the first pod without one.

        Pods that hold no room are only placed. Moves are kept in the snapshot: the caller undoes them.
        """
        crowds, others = self._told_apart(pods)
        self._take_out(crowds, others)
        return self._seat(crowds, others)

    def take_out(self, pods: Sequence[Pod]) -> None:
        """Free the room of these pods."""
        self._take_out(*self._told_apart(pods))

    def close_to_new_pods(self, name: str) -> None:
        """Suppose the draining taint on a node, as it will have it while it is drained. Only inside a what-if.

        Room on the node is closed by `DestinationSearch`; the taint matters to hard spread constraints alone.
        """
        node = self._placements.state.nodes[name]
        if self.loners.spreads and not any(taint.key == DRAINING_TAINT for taint in node.taints):
            self._placements.put_node(replace(node, taints=(*node.taints, _DRAINING)))

    def seat(self, pod: Pod) -> Places | Pod:
        """Place one pod that holds no room."""
        return self._seat(*self._told_apart((pod,)))

    def why_nowhere(self, pod: Pod) -> str:
        """Reasons of the open nodes against a pod that has no place, as text."""
        if pod.device_claims:
            return "its devices are allocated by kube-scheduler"
        counts = self._destinations.refusals(anew(pod, self._placements.state))
        return ", ".join(f"{count} {reason}" for reason, count in counts) or "there is no other node"

    def _seat(self, crowds: Crowds, others: Iterable[Pod]) -> Places | Pod:
        places: Places = {}
        for pod in sorted(others, key=queue_order):
            node = self._place(anew(pod, self._placements.state))
            if node is None:
                return pod
            places[pod.key] = node
        for shape in sorted(crowds, key=lambda each: each.requests, reverse=True) if len(crowds) > 1 else crowds:
            left = self._place_crowd(crowds[shape], places)
            if left is not None:
                return left
        return places

    def _take_out(self, crowds: Crowds, others: Iterable[Pod]) -> None:
        rows, held = self._placements.columns.rows, self._placements.pods
        for pod in others:
            self._placements.remove(pod.key)
        for shape, crowd in crowds.items():
            seated: dict[str, int] = {}
            for pod in crowd:
                if pod.key in held:
                    seated[pod.node] = seated.get(pod.node, 0) + 1
            for node, count in seated.items():
                if node in rows:
                    self._placements.add_bulk(rows[node], shape, -count)

    def _told_apart(self, pods: Sequence[Pod]) -> tuple[Crowds, list[Pod]]:
        crowds: Crowds = {}
        others: list[Pod] = []
        for pod in pods:
            if pod in self.loners:
                crowds.setdefault(pod.shape, []).append(pod)
            else:
                others.append(pod)
        return crowds, others

    def _place(self, pod: Pod) -> str | None:
        """Place one pod with all filters; None if it fits nowhere."""
        if pod.device_claims:
            return None  # only kube-scheduler allocates DRA devices
        row = self._hinted(pod)
        if row is None or not self._destinations.takes(row, pod):
            row = self._destinations.next_for(pod)
        if row is None:
            return None
        seat = self._seating.seat_on(pod, self._placements.columns.names[row], now=self._now)
        if not isinstance(seat, Placement):
            return None
        hold(self._placements, pod, seat)
        return seat.node

    def _place_crowd(self, crowd: Sequence[Pod], places: Places) -> Pod | None:
        """Place batchable pods of one shape, as many as fit on each node in turn. Returns the first without a place."""
        waiting = self._place_hinted(crowd, places)
        names, done = self._placements.columns.names, 0
        while done < len(waiting):
            pod = waiting[done]
            found = self._destinations.next_with_room(pod)
            if found is None:
                return pod
            row, room = found
            taken = waiting[done : done + room]
            self._placements.add_bulk(row, pod.shape, len(taken))
            places.update(dict.fromkeys([each.key for each in taken], names[row]))
            done += len(taken)
        return None

    def _place_hinted(self, crowd: Sequence[Pod], places: Places) -> Sequence[Pod]:
        """Place pods whose hint still holds. Returns the others."""
        hints, older = self._memory.hints, self._memory.older_hints
        if not hints and not older:
            return crowd
        hinted: dict[str, list[Pod]] = {}
        for pod in crowd:
            key = pod.key
            hinted.setdefault(hints.get(key) or older.get(key) or "", []).append(pod)
        waiting = hinted.pop("", [])
        shape, rows = crowd[0].shape, self._placements.columns.rows
        for node, pods in hinted.items():
            row, fitting = rows.get(node), 0
            if row is not None:
                fitting = min(self._destinations.room_at(row, pods[0]), len(pods))
            if row is not None and fitting:
                self._placements.add_bulk(row, shape, fitting)
                places.update(dict.fromkeys([each.key for each in pods[:fitting]], node))
            waiting += pods[fitting:]
        return waiting

    def _hinted(self, pod: Pod) -> int | None:
        hint = self._memory.hints.get(pod.key) or self._memory.older_hints.get(pod.key)
        return None if hint is None else self._placements.columns.rows.get(hint)
