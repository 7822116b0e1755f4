"""Things go wrong while nodes are drained: nobody is killed, nothing of ours is left behind, and it goes on."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from tests.control.draining.stage import GPUS, Stage, play
from tests.control.scheduling.stage import NS
from ullage.cloud.api import OutcomeUnknown, RequestRejected, Throttled
from ullage.errors import NotFound
from ullage.kube.client.api import Binding, MergePatch
from ullage.kube.client.resources import BUDGETS, NODES, PODS
from ullage.kube.client.transport import Request
from ullage.model.draining import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.sim.apiserver.network_faults import FaultRates, NetworkFault
from ullage.testing.builders import a_pod

pytestmark = [pytest.mark.story, pytest.mark.fault]


async def _come_to(stage: Stage, node: str) -> None:
    """A pod is bound to this node, whatever its taints say."""
    await stage.api.create(PODS, a_pod("late", schedulerName="nobody"), NS)
    await stage.api.bind("late", NS, Binding(node))


@pytest.mark.parametrize("moment", ["taint", "wait", "eviction"])
def test_a_pod_bound_between_taint_and_delete_is_not_killed(moment: str) -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(2)
        await stage.may_shrink()
        came: list[asyncio.Task[None]] = []

        def come(asked: Request) -> NetworkFault | None:
            if moment == "eviction" and asked.path.endswith("/eviction") and not came:
                (node,) = stage.drainings[-1].core.tracker.going
                came.append(asyncio.ensure_future(_come_to(stage, node)))
            return None

        stage.network.script(come)
        await stage.until(stage.tainted, 120, every=0.05)
        (node,) = await stage.tainted()
        if moment != "eviction":
            await asyncio.sleep(0.0 if moment == "taint" else 1.5)
            await _come_to(stage, node)

        async def is_let_go() -> bool:
            return not await stage.tainted()

        await stage.until(is_let_go, 60)
        await asyncio.sleep(120)
        late = await stage.api.get(PODS, "late", NS)
        assert (late.spec.node_name, late.metadata.deletion_timestamp) == (node, None)
        assert node in await stage.nodes()
        assert any("Occupied: default/late" in note for note in await stage.notes("NodeNotRemoved"))

    play(story)


def test_nobody_is_evicted_whose_place_was_taken_meanwhile() -> None:
    """It would take a new node to have it back."""

    async def story(stage: Stage) -> None:
        await stage.one_on_each(2)
        await stage.deployment("more", 2)
        (node,) = [name for name in await stage.nodes() if len(await stage.pods_on(name)) == 1]
        await stage.may_shrink()
        await stage.until(stage.tainted, 120, every=0.05)
        assert await stage.tainted() == [node]
        rush = a_pod("rush", gpus=1, schedulerName="gpu-scheduler")
        await stage.api.create(PODS, rush, NS)
        await stage.until(lambda: _noted(stage, "NoPlaceToMovePods: default/web"), 60)
        assert await stage.notes("PodEvicted") == []
        await stage.at_rest(2)
        assert len(stage.cloud.made) == 2

    play(story)


def test_a_pod_with_a_finalizer_keeps_its_node_for_a_while() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(2)
        for pod in (await stage.api.list(PODS, NS)).items:
            held = MergePatch({"metadata": {"finalizers": ["example.com/not-yet"]}})
            await stage.api.patch(PODS, pod.metadata.name, held, NS)
        await stage.may_shrink()
        await stage.until(lambda: _noted(stage, "PodsRemain"), 120)
        assert (await stage.tainted(), len(await stage.nodes())) == ([], 2)
        assert "PodNotEvicted" in await stage.told("Pod")
        await stage.until(lambda: _has_gone_on(stage, 1), 400)

    play(story)


def test_a_dead_node_that_was_busy_goes_when_nobody_waits_for_its_pods_any_more() -> None:
    """Nobody ends them. What they hold is in nobody's use."""

    async def story(stage: Stage) -> None:
        await stage.pool(2)
        await stage.deployment("busy", 1, gpus=GPUS)
        (pod,) = (await stage.api.list(PODS, NS)).items
        stage.actors.kubelets.fail(pod.spec.node_name)
        await stage.api.delete(PODS, pod.metadata.name, NS)
        await stage.may_shrink()
        await stage.until(lambda: _has_gone_on(stage, 1), 300)
        assert stage.cloud.with_pods == [pod.spec.node_name]
        stage.cloud.with_pods.clear()  # it is nobody's loss
        await stage.served()

    play(story)


async def _noted(stage: Stage, reason: str) -> bool:
    return any(reason in note for note in await stage.notes("NodeNotRemoved"))


