"""Remedies that let a node be removed: each is a change of the cluster that a drain plan on a copy is asked about."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from ullage.decide.draining.pdb import RemainingPdbTracker
from ullage.decide.draining.scope import is_drained
from ullage.decide.explain.drain_trial import DrainTrials
from ullage.decide.explain.proof import Proof, ProvedRemedy, key_of
from ullage.decide.explain.remedy import Change, Remedy, patch
from ullage.model.draining import UnremovableNode, UnremovableReason
from ullage.model.fact_event import Deleted, ObjectKey, Updated
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.pod_marks import SafeToEvict
from ullage.model.provisioner import KEEP_ANNOTATIONS, PROVISIONER_LABEL, ConsolidationPolicy, Provisioner
from ullage.state.snapshot import ClusterSnapshot

MOST_STEPS = 8
"""Steps of one advice: a node with more pods in the way is not worth the trouble."""
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_ORPHAN = UnremovableReason.CONTROLLER_NOT_FOUND
_REMAKING = ("ReplicaSet", "StatefulSet", "ReplicationController")
"""Owners that make a pod again when it ends."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One thing to do, as sentence, command and changes."""

    sentence: str
    command: str
    changes: tuple[Change, ...] = ()
    pool: Provisioner | None = None
    """Pool as it is afterwards, where the step changes one."""


@dataclass(frozen=True, slots=True)
class _Stays:
    """A node that stays on a copy, with the reason."""

    copy: ClusterSnapshot
    node: Node
    why: UnremovableNode
    pools: tuple[Provisioner, ...]

    @property
    def pod(self) -> Pod | None:
        return None if self.why.pod is None else self.copy.state.pods.get(self.why.pod)


def removal_remedy(
    snapshot: ClusterSnapshot, name: str, pools: Sequence[Provisioner], drains: DrainTrials
) -> ProvedRemedy | None:
    """The steps after which a node that stays may be removed, tried on a copy; None where there is nothing to try."""
    copy, known = snapshot.fork(), tuple(pools)
    pool = _pool_of(copy.state.nodes[name], known)
    goes = next((one for one in drains.plan(copy, known, among=(name,)).removable if one.node == name), None)
    if goes is not None and (pool is None or _goes_by_itself(pool, empty=goes.empty)):
        return None
    steps: list[_Step] = []
    if pool is not None and not is_drained(pool):
        steps.append(_drained(pool))
        known = _with(known, steps[0])
    why = _stays(copy, name, known, drains)
    while why is not None and len(steps) < MOST_STEPS:
        maker = _MAKERS.get(why.reason)
        step = None if maker is None else maker(_Stays(copy, copy.state.nodes[name], why, known))
        if step is None or any(step.sentence == one.sentence for one in steps):
            break
        steps.append(step)
        known = _with(known, step)
        for change in step.changes:
            copy.apply(change)
        why = _stays(copy, name, known, drains)
    if not steps:
        return None
    remedy = Remedy(
        sentence=f"to have it removed, {'; and '.join(one.sentence for one in steps)}",
        commands=tuple(one.command for one in steps),
        changes=tuple(change for one in steps for change in one.changes),
    )
    return ProvedRemedy(remedy, _proof(why))


def _stays(
    copy: ClusterSnapshot, name: str, pools: Sequence[Provisioner], drains: DrainTrials
) -> UnremovableNode | None:
    """Reason that the node stays on a copy where no other is removed; None if it may go."""
    plan = drains.plan(copy, pools, among=(name,))
    return next((one for one in plan.unremovable if one.node == name), None)


def _pool_of(node: Node, pools: Sequence[Provisioner]) -> Provisioner | None:
    return next((one for one in pools if one.name == node.labels.get(PROVISIONER_LABEL)), None)


def _goes_by_itself(pool: Provisioner, *, empty: bool) -> bool:
    """True if somebody removes this node of the pool in time, without a change."""
    limits = pool.thresholds
    if is_drained(pool):
        return True
    return empty and limits.min_utilization_percent > 0 and not (limits.paused or limits.recommend_only)


def _with(pools: tuple[Provisioner, ...], step: _Step) -> tuple[Provisioner, ...]:
    new = step.pool
    return pools if new is None else tuple(new if one.name == new.name else one for one in pools)


def _proof(why: UnremovableNode | None) -> Proof:
    if why is None:
        return Proof(True, "tried on a copy: it can be removed then")
    about = f" (pod {why.pod})" if why.pod is not None else ""
    detail = f": {why.detail}" if why.detail else ""
    return Proof(False, f"tried on a copy: that is not enough: it stays: {why.reason.value}{about}{detail}")


def _drained(pool: Provisioner) -> _Step:
    """The pool is drained: neither paused, nor only recommending, nor limited to empty nodes."""
    limits, fields = pool.thresholds, dict[str, Any]()
    if limits.paused:
        fields["paused"] = False
    if limits.recommend_only:
        fields["recommendOnly"] = False
    if not pool.consolidation.drains:
        fields["consolidation"] = {"policy": ConsolidationPolicy.DRAIN.value}
    words = {
        "paused": "resume it (paused: false)",
        "recommendOnly": "let it act (recommendOnly: false)",
        "consolidation": "let it be drained (consolidation.policy: Drain)",
    }
    return _Step(
        f"in NodeProvisioner {pool.name}, {' and '.join(words[name] for name in fields)}",
        patch("nodeprovisioner", ObjectKey("", pool.name), {"spec": fields}),
        pool=replace(
            pool,
            thresholds=replace(limits, paused=False, recommend_only=False),
            consolidation=replace(pool.consolidation, policy=ConsolidationPolicy.DRAIN),
        ),
    )


