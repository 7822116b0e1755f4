"""Silent agents: nodes whose agents stopped reporting GPUs, and the rule for buying replacements.

No pod is placed on such a node. But most silences end: an agent is restarted, or a bad rollout of agents is put right.
So for SILENCE_GRACE, or while many agents are silent at once, the node counts as if its agent reported, and pending
pods that would fit there wait. New nodes would get the same agents. The bounds are those Cluster Autoscaler has for
nodes that are not ready (`--ok-total-unready-count`, `--max-total-unready-percentage`).
"""

from collections.abc import Sequence
from dataclasses import replace as with_nodes

from msgspec.structs import replace

from ullage.decide.provisioning.node_offers import Pool
from ullage.decide.provisioning.pool_nodes import some_of
from ullage.model.provisioner import PoolNode
from ullage.model.units import Seconds

SILENCE_SECONDS = Seconds(300.0)
"""Seconds a single agent may be silent before its node's GPUs count as missing."""
FEW_SILENT = 3
"""Number of agents that may be silent at once without pointing to a fault of agents in general."""
MOST_SILENT_PERCENT = 45
"""Percentage of all nodes above which the agents are at fault, and not the nodes."""


def with_silence(pools: Sequence[Pool]) -> list[Pool]:
    """Pools with the nodes marked whose silence is excused: no replacement is bought for those."""
    everybody = too_many_silent(pools)
    return [with_nodes(pool, nodes=tuple(_excused(node, everybody) for node in pool.nodes)) for pool in pools]


def too_many_silent(pools: Sequence[Pool]) -> bool:
    """True if so many agents are silent at once that the fault is with agents in general."""
    nodes = [node for pool in pools for node in pool.nodes if node.registered]
    silent = sum(bool(node.silent_for) for node in nodes)
    return silent > FEW_SILENT and silent * 100 > MOST_SILENT_PERCENT * len(nodes)


def silence_of(nodes: Sequence[PoolNode]) -> str:
    """Sentence about silent agents of a pool; empty while all of them report."""
    silent = [node for node in nodes if node.silent_for]
    if not silent:
        return ""
    said = f"no agent reports on the GPUs of {some_of([node.name for node in silent])}"
    excused = any(node.silence_excused for node in silent)
    return f"{said}; {'nothing is bought instead yet' if excused else 'they count as missing'}"


def _excused(node: PoolNode, everybody: bool) -> PoolNode:
    if not node.silent_for or not (everybody or node.silent_for < SILENCE_SECONDS):
        return node
    return replace(node, silence_excused=True)
