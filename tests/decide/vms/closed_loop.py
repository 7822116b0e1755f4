"""Agents and the scheduler's core together, second by second, without I/O: bursty VMs on a few nodes.

Hot-plug lags, answers get lost, migrations take time and fail, the watch on VirtualMachines is a second behind, and the
scheduler restarts. `check` says what must hold at every moment.
"""

import random
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from tests.vms import GI, a_migration, a_vm, a_vm_pod, key, node_config, size, vm_config
from ullage.decide.placement.vm_pods import first_approval
from ullage.decide.vm_agent.core import AskScheduler, ResizeVm, VmAgentCore
from ullage.decide.vm_agent.goal import VmBounds, VmMetrics
from ullage.decide.vms.core import VmCore, VmRules
from ullage.decide.vms.migration import MigrationRules
from ullage.decide.vms.permit import PermitDecision, PermitRequest
from ullage.decide.vms.reserve import room_for_vm
from ullage.model.intents import DeleteMigration, StartMigration
from ullage.model.units import Instant, Seconds
from ullage.model.vm import MigrationPhase, RestartRule, Vm, VmAmounts, VmMigration, VmPod
from ullage.state.vm_ledger import VmLedger

UNIT = size(0.25, 1)
ROOM = size(32, 128)
METRICS_EVERY = 5


class Hotplug(NamedTuple):
    resize: ResizeVm
    done_at: int


@dataclass
class Guest:
    """A VM, its agent, and the load in it."""

    vm: Vm
    agent: VmAgentCore
    pod: str
    target: str = ""
    hotplug: Hotplug | None = None
    level: float = 0.5
    """Cores' worth of load."""
    load5: float = 0.5
    until: int = 0
    """End of the present burst or calm."""
    short_since: int | None = None
    """Since when it has less than it needs although its node has room."""


