"""What hands ask while they remove nodes: about machines, rules, who is about to come, room. By what is known now."""

from dataclasses import dataclass

from ullage.act.drain import Machine
from ullage.clock import Clock
from ullage.control.draining.ledger import Ledger
from ullage.control.draining.settings import DrainingSettings
from ullage.control.draining.workloads import Workloads
from ullage.control.provisioning.clouds import Clouds
from ullage.control.provisioning.statuses import Statuses
from ullage.decide.assigning import Assigner, waits
from ullage.decide.drain.budgets import Budgets
from ullage.decide.drain.room import Leaving, without_room
from ullage.decide.drain.rules import Circumstances
from ullage.decide.drain.turns import pool_of
from ullage.decide.pool.facts import with_their_nodes
from ullage.model.event import ObjectKey
from ullage.model.instance import Instance
from ullage.model.pod import Pod
from ullage.state.placements import Placements

ROOM_HOLDS = 0.5
"""Seconds for which it is taken for granted that there is still room."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What is shared with the provisioner: one picture, one list of machines, one writer of statuses."""

    placements: Placements
    statuses: Statuses
    clouds: Clouds

    def instances(self) -> list[Instance]:
        """Of all providers, with the names of their nodes."""
        return with_their_nodes(self.clouds.instances(), self.placements)


class Witness:
    """Answers by the picture, and by what the loop remembers."""

    def __init__(
        self, ground: Ground, ledger: Ledger, workloads: Workloads, clock: Clock, settings: DrainingSettings
    ) -> None:
        self._ground = ground
        self._ledger = ledger
        self._workloads = workloads
        self._clock = clock
        self._settings = settings
        self._assigner = Assigner(ground.placements)
        self._short: dict[str, ObjectKey] = {}
        self._short_at = float("-inf")

    def machine_of(self, node: str) -> Machine | None:
        """What is under a node of a pool, if its provider knows."""
        pool = self._ground.statuses.provisioners.get(pool_of(self._ground.placements.state.nodes.get(node)))
        found = next((one for one in self._ground.instances() if one.node == node), None)
        if pool is None or found is None:
            return None
        return Machine(self._ground.clouds.provider(pool.provider), found.id)

    def circumstances(self) -> Circumstances:
        """What the rules look at beside a pod."""
        budgets = Budgets(self._ground.placements.state.budgets)
        rules, known = self._settings.policy.rules, self._workloads
        return Circumstances(rules, budgets, known.by_uid, known.kinds, self._clock.now())

    def waiting(self) -> dict[str, ObjectKey]:
        """Pods without a node, by their uids."""
        return {pod.uid: pod.key for pod in self._ground.placements.state.pods.values() if waits(pod)}

    def devices(self, node: str) -> list[int]:
        """The GPUs of a node, as far as it has said."""
        report = self._ground.placements.state.inventories.get(node)
        return [] if report is None else [device.id for device in report.devices]

    def unplaced(self, node: str) -> ObjectKey | None:
        """A pod that has to leave a node and has no place any more. Removals begun together ask at the same time."""
        moment = self._clock.steady()
        if moment - self._short_at > ROOM_HOLDS:
            leaving = Leaving(
                nodes={name: one.pods for name, one in self._ledger.promises.items()},
                evictions=self._ledger.evictions,
                workloads=self._workloads.by_uid,
            )
            self._short, self._short_at = without_room(self._assigner, leaving, now=self._clock.now()), moment
        return self._short.get(node)

    def evicted(self, pod: Pod) -> None:
        """A pod was told to go."""
        self._ledger.evicted(pod, at=self._clock.now())