async def _has_gone_on(stage: Stage, count: int) -> bool:
    """A pod that should have been gone long since keeps no node."""
    return len(await stage.nodes()) == count


def test_evictions_that_are_refused_are_asked_for_again() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(4)
        refused: list[str] = []

        def later(request: Request) -> NetworkFault | None:
            if request.path.endswith("/eviction") and len(refused) < 6:
                refused.append(request.path)
                return NetworkFault.THROTTLED
            return None

        stage.network.script(later)
        await stage.may_shrink()
        await stage.at_rest(1)
        assert len(refused) == 6
        assert await stage.notes("NodeNotRemoved") == []

    play(story)


def test_a_budget_that_is_spent_after_the_taint_lets_the_node_wait_and_costs_it_no_time() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(2)
        await stage.budget("web", maxUnavailable=1)
        await asyncio.sleep(5)
        await stage.may_shrink()
        await stage.until(stage.tainted, 120, every=0.05)
        (node,) = await stage.tainted()
        since = await _tainted_since(stage, CANDIDATE_TAINT)
        stage.actors.stop_controllers()
        spent = MergePatch({"status": {"disruptionsAllowed": 0}})
        await stage.api.patch(BUDGETS, "web", spent, NS, subresource="status")
        await stage.until(lambda: _noted(stage, "NotEnoughPdb: default/web allows nothing now"), 60)
        await asyncio.sleep(60)
        assert await stage.notes("PodEvicted") == []
        assert (await stage.tainted(), await _tainted_since(stage, CANDIDATE_TAINT)) == ([], since)
        stage.actors.let_controllers_go_on()
        allowed = MergePatch({"status": {"disruptionsAllowed": 1}})
        await stage.api.patch(BUDGETS, "web", allowed, NS, subresource="status")
        began = stage.now
        await stage.has(1)
        assert (stage.now - began < 25, node in await stage.nodes()) == (True, False)
        await stage.at_rest(1)

    play(story)


def test_evictions_that_are_never_allowed_are_given_up() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(3)
        undo = stage.network.script(lambda asked: NetworkFault.THROTTLED if asked.path.endswith("/eviction") else None)
        await stage.may_shrink()
        await stage.until(lambda: _noted(stage, "EvictionRefused"), 200)
        assert await stage.tainted() == []
        assert await stage.candidates() == [], "their timers start anew"
        assert "PodNotEvicted" in await stage.told("Pod")
        assert stage.drainings[-1].core.tracker.failed()
        undo()
        await stage.at_rest(1)

    play(story)


def test_answers_that_are_lost_change_nothing() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(6)
        await stage.budget("web", maxUnavailable=2)
        stage.network.odds = FaultRates(
            {NetworkFault.LOST: 0.1, NetworkFault.REFUSED: 0.05, NetworkFault.UNAVAILABLE: 0.05}, stream_cut=0.02
        )
        await stage.may_shrink()
        await stage.has(2, 3600)
        stage.network.odds = FaultRates()
        await stage.at_rest(2)
        assert (len(stage.cloud.made), len(stage.cloud.deleted)) == (6, 4)

    play(story)


def test_a_machine_whose_deletion_is_unknown_is_deleted_again() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(3)
        stage.cloud.faults.fail("delete", OutcomeUnknown("no answer"), times=2)
        await stage.may_shrink()
        await stage.at_rest(1)
        assert await stage.notes("NodeNotRemoved") == []

    play(story)


def test_machines_that_go_together_are_deleted_in_one_call_and_a_cloud_that_asks_for_peace_has_it() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool(8)
        stage.cloud.faults.fail("delete", Throttled("slow down", retry_after=40.0))
        await stage.may_shrink()

        async def were_refused() -> bool:
            return stage.cloud.delete_calls > 0

        refused_at = await stage.until(were_refused, 200)
        await asyncio.sleep(refused_at + 39.0 - stage.now)
        assert stage.cloud.delete_calls == 1, "nobody else asks meanwhile either"
        await stage.at_rest(0)
        assert stage.cloud.delete_calls == 2

    play(story)


def test_a_machine_that_cannot_be_deleted_goes_back_to_work() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(3)
        stage.cloud.faults.fail("delete", RequestRejected("not yours"), times=2)
        await stage.may_shrink()
        await stage.until(lambda: _noted(stage, "CloudFailed: not yours"), 200)
        await stage.at_rest(1)

    play(story)


def test_a_machine_of_which_nobody_knows_goes_back_to_work_when_it_is_listed() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(2)
        stage.cloud.faults.fail("delete", OutcomeUnknown("no answer"), times=8)
        await stage.may_shrink()
        await stage.until(lambda: _noted(stage, "CloudFailed: no answer"), 200)

        async def is_let_go() -> bool:
            return not await stage.tainted() and not await stage.candidates()

        await stage.until(is_let_go, 20)
        assert len(await stage.nodes()) == 2
        await stage.at_rest(1)

    play(story)


