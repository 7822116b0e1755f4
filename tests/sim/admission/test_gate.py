"""The webhook at the door of the simulated API server: what comes in changed, and what does not come in."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ullage.decide.admission.policy import AdmissionPolicy
from ullage.errors import ApiError, Invalid
from ullage.kube.client.api import Binding, KubeApi, MergePatch
from ullage.kube.client.resources import GPU_CLAIMS, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.install import install
from ullage.sim.admission import post_webhook
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_pod

NS = "default"
SCHEDULER = "system:serviceaccount:ullage-system:ullage-scheduler"
CLAIM = {"metadata": {"name": "train"}, "spec": {"devices": {"count": 4}}}

pytestmark = pytest.mark.story


class Door:
    """A user and the scheduler, in front of one server."""

    def __init__(self) -> None:
        server = SimulatedApiServer(loop_clock(), seed=1)
        post_webhook(server, AdmissionPolicy())
        self.user: KubeApi = self._api(server, "anna")
        self.scheduler: KubeApi = self._api(server, SCHEDULER)

    @staticmethod
    def _api(server: SimulatedApiServer, user: str) -> KubeApi:
        return RestApi(InMemoryTransport(server, user=user), rng=random.Random(1))

    async def pod(self, name: str = "train-0", **notes: str) -> dict[str, Any]:
        return await self.user.create(PODS.whole(), noted_pod(name, notes), NS)


def noted_pod(name: str, notes: dict[str, str]) -> dict[str, Any]:
    written = {f"gpu.scheduling/{key.replace('_', '-')}": value for key, value in notes.items()}
    return a_pod(name, annotations=written)


def at_the_door(story: Callable[[Door], Awaitable[None]]) -> None:
    async def live() -> None:
        door = Door()
        await install(door.user)
        await story(door)

    run_virtual(live())


def test_a_pod_with_a_claim_comes_in_ready_for_its_gpus() -> None:
    async def story(door: Door) -> None:
        await door.user.create(GPU_CLAIMS, CLAIM, NS)
        pod = await door.pod(claim="train")
        container = pod["spec"]["containers"][0]
        assert pod["spec"]["schedulerName"] == "gpu-scheduler"
        assert pod["spec"]["nodeSelector"] == {"gpu.scheduling/node-kind": "leased"}
        assert [one["name"] for one in container["env"]] == ["NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"]
        assert container["resources"]["limits"] == {"nvidia.com/gpu": "4"}
        assert "gpu.scheduling/leased" in [one.get("key") for one in pod["spec"]["tolerations"]]

    at_the_door(story)


def test_a_pod_that_is_none_of_our_business_comes_in_as_it_is() -> None:
    async def story(door: Door) -> None:
        pod = await door.pod()
        assert pod["spec"]["schedulerName"] == "default-scheduler"
        assert "env" not in pod["spec"]["containers"][0]

    at_the_door(story)


def test_output_annotations_of_users_are_left_outside() -> None:
    async def story(door: Door) -> None:
        pod = await door.pod(allocated="node-a:0")
        assert "gpu.scheduling/allocated" not in (pod["metadata"].get("annotations") or {})

    at_the_door(story)


async def _a_user_says_who_has_what(door: Door) -> None:
    await door.pod()
    body = {"metadata": {"annotations": {"gpu.scheduling/allocated": "node-a:0"}}}
    await door.user.patch(PODS, "train-0", MergePatch(body), NS)


async def _another_claim_later(door: Door) -> None:
    await door.pod(claim="train")
    body = {"metadata": {"annotations": {"gpu.scheduling/claim": "other"}}}
    await door.user.patch(PODS, "train-0", MergePatch(body), NS)


async def _a_user_binds_with_gpus(door: Door) -> None:
    pod = await door.pod(claim="train")
    notes = {"gpu.scheduling/allocated": "node-a:0"}
    await door.user.bind("train-0", NS, Binding("node-a", uid=pod["metadata"]["uid"], annotations=notes))


async def _two_claims(door: Door) -> None:
    await door.pod(claim="train", claim_template="other")


async def _claim_changes_under_its_pod(door: Door) -> None:
    await door.user.create(GPU_CLAIMS, CLAIM, NS)
    await door.pod(claim="train")
    notes = {"gpu.scheduling/allocated": "node-a:0,1,2,3"}
    await door.scheduler.bind("train-0", NS, Binding("node-a", annotations=notes))
    await door.user.patch(GPU_CLAIMS, "train", MergePatch({"spec": {"devices": {"count": 2}}}), NS)


@pytest.mark.parametrize(
    ("write", "word"),
    [
        pytest.param(_a_user_says_who_has_what, "ForeignOutput", id="users-do-not-say-who-has-which-gpu"),
        pytest.param(_another_claim_later, "ClaimFixed", id="a-pod-keeps-the-claim-it-came-with"),
        pytest.param(_a_user_binds_with_gpus, "ForeignOutput", id="a-binding-is-no-way-around"),
        pytest.param(_two_claims, "TwoClaims", id="one-claim-or-one-template"),
        pytest.param(_claim_changes_under_its_pod, "ClaimHeld", id="a-claim-in-use-stays-as-it-is"),
    ],
)
def test_what_does_not_come_in(write: Callable[[Door], Awaitable[None]], word: str) -> None:
    async def story(door: Door) -> None:
        with pytest.raises(ApiError, match=f"denied the request: {word}"):
            await write(door)

    at_the_door(story)


def test_the_scheduler_may_write_what_users_may_not() -> None:
    async def story(door: Door) -> None:
        await door.user.create(GPU_CLAIMS, CLAIM, NS)
        await door.pod(claim="train")
        await door.scheduler.bind(
            "train-0", NS, Binding("node-a", annotations={"gpu.scheduling/allocated": "node-a:0,1,2,3"})
        )
        pod = await door.user.get(PODS, "train-0", NS)
        assert pod.metadata.annotations["gpu.scheduling/allocated"] == "node-a:0,1,2,3"

    at_the_door(story)


def test_an_impossible_claim_is_refused() -> None:
    async def story(door: Door) -> None:
        with pytest.raises(Invalid):
            await door.user.create(GPU_CLAIMS, {"metadata": {"name": "x"}, "spec": {"devices": {"count": 99}}}, NS)

    at_the_door(story)
