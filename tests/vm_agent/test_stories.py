"""The vm-agent with the scheduler's own permit handler, the simulated API server and hypervisor, in virtual time."""

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.sim.controllers.stage import elapsed, until
from tests.vm_agent.town import HOTPLUG, NS, Town, bind, told, units
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import NODES, PODS, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from ullage.kube.client.transport import Response
from ullage.kube.write.vm import migration_object
from ullage.model.fact_event import ObjectKey
from ullage.model.vm import VmPhase
from ullage.testing.builders import a_node

pytestmark = pytest.mark.story


def count(town: Town, outcome: str) -> float:
    return float(town.agent.metrics.requests.labels(outcome)._value.get())


async def is_settled(town: Town, name: str = "a") -> None:
    """The agent has a runner for the VM, and its first request was answered."""

    async def so() -> bool:
        return any(town.line.sent) and count(town, "granted") > 0 and _key(name) in town.agent.runners

    await until(so, 60)


def _key(name: str) -> ObjectKey:
    return ObjectKey(NS, f"{name}-0")


def test_up_the_scheduler_is_asked_first_and_down_it_is_told_after_the_vm_has_shrunk() -> None:
    async def story(town: Town) -> None:
        await is_settled(town)
        town.load.units["a"] = 3
        asked = await town.approved("a", 3)
        assert await town.uses("a", 3) >= asked
        await asyncio.sleep(30)
        town.load.units["a"] = 1
        shrunk = await town.uses("a", 1)
        assert (await town.pod("a-0")).approved == units(3), "not told before the machine has given it back"
        assert await town.approved("a", 1) >= shrunk + HOTPLUG - 0.5

    told("a", story)


@pytest.mark.parametrize("watch_lag", [0.02, 4.0], ids=["a-quick-watch", "a-watch-four-seconds-behind"])
def test_a_vm_goes_up_and_down_whatever_the_watch_shows(watch_lag: float) -> None:
    async def story(town: Town) -> None:
        await is_settled(town)
        for wanted in (4, 2, 6, 1):
            town.load.units["a"] = wanted
            await town.uses("a", wanted)
            await town.approved("a", wanted)

    told("a", story, watch_lag=watch_lag)


def test_two_vms_share_the_room_of_their_node_and_the_second_grows_when_the_first_shrinks() -> None:
    async def story(town: Town) -> None:
        await is_settled(town, "b")
        town.load.units |= {"a": 6}
        await town.uses("a", 6)
        town.load.units |= {"b": 5}
        await town.uses("b", 2)
        await asyncio.sleep(20)
        assert (await town.vm("b")).use == units(2)
        town.load.units |= {"a": 1}
        await town.uses("b", 5)
        assert count(town, "partial") >= 1
        assert count(town, "denied") >= 1

    told("ab", story)


def test_without_the_scheduler_a_vm_shrinks_freely_and_grows_only_up_to_its_last_permit() -> None:
    async def story(town: Town) -> None:
        await is_settled(town)
        town.load.units["a"] = 4
        await town.uses("a", 4)
        await asyncio.sleep(20)
        town.line.cut = True
        town.load.units["a"] = 6
        await asyncio.sleep(30)
        assert (await town.vm("a")).use == units(4), "no more than permitted"
        town.load.units["a"] = 2
        await town.uses("a", 2)
        town.line.cut = False
        await town.approved("a", 2)
        town.load.units["a"] = 6
        await town.uses("a", 6)

    told("a", story)


def test_failed_requests_are_repeated_after_three_seconds() -> None:
    async def story(town: Town) -> None:
        await is_settled(town)
        town.line.cut = True
        town.load.units["a"] = 4
        await asyncio.sleep(40)
        times = [at for at, _ in town.line.sent][-8:]
        gaps = [round(later - earlier, 2) for earlier, later in pairwise(times)]
        assert set(gaps[1:]) == {3.0}

    told("a", story)


def lie(change: Callable[[dict[str, object]], object]) -> Callable[[Response], Response]:
    def answer(response: Response) -> Response:
        said = json.loads(response.body)
        return Response(200, json.dumps(change(said) or said).encode())

    return answer


ANSWERS: dict[str, tuple[Callable[[Response], Response], str]] = {
    "a-permit-above-the-request": (lie(lambda _: {"permit": {"vCPUs": 64, "mem": "256Gi"}}), "invalid"),
    "a-permit-of-nothing": (lie(lambda _: {"permit": {"vCPUs": 0, "mem": 0}}), "invalid"),
    "a-permit-below-what-is-used": (lie(lambda _: {"permit": {"vCPUs": "500m", "mem": "1Gi"}}), "invalid"),
    "no-permit-at-all": (lie(lambda _: {"hello": "agent"}), "invalid"),
    "garbage": (lambda _: Response(200, b"\x00\xff<html>"), "malformed"),
    "a-list": (lambda _: Response(200, b"[1, 2]"), "malformed"),
    "an-error-of-ours": (lambda _: Response(500, b"request handler panicked"), "failed"),
    "unknown-pod": (lambda _: Response(404, b"pod not found"), "refused"),
    "another-replica-leads": (lambda _: Response(503, b"not the leader"), "unreachable"),
    "no-token": (lambda _: Response(401, b"who are you"), "unauthorized"),
    "a-huge-answer": (lambda _: Response(200, b"{" + b" " * 70_000 + b"}"), "malformed"),
}


