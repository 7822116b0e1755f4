"""A removal that was decided, with what it counts on, by the picture it was decided on."""

from ullage.decide.assigning import Assigner
from ullage.decide.drain.turns import pool_of
from ullage.model.drain import RemoveNode
from ullage.model.drain_promise import Promise
from ullage.model.event import ObjectKey


def promise_of(action: RemoveNode, assigner: Assigner) -> Promise:
    """Pods by their uids, and which of them go together. Before anything else is heard."""
    state = assigner.placements.state
    node = state.nodes[action.node]
    pods = {move.pod: state.pods[move.pod].uid for move in action.evict if move.pod in state.pods}
    return Promise(action=action, uid=node.uid, pods=pods, gangs=_gangs(pods, assigner), owned=bool(pool_of(node)))


def _gangs(pods: dict[ObjectKey, str], assigner: Assigner) -> dict[ObjectKey, tuple[ObjectKey, ...]]:
    """Gangs all of whose members that hold room are to leave."""
    state, held = assigner.placements.state, assigner.placements.pods
    claiming = [state.pods[key] for key in sorted(pods) if state.pods[key].claim or state.pods[key].claim_template]
    found: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
    for gang in dict.fromkeys(gang for gang in map(assigner.gang_of, claiming) if gang is not None):
        members = [pod.key for pod in assigner.members(gang) if pod.key in held and not pod.deleting]
        if all(member in pods for member in members):
            found[gang] = tuple(members)
    return found