def test_a_node_that_is_protected_meanwhile_is_let_go() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(2)
        await stage.may_shrink()
        await stage.until(stage.tainted, 120, every=0.05)
        (node,) = await stage.tainted()
        kept = MergePatch({"metadata": {"annotations": {"gpu.scheduling/scale-down-disabled": "true"}}})
        await stage.api.patch(NODES, node, kept)
        await stage.until(lambda: _noted(stage, "Protected"), 60)
        assert node in await stage.nodes()
        assert await stage.tainted() == []
        assert await stage.pods_on(node) != []

    play(story)


def test_who_takes_our_taint_off_is_obeyed() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(2)
        await stage.may_shrink()
        await stage.until(stage.tainted, 120, every=0.05)
        (node,) = await stage.tainted()
        await stage.api.patch(NODES, node, MergePatch({"spec": {"taints": None}}))
        await stage.until(lambda: _noted(stage, "NodeChanged: its taint is gone"), 60)
        assert await stage.pods_on(node) != []

    play(story)


def test_the_time_a_node_has_been_a_candidate_survives_a_crash() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(2)
        began = stage.now
        await stage.may_shrink()
        await stage.until(stage.candidates, 10)
        await asyncio.sleep(15)
        stage.controller.crash()
        await asyncio.sleep(5)
        stage.controller.start()
        await stage.until(stage.tainted, 60, every=0.1)
        assert 30 <= stage.now - began < 45
        await stage.at_rest(1)

    play(story)


async def _tainted_since(stage: Stage, key: str = "drain") -> dict[str, str]:
    nodes = (await stage.api.list(NODES)).items
    return {node.metadata.name: taint.value for node in nodes for taint in node.spec.taints if key in taint.key}


def test_a_drain_that_was_begun_is_finished_by_the_next() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(2)
        await stage.may_shrink()
        await stage.until(stage.tainted, 120, every=0.05)
        (node,) = await stage.tainted()
        stage.controller.crash()
        assert set((await _tainted_since(stage)).keys()) == {node, *await stage.candidates()}
        stage.controller.start()
        began = stage.now
        await stage.has(1)
        assert stage.now - began < 20, "it need not wait once more"
        assert node not in await stage.nodes()
        await stage.at_rest(1)

    play(story)


def test_a_node_that_is_not_ready_for_a_moment_keeps_its_timer() -> None:
    """It is young and not ready, and still not one that is coming: it was a candidate."""

    async def story(stage: Stage) -> None:
        await stage.one_on_each(2)
        await stage.may_shrink()
        await stage.until(stage.tainted, 120, every=0.05)
        (node,) = await stage.tainted()
        since = (await _tainted_since(stage, CANDIDATE_TAINT))[node]
        stage.controller.crash()
        stage.actors.kubelets.fail(node)
        silent = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
        await stage.api.patch(NODES, node, MergePatch({"status": {"conditions": silent}}), subresource="status")
        stage.controller.start()
        await asyncio.sleep(10)
        assert (await _tainted_since(stage, CANDIDATE_TAINT)).get(node) == since
        stage.actors.kubelets.recover(node)
        began = stage.now
        await stage.has(1)
        assert stage.now - began < 20, "it need not wait once more"

    play(story)


def test_a_drain_that_is_not_right_any_more_is_let_go_by_the_next() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(2)
        await stage.may_shrink()
        await stage.until(stage.tainted, 120, every=0.05)
        stage.controller.crash()
        await stage.spec(minSize=2)
        stage.controller.start()

        async def is_let_go() -> bool:
            return not await stage.tainted() and not await stage.candidates()

        await stage.until(is_let_go, 20)
        await stage.at_rest(2)

    play(story)


def test_a_machine_that_was_deleted_takes_its_node_with_it() -> None:
    """The one who deleted it died before it could say so."""

    async def story(stage: Stage) -> None:
        await stage.pool(2)
        await stage.deployment("busy", 1, gpus=GPUS)
        stage.controller.crash()
        (node,) = [name for name in await stage.nodes() if not await stage.pods_on(name)]
        found = await stage.api.get(NODES.whole(), node)
        await stage.cloud.delete([node])
        taints = [{"key": key, "value": "1767225600", "effect": "NoSchedule"} for key in (DRAINING_TAINT,)]
        taints.append({"key": CANDIDATE_TAINT, "value": "1767225600", "effect": "PreferNoSchedule"})
        body = {key: found[key] for key in ("apiVersion", "kind", "status")}
        body["metadata"] = {"name": node, "labels": found["metadata"]["labels"]}
        await stage.api.create(NODES, body | {"spec": {"taints": taints}})
        await stage.may_shrink()
        stage.controller.start()
        await stage.at_rest(1)
        with pytest.raises(NotFound):
            await stage.api.get(NODES, node)

    play(story)


