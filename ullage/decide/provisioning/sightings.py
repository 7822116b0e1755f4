"""Observed durations, so that a clock that jumps ends none of them early or late.

Time stamps on objects are by other clocks, or by ours when it was wrong. A time stamp is believed once, at the first
observation; from then on seconds of the monotonic clock are counted (`steady`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from ullage.decide.provisioning.pool_nodes import deletion_time, is_silent
from ullage.decide.provisioning.purchase_state import LIST_MARGIN
from ullage.model.instance import Instance, InstanceState
from ullage.model.node import Node
from ullage.model.pool_sighting import ListHorizon, Seen, Sighting
from ullage.model.provisioner import PROVISIONER_LABEL, Provisioner
from ullage.model.resources import whole_gpus
from ullage.model.units import Instant, Seconds, Steady, elapsed
from ullage.state.cluster import ClusterState

_LET_PASS = Seconds(2.0)
"""Seconds by which a deletion time may differ from the counted one before that means a wrong clock."""
_NO_LISTS: Mapping[str, ListHorizon] = {}


@dataclass(frozen=True, slots=True)
class _First:
    """First observation of an unusable instance or node."""

    at: Steady
    age: Seconds
    had_node: bool = False


@dataclass(frozen=True, slots=True)
class _Taint:
    """First observation of a deletion time."""

    deletion_at: Instant
    at: Steady
    left: Seconds


class Sightings:
    """Memory of one process. A restart forgets it: then time stamps are believed once more."""

    def __init__(self) -> None:
        self._machines: dict[str, _First] = {}
        self._bare: dict[str, _First] = {}
        self._taints: dict[str, _Taint] = {}
        self._silent: dict[str, Steady] = {}
        self._left: dict[str, Steady] = {}
        self._unlisted: dict[str, Steady] = {}
        """Nodes without an instance, by uid: horizon of the first list without it."""
        self._joined: frozenset[str] = frozenset()
        """Instances that have, or had, a Node."""

    def look(
        self,
        provisioners: Sequence[Provisioner],
        instances: Sequence[Instance],
        state: ClusterState,
        *,
        now: Instant,
        steady: Steady,
        lists: Mapping[str, ListHorizon] = _NO_LISTS,
    ) -> Seen:
        """Compare the present state with the memory. `now` is compared with time stamps, `steady` counts seconds.

        `lists`: horizons of the lists by pool. Pools whose list is missing, or failed, have none.
        """
        delays = {one.name: one.thresholds.scale_down_delay for one in provisioners}
        nodes = {name: node for pool in delays for name, node in state.nodes_of_pool(pool).items()}
        self._look_at_machines(instances, state.nodes, now, steady)
        bare = {name: node for name, node in nodes.items() if not whole_gpus(node.allocatable)}
        self._bare = {
            name: self._bare.get(name) or _First(steady, elapsed(node.created, now) if node.created else Seconds(0.0))
            for name, node in bare.items()
        }
        self._look_at_taints(nodes, now, steady)
        silent = [name for name in nodes if is_silent(state.inventories.get(name), now)]
        self._silent = {name: self._silent.get(name, steady) for name in silent}
        return Seen(
            machines={name: _sighting(first, steady) for name, first in self._machines.items()},
            bare={name: _sighting(first, steady) for name, first in self._bare.items()},
            due_at=self._due(nodes, delays, now, steady),
            silent={name: Seconds(steady - since) for name, since in self._silent.items()},
            unlisted=self._look_at_unlisted(nodes, {one.node for one in instances}, lists),
        )

    def new_holders(self, gone: Collection[str], *, steady: Steady, within: Seconds) -> list[str]:
        """Pods that are gone and still hold Leases, first observed so less than `within` seconds ago."""
        self._left = {uid: self._left.get(uid, steady) for uid in sorted(gone)}
        return [uid for uid, since in self._left.items() if steady - since < within]

    def _look_at_machines(
        self, instances: Sequence[Instance], nodes: Mapping[str, Node], now: Instant, steady: Steady
    ) -> None:
        there = [one for one in instances if one.state is not InstanceState.STOPPING]
        joined = {one.id for one in there if one.node in nodes}
        known = {one.id for one in there}
        self._joined = (self._joined & known) | joined
        self._machines = {
            one.id: self._machines.get(one.id) or _First(steady, elapsed(one.since, now), one.id in self._joined)
            for one in there
            if one.id not in joined
        }

    def _look_at_taints(self, nodes: Mapping[str, Node], now: Instant, steady: Steady) -> None:
        found: dict[str, _Taint] = {}
        for name, node in nodes.items():
            deletion_at = deletion_time(node)
            if deletion_at is not None:
                before = self._taints.get(name)
                same = before is not None and before.deletion_at == deletion_at
                found[name] = (
                    before if before is not None and same else _Taint(deletion_at, steady, Seconds(deletion_at - now))
                )
        self._taints = found

    def _look_at_unlisted(
        self, nodes: Mapping[str, Node], listed: Collection[str], lists: Mapping[str, ListHorizon]
    ) -> dict[str, Seconds]:
        """Seconds that are left of the grace of each node without an instance.

        Lists may lag, and may be empty because of trouble: so seconds count only between lists that were answered, all
        of them without the instance, and only while the node is not ready either. Anything else begins the grace anew.
        """
        left: dict[str, Seconds] = {}
        first: dict[str, Steady] = {}
        for name, node in nodes.items():
            horizon = lists.get(node.labels[PROVISIONER_LABEL])
            if horizon is None or node.ready or name in listed or deletion_time(node) is None:
                continue
            since = first[node.uid] = self._unlisted.get(node.uid, horizon.until)
            left[name] = Seconds(max(0.0, LIST_MARGIN + horizon.staleness - (horizon.until - since)))
        self._unlisted = first
        return left

    def _due(
        self, nodes: Mapping[str, Node], delays: Mapping[str, Seconds], now: Instant, steady: Steady
    ) -> dict[str, Instant]:
        found: dict[str, Instant] = {}
        for name, taint in self._taints.items():
            # A deletion time further ahead than the delay was written by another clock.
            longest = delays[nodes[name].labels[PROVISIONER_LABEL]] + 1.0
            due = now + min(taint.left, longest) - (steady - taint.at)
            if isfinite(taint.deletion_at) and abs(due - taint.deletion_at) > _LET_PASS:
                found[name] = Instant(due)
        return found


def _sighting(first: _First, steady: Steady) -> Sighting:
    return Sighting(seconds=Seconds(steady - first.at), age=first.age, had_node=first.had_node)