@dataclass
class ClosedLoop:
    """One town of VMs."""

    nodes: int
    vms_per_node: int
    seed: int
    restart: RestartRule = RestartRule.TRUST_APPROVED
    now: int = 0
    guests: dict[str, Guest] = field(default_factory=dict)
    pods: dict[str, VmPod] = field(default_factory=dict)
    migrations: dict[str, tuple[VmMigration, int]] = field(default_factory=dict)
    started: dict[str, list[int]] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=lambda: {"Succeeded": 0, "Failed": 0})
    denied: int = 0
    restarts: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.rules = VmRules(migration=MigrationRules(cooldown=Seconds(900.0)))
        self.late: list[Vm] = []
        self.core = self.fresh_core()
        for number in range(self.nodes * self.vms_per_node):
            self.create(f"v{number:03}", f"n{number % self.nodes}")

    @property
    def instant(self) -> Instant:
        return Instant(float(self.now))

    def fresh_core(self) -> VmCore:
        """A scheduler that has just started: all it knows is on objects."""
        ledger = VmLedger(vm_config(node_config(watermark=0.8, unit=UNIT)), self.restart)
        for number in range(self.nodes):
            ledger.put_node(f"n{number}", ROOM)
        for guest in self.guests.values():
            ledger.put_vm(guest.vm)
        for pod in self.pods.values():
            ledger.put_pod(pod)
        for migration, _ in self.migrations.values():
            ledger.put_migration(migration)
        return VmCore(ledger, self.rules)

    def create(self, name: str, node: str) -> None:
        use = size(0.5, 2)
        vm = a_vm(name, use, size(8, 32), minimum=UNIT)
        self.pods[name] = a_vm_pod(name, node, use)
        self.guests[name] = Guest(vm, self.agent(vm), pod=name)
        self.core.ledger.put_vm(vm)
        self.core.ledger.put_pod(self.pods[name])

    def agent(self, vm: Vm) -> VmAgentCore:
        return VmAgentCore(VmBounds(using=vm.use, minimum=vm.minimum, maximum=vm.maximum), UNIT)

    # One second.

    def second(self) -> None:
        self.now += 1
        for vm in self.late:
            if vm.key.name in self.guests:
                self.core.ledger.put_vm(vm)
        self.late = []
        for name in sorted(self.migrations):
            self.move(name)
        for number, name in enumerate(sorted(self.guests)):
            self.live(self.guests[name], number)
        if self.now % 5 == 0:
            self.schedule()

    def restart_scheduler(self) -> None:
        self.restarts += 1
        self.late = []
        self.core = self.fresh_core()

    # Agents.

    def live(self, guest: Guest, number: int) -> None:
        if guest.hotplug is not None and guest.hotplug.done_at <= self.now:
            guest.vm = msgspec.structs.replace(guest.vm, use=guest.hotplug.resize.target)
            self.late.append(guest.vm)
            guest.hotplug = None
            guest.agent.resize_done()
        if (self.now + number) % METRICS_EVERY:
            return
        self.burst(guest)
        used = round((0.5 + guest.level * 2) * GI)
        metrics = VmMetrics(load1=guest.level, load5=guest.load5, memory_usage=used)
        guest.agent.observe_metrics(metrics, now=self.instant)
        for _ in range(3):
            actions = guest.agent.next_actions(now=self.instant)
            if actions.ask is not None:
                self.ask(guest, actions.ask)
            if actions.resize is not None and guest.hotplug is None:
                guest.agent.resize_begun(actions.resize)
                guest.hotplug = Hotplug(actions.resize, self.now + self.chance.randint(0, 3))
            if actions.ask is None:
                break

    def burst(self, guest: Guest) -> None:
        if self.now >= guest.until:
            busy = self.chance.random() < 0.3
            guest.level = self.chance.uniform(1.0, 6.0) if busy else self.chance.uniform(0.0, 0.6)
            guest.until = self.now + self.chance.randint(60, 600)
        guest.load5 += (guest.level - guest.load5) * METRICS_EVERY / 300

    def ask(self, guest: Guest, ask: AskScheduler) -> None:
        guest.agent.ask_begun(ask, now=self.instant)
        request = PermitRequest(pod=key(guest.pod), wanted=ask.wanted, unit=UNIT, last_permit=ask.last_permit)
        fate = self.chance.random()
        if fate < 0.01:
            guest.agent.ask_failed(now=self.instant)
            return
        if self.core.needs_fresh_read(request):
            self.core.ledger.put_vm(guest.vm)
            self.core.approval_read(self.pods[guest.pod])
        decided = self.core.request(request, guest.level, now=self.instant)
        if not isinstance(decided, PermitDecision):
            guest.agent.ask_failed(now=self.instant)
            return
        if decided.write is not None:
            write = decided.write
            pod = msgspec.structs.replace(write.pod, approved=write.approved, requested=write.requested)
            self.pods[guest.pod] = pod
            if fate >= 0.02:
                self.core.approval_written(pod)
        self.denied += bool(decided.permit.denied)
        if fate < 0.03:
            guest.agent.ask_failed(now=self.instant)
        else:
            assert guest.agent.ask_answered(decided.permit.granted, migrate=decided.migrate, now=self.instant)

    # Migrations.

    def schedule(self) -> None:
        for intent in self.core.next_intents(now=self.instant):
            match intent:
                case StartMigration():
                    self.start(intent)
                case DeleteMigration():
                    self.core.ledger.drop_migration(intent.migration.key)

    def start(self, intent: StartMigration) -> None:
        name = intent.vm.key.name
        if self.chance.random() < 0.05:
            self.core.migration_refused(intent)
            return
        guest = self.guests[name]
        self.started.setdefault(name, []).append(self.now)
        guest.vm = msgspec.structs.replace(guest.vm, last_migration=self.instant)
        self.late.append(guest.vm)
        migration = msgspec.structs.replace(a_migration(name, source=guest.pod), key=key(intent.name))
        self.migrations[name] = (migration, self.now + self.chance.randint(20, 60))
        self.core.ledger.put_migration(migration)

    def move(self, name: str) -> None:
        """Bind the target where there is room, wait, then end."""
        guest, (migration, end) = self.guests[name], self.migrations[name]
        if not guest.target:
            self.bind_target(guest)
        if self.now < end:
            return
        works = bool(guest.target) and self.chance.random() < 0.9
        phase = MigrationPhase.SUCCEEDED if works else MigrationPhase.FAILED
        self.ended[phase.value] += 1
        del self.migrations[name]
        self.core.ledger.put_migration(msgspec.structs.replace(migration, phase=phase))
        if works:
            self.drop(guest.pod)
            guest.pod, guest.target = guest.target, ""
            self.pods[guest.pod] = msgspec.structs.replace(self.pods[guest.pod], incoming=False)
            self.core.ledger.put_pod(self.pods[guest.pod])
            # The agent of the other node takes over, and knows of no permit. What was being plugged in is in.
            if guest.hotplug is not None:
                guest.vm = msgspec.structs.replace(guest.vm, use=guest.hotplug.resize.target)
                self.late.append(guest.vm)
                guest.hotplug = None
            guest.agent = self.agent(guest.vm)
        elif guest.target:
            self.drop(guest.target)
            guest.target = ""

    def bind_target(self, guest: Guest) -> None:
        vm = self.core.ledger.vm(guest.vm.key)
        assert vm is not None
        for number in range(self.nodes):
            if room_for_vm(self.core.ledger, f"n{number}", vm):
                guest.target = f"{guest.vm.key.name}-{self.now}"
                approved = first_approval(self.core.ledger, vm)
                pod = a_vm_pod(guest.target, f"n{number}", approved, vm=vm.key.name, incoming=True)
                self.pods[guest.target] = pod
                self.core.ledger.put_pod(pod)
                return

    def drop(self, pod: str) -> None:
        del self.pods[pod]
        self.core.ledger.drop_pod(key(pod))

    # What must hold.

    def check(self) -> None:
        for number in range(self.nodes):
            node = f"n{number}"
            rows = self.core.ledger.ledger(node)
            for row in (rows.cpu, rows.memory):
                assert row.reserved - row.buffer <= row.total, (self.now, node, row)
            could = [
                guest.vm.use.at_least(guest.agent.permit or guest.vm.use)
                for guest in self.guests.values()
                for pod in (guest.pod, guest.target)
                if pod and self.pods[pod].node == node
            ]
            assert sum(one.cpu for one in could) <= ROOM.cpu, (self.now, node)
            assert sum(one.memory for one in could) <= ROOM.memory, (self.now, node)
        if self.now % 20 == 0:
            for name in sorted(self.guests):
                self.check_not_starved(name)

    def check_not_starved(self, name: str) -> None:
        """A VM that needs more gets it within a minute where its node has room for a unit."""
        guest = self.guests[name]
        desired = guest.agent.desired(now=self.instant)
        short = not desired.within(guest.vm.use) and name not in self.migrations
        room = UNIT.within(self.core.ledger.ledger(self.pods[guest.pod].node).free)
        if not (short and room):
            guest.short_since = None
        elif guest.short_since is None:
            guest.short_since = self.now
        else:
            assert self.now - guest.short_since < 60, (self.now, name)

    def calm_down(self) -> None:
        """From here on nobody is busy."""
        for guest in self.guests.values():
            guest.level, guest.until = 0.3, 1 << 40

    def denied_now(self) -> VmAmounts:
        """Denied on all nodes together."""
        total = VmAmounts(0, 0)
        for number in range(self.nodes):
            rows = self.core.ledger.ledger(f"n{number}")
            total = total.plus(VmAmounts(rows.cpu.capacity_pressure, rows.memory.capacity_pressure))
        return total
