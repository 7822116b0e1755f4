"""Answers to agents on the simulated API server: approvals are on the pods, and no answer exceeds the room."""

import asyncio
import itertools
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.sim.controllers.stage import Stage, on_stage
from tests.vms import node_config, size, vm_config
from ullage.control.vms.loop import VmLoop
from ullage.control.vms.permits import HttpAnswer, PermitHandler
from ullage.control.vms.reporter import VmReporter
from ullage.decide.vms.core import VmCore, VmRules
from ullage.errors import ServerFailure
from ullage.kube.client.api import Binding, MergePatch
from ullage.kube.client.resources import NODES, PODS, VIRTUAL_MACHINES
from ullage.kube.crds.catalog import VM_KINDS
from ullage.kube.crds.install import install
from ullage.kube.read.vm import read_vm, read_vm_pod
from ullage.kube.write.vm import approval_annotations
from ullage.model.fact_event import ObjectKey
from ullage.model.vm import (
    VM_APPROVED,
    VM_UNIT,
    MigrationPhase,
    OrdinaryPod,
    VmAmounts,
    VmMigration,
    VmPod,
    VmRefusal,
)
from ullage.observe.events import EventMessage, EventReason
from ullage.observe.vm_metrics import VmSystemMetrics
from ullage.runtime import Wakeup
from ullage.sim.virtual_time import loop_clock
from ullage.state.vm_ledger import VmLedger
from ullage.testing.builders import a_node, a_pod, with_meta

pytestmark = pytest.mark.story
NS = "default"


class Told:
    """Sink that keeps Events."""

    def __init__(self, kept: list[EventMessage]) -> None:
        self._kept = kept

    def record(self, announcement: EventMessage) -> None:
        self._kept.append(announcement)


@dataclass
class Town:
    """VMs a, b, ... of one core and 4Gi, each in a pod of its name on one node of 8 cores and 32Gi."""

    stage: Stage
    core: VmCore
    handler: PermitHandler

    async def ask(self, name: str, cores: int, *, node: str | None = "n", **changes: Any) -> HttpAnswer:
        message: dict[str, Any] = {
            "protoVersion": 2,
            "pod": {"namespace": NS, "name": name},
            "resources": {"vCPUs": cores, "mem": 4 * cores},
            "metrics": {"loadAvg1M": 1.0, "loadAvg5M": 1.0},
        }
        return await self.handler.handle("POST", json.dumps(message | changes).encode(), node=node)

    async def pod(self, name: str) -> VmPod:
        found = read_vm_pod(await self.stage.api.get(PODS, name, NS))
        assert found is not None
        return found

    @property
    def reserved(self) -> VmAmounts:
        return self.core.ledger.ledger("n").reserved


async def a_town(stage: Stage, vms: str) -> Town:
    await install(stage.api, VM_KINDS)
    await stage.api.create(NODES, a_node("n"))
    ledger = VmLedger(vm_config(node_config(unit=size(1, 4))))
    ledger.put_node("n", size(8, 32))
    for name in vms:
        guest = {"cpus": {"min": 1, "use": 1, "max": 16}, "memorySlots": {"min": 1, "use": 4, "max": 64}}
        labels = {"autoscaling.neon.tech/enabled": "true"}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"guest": guest}}
        await stage.api.create(VIRTUAL_MACHINES.whole(), body, NS)
        ledger.put_vm(read_vm(await stage.api.get(VIRTUAL_MACHINES, name, NS)))
        notes = approval_annotations(size(1, 4))
        pod = with_meta(a_pod(name), labels={"vm.neon.tech/name": name}, annotations=notes)
        await stage.api.create(PODS, pod, NS)
        await stage.api.bind(name, NS, Binding("n"))
        found = read_vm_pod(await stage.api.get(PODS, name, NS))
        assert found is not None
        ledger.put_pod(found)
    core = VmCore(ledger, VmRules())
    return Town(stage, core, PermitHandler(core, stage.api, loop_clock()))


def answered_unit(vms: str, story: Callable[[Town], Awaitable[None]]) -> None:
    async def on(stage: Stage) -> None:
        await story(await a_town(stage, vms))

    on_stage(on)


def test_a_permit_is_on_the_pod_before_it_is_answered() -> None:
    async def story(town: Town) -> None:
        answer = await town.ask("a", 3)
        assert (answer.status, answer.content_type) == (200, "application/json")
        assert json.loads(answer.body) == {
            "permit": {"vCPUs": 3, "mem": 12},
            "resourceUnit": {"vCPUs": 1, "mem": 4},
        }
        pod = await town.pod("a")
        assert (pod.approved, pod.requested, pod.unit) == (size(3, 12), size(3, 12), size(1, 4))
        assert town.core.ledger.pod(pod.key) == pod

    answered_unit("a", story)


