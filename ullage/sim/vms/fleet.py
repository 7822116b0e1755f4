"""VmFleet: agents, scheduler and hypervisors of many VMs by their cores alone, event by event in virtual time.

For weeks of time: there are no API objects and no tasks. Requests that change nothing are implicit: an agent is asked
again when its load, its VM or the room of its node changes. Every decision is `decide`'s own; this module stands for
the load, the network, hot-plug and migrations. What must hold: `fleet_checks`.
"""

import heapq
import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import msgspec

from ullage.decide.placement.score.vm import relief_score
from ullage.decide.placement.vm_pods import first_approval
from ullage.decide.vm_agent.core import AgentTimings, AskScheduler, VmAgentCore
from ullage.decide.vm_agent.goal import VmBounds
from ullage.decide.vms.core import VmCore
from ullage.decide.vms.permit import PermitDecision, PermitRequest
from ullage.decide.vms.pressure import unaccounted_pressure
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import DeleteMigration, StartMigration
from ullage.model.units import Instant
from ullage.model.vm import MigrationPhase, Vm, VmAmounts, VmMigration, VmPod
from ullage.sim.vms.fleet_report import FleetReport
from ullage.sim.vms.fleet_spec import FOREVER, GI, FleetSpec
from ullage.sim.vms.guest_load import BurstyLoad, LoadStep
from ullage.state.vm_ledger import VmLedger

_NS = "vms"
_PLAN_PAUSE = 15.0
"""Seconds between two plans of migrations at least. The scheduler plans each second; pressure lasts longer."""
_TIMINGS = AgentTimings(tick=FOREVER, metrics_expire=FOREVER)


class _Due(IntEnum):
    """Kinds of events; at one instant in this order."""

    PLUGGED = 0
    MIGRATED = 1
    RESTART = 2
    LOAD = 3
    RETRY = 4
    PLAN = 5


@dataclass(slots=True)
class FleetGuest:
    """One VM, its agent and the load in it."""

    vm: Vm
    agent: VmAgentCore
    pod: VmPod
    steps: Iterator[LoadStep]
    load: LoadStep
    following: LoadStep
    target: VmPod | None = None
    """Pod on the node it migrates to."""
    moving: VmMigration | None = None
    plugging: VmAmounts | None = None
    denied_at: float = -math.inf
    short_since: float | None = None
    migrations: list[float] = field(default_factory=list)


