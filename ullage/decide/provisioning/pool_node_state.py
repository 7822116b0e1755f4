"""State of a pool's node in its lifecycle, and the check that no step of ours leaves the table."""

from collections.abc import Iterable, Sequence

from ullage.model.intents import PoolIntent, ScaleUp, TaintForDeletion, TerminateInstance, Untaint
from ullage.model.lifecycles import POOL_NODE, PoolNodeState
from ullage.model.provisioner import PoolNode

_END = {
    TaintForDeletion: PoolNodeState.MARKED_FOR_DELETION,
    Untaint: PoolNodeState.READY,
    TerminateInstance: PoolNodeState.DELETING,
}
"""State that an intent leads to."""


def pool_node_state(node: PoolNode) -> PoolNodeState:
    """State by what was observed. What is under way counts more than how far the node came."""
    if node.failed_to_register:
        return PoolNodeState.FAILED_TO_REGISTER
    if node.draining:
        return PoolNodeState.DRAINING
    if node.marked_for_deletion:
        return PoolNodeState.MARKED_FOR_DELETION
    if not node.registered:
        return PoolNodeState.LAUNCHED if node.instance else PoolNodeState.REQUESTED
    return PoolNodeState.REGISTERED if node.upcoming else PoolNodeState.READY


def check_steps(actions: Iterable[PoolIntent], nodes: Sequence[PoolNode]) -> None:
    """Raise IllegalTransition for a step that the table of a pool's nodes does not have."""
    steps = [one for one in actions if not isinstance(one, ScaleUp)]
    if not steps:
        return
    known = {node.name: node for node in nodes}
    known |= {node.instance: node for node in nodes if not node.registered}
    for step in steps:
        # An instance without a Node is named by its id alone.
        node = known[step.instance if isinstance(step, TerminateInstance) and not step.node else step.node]
        POOL_NODE.advance(node.name, pool_node_state(node), _END[type(step)])
