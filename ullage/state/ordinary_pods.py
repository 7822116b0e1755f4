"""Amounts of nodes that are no named VM's: requests of ordinary pods, and of pods without a name in a trial."""

from collections.abc import Iterable

from ullage.model.fact_event import ObjectKey
from ullage.model.vm import NOTHING, OrdinaryPod, VmAmounts
from ullage.state.forking import Forkable
from ullage.state.vm_facts import discard


class OrdinaryPods(Forkable):
    """Ordinary pods by node, and amounts that are counted without a pod's name."""

    def __init__(self) -> None:
        self._pods: dict[ObjectKey, OrdinaryPod] = {}
        self._on: dict[str, set[ObjectKey]] = {}
        self._bulk: dict[str, tuple[VmAmounts, VmAmounts]] = {}
        """By node: amounts of VM pods and of ordinary pods."""

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._pods

    def put(self, pod: OrdinaryPod) -> None:
        """A pod that is not known, or has been dropped."""
        self._pods[pod.key] = pod
        self._on.setdefault(pod.node, set()).add(pod.key)

    def drop(self, key: ObjectKey) -> OrdinaryPod | None:
        pod = self._pods.pop(key, None)
        if pod is not None:
            discard(self._on, pod.node, key)
        return pod

    def add_bulk(self, node: str, *, vms: VmAmounts, ordinary: VmAmounts) -> None:
        """Count amounts of pods without naming them; negative ones leave."""
        before = self._bulk.get(node, (NOTHING, NOTHING))
        now = before[0].plus(vms), before[1].plus(ordinary)
        if now == (NOTHING, NOTHING):
            self._bulk.pop(node, None)
        else:
            self._bulk[node] = now

    def requests(self, node: str) -> VmAmounts:
        """Requests of the node's ordinary pods, before rounding."""
        named = total(self._pods[key].amounts for key in self._on.get(node, ()))
        return named.plus(self._bulk[node][1]) if node in self._bulk else named

    def unnamed_vms(self, node: str) -> VmAmounts:
        """Amounts of the node's VM pods without a name."""
        return self._bulk.get(node, (NOTHING, NOTHING))[0]


def total(parts: Iterable[VmAmounts]) -> VmAmounts:
    """Sum of amounts."""
    cpu = memory = 0
    for part in parts:
        cpu += part.cpu
        memory += part.memory
    return VmAmounts(cpu, memory)
