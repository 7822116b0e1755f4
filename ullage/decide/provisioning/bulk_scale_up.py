"""Scale-up for pods that may share any new node: packed together over all pools, as counts instead of one by one.

A pod *packs* if only room and its own node decide on its placement: no rule about other pods, no volume, no zone, no
quota. Then a pattern that fits on one new node fits on a thousand: the placement rules are asked once.
"""

from collections.abc import Sequence
from functools import lru_cache

from ullage.decide.placement.engine import Placement, hold
from ullage.decide.provisioning.node_offers import ENDLESS, BulkNodes, NodeOffers, Pool, looks_at_zones, zones_for
from ullage.decide.provisioning.packing import FilledNodes, pack
from ullage.decide.provisioning.patterns import NodeType, Pattern
from ullage.decide.provisioning.pool_nodes import gpu_use
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.shape import Shape

PODS = "pods"
_ONE_POD = 1000

_GPU, _NAME = 1e4, 1e-3
"""Weights in the cost of a node beside its price, where the dearest is 1: GPUs decide, then price, then the name."""
_NO_PRICE = 2.0
"""Price of a node without one: higher than the dearest."""


def packs(market: NodeOffers, pod: Pod) -> bool:
    """True if room alone decides on which new nodes of a pool the pod may go."""
    if pod.key.namespace in market.quota_namespaces or not _packs(pod.shape):
        return False
    return not market.placements.refusals.about(pod)


@lru_cache(maxsize=4096)  # asked for every pod, of a few shapes
def _packs(shape: Shape) -> bool:
    return not (looks_at_zones(shape) or shape.host_ports or shape.node_name)


def size_order(pod: Pod) -> tuple[int, int, int]:
    """Sort key, largest first: GPUs, then cores, then memory."""
    requests = pod.requests
    return -gpu_use(pod), -requests.get("cpu", 0), -requests.get("memory", 0)


def buy_in_bulk(market: NodeOffers, pools: Sequence[Pool], groups: Sequence[list[Pod]]) -> list[list[Pod]]:
    """Offer new nodes for pods that pack, grouped by shape. Returns the pods without one, group by group."""
    able = [pool for pool in pools if market.allowance(pool)]
    asked = [group for group in groups if group]
    if not able or not asked:
        return asked
    order = _Order(market, able, asked)
    budgets = tuple(left for left in market.budgets_left if left != ENDLESS)
    packing = pack([len(group) for group in asked], order.types(), budgets, order.fill)
    queues = [list(reversed(group)) for group in asked]
    for filled in packing.filled:
        market.open_bulk(order.opened(filled, queues))
    return [queue[::-1] for queue in queues if queue]


class _Order:
    """Input of the packing: pools as node types, and shapes as sizes on their nodes."""

    def __init__(self, market: NodeOffers, pools: Sequence[Pool], groups: Sequence[list[Pod]]) -> None:
        self._market, self._pools, self._groups = market, pools, groups
        named = {name for group in groups for name, _ in group[0].shape.requests}
        self._resources = sorted(named | {GPU, PODS})

    def types(self) -> list[NodeType]:
        dearest = max(pool.provisioner.template.price for pool in self._pools) or 1
        return [self._type(place, pool, dearest) for place, pool in enumerate(self._pools)]

    def _type(self, place: int, pool: Pool, dearest: int) -> NodeType:
        template = pool.provisioner.template
        price = template.price / dearest if template.price else _NO_PRICE
        face, _ = self._market.face(pool, "")
        left = self._market.budgets_left
        charges = (template.gpus.count, template.price)
        return NodeType(
            cost=_GPU * max(template.gpus.count, 1) + price + _NAME * place,
            limit=self._market.allowance(pool),
            room=tuple(face.allocatable.get(name, 0) for name in self._resources),
            sizes=tuple(self._size(place, group[0]) for group in self._groups),
            charges=tuple(charge for charge, most in zip(charges, left, strict=True) if most != ENDLESS),
        )

    def _size(self, place: int, pod: Pod) -> tuple[int, ...] | None:
        """Room a pod takes on an empty node of a pool; None if it does not fit on one."""
        mark = self._market.mark()
        seated = self._seated(place, [pod])
        taken = dict(pod.shape.requests) | {PODS: _ONE_POD}
        if seated:
            taken[GPU] = gpu_use(self._market.placements.pods[pod.key])
        self._market.rollback(mark)
        return tuple(taken.get(name, 0) for name in self._resources) if seated else None

    def fill(self, place: int, pattern: Pattern) -> Pattern:
        """Part of a pattern that the placement rules allow on one empty node, shape by shape."""
        mark = self._market.mark()
        pods = [(shape, pod) for shape, count in enumerate(pattern) for pod in self._groups[shape][:count]]
        pods.sort(key=lambda one: size_order(one[1]))
        seated = self._seated(place, [pod for _, pod in pods])
        self._market.rollback(mark)
        counts = [0] * len(pattern)
        for shape, pod in pods:
            counts[shape] += pod.key in seated
        return tuple(counts)

    def _seated(self, place: int, pods: Sequence[Pod]) -> set[object]:
        """Pods placed on one more node, in this order. The node stays open."""
        pool = self._pools[place]
        node = self._market.open(pool, zones_for(pool, pods[0])[0] if pods else "")
        seated: set[object] = set()
        for pod in pods if node is not None else ():
            answer = self._market.seat_on(pod, node.name) if node is not None else None
            if isinstance(answer, Placement):
                hold(self._market.placements, pod, answer)
                seated.add(pod.key)
        return seated

    def opened(self, filled: FilledNodes, queues: Sequence[list[Pod]]) -> BulkNodes:
        """Nodes with pods on them. The pods are taken off the ends of their queues."""
        pods = [
            queues[shape].pop()
            for _ in range(filled.count)
            for shape, count in enumerate(filled.pods)
            for _ in range(count)
        ]
        pool = self._pools[filled.node_type]
        return BulkNodes(pool, zones_for(pool, pods[0])[0], filled.count, tuple(pods))
