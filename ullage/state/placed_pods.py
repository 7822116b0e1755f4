"""Placed pods: pods that hold room, by node and by claim, and everything that is counted of them by row.

Filters read the counts and never count pods. Whether a pod was observed or is only assumed is not known here.
"""

from collections.abc import Callable, Iterator, Mapping

from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.units import Milli
from ullage.state.by_age import PodsByAge
from ullage.state.forking import forked
from ullage.state.host_ports import PortTable
from ullage.state.node_columns import NodeColumns
from ullage.state.pod_counts import AffinityIndex, MatchCounts
from ullage.state.shared_rows import SharedRows

REQUIRED_NEAR_WEIGHT = 1
"""Weight of another pod's required affinity to a pod in scoring, as in kube-scheduler."""


class PlacedPods:
    """Pods on nodes, known or not yet known; counted on the rows of known nodes."""

    def __init__(self, columns: NodeColumns, namespace_labels: Callable[[str], Mapping[str, str]]) -> None:
        self.by_key: dict[ObjectKey, Pod] = {}
        self.on_node: SharedRows[str, dict[ObjectKey, Pod]] = SharedRows(dict)
        self.claim_users: SharedRows[ObjectKey, dict[ObjectKey, None]] = SharedRows(dict)
        """Pods on known nodes by the PersistentVolumeClaims they mount."""
        self.by_gpu_claim = PodsByAge()
        self.ports = PortTable()
        self.tallies = MatchCounts(namespace_labels)
        self.refusals = AffinityIndex(namespace_labels)
        """Required anti-affinity of placed pods: they keep others away."""
        self.preferences = AffinityIndex(namespace_labels)
        """Preferred terms of placed pods, and their required affinity: they wish others near or away."""
        self._columns = columns

    def fork_for(self, columns: NodeColumns, namespace_labels: Callable[[str], Mapping[str, str]]) -> "PlacedPods":
        """Return an independent copy that counts on these columns."""
        twin = object.__new__(PlacedPods)
        twin._columns = columns
        twin.tallies = self.tallies.fork_for(namespace_labels)
        twin.refusals = self.refusals.fork_for(namespace_labels)
        twin.preferences = self.preferences.fork_for(namespace_labels)
        for name in vars(self).keys() - vars(twin).keys():
            setattr(twin, name, forked(getattr(self, name)))
        return twin

    def put(self, pod: Pod) -> None:
        """Take in a pod that is nowhere yet."""
        self.by_key[pod.key] = pod
        self.on_node.own(pod.node)[pod.key] = pod
        if pod.claim:
            self.by_gpu_claim.add(ObjectKey(pod.key.namespace, pod.claim), pod)
        row = self._columns.rows.get(pod.node)
        if row is not None:
            self.count(pod, row, +1)

    def renew(self, pod: Pod) -> None:
        """Keep a pod that is alike in everything that is counted."""
        self.by_key[pod.key] = self.on_node.own(pod.node)[pod.key] = pod

    def drop(self, pod: Pod) -> None:
        """Let a placed pod go."""
        del self.by_key[pod.key]
        here = self.on_node.own(pod.node)
        del here[pod.key]
        if not here:
            self.on_node.drop(pod.node)
        if pod.claim:
            self.by_gpu_claim.drop(ObjectKey(pod.key.namespace, pod.claim), pod)
        row = self._columns.rows.get(pod.node)
        if row is not None:
            self.count(pod, row, -1)

    def count(self, pod: Pod, row: int, sign: int) -> None:
        """A pod comes to a row (+1) or leaves it (-1): everything that is counted by row changes here."""
        shape = pod.shape
        self._columns.count(row, shape, sign)
        if pod.gpu_ids:
            self._columns.gpus.hold(row, pod.gpu_ids, Milli(sign * pod.gpu_share))
            if pod.gpu_instances:
                self._columns.gpus.hold_instances(row, pod.gpu_ids, sign)
        if shape.host_ports:
            self.ports.count(row, shape.host_ports, sign)
        if shape.claims:
            self._use_claims(pod, sign)
        self.tallies.count(pod, row, sign)
        if shape.looks_at_itself:
            self._carry(pod, row, sign)
        self._columns.touch(row)

    def with_rows(self) -> Iterator[tuple[Pod, int]]:
        """Pods on known nodes, each with its row."""
        for pod in self.by_key.values():
            row = self._columns.rows.get(pod.node)
            if row is not None:
                yield pod, row

    def _use_claims(self, pod: Pod, sign: int) -> None:
        for use in pod.shape.claims:
            users = self.claim_users.own(use.claim)
            if sign > 0:
                users[pod.key] = None
            else:
                users.pop(pod.key, None)
            if not users:
                self.claim_users.drop(use.claim)

    def _carry(self, pod: Pod, row: int, sign: int) -> None:
        for term in pod.shape.away:
            self.refusals.count(term, row, sign)
        for term in pod.shape.near:
            self.preferences.count(term, row, sign, REQUIRED_NEAR_WEIGHT)
        for wish in pod.shape.preferred_pods:
            self.preferences.count(wish.term, row, sign, wish.weight)


def same_to_others(one: Pod, other: Pod) -> bool:
    """True if the two pods are alike in everything that is counted."""
    return (
        one.node == other.node
        and one.shape is other.shape
        and one.deleting == other.deleting
        and one.gpu_ids == other.gpu_ids
        and one.gpu_share == other.gpu_share
        and one.gpu_instances == other.gpu_instances
        and one.labels == other.labels
        and one.claim == other.claim
        and one.created == other.created
    )
