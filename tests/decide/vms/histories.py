"""Random histories of VMs on two nodes: API objects, agents that follow the protocol, a scheduler that may restart,
and a watch on VirtualMachines that lags. After each step the ledger is compared with a slow recount, and what machines
could really be using with what nodes have.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.vms import GI, a_migration, a_vm, a_vm_pod, an_ordinary_pod, key, node_config, size, vm_config
from ullage.decide.placement.vm_pods import first_approval
from ullage.decide.vms.permit import PermitDecision, PermitRequest, decide_permit
from ullage.decide.vms.reserve import room_for_ordinary, room_for_vm
from ullage.model.vm import GrantMode, OrdinaryPod, RestartRule, Vm, VmAmounts, VmMigration, VmPod
from ullage.model.vm_config import NodeConfig
from ullage.state.vm_ledger import VmLedger

NODES = {"n0": VmAmounts(8_300, 24 * GI), "n1": VmAmounts(12_000, 48 * GI + GI // 3)}
UNIT = size(1, 4)
SLOTS = st.builds(size, st.integers(1, 12), st.integers(1, 48))
UNITS = st.integers(1, 10).map(UNIT.times)
WANTED = SLOTS | UNITS
ANY = st.integers(0, 30)
WRITTEN = st.sampled_from(["heard", "heard", "refused", "unheard"])


@dataclass
class Guest:
    """A VM as it is, and its agent."""

    vm: Vm
    version: int
    permit: VmAmounts
    """The most the agent believes it may use."""
    pod: str
    target: str = ""
    """Pod it migrates to, once bound."""
    seen: Vm | None = None
    """The VirtualMachine as the scheduler has seen it."""
    heard: VmAmounts | None = None
    """Another maximum than the VM was made with, once the agent has heard of it."""
    possible: list[VmAmounts] = field(default_factory=list)
    """Amounts that the scheduler has seen its agent go by, since its last permit within the maximum."""
    lost: bool = False

    @property
    def could_use(self) -> VmAmounts:
        return self.vm.use.at_least(self.permit)


@dataclass
class Objects:
    """All that the API server holds."""

    guests: dict[str, Guest] = field(default_factory=dict)
    pods: dict[str, VmPod] = field(default_factory=dict)
    ordinary: dict[str, OrdinaryPod] = field(default_factory=dict)
    migrations: dict[str, VmMigration] = field(default_factory=dict)


class VmHistories(RuleBasedStateMachine):
    """One history."""

    def __init__(self) -> None:
        super().__init__()
        self.objects = Objects()
        self.nodes = dict(NODES)
        self.made = 0

    @initialize(mode=st.sampled_from(GrantMode), restart=st.sampled_from(RestartRule))
    def begin(self, mode: GrantMode, restart: RestartRule) -> None:
        self.mode, self.rule = mode, restart
        self.config: NodeConfig = node_config()
        self.reported: set[str] = set()
        self.silent: set[str] = set()
        self.assumed: dict[str, VmAmounts] = {}
        self.shown: dict[str, VmPod] = {}
        """Pods as the scheduler has last seen them: without a write whose answer was lost."""
        self.ledger = self.started()

    def show(self, pod: VmPod) -> None:
        """The scheduler sees the pod as the API server has it."""
        self.shown[pod.key.name] = pod
        self.objects.guests[pod.vm].possible += proven(pod)
        self.ledger.put_pod(pod)

    def started(self) -> VmLedger:
        ledger = VmLedger(vm_config(self.config), self.rule)
        for name, allocatable in self.nodes.items():
            ledger.put_node(name, allocatable)
        return ledger

    def name(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    def pick(self, among: dict[str, Any], number: int) -> str:
        names = sorted(among)
        return names[number % len(names)]

    # Pods come and go.

    @rule(node=st.sampled_from(sorted(NODES)), use=WANTED, more=WANTED, version=st.sampled_from([1, 7]),
          approved=st.booleans())  # fmt: skip
    def reserve(self, node: str, use: VmAmounts, more: VmAmounts, version: int, approved: bool) -> None:
        """A VM is bound where it fits. Without approval: another scheduler bound it."""
        name = self.name("v")
        vm = a_vm(name, use, use.plus(more))
        if not room_for_vm(self.ledger, node, vm):
            return
        self.objects.guests[name] = Guest(vm, version, permit=use, pod=name, seen=vm, heard=vm.maximum)
        self.objects.pods[name] = a_vm_pod(name, node, use if approved else None)
        self.ledger.put_vm(vm)
        self.show(self.objects.pods[name])

    @rule(node=st.sampled_from(sorted(NODES)), cpu=st.integers(1, 3000), memory=st.integers(1, 4 * GI))
    def place_ordinary(self, node: str, cpu: int, memory: int) -> None:
        if room_for_ordinary(self.ledger, node, VmAmounts(cpu, memory)):
            pod = an_ordinary_pod(self.name("o"), node, VmAmounts(cpu, memory))
            self.objects.ordinary[pod.key.name] = pod
            self.ledger.put_ordinary(pod)

    @precondition(lambda self: self.objects.ordinary)
    @rule(number=ANY)
    def delete_ordinary(self, number: int) -> None:
        pod = self.objects.ordinary.pop(self.pick(self.objects.ordinary, number))
        self.ledger.drop_ordinary(pod.key)

    @precondition(lambda self: self.objects.guests)
    @rule(number=ANY)
    def delete(self, number: int) -> None:
        name = self.pick(self.objects.guests, number)
        guest = self.objects.guests.pop(name)
        if name in self.objects.migrations:
            self.ledger.drop_migration(self.objects.migrations.pop(name).key)
        for pod in filter(None, (guest.pod, guest.target)):
            self.drop_pod(pod)
        self.ledger.drop_vm(key(name))

    def drop_pod(self, name: str) -> None:
        pod = self.objects.pods.pop(name)
        self.assumed.pop(name, None)
        self.reported.discard(pod.uid)
        self.silent.discard(pod.uid)
        del self.shown[name]
        self.ledger.drop_pod(pod.key)

    # Agents.

    @precondition(lambda self: self.objects.guests)
    @rule(asked=st.lists(st.tuples(ANY, WANTED, WRITTEN), min_size=1, max_size=4))
    def several_ask(self, asked: list[tuple[int, VmAmounts, str]]) -> None:
        """Most of what happens is requests, so several are one step."""
        for number, wanted, written in asked:
            self.ask(number, wanted, written)

    def ask(self, number: int, wanted: VmAmounts, written: str) -> None:
        """Grow, shrink, stay, or any mixture. The write may be refused; or happen, and nobody hears of it."""
        guest = self.objects.guests[self.pick(self.objects.guests, number)]
        if guest.lost:
            return
        assert guest.heard is not None
        wanted = wanted.at_most(guest.heard)
        if guest.vm.key.name not in self.objects.migrations:
            self.resize(guest, guest.vm.use.at_most(wanted))
        request = PermitRequest(
            pod=key(guest.pod),
            wanted=wanted,
            unit=UNIT if guest.version == 7 else None,
            last_permit=guest.permit if guest.version == 7 else None,
        )
        # A notification of less is true from the moment it is sent, whatever becomes of the answer.
        guest.permit = guest.permit.at_most(wanted)
        self.read_afresh(guest, wanted)
        decided = decide_permit(self.ledger, request, mode=self.mode)
        if isinstance(decided, PermitDecision):
            self.perform(guest, decided, written)

    def read_afresh(self, guest: Guest, wanted: VmAmounts) -> None:
        """The scheduler reads pod and VM before it lowers anything, and where it does not know what it last wrote."""
        account = self.ledger.account(key(guest.pod))
        assert guest.seen is not None
        settled = account.known and guest.seen.scaling and guest.pod not in self.assumed
        if settled and account.reserved.within(wanted):
            return
        self.deliver(guest)
        self.assumed.pop(guest.pod, None)
        self.show(self.objects.pods[guest.pod])
        self.ledger.forget_approval(key(guest.pod))

    def perform(self, guest: Guest, decided: PermitDecision, written: str) -> None:
        write = decided.write
        if write is not None:
            self.assumed[guest.pod] = write.approved
            self.ledger.assume_approval(write.pod.key, write.approved)
            if written == "refused":
                del self.assumed[guest.pod]
                self.ledger.forget_approval(write.pod.key)
                return
            pod = msgspec.structs.replace(
                write.pod, approved=write.approved, requested=write.requested, unit=write.unit
            )
            self.objects.pods[guest.pod] = pod
            if written == "unheard":
                return
            del self.assumed[guest.pod]
            self.show(pod)
            self.ledger.forget_approval(pod.key)
        self.reported.add(self.objects.pods[guest.pod].uid)
        self.silent.discard(self.objects.pods[guest.pod].uid)
        self.ledger.report(key(guest.pod))
        self.forget_possible(guest)
        guest.permit = decided.permit.granted
        if guest.version == 1:
            self.resize(guest, decided.permit.granted)

    def forget_possible(self, guest: Guest) -> None:
        """An agent with a permit within the maximum holds no larger one."""
        approved = self.shown[guest.pod].approved
        assert guest.seen is not None
        if approved is not None and approved.within(guest.seen.maximum):
            guest.possible = []

    def resize(self, guest: Guest, use: VmAmounts) -> None:
        guest.vm = msgspec.structs.replace(guest.vm, use=use)

    @precondition(lambda self: self.objects.guests)
    @rule(number=ANY, more=ANY)
    def apply_permits(self, number: int, more: int) -> None:
        self.apply_permit(number)
        self.apply_permit(more)

    def apply_permit(self, number: int) -> None:
        """The agent uses what it may, perhaps long after it was told. Also while the scheduler is away."""
        guest = self.objects.guests[self.pick(self.objects.guests, number)]
        self.resize(guest, guest.could_use)

    @precondition(lambda self: self.objects.guests)
    @rule(number=ANY)
    def lose_agent(self, number: int) -> None:
        guest = self.objects.guests[self.pick(self.objects.guests, number)]
        guest.lost = True
        self.silent.add(self.objects.pods[guest.pod].uid)
        self.ledger.silence(key(guest.pod))

    @precondition(lambda self: self.objects.guests)
    @rule(number=ANY)
    def find_agent(self, number: int) -> None:
        self.objects.guests[self.pick(self.objects.guests, number)].lost = False

    # The world around them.

    @precondition(lambda self: self.objects.guests)
    @rule(number=ANY)
    def watch(self, number: int) -> None:
        self.deliver(self.objects.guests[self.pick(self.objects.guests, number)])

    def deliver(self, guest: Guest) -> None:
        if guest.seen is not None:
            guest.possible.append(guest.seen.maximum)
        guest.seen = guest.vm
        for pod in (guest.pod, guest.target):
            guest.possible += proven(self.shown[pod]) if pod in self.shown else []
        self.ledger.put_vm(guest.vm)

    @precondition(lambda self: self.objects.guests)
    @rule(number=ANY, most=SLOTS)
    def change_maximum(self, number: int, most: VmAmounts) -> None:
        """Somebody gives the VM another maximum, perhaps below its permit. Its agent goes by the old one for a time."""
        guest = self.objects.guests[self.pick(self.objects.guests, number)]
        guest.vm = msgspec.structs.replace(guest.vm, maximum=most)

    @precondition(lambda self: self.objects.guests)
    @rule(number=ANY)
    def hear_maximum(self, number: int) -> None:
        guest = self.objects.guests[self.pick(self.objects.guests, number)]
        guest.heard = guest.vm.maximum

    @precondition(lambda self: self.objects.pods)
    @rule(number=ANY)
    def lose_approval(self, number: int) -> None:
        """Somebody edits the annotation away."""
        name = self.pick(self.objects.pods, number)
        self.objects.pods[name] = msgspec.structs.replace(self.objects.pods[name], approved=None)
        self.show(self.objects.pods[name])

    @precondition(lambda self: self.objects.guests)
    @rule(number=ANY)
    def switch_autoscaling(self, number: int) -> None:
        """Somebody takes the label off, or puts it on again. The agent hears of it late, and goes on until then."""
        guest = self.objects.guests[self.pick(self.objects.guests, number)]
        guest.vm = msgspec.structs.replace(guest.vm, scaling=not guest.vm.scaling)

    @rule(watermark=st.sampled_from([0.3, 0.7, 1.0]), system=st.builds(size, st.sampled_from([0.1, 0.9, 3]),
          st.sampled_from([0.5, 1, 9])), unit=st.sampled_from([size(1, 4), size(2, 4), size(1, 1)]))  # fmt: skip
    def configure(self, watermark: float, system: VmAmounts, unit: VmAmounts) -> None:
        self.config = node_config(watermark=watermark, system=system, unit=unit)
        self.ledger.configure(vm_config(self.config))

    @rule()
    def restart(self) -> None:
        """Another process lists all objects. It has heard no agent, and knows of no write under way."""
        self.ledger = self.started()
        self.reported, self.silent, self.assumed, self.shown = set(), set(), {}, {}
        for guest in self.objects.guests.values():
            self.give_up_what_cannot_be_read(guest)
            guest.seen, guest.possible = None, []
            self.deliver(guest)
        for pod in self.objects.pods.values():
            self.show(pod)
        for ordinary in self.objects.ordinary.values():
            self.ledger.put_ordinary(ordinary)
        for migration in self.objects.migrations.values():
            self.ledger.put_migration(migration)

    def give_up_what_cannot_be_read(self, guest: Guest) -> None:
        """The limit of docs/vms.md: a maximum that was lowered below a permit, and no annotation that tells of it."""
        if not any(guest.permit.within(one) for one in proven(self.objects.pods[guest.pod])):
            guest.permit = guest.permit.at_most(guest.vm.maximum.at_least(guest.vm.use))

    # Migrations: started, target bound, and then one of two ends.

    @precondition(lambda self: self.objects.guests)
    @rule(number=ANY)
    def migrate(self, number: int) -> None:
        name = self.pick(self.objects.guests, number)
        guest = self.objects.guests[name]
        if name in self.objects.migrations or not self.ledger.account(key(guest.pod)).known:
            return
        self.objects.migrations[name] = a_migration(name, source=guest.pod)
        self.ledger.put_migration(self.objects.migrations[name])

    @precondition(lambda self: self.objects.migrations)
    @rule(number=ANY, node=st.sampled_from(sorted(NODES)))
    def bind_target(self, number: int, node: str) -> None:
        """The target is reserved with all the source may use: its agent may still apply a permit it holds."""
        guest = self.objects.guests[self.pick(self.objects.migrations, number)]
        assert guest.seen is not None
        if guest.target or not room_for_vm(self.ledger, node, guest.seen):
            return
        approved = first_approval(self.ledger, guest.seen)
        guest.target = self.name("t")
        pod = a_vm_pod(guest.target, node, approved, vm=guest.vm.key.name, incoming=True)
        self.objects.pods[guest.target] = pod
        self.show(pod)

    @precondition(lambda self: self.objects.migrations)
    @rule(number=ANY, works=st.booleans())
    def end_migration(self, number: int, works: bool) -> None:
        name = self.pick(self.objects.migrations, number)
        guest = self.objects.guests[name]
        self.ledger.drop_migration(self.objects.migrations.pop(name).key)
        if works and guest.target:
            self.drop_pod(guest.pod)
            guest.pod, guest.target = guest.target, ""
            self.objects.pods[guest.pod] = msgspec.structs.replace(self.objects.pods[guest.pod], incoming=False)
            self.show(self.objects.pods[guest.pod])
        elif guest.target:
            self.drop_pod(guest.target)
            guest.target = ""

    # What must hold.

    @invariant()
    def no_node_is_overcommitted(self) -> None:
        for node in self.nodes:
            rows = self.ledger.ledger(node)
            for row in (rows.cpu, rows.memory):
                assert row.reserved - row.buffer <= row.total, (node, row)
                assert min(row.reserved, row.buffer, row.capacity_pressure, row.pressure_accounted_for) >= 0

    @invariant()
    def machines_can_use_no_more_than_nodes_have(self) -> None:
        for node, allocatable in self.nodes.items():
            guests = [
                guest.could_use
                for guest in self.objects.guests.values()
                for pod in (guest.pod, guest.target)
                if pod and self.objects.pods[pod].node == node
            ]
            ordinary = [pod.amounts for pod in self.objects.ordinary.values() if pod.node == node]
            assert sum(one.cpu for one in guests + ordinary) <= allocatable.cpu, node
            assert sum(one.memory for one in guests + ordinary) <= allocatable.memory, node

    @invariant()
    def sums_equal_a_slow_recount(self) -> None:
        for node in self.nodes:
            rows = self.ledger.ledger(node)
            for which, row in (("cpu", rows.cpu), ("memory", rows.memory)):
                expected = self.recount(node, which)
                got = (
                    row.total, row.system, row.watermark, row.reserved, row.buffer, row.capacity_pressure,
                    row.pressure_accounted_for,
                )  # fmt: skip
                assert got == expected, (node, which)

    def recount(self, node: str, which: str) -> tuple[int, ...]:
        """One resource of one node from the objects, in fractions of slots; no code of the ledger is used."""
        slot = 1000 if which == "cpu" else GI
        have = Fraction(getattr(self.nodes[node], which), slot)
        config = getattr(self.config, which)
        reservable = (have - Fraction(config.system, slot)).__floor__()
        watermark = (reservable * Fraction(config.watermark, 1_000_000)).__floor__()
        raw = sum(Fraction(getattr(one.amounts, which), slot) for one in self.objects.ordinary.values()
                  if one.node == node)  # fmt: skip
        beyond = raw - (have - have.__floor__())
        sums = [max(0, beyond.__ceil__()) * slot, 0, 0, 0]
        for guest in self.objects.guests.values():
            for name in filter(None, (guest.pod, guest.target)):
                if self.objects.pods[name].node == node:
                    for index, part in enumerate(self.count(guest, self.objects.pods[name], which)):
                        sums[index] += part
        system = have.__floor__() - max(0, reservable)
        return (have.__floor__() * slot, system * slot, max(0, watermark) * slot, *sums)

    def count(self, guest: Guest, pod: VmPod, which: str) -> tuple[int, int, int, int]:
        assert guest.seen is not None
        use, most = getattr(guest.seen.use, which), self.most(guest, which)
        shown = self.shown[pod.key.name]
        approved, assumed = self.believed(guest, shown.approved), self.assumed.get(pod.key.name)
        floor = max(use, getattr(assumed, which) if assumed else 0)
        moving = guest.vm.key.name in self.objects.migrations and pod.key.name == guest.pod
        if not guest.seen.scaling and shown.requested is None:
            return floor, 0, 0, floor if moving else 0
        reserved, buffer = max(floor, getattr(approved, which) if approved else 0), 0
        if approved is None or (self.rule is RestartRule.ASSUME_MAX and pod.uid not in self.reported):
            reserved = max(reserved, most)
            buffer = reserved - floor
        pressure = 0
        if shown.requested is not None and pod.uid not in self.silent:
            asked = min(getattr(shown.requested, which), getattr(guest.seen.maximum, which))
            pressure = max(0, asked - reserved)
        return reserved, buffer, pressure, reserved + pressure if moving else 0

    def most(self, guest: Guest, which: str) -> int:
        assert guest.seen is not None
        largest: int = max(getattr(one, which) for one in [guest.seen.maximum, *guest.possible])
        return largest

    def believed(self, guest: Guest, approved: VmAmounts | None) -> VmAmounts | None:
        assert guest.seen is not None
        if approved is None:
            return None
        fits = [
            getattr(approved, which) <= max(getattr(guest.seen.use, which), self.most(guest, which))
            for which in ("cpu", "memory")
        ]
        return approved if all(fits) else None


def proven(pod: VmPod) -> list[VmAmounts]:
    """The approval, if the pod says too that the agent asked for as much: then the scheduler wrote it."""
    if pod.approved is None or pod.requested is None:
        return []
    asked, given = pod.requested, pod.approved
    return [given] if given.cpu <= asked.cpu and given.memory <= asked.memory else []
