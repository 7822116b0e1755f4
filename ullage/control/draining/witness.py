"""Answers the NodeRemover needs during a removal: instances, drain rules, room elsewhere. From the current snapshot."""

from dataclasses import dataclass

from ullage.act.node_removal import MachineRef
from ullage.clock import Clock
from ullage.control.draining.settings import DrainingSettings
from ullage.control.provisioning.instance_lists import InstanceLists
from ullage.control.provisioning.statuses import ProvisionerStatuses
from ullage.decide.draining.ledger import NodeDeletionTracker
from ullage.decide.draining.node_lists import pod_destinations
from ullage.decide.draining.parallelism import pool_of
from ullage.decide.draining.pdb import RemainingPdbTracker
from ullage.decide.draining.room import DisplacedPods, without_room
from ullage.decide.draining.rules import DrainContext
from ullage.decide.draining.workloads import WorkloadIndex
from ullage.decide.provisioning.pool_nodes import with_their_nodes
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.fact_event import ObjectKey
from ullage.model.instance import Instance
from ullage.model.pod import Pod
from ullage.state.snapshot import ClusterSnapshot

ROOM_HOLDS = 0.5
"""Seconds for which an answer about room is reused."""


@dataclass(frozen=True, slots=True)
class Ground:
    """State shared with the provisioner: one snapshot, one list of instances, one writer of statuses."""

    placements: ClusterSnapshot
    statuses: ProvisionerStatuses
    clouds: InstanceLists

    def instances(self) -> list[Instance]:
        """Instances of all providers, with the names of their nodes."""
        return with_their_nodes(self.clouds.instances(), self.placements)


class Witness:
    """Answers from the snapshot and from the NodeDeletionTracker."""

    def __init__(
        self,
        ground: Ground,
        ledger: NodeDeletionTracker,
        workloads: WorkloadIndex,
        clock: Clock,
        settings: DrainingSettings,
    ) -> None:
        self._ground = ground
        self._ledger = ledger
        self._workloads = workloads
        self._clock = clock
        self._settings = settings
        self._assigner = PodAssigner(ground.placements)
        self._short: dict[str, ObjectKey] = {}
        self._short_at = float("-inf")

    def machine_of(self, node: str) -> MachineRef | None:
        """Instance of a node of a pool, if its provider lists one."""
        pool = self._ground.statuses.provisioners.get(pool_of(self._ground.placements.state.nodes.get(node)))
        found = next((one for one in self._ground.instances() if one.node == node), None)
        if pool is None or found is None:
            return None
        return MachineRef(self._ground.clouds.provider(pool.provider), found.id)

    def circumstances(self) -> DrainContext:
        """Current inputs of the drain rules."""
        budgets = RemainingPdbTracker(self._ground.placements.state.budgets)
        rules, known = self._settings.policy.rules, self._workloads
        return DrainContext(rules, budgets, known.by_uid, known.kinds, self._clock.now())

    def unplaced(self, node: str) -> ObjectKey | None:
        """Pod that has to leave the node and has no place any more. One answer serves removals begun together."""
        moment = self._clock.steady()
        if moment - self._short_at > ROOM_HOLDS:
            leaving = DisplacedPods(
                nodes={name: one.pods for name, one in self._ledger.promises.items()},
                evictions=self._ledger.evictions,
                workloads=self._workloads.by_uid,
                destinations=pod_destinations(self._settings.node_filters, self._ground.placements.state.nodes),
            )
            self._short, self._short_at = without_room(self._assigner, leaving, now=self._clock.now()), moment
        return self._short.get(node)

    def evicted(self, pod: Pod) -> None:
        """Record an eviction."""
        self._ledger.evicted(pod, at=self._clock.now())
