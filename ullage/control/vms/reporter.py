"""Report on VMs: Events on VirtualMachines, nodes and the ConfigMap, log lines, metrics. Nothing is decided here."""

from collections.abc import Iterable, Mapping
from typing import Protocol

import structlog

from ullage.decide.vms.config_change import compare_configs
from ullage.kube.client.resources import VIRTUAL_MACHINES
from ullage.kube.read.vm_config import CONFIG_MAP
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import DeleteMigration, StartMigration
from ullage.model.lease import LEASE_NAMESPACE
from ullage.model.outcomes import MigrationDeleted, MigrationStarted, VmIntentRefused, VmIntentUnknown, VmOutcome
from ullage.model.quantity import bytes_text, cores_text
from ullage.model.vm import VM_APPROVED, VmAmounts, VmPod
from ullage.model.vm_config import ConfigRefusal, VmConfig
from ullage.observe.events import EventMessage, EventReason, ObjectReference
from ullage.observe.vm_metrics import VmSystemMetrics

_log = structlog.get_logger("vms")


class VmEventSink(Protocol):
    """Recorder of Events."""

    def record(self, announcement: EventMessage) -> None: ...


class VmReporter:
    """Events, log lines and metrics of one scheduler. Without a sink or metrics it only logs."""

    def __init__(
        self,
        events: VmEventSink | None = None,
        metrics: VmSystemMetrics | None = None,
        namespace: str = LEASE_NAMESPACE,
    ) -> None:
        """`namespace` is that of the node configuration."""
        self._events = events
        self._metrics = metrics
        self._document = ObjectKey(namespace, CONFIG_MAP)
        self._lasting: frozenset[str] = frozenset()
        self._unreadable: frozenset[str] = frozenset()
        self._small: frozenset[str] = frozenset()
        self._refusal: ConfigRefusal | None = None
        self._config: VmConfig | None = None

    def served(self, yes: bool) -> None:
        """VirtualMachines are known to the cluster, or not."""
        if not yes:
            _log.info("VMs are not counted", why="the cluster does not serve VirtualMachine; looked for again later")
        if self._metrics is not None:
            self._metrics.served(yes)

    def outcome(self, outcome: VmOutcome) -> None:
        """Report the end of an intent."""
        intent = outcome.intent
        if isinstance(outcome, VmIntentRefused | VmIntentUnknown):
            _log.warning("not done", intent=type(intent).__name__, why=intent.why, detail=outcome.detail)
        else:
            _log.info("done", intent=type(intent).__name__, why=intent.why)
        match outcome:
            case MigrationStarted(intent=StartMigration() as start):
                note = f"the VM leaves node {start.pod.node}: {start.why}"
                self._emit(_machine(start.vm.key, start.vm.uid), EventReason.VM_MIGRATION_STARTED, note)
        if self._metrics is not None:
            match intent:
                case StartMigration():
                    self._metrics.started(isinstance(outcome, MigrationStarted))
                case DeleteMigration() if isinstance(outcome, MigrationDeleted):
                    self._metrics.ended(intent.migration.phase)

    def unrelieved(self, by_node: Mapping[str, VmAmounts]) -> None:
        """Report nodes whose pressure no migration relieves, once each time it begins."""
        for node in sorted(by_node.keys() - self._lasting):
            amounts = by_node[node]
            note = (
                f"{cores_text(amounts.cpu)} CPU and {bytes_text(amounts.memory)} of memory too much for the VMs of "
                "this node, and none of them can be migrated for it"
            )
            _log.warning("lasting pressure", node=node, cpu=amounts.cpu, memory=amounts.memory)
            self._emit(ObjectReference("Node", ObjectKey("", node)), EventReason.VM_PRESSURE, note)
        self._lasting = frozenset(by_node)

    def too_small(self, nodes: Iterable[str]) -> None:
        """Report VM nodes whose system reserve leaves nothing for VMs, once each time it begins."""
        found = frozenset(nodes)
        for node in sorted(found - self._small):
            note = (
                f"system of ConfigMap {self._document} leaves not one slot of this node's CPU or memory: no VM is "
                "placed here"
            )
            _log.warning("VM node too small", node=node, config_map=str(self._document))
            self._emit(ObjectReference("Node", ObjectKey("", node)), EventReason.VM_NODE_TOO_SMALL, note)
        self._small = found

    def unreadable(self, pods: Iterable[VmPod]) -> None:
        """Report VM pods whose approval cannot be what the scheduler wrote, once each time it begins."""
        by_uid = {pod.uid: pod for pod in pods}
        for uid in sorted(by_uid.keys() - self._unreadable):
            pod = by_uid[uid]
            wrong = "is missing or malformed" if pod.approved is None else "is more than its VM may have"
            note = f"{VM_APPROVED} {wrong}: the VM counts by its maximum until its agent's next message writes it anew"
            _log.warning("approval not believed", pod=str(pod.key), why=wrong)
            self._emit(ObjectReference("Pod", pod.key, uid), EventReason.VM_APPROVAL_UNREADABLE, note)
        if self._metrics is not None:
            self._metrics.unreadable(len(by_uid.keys() - self._unreadable))
        self._unreadable = frozenset(by_uid)

    def config(self, config: VmConfig, refusal: ConfigRefusal | None) -> None:
        """Report a configuration that was taken over or refused, once."""
        if self._config is not None and config != self._config:
            changes = compare_configs(self._config, config)
            nodes = [] if isinstance(changes, ConfigRefusal) else [one.node or "defaults" for one in changes]
            _log.info("node configuration taken over", changed=nodes)
        self._config = config
        if refusal != self._refusal and refusal is not None:
            _log.warning("node configuration refused", config_map=str(self._document), why=str(refusal))
            note = f"{refusal}; the configuration before stays in force"
            self._emit(ObjectReference("ConfigMap", self._document), EventReason.VM_CONFIG_REFUSED, note)
        self._refusal = refusal
        if self._metrics is not None:
            self._metrics.config_refused(refusal is not None)

    def _emit(self, about: ObjectReference, reason: EventReason, note: str) -> None:
        if self._events is not None:
            self._events.record(EventMessage(about, reason, note, topic=reason.value))


def _machine(key: ObjectKey, uid: str) -> ObjectReference:
    return ObjectReference(VIRTUAL_MACHINES.kind, key, uid, VIRTUAL_MACHINES.api_version)
