"""Calm after a random history: no request rises any more, agents report, migrations do their work, and a node that is
asked for is bought. Every node must then come down to what may be reserved on it.

Agents give nothing back: each keeps all that it holds, so that only migrations relieve a node.
"""

import msgspec

from tests.decide.vms.histories import Guest, VmHistories
from tests.vms import key, size
from ullage.decide.vms.core import VmCore, VmRules
from ullage.decide.vms.reserve import room_for_vm
from ullage.model.intents import RecordNodeNeed, StartMigration
from ullage.model.units import Instant
from ullage.model.vm import MigrationPhase, Vm, VmAmounts, VmMigration

STEP = 15
"""Seconds between two messages of an agent; a migration takes as long, once its target is bound."""
CALM = 30 * 60
"""Seconds in which all nodes must have settled. A VM that was moved rests for as long, so none moves twice."""
NEW_NODE = size(1000, 4000)
"""Room of a node that is bought: enough for all."""


class SettlingHistories(VmHistories):
    """One history, and the calm after it."""

    def teardown(self) -> None:
        """Play the calm. Hypothesis calls it after the last step."""
        self.settle()

    def settle(self) -> None:
        core = VmCore(self.ledger, VmRules())
        for guest in self.objects.guests.values():
            guest.heard = guest.vm.maximum
        for now in range(0, CALM, STEP):
            for name in sorted(self.objects.migrations):
                self.move(name)
            for number, name in enumerate(sorted(self.objects.guests)):
                guest = self.objects.guests[name]
                guest.lost = False
                self.ask(number, self.kept(guest), "heard")
                self.apply_permit(number)
                self.watch(number)
            for intent in core.next_intents(now=Instant(float(now))):
                if isinstance(intent, StartMigration):
                    self.start(intent)
                elif isinstance(intent, RecordNodeNeed) and intent.since is not None:
                    self.buy()
            self.no_node_is_overcommitted()
            self.machines_can_use_no_more_than_nodes_have()
        self.sums_equal_a_slow_recount()
        self.nodes_hold_what_may_be_reserved()

    def kept(self, guest: Guest) -> VmAmounts:
        """All that the VM may use. Versions 1-2 ask for whole units of those they were last told, and so for less."""
        pod, holds = self.objects.pods[guest.pod], guest.could_use
        if guest.version == 7 or pod.unit is None:
            return holds
        units = min(holds.cpu // pod.unit.cpu, holds.memory // pod.unit.memory)
        return pod.unit.times(units) if units else guest.vm.minimum.at_most(holds)

    def start(self, intent: StartMigration) -> None:
        migration = VmMigration(
            key=key(intent.name),
            uid=f"vmm-{intent.name}",
            vm=intent.vm.key.name,
            phase=MigrationPhase.RUNNING,
            source_pod=intent.pod.key.name,
        )
        guest = self.objects.guests[intent.vm.key.name]
        guest.vm = msgspec.structs.replace(guest.vm, last_migration=intent.at)
        self.deliver(guest)
        self.objects.migrations[intent.vm.key.name] = migration
        self.ledger.put_migration(migration)

    def move(self, name: str) -> None:
        """Bind the target, emptiest node first; one that waits has a node bought for it. A bound one moves."""
        guest, number = self.objects.guests[name], sorted(self.objects.migrations).index(name)
        if guest.target:
            self.end_migration(number, True)
            return
        found = [node for node in self.nodes if self.takes(node, guest.vm)]
        if found:
            self.bind_target(number, max(found, key=lambda node: self.ledger.ledger(node).below_watermark.cpu))
        else:
            self.buy()

    def takes(self, node: str, vm: Vm) -> bool:
        return room_for_vm(self.ledger, node, vm)

    def buy(self) -> None:
        self.nodes["new"] = NEW_NODE
        self.ledger.put_node("new", NEW_NODE)

    def nodes_hold_what_may_be_reserved(self) -> None:
        """Ordinary pods are nobody's to move: where a raised `system` leaves no room even for them, they stay."""
        for node in self.nodes:
            rows, ordinary = self.ledger.ledger(node), self.ledger.rounded(node, self.ledger.ordinary_on(node))
            for row, unmoved in ((rows.cpu, ordinary.cpu), (rows.memory, ordinary.memory)):
                assert row.reserved - row.buffer <= max(row.reservable, unmoved), (node, row)
