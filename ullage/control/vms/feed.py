"""Facts from informers into the VM ledger. A watch that is behind what was written or read here takes nothing back."""

from collections.abc import Callable

from ullage.decide.vms.core import VmCore
from ullage.kube.objects.pod import KubePod
from ullage.kube.read.vm import read_ordinary_pod, read_vm_pod
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.node import Node
from ullage.model.resources import MILLI
from ullage.model.vm import OrdinaryPod, Vm, VmAmounts, VmMigration, VmPod

LedgerPod = VmPod | OrdinaryPod | None
"""None: the pod holds no room."""


def read_ledger_pod(raw: KubePod) -> LedgerPod:
    """A pod as the ledger counts it."""
    return read_vm_pod(raw) or read_ordinary_pod(raw)


class VmFeed:
    """VmFeed: one method per source. Each calls `on_change`, as a decision could change."""

    def __init__(self, core: VmCore, on_change: Callable[[], None]) -> None:
        self._core = core
        self._on_change = on_change

    def apply_node(self, event: FactEvent[Node]) -> None:
        match event:
            case Added(_, node) | Updated(_, _, node):
                memory = node.allocatable.get("memory", 0) // MILLI
                self._core.ledger.put_node(node.name, VmAmounts(node.allocatable.get("cpu", 0), memory))
            case Deleted(key, _):
                self._core.forget_node(key.name)
        self._on_change()

    def apply_vm(self, event: FactEvent[Vm]) -> None:
        ledger = self._core.ledger
        match event:
            case Added(key, vm) | Updated(key, _, vm):
                known = ledger.vm(key)
                if known is None or known.uid != vm.uid or not _older(vm.resource_version, known.resource_version):
                    ledger.put_vm(vm)
            case Deleted(key, _):
                ledger.drop_vm(key)
        self._on_change()

    def apply_pod(self, event: FactEvent[LedgerPod]) -> None:
        match event:
            case Added(key, pod) | Updated(key, _, pod):
                self._put_pod(key, pod)
            case Deleted(key, _):
                self._put_pod(key, None)
        self._on_change()

    def apply_migration(self, event: FactEvent[VmMigration]) -> None:
        match event:
            case Added(_, migration) | Updated(_, _, migration):
                self._core.ledger.put_migration(migration)
            case Deleted(key, _):
                self._core.ledger.drop_migration(key)
        self._on_change()

    def _put_pod(self, key: ObjectKey, pod: LedgerPod) -> None:
        ledger = self._core.ledger
        if not isinstance(pod, VmPod):
            ledger.drop_pod(key)
        if not isinstance(pod, OrdinaryPod):
            ledger.drop_ordinary(key)
        if isinstance(pod, OrdinaryPod):
            ledger.put_ordinary(pod)
        elif isinstance(pod, VmPod):
            known = ledger.pod(key)
            if known is None or known.uid != pod.uid or not _older(pod.resource_version, known.resource_version):
                ledger.put_pod(pod)


def _older(one: str, other: str) -> bool:
    """Compare resourceVersions, which count up. Versions that are no numbers are never older."""
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)