class VmFleet:
    """A fleet at work. `run` passes time."""

    def __init__(self, spec: FleetSpec, load: BurstyLoad | None = None) -> None:
        self.spec = spec
        self.now = Instant(0.0)
        self.report = FleetReport(spec.nodes, spec.unit)
        self._load = load or BurstyLoad(seed=spec.seed)
        self._chance = random.Random(spec.seed)
        self._due: list[tuple[float, int, int, str]] = []
        self._order = itertools.count()
        self._planned_at = math.inf
        self.names = tuple(f"n{number:03}" for number in range(spec.nodes))
        self.guests: dict[str, FleetGuest] = {}
        self.homes: dict[str, set[str]] = {name: set() for name in self.names}
        self._waiting: dict[str, dict[str, None]] = {name: {} for name in self.names}
        """By node: VMs that were denied, in the order they were."""
        self._pressed: dict[str, bool] = dict.fromkeys(self.names, False)
        for number in range(spec.nodes * spec.vms_per_node):
            self._create(f"v{number:04}", self.names[number % spec.nodes])
        self.core = self._fresh_core()
        self._push(spec.restart_every, _Due.RESTART)
        for name in self.guests:
            self._push(self.guests[name].load.at, _Due.LOAD, name)

    def run(self, until: float) -> None:
        """Pass time until `until` seconds since the beginning."""
        while self._due and self._due[0][0] <= until:
            at, kind, _, name = heapq.heappop(self._due)
            self.now = Instant(at)
            self._happens(_Due(kind), name)
        self.now = Instant(until)
        for node in self.names:
            self._note(node)

    # Events.

    def _happens(self, kind: _Due, name: str) -> None:
        match kind:
            case _Due.LOAD:
                self._new_load(self.guests[name])
            case _Due.PLUGGED:
                self._plugged(self.guests[name])
            case _Due.RETRY:
                self._act(self.guests[name])
            case _Due.MIGRATED:
                self._migrated(self.guests[name])
            case _Due.RESTART:
                self._restart()
            case _Due.PLAN:
                self._plan()

    def _push(self, at: float, kind: _Due, name: str = "") -> None:
        heapq.heappush(self._due, (at, kind, next(self._order), name))

    def _create(self, name: str, node: str) -> None:
        key, use = ObjectKey(_NS, name), self.spec.unit.times(2)
        vm = Vm(
            key=key,
            uid=name,
            minimum=self.spec.smallest,
            use=use,
            maximum=self.spec.largest,
            memory_slot=GI,
            migratable=True,
        )
        steps = self._load.steps(name)
        pod = self._pod(vm, f"{name}-0", node, use)
        self.guests[name] = FleetGuest(vm, self._agent(vm), pod, steps, next(steps), next(steps))
        self.homes[node].add(name)

    def _pod(self, vm: Vm, name: str, node: str, approved: VmAmounts, *, incoming: bool = False) -> VmPod:
        return VmPod(
            key=ObjectKey(_NS, name),
            uid=name,
            node=node,
            vm=vm.key.name,
            created=self.now,
            requests=VmAmounts(0, 0),
            approved=approved,
            incoming=incoming,
        )

    def _agent(self, vm: Vm) -> VmAgentCore:
        bounds = VmBounds(using=vm.use, minimum=vm.minimum, maximum=vm.maximum)
        return VmAgentCore(bounds, self.spec.unit, timings=_TIMINGS)

    def _fresh_core(self) -> VmCore:
        """A scheduler that has just started: all it knows is on objects."""
        ledger = VmLedger(self.spec.config)
        for name in self.names:
            ledger.put_node(name, self.spec.room)
        for guest in self.guests.values():
            ledger.put_vm(guest.vm)
            ledger.put_pod(guest.pod)
            if guest.target is not None:
                ledger.put_pod(guest.target)
            if guest.moving is not None:
                ledger.put_migration(guest.moving)
        return VmCore(ledger, self.spec.rules)

    def _restart(self) -> None:
        """Start the scheduler anew; every agent reports within its tick, which brings the loads."""
        self.report.restarts += 1
        self.core = self._fresh_core()
        self._push(self.now + self.spec.restart_every, _Due.RESTART)
        for guest in self.guests.values():
            permit = guest.agent.permit
            if permit is not None and permit == self.core.ledger.account(guest.pod.key).reserved:
                request = PermitRequest(pod=guest.pod.key, wanted=permit, unit=self.spec.unit, last_permit=permit)
                self._decide(guest, request)
        for node, waiting in self._waiting.items():
            for name in waiting:
                self._push(self.now + 2.0, _Due.RETRY, name)
            self._note(node)
        self._plan_soon()

    # Agents.

    def _new_load(self, guest: FleetGuest) -> None:
        while guest.following.at <= self.now:
            guest.load, guest.following = guest.following, next(guest.steps)
        self._push(guest.following.at, _Due.LOAD, guest.vm.key.name)
        guest.agent.observe_metrics(guest.load.metrics, now=self.now)
        self._act(guest)

    def _plugged(self, guest: FleetGuest) -> None:
        if guest.plugging is None:
            return
        guest.vm = msgspec.structs.replace(guest.vm, use=guest.plugging)
        guest.plugging = None
        self.core.ledger.put_vm(guest.vm)
        guest.agent.resize_done()
        self._act(guest)

    def _act(self, guest: FleetGuest) -> None:
        """Perform what the agent wants now, until it wants nothing more."""
        while True:
            actions = guest.agent.next_actions(now=self.now)
            if actions.ask is not None:
                self._ask(guest, actions.ask)
            if actions.resize is not None:
                guest.agent.resize_begun(actions.resize)
                guest.plugging = actions.resize.target
                self._push(self.now + self._chance.uniform(0.5, 3.0), _Due.PLUGGED, guest.vm.key.name)
            if actions.ask is None and actions.resize is None:
                break
        self._note_shortage(guest)

    def _ask(self, guest: FleetGuest, ask: AskScheduler) -> None:
        name, node = guest.vm.key.name, guest.pod.node
        guest.agent.ask_begun(ask, now=self.now)
        self.report.requests += 1
        fate = self._chance.random()
        granted: VmAmounts | None = None
        migrate = False
        if fate >= self.spec.lost / 2:
            request = PermitRequest(
                pod=guest.pod.key, wanted=ask.wanted, unit=self.spec.unit, last_permit=ask.last_permit
            )
            decided = self._decide(guest, request)
            if isinstance(decided, PermitDecision):
                granted, migrate = decided.permit.granted, decided.migrate
        if granted is None or fate < self.spec.lost:
            guest.agent.ask_failed(now=self.now)
            self._push(self.now + 3.0, _Due.RETRY, name)
        else:
            if not guest.agent.ask_answered(granted, migrate=migrate, now=self.now):
                raise AssertionError(f"{name}: the scheduler gave an invalid permit at {self.now}")
            self._note_denial(guest, node, denied=granted != ask.wanted)
        self._note(node)

    def _decide(self, guest: FleetGuest, request: PermitRequest) -> PermitDecision | None:
        core, before = self.core, guest.pod.approved
        if core.needs_fresh_read(request):
            core.approval_read(guest.pod)
        decided = core.request(request, guest.load.cores, now=self.now)
        if not isinstance(decided, PermitDecision):
            return None
        if decided.write is not None:
            write = decided.write
            guest.pod = msgspec.structs.replace(write.pod, approved=write.approved, requested=write.requested)
            core.approval_written(guest.pod)
            self.report.changes += 1
            if before is not None and not before.within(write.approved):
                self._room_freed(guest.pod.node)
        return decided

    def _note_denial(self, guest: FleetGuest, node: str, *, denied: bool) -> None:
        name = guest.vm.key.name
        self._waiting[node].pop(name, None)
        if denied:
            guest.denied_at = self.now
            self._waiting[node][name] = None
            self.report.denials += 1

    def _room_freed(self, node: str) -> None:
        """VMs of the node that were denied ask again: two seconds after their denial at the earliest."""
        for name in self._waiting[node]:
            at = max(self.guests[name].denied_at + 2.0, self.now + 0.1)
            self._push(at, _Due.RETRY, name)

    # Migrations.

    def _plan_soon(self) -> None:
        self._plan_at(self.now + _PLAN_PAUSE)

    def _plan_at(self, at: float) -> None:
        if at < self._planned_at and at < math.inf:
            self._planned_at = at
            self._push(at, _Due.PLAN)

    def _plan(self) -> None:
        if self.now < self._planned_at:
            return
        self._planned_at = math.inf
        for intent in self.core.next_intents(now=self.now):
            match intent:
                case StartMigration():
                    self._start(intent)
                case DeleteMigration():
                    self.core.ledger.drop_migration(intent.migration.key)
        deadline = self.core.next_deadline()
        if deadline is not None:
            self._plan_at(max(deadline, self.now + _PLAN_PAUSE))

    def _start(self, intent: StartMigration) -> None:
        guest = self.guests[intent.vm.key.name]
        guest.migrations.append(self.now)
        guest.vm = msgspec.structs.replace(guest.vm, last_migration=self.now)
        guest.moving = VmMigration(
            key=ObjectKey(_NS, intent.name),
            uid=intent.name,
            vm=intent.vm.key.name,
            phase=MigrationPhase.RUNNING,
            source_pod=guest.pod.key.name,
        )
        ledger = self.core.ledger
        ledger.put_vm(guest.vm)
        ledger.put_migration(guest.moving)
        self._bind_target(guest)
        self._note(guest.pod.node)
        self._push(self.now + self._chance.uniform(20.0, 60.0), _Due.MIGRATED, guest.vm.key.name)

    def _bind_target(self, guest: FleetGuest) -> None:
        """Place the target pod as the scheduler does: below the watermark, the emptiest node first, then by name."""
        ledger = self.core.ledger
        amounts, best = first_approval(ledger, guest.vm), (0, "")
        for node in self.names:
            if node != guest.pod.node:
                score = relief_score(ledger.ledger(node), amounts, self.spec.room)
                if score > best[0]:
                    best = (score, node)
        if best[0]:
            name = f"{guest.vm.key.name}-{len(guest.migrations)}"
            guest.target = self._pod(guest.vm, name, best[1], amounts, incoming=True)
            ledger.put_pod(guest.target)
            self.homes[best[1]].add(guest.vm.key.name)
            self._note(best[1])

    def _migrated(self, guest: FleetGuest) -> None:
        ledger, name, source, target = self.core.ledger, guest.vm.key.name, guest.pod, guest.target
        works = target is not None and self._chance.random() >= self.spec.migration_failures
        if guest.moving is not None:
            ledger.drop_migration(guest.moving.key)
        guest.moving = guest.target = None
        if works and target is not None:
            self.report.moved += 1
            ledger.drop_pod(source.key)
            self._leave(source.node, name)
            guest.pod = msgspec.structs.replace(target, incoming=False)
            ledger.put_pod(guest.pod)
            # What was being plugged in is in. The agent of the other node takes over, and knows of no permit.
            if guest.plugging is not None:
                guest.vm = msgspec.structs.replace(guest.vm, use=guest.plugging)
                guest.plugging = None
                ledger.put_vm(guest.vm)
            guest.agent = self._agent(guest.vm)
            guest.agent.observe_metrics(guest.load.metrics, now=self.now)
        else:
            self.report.failed += 1
            if target is not None:
                ledger.drop_pod(target.key)
                self._leave(target.node, name)
        for pod in (source, target):
            if pod is not None:
                self._note(pod.node)
        self._push(self.now + 0.1, _Due.RETRY, name)

    def _leave(self, node: str, name: str) -> None:
        self.homes[node].discard(name)
        self._waiting[node].pop(name, None)
        self._room_freed(node)

    # Books of the report.

    def _note(self, node: str) -> None:
        """The node has changed: integrate its pressure, plan if that began or ended, and check its room."""
        rows = self.core.ledger.ledger(node)
        self.report.node_changed(node, rows, self.now)
        pressed = bool(unaccounted_pressure(rows))
        if pressed != self._pressed[node]:
            self._pressed[node] = pressed
            self._plan_soon()
        for row in (rows.cpu, rows.memory):
            if row.reserved - row.buffer > row.total:
                raise AssertionError(f"{node} is overcommitted at {self.now}: {row}")

    def _note_shortage(self, guest: FleetGuest) -> None:
        desired = guest.agent.desired(now=self.now)
        name, node = guest.vm.key.name, guest.pod.node
        self.report.demand_changed(name, node, desired)
        short = not desired.within(guest.vm.use.at_least(guest.plugging or guest.vm.use))
        self.report.shortage_changed(name, short, self.now)
        if not short:
            guest.short_since = None
        elif guest.short_since is None:
            guest.short_since = self.now
