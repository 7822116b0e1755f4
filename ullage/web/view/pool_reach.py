"""Pools that could serve waiting pods, if they might buy. Pure; asked on a cluster of one new node."""

from collections.abc import Iterable

from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.placement.filters.rules import CLUSTER_RULES
from ullage.decide.placement.filters.volumes import VOLUME_RULES
from ullage.decide.provisioning.node_offers import NodeOffers, Pool
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.pod import Pod
from ullage.model.provisioner import FleetBudget, NodeTemplate, Provisioner
from ullage.model.shape import Shape
from ullage.model.units import Instant
from ullage.model.verdict import Reason
from ullage.state.snapshot import ClusterSnapshot

MOST_ASKED = 2000
"""Groups of waiting pods that are looked at. Beyond that a pool is taken to serve some."""
MOST_KEPT = 4096
NOT_FOR_NODES = frozenset({Reason.FITS.value, Reason.QUOTA_EXCEEDED.value, Reason.GANG_INCOMPLETE.value})
"""Reasons of pods that a further node does not help."""
_OF_THE_CLUSTER = frozenset(rule.reason for rule in (*CLUSTER_RULES, *VOLUME_RULES))
"""Reasons that other nodes and pods give: a new node alone does not show whether it would be refused for them."""


class PoolReach:
    """Answers by pool and shape. They hold while the pool's template does."""

    def __init__(self, assigner: PodAssigner) -> None:
        self._assigner = assigner
        self._known: dict[str, tuple[NodeTemplate, bool, dict[Shape, bool]]] = {}

    def wanted(self, pools: Iterable[Provisioner], waiting: Iterable[tuple[str, Pod]], *, now: float) -> frozenset[str]:
        """Names of pools whose new node would take one of these pods, which wait for these reasons."""
        left = {pool.name: pool for pool in pools}
        found: set[str] = set()
        for number, (reason, pod) in enumerate(waiting):
            if number >= MOST_ASKED or not left:
                found |= set(left)
                break
            if reason in NOT_FOR_NODES or not isinstance(ready := self._assigner.entitled(pod), Pod):
                continue
            served = {name for name, pool in left.items() if self._serves(pool, ready, now)}
            found |= served
            left = {name: pool for name, pool in left.items() if name not in served}
        return frozenset(found)

    def _serves(self, pool: Provisioner, pod: Pod, now: float) -> bool:
        known = self._known.get(pool.name)
        if known is None or known[:2] != (pool.template, pool.agent_taint) or len(known[2]) >= MOST_KEPT:
            known = self._known[pool.name] = (pool.template, pool.agent_taint, {})
        answers = known[2]
        if pod.shape not in answers:
            answers[pod.shape] = _takes(pool, pod, Instant(now))
        return answers[pod.shape]


def _takes(provisioner: Provisioner, pod: Pod, now: Instant) -> bool:
    """True if an empty node of the pool would take the pod, as far as the node alone shows."""
    snapshot, pool = ClusterSnapshot(), Pool(provisioner=provisioner)
    with snapshot.what_if() as trial:
        offers = NodeOffers(PlacementEngine(snapshot), trial, (pool,), FleetBudget(), now=now)
        refused = offers.beyond_limits(pool, pod)
    return refused is None or refused in _OF_THE_CLUSTER
