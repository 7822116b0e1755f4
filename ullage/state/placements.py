"""Who is where: the facts of the cluster, placements of ours not yet heard back, and what is being tried out.

`apply(event)` takes in what was heard, `place` and `remove` what is intended, and `what_if` takes back what was only
tried. Whatever changes, columns, tallies, ports and claims change with it: rules read them and never count pods.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import msgspec

from ullage.errors import InvariantBroken
from ullage.model.device import MILLI_GPU, Inventory
from ullage.model.device_claim import DeviceClaim, DeviceSlice
from ullage.model.event import Appeared, Changed, Event, ObjectKey, Synced, Vanished
from ullage.model.namespace import Namespace
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.volume import StorageClass, Volume, VolumeClaim
from ullage.state.cluster import ClusterState, Fact
from ullage.state.columns import Columns
from ullage.state.device_claims import DeviceClaims, holder_key
from ullage.state.labels import LabelColumns
from ullage.state.ports import PortTable
from ullage.state.tally import Carriers, Filters, RowCounts, Tallies

REQUIRED_NEAR_WEIGHT = 1
"""What another pod's required affinity to a pod is worth among wishes, as in kube-scheduler."""


class Trial:
    """What was changed inside a `what_if` block. It is taken back at the end unless kept."""

    def __init__(self) -> None:
        self.kept = False

    def keep(self) -> None:
        self.kept = True