@pytest.mark.parametrize(("answer", "outcome"), ANSWERS.values(), ids=ANSWERS.keys())
def test_an_answer_that_is_no_permit_changes_nothing_and_is_survived(
    answer: Callable[[Response], Response], outcome: str
) -> None:
    async def story(town: Town) -> None:
        await is_settled(town)
        town.line.answer = answer
        town.load.units["a"] = 3
        await asyncio.sleep(20)
        assert (await town.vm("a")).use == units(1)
        assert count(town, outcome) >= 3
        town.line.answer = lambda response: response
        await town.uses("a", 3)

    told("a", story)


def test_a_scheduler_that_restarts_finds_every_approval_again() -> None:
    async def story(town: Town) -> None:
        await is_settled(town)
        town.load.units["a"] = 5
        await town.uses("a", 5)
        town.line.cut = True
        await asyncio.sleep(60)
        assert (await town.pod("a-0")).approved == units(5)
        town.line.cut = False
        town.load.units["a"] = 7
        await town.uses("a", 7)

    told("a", story)


def test_without_metrics_a_vm_keeps_its_size() -> None:
    async def story(town: Town) -> None:
        await is_settled(town)
        town.load.units["a"] = 4
        await town.uses("a", 4)
        town.load.units["a"] = None
        await asyncio.sleep(60)
        assert (await town.vm("a")).use == units(4)

    told("a", story)


def test_a_vm_that_comes_is_taken_over_and_one_that_goes_is_let_go() -> None:
    async def story(town: Town) -> None:
        await is_settled(town)
        await town.add("b")
        town.load.units["b"] = 3
        await town.uses("b", 3)
        assert sorted(key.name for key in town.agent.runners) == ["a-0", "b-0"]
        await town.stage.api.delete(VIRTUAL_MACHINES, "b", NS)
        await asyncio.sleep(10)
        assert [key.name for key in town.agent.runners] == ["a-0"]
        town.load.units["a"] = 3
        await town.uses("a", 3)

    told("a", story)


def test_a_vm_deleted_while_it_is_resized_ends_its_runner_and_nothing_else() -> None:
    async def story(town: Town) -> None:
        await is_settled(town, "b")
        town.load.units |= {"a": 3, "b": 3}
        await town.approved("a", 3)
        await town.stage.api.delete(VIRTUAL_MACHINES, "a", NS)
        await town.uses("b", 3)
        await asyncio.sleep(20)
        assert [key.name for key in town.agent.runners] == ["b-0"]
        assert town.agent.metrics.restarts._value.get() == 0

    told("ab", story)


def test_a_vm_made_again_under_its_name_is_another_vm() -> None:
    async def story(town: Town) -> None:
        await is_settled(town)
        await town.stage.api.delete(VIRTUAL_MACHINES, "a", NS)
        await town.stage.api.delete(PODS, "a-0", NS)
        await asyncio.sleep(40)
        await town.add("a", use=2)
        town.load.units["a"] = 4
        await town.uses("a", 4)

    told("a", story)


def test_limits_that_change_are_followed() -> None:
    async def story(town: Town) -> None:
        await is_settled(town)
        town.load.units["a"] = 5
        await town.uses("a", 5)
        lowered = {"spec": {"guest": {"cpus": {"max": 2, "use": 2}, "memorySlots": {"max": 8, "use": 8}}}}
        await town.stage.api.patch(VIRTUAL_MACHINES, "a", MergePatch(lowered), NS)
        await town.approved("a", 2)
        raised = {"spec": {"guest": {"cpus": {"max": 8}, "memorySlots": {"max": 32}}}}
        await town.stage.api.patch(VIRTUAL_MACHINES, "a", MergePatch(raised), NS)
        await town.approved("a", 5)
        await town.uses("a", 5)

    told("a", story)


def test_a_migrating_vm_keeps_its_size() -> None:
    """From the creation of its migration, while that waits for a node and copies, until it is given up."""

    async def story(town: Town) -> None:
        await is_settled(town)
        await town.stage.api.create(NODES, a_node("other"))
        await town.stage.api.create(VIRTUAL_MACHINE_MIGRATIONS.whole(), migration_object(NS, "m", "a"), NS)
        await phase_is(town, VmPhase.PRE_MIGRATING)
        town.load.units["a"] = 5
        town.line.sent.clear()
        await keeps_its_size(town)
        await bind(town.stage, "m-target", "other", units(1))
        await phase_is(town, VmPhase.MIGRATING)
        await keeps_its_size(town)
        await town.stage.api.delete(VIRTUAL_MACHINE_MIGRATIONS, "m", NS)
        await phase_is(town, VmPhase.RUNNING)
        await town.uses("a", 5)

    told("a", story, migration=100.0)


async def phase_is(town: Town, phase: VmPhase) -> None:
    async def so() -> bool:
        return (await town.stage.api.get(VIRTUAL_MACHINES, "a", NS)).status.phase == phase

    await until(so)


async def keeps_its_size(town: Town) -> None:
    await asyncio.sleep(40)
    assert (await town.vm("a")).use == units(1)
    assert next(iter(town.agent.runners.values())).state == "moving"
    asked = [json.loads(body)["resources"]["vCPUs"] for _, body in town.line.sent]
    assert set(asked) == {1}, "it sees the phase by itself, and does not ask for more"


def test_a_vm_told_to_migrate_by_an_answer_keeps_its_size_until_another_one() -> None:
    async def story(town: Town) -> None:
        await is_settled(town)
        town.line.answer = lie(lambda said: said | {"migrate": {}})
        await asyncio.sleep(20)
        town.load.units["a"] = 5
        began = elapsed()
        await asyncio.sleep(40)
        assert (await town.vm("a")).use == units(1)
        town.line.answer = lambda response: response
        assert await town.uses("a", 5) - began < 80

    told("a", story)
