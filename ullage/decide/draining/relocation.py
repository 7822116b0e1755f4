"""Relocation: places on other nodes for pods that leave, hints first, then a search.

Batchable pods are moved as a number per row. All other pods are moved one by one, with all filters.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from msgspec.structs import replace

from ullage.decide.draining.deletion_tracker import still_missing
from ullage.decide.draining.destinations import DestinationSearch
from ullage.decide.draining.inputs import FRESH, PlannerMemory
from ullage.decide.placement.engine import Placement, PlacementEngine, device_ask, hold
from ullage.decide.placement.prefilter import POOL_LABEL, claim_of
from ullage.decide.placement.vm_pods import moving_vm
from ullage.decide.provisioning.pending import PodOrGang
from ullage.decide.provisioning.vm_demand import pending_and_vms_in_need
from ullage.decide.scheduling.assignment import PodAssigner, queue_order
from ullage.model.device import MILLI_GPU
from ullage.model.draining import DRAINING_TAINT, RecentEviction, WorkloadReplicas
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Taint
from ullage.model.pod import Phase, Pod
from ullage.model.shape import Shape, asking_for
from ullage.model.shape_terms import PodMatcher
from ullage.model.stepper import Stepper
from ullage.model.units import Instant, Seconds
from ullage.state.cluster import ClusterState
from ullage.state.pod_counts import SelectorIndex
from ullage.state.snapshot import ClusterSnapshot


class BatchablePods:
    """Test for batchable pods, by the affinity terms and hard spread constraints of all given pods."""

    def __init__(self, pods: Iterable[Pod], namespace_labels: Callable[[str], Mapping[str, str]]) -> None:
        self._namespace_labels = namespace_labels
        self._shapes: dict[Shape, bool] = {}
        self._filters: SelectorIndex[PodMatcher] = SelectorIndex()
        self._anybody_counts = False
        self.spreads = False
        """True if any pod has a hard spread constraint."""
        for shape in dict.fromkeys(pod.shape for pod in pods):
            hard = [constraint for constraint in shape.spread if constraint.hard]
            self.spreads = self.spreads or bool(hard)
            counted = [constraint.counted(shape.namespace) for constraint in hard]
            for pods_meant in (*(term.pods for term in (*shape.near, *shape.away)), *counted):
                self._filters.add(pods_meant.selector, pods_meant)
                self._anybody_counts = True

    def __contains__(self, pod: Pod) -> bool:
        plain = self._shapes.get(pod.shape)
        if plain is None:
            plain = self._shapes[pod.shape] = _plain(pod)
        if not plain or pod.gpu_ids or pod.device_claims:
            return False
        return not self._anybody_counts or not self._counted(pod)

    def _counted(self, pod: Pod) -> bool:
        namespace = pod.key.namespace
        places = self._namespace_labels(namespace)
        meant = self._filters.candidates(pod.labels)
        return any(each.matches(namespace, pod.labels, places) for each in meant)


def _plain(pod: Pod) -> bool:
    shape = pod.shape
    if pod.vm is not None:
        return False  # its room is its VM's, and not its own request
    if shape.host_ports or shape.near or shape.away or shape.claims or device_ask(pod) is not None:
        return False
    return not any(constraint.hard for constraint in shape.spread)


NO_COST = Seconds(0.0)
"""Cost of a step of which the whole plan bears the cost."""
_DRAINING = Taint(DRAINING_TAINT, "", "NoSchedule")

Places = dict[ObjectKey, str]
Batches = dict[Shape, list[Pod]]
"""Batchable pods by shape: those of one shape differ only in their names."""


def as_recreated(pod: Pod, state: ClusterState) -> Pod:
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
        engine: PlacementEngine,
        destinations: DestinationSearch,
        memory: PlannerMemory,
        *,
        now: Instant,
        also: Iterable[Pod] = (),
    ) -> None:
        """`also`: pods that will need a place and hold no room now."""
        self._engine = engine
        self.snapshot = self._snapshot = engine.snapshot
        self._destinations = destinations
        self._now = now
        self._memory = memory
        self.batchable = BatchablePods(chain(self._snapshot.pods.values(), also), self._snapshot.state.namespace_labels)

    def move(self, pods: Sequence[Pod]) -> Places | Pod:
        """Take pods off their nodes and place each elsewhere: all places, or the first pod without one.

        Pods that hold no room are only placed. Moves are kept in the snapshot: the caller undoes them.
        """
        batches, others = self._split(pods)
        self._take_out(batches, others)
        return self._place_all(batches, others)

    def take_out(self, pods: Sequence[Pod]) -> None:
        """Free the room of these pods."""
        self._take_out(*self._split(pods))

    def close_to_new_pods(self, name: str) -> None:
        """Suppose the draining taint on a node, as it will have it while it is drained. Only inside a what-if.

        Room on the node is closed by `DestinationSearch`; the taint matters to hard spread constraints alone.
        """
        node = self._snapshot.state.nodes[name]
        if self.batchable.spreads and not any(taint.key == DRAINING_TAINT for taint in node.taints):
            self._snapshot.put_node(replace(node, taints=(*node.taints, _DRAINING)))

    def place(self, pod: Pod) -> Places | Pod:
        """Place one pod that holds no room."""
        return self._place_all(*self._split((pod,)))

    def _recreated(self, pod: Pod) -> Pod:
        """The pod as its controller will create it again; a VM pod with the room it holds now in VM ledgers."""
        again = as_recreated(pod, self._snapshot.state)
        ready = moving_vm(again, self._snapshot) if again.vm is not None else again
        return ready if isinstance(ready, Pod) else again

    def why_nowhere(self, pod: Pod) -> str:
        """Reasons of the open nodes against a pod that has no place, as text."""
        if pod.device_claims:
            return "its devices are allocated by kube-scheduler"
        counts = self._destinations.refusals(self._recreated(pod))
        return ", ".join(f"{count} {reason}" for reason, count in counts) or "there is no other node"

    def _place_all(self, batches: Batches, others: Iterable[Pod]) -> Places | Pod:
        places: Places = {}
        for pod in sorted(others, key=queue_order):
            node = self._place(self._recreated(pod))
            if node is None:
                return pod
            places[pod.key] = node
        for shape in sorted(batches, key=lambda each: each.requests, reverse=True) if len(batches) > 1 else batches:
            left = self._place_batch(batches[shape], places)
            if left is not None:
                return left
        return places

    def _take_out(self, batches: Batches, others: Iterable[Pod]) -> None:
        rows, held = self._snapshot.columns.rows, self._snapshot.pods
        for pod in others:
            self._snapshot.forget(pod.key)
        for shape, batch in batches.items():
            placed: dict[str, int] = {}
            for pod in batch:
                if pod.key in held:
                    placed[pod.node] = placed.get(pod.node, 0) + 1
            for node, count in placed.items():
                if node in rows:
                    self._snapshot.add_bulk(rows[node], shape, -count)

    def _split(self, pods: Sequence[Pod]) -> tuple[Batches, list[Pod]]:
        batches: Batches = {}
        others: list[Pod] = []
        shape, batch = None, others
        for pod in pods:
            if pod not in self.batchable:
                others.append(pod)
                continue
            if pod.shape is not shape:  # pods of one shape mostly come one after the other
                shape = pod.shape
                batch = batches.setdefault(shape, [])
            batch.append(pod)
        return batches, others

    def _place(self, pod: Pod) -> str | None:
        """Place one pod with all filters; None if it fits nowhere."""
        if pod.device_claims:
            return None  # only kube-scheduler allocates DRA devices
        row = self._hinted(pod)
        if row is None or not self._destinations.takes(row, pod):
            row = self._destinations.next_for(pod)
        if row is None:
            return None
        placement = self._engine.place_on(pod, self._snapshot.columns.names[row], now=self._now)
        if not isinstance(placement, Placement):
            return None
        hold(self._snapshot, pod, placement)
        return placement.node

    def _place_batch(self, batch: Sequence[Pod], places: Places) -> Pod | None:
        """Place batchable pods of one shape, as many as fit on each node in turn. Returns the first without a place."""
        waiting = self._place_hinted(batch, places)
        names, done = self._snapshot.columns.names, 0
        while done < len(waiting):
            pod = waiting[done]
            found = self._destinations.next_with_room(pod)
            if found is None:
                return pod
            row, room = found
            taken = waiting[done : done + room]
            self._snapshot.add_bulk(row, pod.shape, len(taken))
            places.update(dict.fromkeys([each.key for each in taken], names[row]))
            done += len(taken)
        return None

    def _place_hinted(self, batch: Sequence[Pod], places: Places) -> Sequence[Pod]:
        """Place pods whose hint still holds. Returns the others."""
        hints, older = self._memory.hints, self._memory.older_hints
        if not hints and not older:
            return batch
        hinted: dict[str, list[Pod]] = {}
        for pod in batch:
            key = pod.key
            hinted.setdefault(hints.get(key) or older.get(key) or "", []).append(pod)
        waiting = hinted.pop("", [])
        shape, rows = batch[0].shape, self._snapshot.columns.rows
        for node, pods in hinted.items():
            row, fitting = rows.get(node), 0
            if row is not None:
                fitting = min(self._destinations.room_at(row, pods[0]), len(pods))
            if row is not None and fitting:
                self._snapshot.add_bulk(row, shape, fitting)
                places.update(dict.fromkeys([each.key for each in pods[:fitting]], node))
            waiting += pods[fitting:]
        return waiting

    def _hinted(self, pod: Pod) -> int | None:
        hint = self._memory.hints.get(pod.key) or self._memory.older_hints.get(pod.key)
        return None if hint is None else self._snapshot.columns.rows.get(hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplacedPods:
    """Pods that need a place, beside pending pods."""

    nodes: Mapping[str, Collection[ObjectKey]]
    """Nodes that are being removed, each with the pods that leave."""
    evictions: Collection[RecentEviction] = ()
    workloads: Mapping[str, WorkloadReplicas] = field(default_factory=dict)
    destinations: Collection[str] | None = None
    """Nodes the pods may be moved to; None for all."""


def place_pending(assigner: PodAssigner, *, now: Instant) -> Stepper[None]:
    """Place pending pods and gangs in the snapshot, so that no drained pod takes their room. A pod or gang a step."""
    pending: list[PodOrGang] = []
    for turn in pending_and_vms_in_need(assigner):
        pending.append(turn)
        yield NO_COST
    for turn in pending:
        if isinstance(turn, Pod):
            assigner.assign_pod(turn, (), now=now)
        else:
            assigner.assign_gang(turn, (), now=now)
        yield NO_COST


def is_on_its_way(pod: Pod, snapshot: ClusterSnapshot) -> bool:
    """True if the pod runs a VM that is being migrated: its target pod has a place, or waits for one like any pod."""
    counted = pod.vm is not None and snapshot.vms.active and snapshot.vms.ledger.pod(pod.key) is not None
    return counted and snapshot.vms.ledger.account(pod.key).migrating


def unplaceable_pods(
    assigner: PodAssigner, leaving: DisplacedPods, memory: PlannerMemory = FRESH, *, now: Instant
) -> Stepper[dict[str, ObjectKey]]:
    """Nodes with a pod that would have no place now, each with that pod. A node a step.

    To be run inside a what-if: the snapshot is changed, and left so.
    """
    snapshot = assigner.snapshot
    rows, held = snapshot.columns.rows, snapshot.pods
    found: dict[str, ObjectKey] = {}
    yield from place_pending(assigner, now=now)
    destinations = DestinationSearch(assigner.engine, now=now)
    if leaving.destinations is not None:
        destinations.limit_to(leaving.destinations)
    evicted = [one.pod for one in leaving.evictions]
    relocator = PodRelocator(assigner.engine, destinations, memory, now=now, also=evicted)
    yield NO_COST
    for name in sorted(leaving.nodes.keys() & rows.keys()):
        destinations.close(rows[name])
        relocator.close_to_new_pods(name)
    # Evicted pods run nowhere: they are placed before pods that still run.
    relocator.move(still_missing(leaving.evictions, leaving.workloads, snapshot))
    moved: set[ObjectKey] = set()
    for name in sorted(leaving.nodes):
        yield NO_COST
        keys = [key for key in sorted(leaving.nodes[name]) if key in held and key not in moved]
        pods = [held[key] for key in keys if not held[key].deleting and not is_on_its_way(held[key], snapshot)]
        with snapshot.what_if() as trial:
            places = relocator.move(pods)
            if isinstance(places, Pod):
                found[name] = places.key
            else:
                trial.keep()
                moved.update(places)
    return found