def test_agents_that_ask_at_once_share_the_room() -> None:
    """7 cores and 31Gi may be reserved; four VMs of one core each ask for five."""

    async def story(town: Town) -> None:
        answers = await asyncio.gather(*(town.ask(name, 5) for name in "abcd"))
        permits = [json.loads(one.body)["permit"] for one in answers]
        assert sum(one["vCPUs"] for one in permits) == 7
        assert sum(one["mem"] for one in permits) == 31
        approved = [(await town.pod(name)).approved for name in "abcd"]
        assert sum(one.cpu for one in approved if one is not None) == 7000

    answered_unit("abcd", story)


def test_requests_of_one_vm_are_answered_one_after_another() -> None:
    async def story(town: Town) -> None:
        answers = await asyncio.gather(*(town.ask("a", cores) for cores in (2, 3, 4, 2, 1)))
        assert [one.status for one in answers] == [200] * 5
        assert town.reserved == size(1, 4)
        assert (await town.pod("a")).approved == size(1, 4)

    answered_unit("a", story)


def test_a_pod_somebody_else_wrote_is_read_afresh_and_decided_once_more() -> None:
    async def story(town: Town) -> None:
        await town.stage.api.patch(PODS, "a", MergePatch({"metadata": {"annotations": {"x": "1"}}}), NS)
        assert (await town.ask("a", 3)).status == 200
        assert town.reserved == size(3, 12)
        assert (await town.pod("a")).approved == size(3, 12)

    answered_unit("a", story)


def test_a_pod_somebody_writes_all_the_time_costs_the_answer_and_no_room() -> None:
    async def story(town: Town) -> None:
        patch, writes = town.stage.api.patch, itertools.count()

        async def after_another(*args: Any, **how: Any) -> Any:
            await patch(PODS, "a", MergePatch({"metadata": {"annotations": {"x": str(next(writes))}}}), NS)
            return await patch(*args, **how)

        town.stage.api.patch = after_another  # type: ignore[method-assign]
        answer = await town.ask("a", 3)
        assert (answer.status, answer.body) == (500, b"failed to write the approval")
        assert answer.reason is VmRefusal.WRITE_FAILED
        assert town.reserved == size(1, 4)

    answered_unit("a", story)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"cpu":"1000","memory":"4000Gi"}', id="more-than-the-vm-may-have"),
        pytest.param('{"cpu":"-1","memory":"4Gi"}', id="negative"),
        pytest.param('{"cpu":"9e99","memory":"4Gi"}', id="endless"),
        pytest.param("lots", id="not-json"),
    ],
)
def test_an_approval_that_somebody_edits_is_told_and_repaired_by_the_next_message(text: str) -> None:
    """Until then the VM counts by its maximum, of which nothing but its use is in use: no node is blocked for good."""

    async def story(town: Town) -> None:
        told: list[EventMessage] = []
        registry = CollectorRegistry()
        reporter = VmReporter(Told(told), VmSystemMetrics(registry))
        loop = VmLoop(town.core, town.stage.api, loop_clock(), Wakeup(), reporter)
        await loop.reconcile()
        assert told == []
        edit = MergePatch({"metadata": {"annotations": {VM_APPROVED: text}}})
        await town.stage.api.patch(PODS, "a", edit, NS)
        town.core.ledger.put_pod(await town.pod("a"))
        account = town.core.ledger.account(ObjectKey(NS, "a"))
        assert (account.reserved, account.buffer, account.known) == (size(16, 64), size(15, 60), False)
        for _ in range(2):
            await loop.reconcile()
        assert [(one.about.key.name, one.reason) for one in told] == [("a", EventReason.VM_APPROVAL_UNREADABLE)]
        assert registry.get_sample_value("ullage_vm_unreadable_approvals_total") == 1
        assert (await town.ask("a", 2)).status == 200
        assert (await town.pod("a")).approved == size(2, 8)
        assert town.reserved == size(3, 12)
        await loop.reconcile()
        assert len(told) == 1

    answered_unit("ab", story)


@pytest.mark.parametrize("unit", ['{"cpu":"0","memory":"0"}', '{"cpu":"500","memory":"1Gi"}'], ids=["none", "huge"])
def test_a_compute_unit_that_somebody_edits_is_told_anew(unit: str) -> None:
    async def story(town: Town) -> None:
        await town.stage.api.patch(PODS, "a", MergePatch({"metadata": {"annotations": {VM_UNIT: unit}}}), NS)
        town.core.ledger.put_pod(await town.pod("a"))
        assert (await town.ask("a", 3)).status == 200
        assert (await town.pod("a")).unit == size(1, 4)

    answered_unit("a", story)