class Placements:
    """Every pod that holds room, on the row of its node."""

    def __init__(self, state: ClusterState | None = None) -> None:
        self.state = ClusterState() if state is None else state
        self.columns = Columns()
        self.labels = LabelColumns(self.columns, self.state.nodes)
        self.ports = PortTable()
        self.tallies = Tallies(self.state.namespace_labels)
        self.refusals = Carriers(self.state.namespace_labels)
        """Required anti-affinity of placed pods: they keep others away."""
        self.wishes = Carriers(self.state.namespace_labels)
        """Preferred terms of placed pods, and their required affinity: they wish others near or away."""
        self.volumes_version = 0
        """Grows when anything about volumes changes."""
        self._pods: dict[ObjectKey, Pod] = {}
        self._on_node: dict[str, dict[ObjectKey, Pod]] = {}
        self._claim_users: dict[ObjectKey, dict[ObjectKey, None]] = {}
        self._journal: list[tuple[ObjectKey, Pod | None]] = []
        self._trials = 0
        for node in self.state.nodes.values():
            self._node_appeared(node)
        for pod in self.state.pods.values():
            if pod.holds_room:
                self._set(pod)
        self.device_claims = DeviceClaims(self.state.device_claims.values(), self.state.device_slices.values())
        """What Kubernetes' own device allocation gave away."""
        for name in self.device_claims.nodes:
            self._hold_for_claims(name)

    @property
    def pods(self) -> Mapping[ObjectKey, Pod]:
        """Pods that hold room, heard of or intended, each with the node it is on."""
        return MappingProxyType(self._pods)

    def pods_on(self, node: str) -> Mapping[ObjectKey, Pod]:
        return MappingProxyType(self._on_node.get(node, {}))

    def claim_users(self, claim: ObjectKey) -> Mapping[ObjectKey, None]:
        """Pods on known nodes that mount this claim."""
        return MappingProxyType(self._claim_users.get(claim, {}))

    def counts(self, filters: Filters) -> RowCounts:
        """Pods on known nodes that match all these filters, by row."""
        return self.tallies.of(filters, self._seated)

    def apply(self, event: Event[Fact]) -> None:
        """Take in one thing that was heard. A pod heard of replaces what was intended for it."""
        if self._trials:
            raise InvariantBroken("something was heard inside a what-if: it must not live that long")
        self.state.apply(event)
        match event:
            case Appeared(new=new):
                self._heard(None, new)
            case Changed(old=old, new=new):
                self._heard(old, new)
            case Vanished(old=old):
                self._heard(old, None)
            case Synced():
                pass

    def place(self, pod: Pod, node: str, gpu_ids: tuple[int, ...] = (), gpu_share: int = MILLI_GPU) -> None:
        """The pod is to go on this node, with these GPUs. If it is somewhere already, it moves."""
        self._intend(
            pod.key,
            msgspec.structs.replace(pod, node=node, gpu_ids=gpu_ids, gpu_share=gpu_share if gpu_ids else MILLI_GPU),
        )

    def remove(self, key: ObjectKey) -> None:
        """The pod is to go, or never came. Nothing happens if it holds nothing."""
        self._intend(key, None)

    @contextmanager
    def what_if(self) -> Iterator[Trial]:
        """What is placed and removed inside is taken back at the end, unless the trial is kept. They nest.

        It must not live across an await: nothing may be heard meanwhile.
        """
        mark, trial = len(self._journal), Trial()
        self._trials += 1
        try:
            yield trial
        finally:
            self._trials -= 1
            if not trial.kept:
                while len(self._journal) > mark:
                    key, before = self._journal.pop()
                    self._replace(key, before)
            if not self._trials:
                self._journal.clear()

    def _intend(self, key: ObjectKey, pod: Pod | None) -> None:
        if self._trials:
            self._journal.append((key, self._pods.get(key)))
        self._replace(key, pod)

    def _replace(self, key: ObjectKey, pod: Pod | None) -> None:
        self._unset(key)
        if pod is not None:
            self._set(pod)

    def _heard(self, old: Fact | None, new: Fact | None) -> None:
        match new if new is not None else old:
            case Pod():
                self._pod_heard(old, new)
            case Node(name=name):
                self._node_heard(old, new, name)
            case Inventory(node=name):
                if name in self.columns.rows:
                    self._report(self.state.nodes[name])
                self._hold_for_claims(name)
            case Namespace():
                self.tallies.forget_by_namespace()
            case Volume() | VolumeClaim() | StorageClass():
                self.volumes_version += 1
            case DeviceClaim() | DeviceSlice():
                self._device_claim_heard(old, new)
            case _:
                pass

    def _device_claim_heard(self, old: Fact | None, new: Fact | None) -> None:
        before, after = (one if isinstance(one, DeviceClaim) else None for one in (old, new))
        said, says = (one if isinstance(one, DeviceSlice) else None for one in (old, new))
        for node in (*self.device_claims.renew(before, after), *self.device_claims.renew_slice(said, says)):
            self._hold_for_claims(node)

    def _hold_for_claims(self, node: str) -> None:
        """What Kubernetes' own device allocation gave away there is held, as far as it is known now."""
        holder = self.device_claims.holder(node, self.state.inventories.get(node))
        if holder != self._pods.get(holder_key(node)):
            self._replace(holder_key(node), holder)

    def _pod_heard(self, old: Fact | None, new: Fact | None) -> None:
        if isinstance(new, Pod) and new.holds_room:
            self._hold(new)
        elif isinstance(new, Pod) and not new.phase.over and not (isinstance(old, Pod) and old.holds_room):
            pass  # still waiting: what is intended for it stays
        elif isinstance(new, Pod):
            self._unset(new.key)
        elif isinstance(old, Pod):
            self._unset(old.key)

    def _hold(self, pod: Pod) -> None:
        """A pod that has room; most news of it change nothing about that."""
        known = self._pods.get(pod.key)
        if known is not None and _same_to_others(known, pod):
            self._pods[pod.key] = self._on_node[pod.node][pod.key] = pod
        else:
            self._replace(pod.key, pod)

    def _node_heard(self, old: Fact | None, new: Fact | None, name: str) -> None:
        if not isinstance(new, Node):
            if name in self.columns.rows:
                self._node_vanished(name)
        elif name not in self.columns.rows:
            self._node_appeared(new)
        elif new != old:
            row = self.columns.renew(new)
            self.labels.put(row, new.labels)
            self._report(new)

    def _node_appeared(self, node: Node) -> None:
        row = self.columns.add(node)
        self.labels.put(row, node.labels)
        self._report(node)
        for pod in self._on_node.get(node.name, {}).values():
            self._seat(pod, row, +1)

    def _node_vanished(self, name: str) -> None:
        row = self.columns.rows[name]
        for pod in self._on_node.get(name, {}).values():
            self._seat(pod, row, -1)
        self.labels.put(row, {})
        self.columns.drop(name)

    def _report(self, node: Node) -> None:
        row = self.columns.rows[node.name]
        self.columns.gpus.report(row, self.state.inventories.get(node.name), node.labels)
        self.columns.touch(row)

    def _set(self, pod: Pod) -> None:
        self._pods[pod.key] = pod
        self._on_node.setdefault(pod.node, {})[pod.key] = pod
        row = self.columns.rows.get(pod.node)
        if row is not None:
            self._seat(pod, row, +1)

    def _unset(self, key: ObjectKey) -> None:
        pod = self._pods.pop(key, None)
        if pod is None:
            return
        here = self._on_node[pod.node]
        del here[key]
        if not here:
            del self._on_node[pod.node]
        row = self.columns.rows.get(pod.node)
        if row is not None:
            self._seat(pod, row, -1)

    def _seat(self, pod: Pod, row: int, sign: int) -> None:
        """A pod comes to a row (+1) or leaves it (-1): everything that is counted by row changes here."""
        shape = pod.shape
        self.columns.count(row, shape, sign)
        if pod.gpu_ids:
            self.columns.gpus.hold(row, pod.gpu_ids, sign * pod.gpu_share)
        if shape.host_ports:
            self.ports.count(row, shape.host_ports, sign)
        if shape.claims:
            self._use_claims(pod, sign)
        self.tallies.count(pod, row, sign)
        if shape.looks_at_itself:
            self._carry(pod, row, sign)
        self.columns.touch(row)

    def _use_claims(self, pod: Pod, sign: int) -> None:
        for use in pod.shape.claims:
            users = self._claim_users.setdefault(use.claim, {})
            if sign > 0:
                users[pod.key] = None
            else:
                users.pop(pod.key, None)
            if not users:
                del self._claim_users[use.claim]

    def _carry(self, pod: Pod, row: int, sign: int) -> None:
        for term in pod.shape.away:
            self.refusals.count(term, row, sign)
        for term in pod.shape.near:
            self.wishes.count(term, row, sign, REQUIRED_NEAR_WEIGHT)
        for wish in pod.shape.preferred_pods:
            self.wishes.count(wish.term, row, sign, wish.weight)

    def _seated(self) -> Iterator[tuple[Pod, int]]:
        for pod in self._pods.values():
            row = self.columns.rows.get(pod.node)
            if row is not None:
                yield pod, row


def _same_to_others(one: Pod, other: Pod) -> bool:
    """Nothing anybody counts differs between the two."""
    return (
        one.node == other.node
        and one.shape is other.shape
        and one.deleting == other.deleting
        and one.gpu_ids == other.gpu_ids
        and one.gpu_share == other.gpu_share
        and one.labels == other.labels
    )
