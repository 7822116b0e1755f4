"""A claim in use outlives its deletion, as a PersistentVolumeClaim does; an annotation without a name is no claim."""

import asyncio
from typing import Any

import pytest

from tests.control.scheduling.fleet import submit
from tests.control.scheduling.stage import NS, Setting, Stage, play
from ullage.errors import AlreadyExists, NotFound
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import GPU_CLAIMS, PODS
from ullage.model.allocation import CLAIM, CLAIM_TEMPLATE
from ullage.model.claim import PROTECTION
from ullage.testing.builders import a_gpu_claim, a_pod

pytestmark = pytest.mark.story

OURS: dict[str, Any] = {"schedulerName": "gpu-scheduler", "terminationGracePeriodSeconds": 0}


async def is_gone(stage: Stage, claim: str) -> bool:
    try:
        await stage.claim(claim)
    except NotFound:
        return True
    return False


def test_a_claim_in_use_is_deleted_when_its_pod_is_gone_and_not_before() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage.api, NS, "p", 2)
        await stage.at_rest(30)
        await stage.api.delete(GPU_CLAIMS, "p", NS)
        await asyncio.sleep(120)
        claim = await stage.claim("p")
        assert claim.metadata.deletion_timestamp
        assert claim.metadata.finalizers == (PROTECTION,)
        assert claim.status.phase == "Bound"
        with pytest.raises(AlreadyExists):
            await stage.api.create(GPU_CLAIMS, a_gpu_claim("p", 4), NS)
        await stage.delete("p")
        await stage.until(lambda: is_gone(stage, "p"), 30)
        await submit(stage.api, NS, "p", 4)
        await stage.at_rest(30)
        assert (await stage.claim("p")).status.gpu_ids == (0, 1, 2, 3)

    play(Setting(nodes=1), story)


def test_a_deletion_waits_for_a_scheduler_that_is_down() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage.api, NS, "p", 2)
        await stage.at_rest(30)
        stage.schedulers[0].crash()
        await stage.api.delete(GPU_CLAIMS, "p", NS)
        await stage.delete("p")
        await asyncio.sleep(300)
        assert not await is_gone(stage, "p")
        stage.schedulers[0].restart()
        await stage.until(lambda: is_gone(stage, "p"), 60)

    play(Setting(nodes=1), story)


def test_nobody_is_placed_by_a_claim_that_is_to_go() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage.api, NS, "full", 8)
        await stage.at_rest(30)
        await submit(stage.api, NS, "waits", 1)
        await asyncio.sleep(10)
        await stage.api.patch(GPU_CLAIMS, "waits", MergePatch({"metadata": {"finalizers": ["example.com/keep"]}}), NS)
        await stage.api.delete(GPU_CLAIMS, "waits", NS)
        await stage.delete("full")
        await asyncio.sleep(30)
        assert await stage.bound() == {}
        assert "is being deleted" in (await stage.condition("waits")).message
        await stage.api.patch(GPU_CLAIMS, "waits", MergePatch({"metadata": {"finalizers": None}}), NS)
        await stage.until(lambda: is_gone(stage, "waits"), 30)

    play(Setting(nodes=1), story)


def test_a_claim_nobody_uses_any_more_is_not_protected() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage.api, NS, "p", 1)
        await stage.at_rest(30)
        assert (await stage.claim("p")).metadata.finalizers == (PROTECTION,)
        await stage.delete("p")
        await asyncio.sleep(15)
        assert (await stage.claim("p")).metadata.finalizers == ()
        stage.schedulers[0].crash()
        await stage.api.delete(GPU_CLAIMS, "p", NS)
        assert await is_gone(stage, "p")

    play(Setting(nodes=1), story)


def test_a_copy_in_use_is_not_made_again_from_a_template_that_changed() -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(GPU_CLAIMS, a_gpu_claim("t", 2), NS)
        await stage.api.create(PODS, a_pod("p", annotations={CLAIM_TEMPLATE: "t"}, gpus=2, **OURS), NS)
        await stage.at_rest(30)
        await stage.api.patch(GPU_CLAIMS, "t", MergePatch({"spec": {"devices": {"count": 4}}}), NS)
        (copy,) = (
            one.metadata.name for one in (await stage.api.list(GPU_CLAIMS, NS)).items if one.metadata.name != "t"
        )
        await stage.api.delete(GPU_CLAIMS, copy, NS)
        await asyncio.sleep(60)
        assert (await stage.claim(copy)).spec.devices.count == 2
        await stage.delete("p")
        await stage.until(lambda: is_gone(stage, copy), 60)

    play(Setting(nodes=1), story)


def test_a_claim_deleted_at_any_moment_is_kept_or_places_nobody() -> None:
    """Whatever moment the user picks, from before the pod is heard of to after its bind."""

    async def story(stage: Stage) -> None:
        for number in range(60):
            name = f"p{number}"
            await submit(stage.api, NS, name, 1)
            await asyncio.sleep(number / 1000)
            await stage.api.delete(GPU_CLAIMS, name, NS)
            await asyncio.sleep(2)
            placed = name in await stage.bound()
            assert placed is not await is_gone(stage, name), f"deleted after {number} ms"
            await stage.delete(name)
            await asyncio.sleep(10)

    play(Setting(nodes=1), story)


def test_a_claim_being_let_go_is_protected_again_before_its_next_pod_is_bound() -> None:
    """The finalizer of an unused claim is removed after some seconds. A pod may come in just that moment."""

    async def story(stage: Stage) -> None:
        seen: list[bool] = []

        def bound(change: Any) -> None:
            if change.after.obj["spec"].get("nodeName") and not (
                change.before and change.before.obj["spec"].get("nodeName")
            ):
                seen.append(PROTECTION in finalizers)

        finalizers: list[str] = []

        def written(change: Any) -> None:
            finalizers[:] = change.after.obj["metadata"].get("finalizers", [])

        stage.server.listen(PODS.id, bound)
        stage.server.listen(GPU_CLAIMS.id, written)
        for number in range(40):
            await submit(stage.api, NS, "p", 1)
            await stage.until(stage.bound, 30, every=0.05)
            await stage.delete("p")
            await asyncio.sleep(4.98 + number / 1000)
            await stage.api.create(PODS, a_pod("p", annotations={CLAIM: "p"}, gpus=1, **OURS), NS)
            await stage.until(stage.bound, 30, every=0.05)
            await stage.delete("p")
            await stage.api.delete(GPU_CLAIMS, "p", NS)
            await stage.until(lambda: is_gone(stage, "p"), 30)
        assert seen
        assert all(seen)

    play(Setting(nodes=1), story)


@pytest.mark.parametrize("annotation", [CLAIM, CLAIM_TEMPLATE])
def test_an_annotation_without_a_name_is_a_mistake_and_not_no_claim(annotation: str) -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(PODS, a_pod("p", annotations={annotation: ""}, gpus=1, **OURS), NS)
        await asyncio.sleep(20)
        assert await stage.bound() == {}
        assert f"annotation {annotation} is empty" in (await stage.condition("p")).message
        await stage.api.patch(PODS, "p", MergePatch({"metadata": {"annotations": {annotation: None}}}), NS)
        await stage.until(stage.bound, 30)

    play(Setting(nodes=1), story)