def test_a_notification_is_checked_against_the_virtual_machine() -> None:
    """The agent says one core; the VirtualMachine says that three are in use."""

    async def story(town: Town) -> None:
        await town.ask("a", 3)
        use = {"spec": {"guest": {"cpus": {"use": 3}, "memorySlots": {"use": 12}}}}
        await town.stage.api.patch(VIRTUAL_MACHINES.whole(), "a", MergePatch(use), NS)
        assert (await town.ask("a", 1)).status == 200
        assert town.reserved == size(3, 12)

    answered_unit("a", story)


@pytest.mark.parametrize(
    ("name", "node", "changes", "status", "text"),
    [
        pytest.param("gone", "n", {}, 404, "pod not found", id="unknown-pod"),
        pytest.param("web", "n", {}, 400, "pod is not associated with a VM", id="ordinary-pod"),
        pytest.param("a", "m", {}, 403, "pod is not on the agent's node", id="another-node"),
        pytest.param(
            "a",
            "n",
            {"resources": {"vCPUs": 3, "mem": 8}},
            400,
            "requested resources {VCPU:3 Mem:8} do not divide cleanly by previous compute unit {VCPU:1 Mem:4}",
            id="not-whole-units",
        ),
        pytest.param(
            "a",
            "n",
            {"protoVersion": 7, "computeUnit": {"vCPUs": 1, "mem": "512Mi"}},
            400,
            "computeUnit is not divisible by VM memory slot size: 512Mi is no multiple of 1Gi",
            id="half-slots",
        ),
        pytest.param("a", "n", {"protoVersion": 0}, 400, "Invalid protocol version <invalid: zero>", id="no-version"),
    ],
)
def test_refused(name: str, node: str, changes: dict[str, Any], status: int, text: str) -> None:
    async def story(town: Town) -> None:
        town.core.ledger.put_ordinary(OrdinaryPod(key=ObjectKey(NS, "web"), node="n", amounts=VmAmounts(0, 0)))
        await town.ask("a", 2)
        answer = await town.ask(name, 2, node=node, **changes)
        assert (answer.status, answer.content_type, answer.body.decode()) == (status, "text/plain", text)

    answered_unit("a", story)


def test_agents_that_are_not_told_apart_speak_for_any_vm() -> None:
    async def story(town: Town) -> None:
        assert (await town.ask("a", 2, node=None)).status == 200

    answered_unit("a", story)


def test_a_migrating_vm_is_told_so_and_does_not_change() -> None:
    async def story(town: Town) -> None:
        await town.ask("a", 2)
        town.core.ledger.put_migration(
            VmMigration(key=ObjectKey(NS, "m"), uid="m", vm="a", phase=MigrationPhase.RUNNING, source_pod="a")
        )
        assert json.loads((await town.ask("a", 2)).body)["migrate"] == {}
        assert (await town.ask("a", 3)).reason is VmRefusal.MIGRATING

    answered_unit("a", story)


def test_a_bug_of_ours_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    async def story(town: Town) -> None:
        monkeypatch.setattr(town.core, "request", breaks)
        answer = await town.ask("a", 2)
        assert (answer.status, answer.body) == (500, b"request handler panicked")

    answered_unit("a", story)


def test_a_lost_answer_of_the_api_server_keeps_the_room_until_the_pod_was_read() -> None:
    async def story(town: Town) -> None:
        patch, get = town.stage.api.patch, town.stage.api.get

        async def lost(*args: Any, **how: Any) -> Any:
            await patch(*args, **how)
            raise ServerFailure("the connection broke")

        async def down(*_: Any, **__: Any) -> Any:
            raise ServerFailure("the connection broke")

        town.stage.api.patch, town.stage.api.get = lost, down  # type: ignore[method-assign]
        assert (await town.ask("a", 3)).reason is VmRefusal.WRITE_FAILED
        assert town.reserved == size(3, 12)
        town.stage.api.patch, town.stage.api.get = patch, get  # type: ignore[method-assign]
        assert (await town.ask("a", 3)).status == 200
        assert town.reserved == size(3, 12)

    answered_unit("a", story)


def test_an_hour_of_random_requests_exceeds_nothing() -> None:
    async def story(town: Town) -> None:
        chance = random.Random(3)
        for _ in range(60):
            names = chance.sample("abcd", 3)
            answers = await asyncio.gather(*(town.ask(name, chance.randint(1, 6)) for name in names))
            assert {one.status for one in answers} == {200}
            assert town.reserved.within(size(7, 31))

    answered_unit("abcd", story)