def test_a_cloud_that_does_not_answer_loses_no_timer() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(2)
        await stage.may_shrink()
        await stage.until(stage.candidates, 10)
        before = await _tainted_since(stage)
        stage.controller.crash()
        stage.cloud.faults.fail("list", OutcomeUnknown("no answer"), times=4)
        stage.controller.start()
        await asyncio.sleep(25)
        assert await _tainted_since(stage) == before
        await stage.at_rest(1)

    play(story)


async def _crash(stage: Stage, rng: random.Random) -> None:
    while True:
        await asyncio.sleep(rng.expovariate(1 / 8.0))
        stage.controller.crash()
        await asyncio.sleep(rng.uniform(0, 3))
        stage.controller.start()


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.full) for n in range(2, 50))])
def test_crashes_at_any_moment_lead_to_the_same_end(seed: int) -> None:
    async def story(stage: Stage) -> None:
        rng = random.Random(seed)
        await stage.one_on_each(8)
        await stage.budget("web", maxUnavailable=3)
        crashing = asyncio.ensure_future(_crash(stage, rng))
        await stage.may_shrink()
        await stage.has(2, 3600)
        await asyncio.sleep(rng.uniform(0, 60))
        crashing.cancel()
        await asyncio.gather(crashing, return_exceptions=True)
        if not stage.controller.alive:
            stage.controller.start()
        await stage.at_rest(2)
        assert await stage.candidates() == []
        assert (len(stage.cloud.made), len(stage.cloud.deleted)) == (8, 6)

    play(story, seed=seed + 1)


@pytest.mark.parametrize("moment", ["taint", "eviction", "deletion"])
def test_a_crash_at_this_very_moment(moment: str) -> None:
    """The write arrives, and whoever made it is no more."""
    paths: dict[str, Callable[[Request], bool]] = {
        "taint": lambda asked: asked.method == "PUT" and DRAINING_TAINT.encode() in (asked.body or b""),
        "eviction": lambda asked: asked.path.endswith("/eviction"),
        "deletion": lambda asked: asked.method == "DELETE" and "/nodes/" in asked.path,
    }

    async def story(stage: Stage) -> None:
        await stage.one_on_each(4)
        struck: list[float] = []

        def strike(asked: Request) -> NetworkFault | None:
            if struck or not paths[moment](asked):
                return None
            struck.append(stage.now)
            asyncio.get_running_loop().call_soon(stage.controller.crash)
            return None

        stage.network.script(strike)
        await stage.may_shrink()
        await stage.until(_true_when(struck), 200)
        await asyncio.sleep(3)
        stage.controller.start()
        await stage.at_rest(1)
        assert len(stage.cloud.made) == 4

    play(story)


def _true_when(things: list[float]) -> Callable[[], Awaitable[bool]]:
    async def any_of_them() -> bool:
        return bool(things)

    return any_of_them


def test_a_node_takes_no_pods_while_nobody_knows_whether_its_machine_is_there() -> None:
    """The cloud accepts a deletion and answers nothing from then on: neither deletions nor lists."""

    async def story(stage: Stage) -> None:
        await stage.pool(2)
        await stage.deployment("web", 1)
        await stage.may_shrink()
        await stage.until(stage.tainted, 300)
        (victim,) = await stage.tainted()
        stage.cloud.faults.fail("delete", OutcomeUnknown("delete: no answer"), 40)
        stage.cloud.faults.fail("list", OutcomeUnknown("list: no answer"), 40)
        for _ in range(300):
            await asyncio.sleep(1)
            assert victim in await stage.tainted()

        async def is_gone() -> bool:
            return victim not in await stage.nodes()

        await stage.until(is_gone, 900)

    play(story)


def test_a_clock_an_hour_ahead_for_some_seconds_removes_no_node_early() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool(2)
        await stage.deployment("web", 1)
        await stage.spec(minSize=0, consolidation={"unneededTime": "5m"})
        await stage.until(stage.candidates, 120)
        began = stage.now
        for skew in (3600.0, 0.0, -3600.0):
            stage.clocks.skew = skew
            for _ in range(9):
                await asyncio.sleep(1)
                assert await stage.tainted() == []
        stage.clocks.skew = 0.0
        await stage.has(1, 600)
        assert 290 < stage.now - began < 400

    play(story)
