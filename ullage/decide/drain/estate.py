"""Whose nodes may be drained, and how far: NodeProvisioners, machines and the picture, turned into facts for a plan."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ullage.decide.drain.eligibility import CONTROL_PLANE
from ullage.decide.drain.facts import PoolFloor
from ullage.decide.pool.evaluate import evaluate
from ullage.decide.pool.facts import pool_nodes
from ullage.model.instance import Instance, InstanceState
from ullage.model.node import Node
from ullage.model.provisioner import PROVISIONER_LABEL, PoolNode, Provisioner
from ullage.state.placements import Placements

KARPENTER_LABEL = "karpenter.sh/nodepool"
"""Nodes with it are Karpenter's to remove."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """Who has nodes."""

    provisioners: Sequence[Provisioner] = ()
    instances: Sequence[Instance] = ()
    """Of all providers, with the names of their nodes."""
    listed: Collection[str] = ()
    """Providers whose machines are known."""
    unmanaged: bool = False
    """Whether nodes of no NodeProvisioner may go, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estate:
    """What may be drained at this moment."""

    candidates: frozenset[str] = frozenset()
    floors: Mapping[str, PoolFloor]
    prices: Mapping[str, int]
    """Of nodes."""
    machines: Mapping[str, Instance]
    """By node: of all pools that are drained, those that could be deleted."""
    unheard: frozenset[str] = frozenset()
    """Nodes of pools whose machines nobody has listed yet: nothing is known of them."""


def is_drained(provisioner: Provisioner) -> bool:
    """Whether nodes of this pool are taken away by draining. Of one that is paused or only recommends, none are."""
    thresholds = provisioner.thresholds
    return provisioner.consolidation.drains and not (thresholds.paused or thresholds.recommend_only)


def survey(owners: Owners, placements: Placements, *, removing: Collection[str], now: float) -> Estate:
    """Nodes that may be asked about, and how small each pool may become. `removing`: they count as gone."""
    candidates: set[str] = set()
    unheard: set[str] = set()
    floors: dict[str, PoolFloor] = {}
    prices: dict[str, int] = {}
    for one in owners.provisioners:
        if not is_drained(one):
            continue
        nodes = pool_nodes(one, owners.instances, placements, now=now)
        here = [node for node in nodes if node.registered]
        if one.provider not in owners.listed:
            unheard.update(node.name for node in here)
            continue
        candidates.update(node.name for node in here if node.instance and not (node.coming or node.lost))
        floors[one.name] = _floor(one, nodes, removing)
        prices.update(dict.fromkeys((node.name for node in here), one.template.price))
    if owners.unmanaged:
        candidates.update(name for name, node in placements.state.nodes.items() if is_nobodys(node))
    machines = {one.node: one for one in owners.instances if one.node and one.state is not InstanceState.STOPPING}
    return Estate(
        candidates=frozenset(candidates),
        floors=floors,
        prices=prices,
        machines=machines,
        unheard=frozenset(unheard),
    )


def is_nobodys(node: Node) -> bool:
    """No pool's, and not taken out of service: a cordoned node is its owner's business, ours among them."""
    taken = (PROVISIONER_LABEL, KARPENTER_LABEL, *CONTROL_PLANE)
    return not node.unschedulable and not any(label in node.labels for label in taken)


def _floor(provisioner: Provisioner, nodes: Sequence[PoolNode], removing: Collection[str]) -> PoolFloor:
    """The pool's own thresholds: what it keeps whatever can be moved."""
    thresholds = provisioner.thresholds
    staying = [
        node
        for node in nodes
        if node.registered and not (node.coming or node.lost or node.doomed) and node.name not in removing
    ]
    return PoolFloor(
        nodes=len(staying), least=least_size(provisioner, nodes), least_empty=thresholds.min_unutilized_nodes
    )


def least_size(provisioner: Provisioner, nodes: Sequence[PoolNode]) -> int:
    """What a pool that is drained keeps: its minimum, and the largest size at which enough of it is in use."""
    thresholds = provisioner.thresholds
    if not thresholds.min_utilization_percent or not provisioner.consolidation.drains:
        return thresholds.min_size
    use_alone = replace(thresholds, min_size=0, min_unutilized_nodes=0)
    return max(thresholds.min_size, evaluate(nodes, use_alone).keep)
