"""What the scheduler says about input that makes no sense: on the pod, in an Event, and on the claim if there is one.

Each ends when the input is mended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from tests.control.scheduling.stage import NS, Setting, Stage, play
from ullage.errors import Invalid
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import GPU_CLAIMS, NAMESPACES, POD_GROUPS, PODS
from ullage.model.allocation import CLAIM, CLAIM_TEMPLATE
from ullage.testing.builders import a_namespace, a_pod

pytestmark = pytest.mark.story


async def claim(stage: Stage, name: str, namespace: str = NS, **spec: Any) -> None:
    devices = {"count": spec.pop("count", 1), **spec.pop("devices", {})}
    await stage.api.create(GPU_CLAIMS, {"metadata": {"name": name}, "spec": {"devices": devices, **spec}}, namespace)


async def pod(stage: Stage, name: str, notes: Mapping[str, str], gpus: int = 0) -> None:
    body = a_pod(name, annotations=notes, gpus=gpus, schedulerName="gpu-scheduler", terminationGracePeriodSeconds=0)
    await stage.api.create(PODS, body, NS)


async def is_missing(stage: Stage) -> None:
    await pod(stage, "p", {CLAIM: "c"})


async def is_of_another_namespace(stage: Stage) -> None:
    await stage.api.create(NAMESPACES, a_namespace("elsewhere"))
    await claim(stage, "c", "elsewhere")
    await pod(stage, "p", {CLAIM: "c"})


async def is_in_use(stage: Stage) -> None:
    await claim(stage, "c")
    await pod(stage, "user", {CLAIM: "c"})
    await asyncio.sleep(5)
    await pod(stage, "p", {CLAIM: "c"})


async def asks_for_too_many(stage: Stage) -> None:
    await claim(stage, "c", count=9)
    await pod(stage, "p", {CLAIM: "c"})


async def prefers_what_is_not_there(stage: Stage) -> None:
    await claim(stage, "c", devices={"policy": "preferIds", "preferIds": [12]})
    await pod(stage, "p", {CLAIM: "c"})


async def prefers_fewer_than_requested(stage: Stage) -> None:
    await claim(stage, "c", devices={"policy": "preferIds", "preferIds": [1]})
    await pod(stage, "p", {CLAIM: "c"}, gpus=2)


async def names_claim_and_template(stage: Stage) -> None:
    await claim(stage, "c")
    await claim(stage, "t")
    await pod(stage, "p", {CLAIM: "c", CLAIM_TEMPLATE: "t"})


async def names_no_gang(stage: Stage) -> None:
    await claim(stage, "c", gangRef="nothing")
    await pod(stage, "p", {CLAIM: "c"})


async def asks_for_another_model(stage: Stage) -> None:
    await claim(stage, "c", devices={"model": "NVIDIA B9000"})
    await pod(stage, "p", {CLAIM: "c"})


async def bring_the_claim(stage: Stage) -> None:
    await claim(stage, "c")


async def user_goes(stage: Stage) -> None:
    await stage.delete("user")


async def bring_the_gang(stage: Stage) -> None:
    await stage.api.create(POD_GROUPS, {"metadata": {"name": "nothing"}, "spec": {"minMember": 1}}, NS)


def ask_instead(devices: dict[str, Any]) -> Callable[[Stage], Awaitable[None]]:
    async def mend(stage: Stage) -> None:
        await stage.api.patch(GPU_CLAIMS, "c", MergePatch({"spec": {"devices": devices}}), NS)

    return mend


async def name_one_only(stage: Stage) -> None:
    await stage.api.patch(PODS, "p", MergePatch({"metadata": {"annotations": {CLAIM_TEMPLATE: None}}}), NS)


ONE = {"count": 1, "policy": "contiguous", "preferIds": None, "model": None}
FAILED, PENDING = "Failed", "Pending"
MISTAKES = [
    pytest.param(is_missing, "GpuClaim default/c is not there", None, bring_the_claim, id="claim-missing"),
    pytest.param(
        is_of_another_namespace,
        "GpuClaim default/c is not there",
        None,
        bring_the_claim,
        id="claim-of-another-namespace",
    ),
    pytest.param(is_in_use, "GpuClaim default/c belongs to pod default/user", None, user_goes, id="claim-already-used"),
    pytest.param(
        asks_for_too_many,
        "no node is large enough, even when empty (NodeTooSmall). 0/2 nodes fit: 2 NodeTooSmall",
        (FAILED, "NodeTooSmall"),
        ask_instead(ONE),
        id="count-above-any-node",
    ),
    pytest.param(
        prefers_what_is_not_there,
        "no node has the GPUs that it names in preferIds (PreferredGpusTaken). 0/2 nodes fit: 2 PreferredGpusTaken",
        (PENDING, "PreferredGpusTaken"),
        ask_instead(ONE),
        id="preferred-gpu-is-on-no-node",
    ),
    pytest.param(
        prefers_fewer_than_requested,
        "the pod requests 2 nvidia.com/gpu, and spec.devices.preferIds of default/c names 1",
        (FAILED, "ClaimInvalid"),
        ask_instead(ONE),
        id="prefers-fewer-than-requested",
    ),
    pytest.param(
        names_claim_and_template,
        "the pod names a claim and a claim template; only one of them can count",
        (FAILED, "ClaimInvalid"),
        name_one_only,
        id="claim-and-template",
    ),
    pytest.param(
        names_no_gang,
        "there is no PodGroup default/nothing, and no claim of the gang has gangMinMember",
        (PENDING, "GangSizeUnknown"),
        bring_the_gang,
        id="gang-ref-to-nothing",
    ),
    pytest.param(
        asks_for_another_model,
        "no node has GPUs of the model that it asks for (GpuModelMismatch). 0/2 nodes fit: 2 GpuModelMismatch",
        (PENDING, "GpuModelMismatch"),
        ask_instead(ONE),
        id="a-model-nobody-has",
    ),
]


@pytest.mark.parametrize(("mistake", "words", "standing", "mend"), MISTAKES)
def test_a_mistake_is_said_everywhere_and_can_be_mended(
    mistake: Callable[[Stage], Awaitable[None]],
    words: str,
    standing: tuple[str, str] | None,
    mend: Callable[[Stage], Awaitable[None]],
) -> None:
    """`standing` is what the pod's own claim says of itself, where it has one."""

    async def story(stage: Stage) -> None:
        await mistake(stage)
        await asyncio.sleep(10)
        assert "p" not in await stage.bound()
        condition = await stage.condition("p")
        assert (condition.status, condition.reason, condition.message) == ("False", "Unschedulable", words)
        assert (await stage.events("p"))["FailedScheduling"] == words
        if standing is not None:
            status = (await stage.claim("c")).status
            assert (status.phase, status.conditions[0].reason, status.message) == (*standing, words)
        await mend(stage)

        async def placed() -> bool:
            return "p" in await stage.bound()

        await stage.until(placed, 60)
        await stage.at_rest(60)

    play(Setting(nodes=2), story)