def _allowing_eviction(at: _Stays) -> _Step | None:
    """The owner of the pod says that it may be evicted."""
    pod = at.pod
    if pod is None or pod.marks.safe_to_evict is SafeToEvict.YES:
        return None
    marks = replace(pod.marks, safe_to_evict=SafeToEvict.YES)
    where = f"kubectl -n {pod.key.namespace}"
    return _Step(
        f"let {pod.key} be evicted",
        f"{where} annotate pod {pod.key.name} --overwrite {SAFE_TO_EVICT}=true",
        (Updated(pod.key, pod, replace(pod, marks=marks)),),
    )


def _with_budget(at: _Stays) -> _Step | None:
    """The disruption budget of the pod allows as many more evictions as the node has pods under it."""
    pod, budgets = at.pod, at.copy.state.budgets
    tracker = RemainingPdbTracker(budgets)
    key = None if pod is None else tracker.cost(pod)
    if key is None:
        return None
    here = sum(tracker.cost(one) == key for one in at.copy.pods_on(at.node.name).values())
    budget = budgets[key]
    more = max(1, here)
    return _Step(
        f"let PodDisruptionBudget {key} allow {more} {'eviction' if more == 1 else 'evictions'}: more replicas, or a "
        "larger maxUnavailable",
        f"kubectl -n {key.namespace} edit pdb {key.name}",
        (Updated(key, budget, replace(budget, current=True, disruptions_allowed=more)),),
    )


def _with_one_budget(at: _Stays) -> _Step | None:
    """One of the budgets of the pod is left: the Eviction API refuses a pod that two of them select."""
    pod, budgets = at.pod, at.copy.state.budgets
    asked = () if pod is None else RemainingPdbTracker(budgets).asked(pod)
    if len(asked) < 2:
        return None
    kept, *others = asked
    names = " ".join(key.name for key in others)
    return _Step(
        f"leave only one PodDisruptionBudget for {at.why.pod}: {kept}, say. A pod under two is never evicted",
        f"kubectl -n {kept.namespace} delete pdb {names}",
        tuple(Deleted(key, budgets[key]) for key in others),
    )


def _ended(at: _Stays) -> _Step | None:
    """The pod that has no place elsewhere ends, and is not made again."""
    pod = at.pod
    if pod is None:
        return None
    where, owner = f"kubectl -n {pod.key.namespace}", pod.owner
    why = "nobody makes it again" if at.why.reason is _ORPHAN else "no other node has room for it"
    remade = owner is not None and owner.kind in _REMAKING and at.why.reason is not _ORPHAN
    return _Step(
        f"wait for {pod.key} to end, or end it{' (one replica less)' if remade else ''}: {why}",
        f"{where} edit {owner.kind.lower()} {owner.name}  # one replica less"
        if owner is not None and remade
        else f"{where} delete pod {pod.key.name}",
        (Deleted(pod.key, pod),),
    )


def _no_longer_kept(at: _Stays) -> _Step | None:
    return _Step(
        f"take the annotation {KEEP_ANNOTATIONS[0]} off {at.node.name}",
        f"kubectl annotate node {at.node.name} {' '.join(f'{name}-' for name in KEEP_ANNOTATIONS)}",
        (Updated(key_of(at.node.name), at.node, replace(at.node, kept=False)),),
    )


def _smaller_pool(at: _Stays) -> _Step | None:
    """The pool may be smaller by one, or keeps one empty node less."""
    pool = _pool_of(at.node, at.pools)
    if pool is None:
        return None
    limits = pool.thresholds
    if limits.min_unutilized_nodes and at.why.detail.endswith("empty"):
        field, new = "minUnutilizedGPUNodes", limits.min_unutilized_nodes - 1
        changed = replace(pool, thresholds=replace(limits, min_unutilized_nodes=new))
    elif limits.min_size:
        field, new = "minSize", limits.min_size - 1
        changed = replace(pool, thresholds=replace(limits, min_size=new))
    else:
        return None
    return _Step(
        f"lower {field} of NodeProvisioner {pool.name} to {new}",
        patch("nodeprovisioner", ObjectKey("", pool.name), {"spec": {field: new}}),
        pool=changed,
    )


_MAKERS: Mapping[UnremovableReason, Callable[[_Stays], _Step | None]] = {
    UnremovableReason.SCALE_DOWN_DISABLED: _no_longer_kept,
    UnremovableReason.POOL_MINIMUM: _smaller_pool,
    UnremovableReason.NOT_REPLICATED: _allowing_eviction,
    UnremovableReason.SYSTEM_POD: _allowing_eviction,
    UnremovableReason.NOT_SAFE_TO_EVICT: _allowing_eviction,
    UnremovableReason.LOCAL_STORAGE: _allowing_eviction,
    UnremovableReason.VM_NOT_MIGRATABLE: _allowing_eviction,
    UnremovableReason.NOT_ENOUGH_PDB: _with_budget,
    UnremovableReason.SEVERAL_PDBS: _with_one_budget,
    UnremovableReason.CONTROLLER_NOT_FOUND: _ended,
    UnremovableReason.NO_PLACE: _ended,
}
"""Steps by reason. Where none is listed there is nothing to do but wait: the node is used, or somebody is coming."""
