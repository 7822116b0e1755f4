"""Removal plans: a decided removal with the pod uids and gangs of the snapshot it was decided on."""

from ullage.decide.draining.parallelism import pool_of
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.drain_promise import RemovalPlan
from ullage.model.draining import RemoveNode
from ullage.model.fact_event import ObjectKey


def promise_of(action: RemoveNode, assigner: PodAssigner) -> RemovalPlan:
    """Build the removal plan of an action. To be called before the snapshot changes."""
    state = assigner.placements.state
    node = state.nodes[action.node]
    pods = {move.pod: state.pods[move.pod].uid for move in action.evict if move.pod in state.pods}
    return RemovalPlan(action=action, uid=node.uid, pods=pods, gangs=_gangs(pods, assigner), owned=bool(pool_of(node)))


def _gangs(pods: dict[ObjectKey, str], assigner: PodAssigner) -> dict[ObjectKey, tuple[ObjectKey, ...]]:
    """Gangs whose members that hold room all leave, with those members."""
    state, held = assigner.placements.state, assigner.placements.pods
    claiming = [state.pods[key] for key in sorted(pods) if state.pods[key].claim or state.pods[key].claim_template]
    found: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
    for gang in dict.fromkeys(gang for gang in map(assigner.gang_of, claiming) if gang is not None):
        members = [pod.key for pod in assigner.members(gang) if pod.key in held and not pod.deleting]
        if all(member in pods for member in members):
            found[gang] = tuple(members)
    return found