def test_a_pod_with_a_claim_and_a_request_gets_the_larger_of_both() -> None:
    async def story(stage: Stage) -> None:
        await claim(stage, "c", count=2)
        await claim(stage, "d", count=4)
        await pod(stage, "more-requested", {CLAIM: "c"}, gpus=3)
        await pod(stage, "more-claimed", {CLAIM: "d"}, gpus=1)
        await stage.at_rest(20)
        sizes = {one.key.name: len(one.gpu_ids) for one in (await stage.read()).pods}
        assert sizes == {"more-requested": 3, "more-claimed": 4}

    play(Setting(nodes=1), story)


@pytest.mark.parametrize(
    "devices",
    [
        pytest.param({"count": 0}, id="none-at-all"),
        pytest.param({"count": 1, "policy": "preferIds", "preferIds": [99]}, id="an-id-no-gpu-can-have"),
        pytest.param({"count": 1, "policy": "nearest"}, id="a-policy-that-is-none"),
    ],
)
def test_a_claim_that_breaks_a_rule_is_refused_by_the_api_server(devices: dict[str, Any]) -> None:
    async def story(stage: Stage) -> None:
        with pytest.raises(Invalid, match=r"spec\.devices"):
            await claim(stage, "c", devices=devices)

    play(Setting(nodes=1), story)
