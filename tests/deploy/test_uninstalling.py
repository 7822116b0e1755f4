"""What an uninstallation takes off nodes and NodePools that are Karpenter's, and which namespaces it takes away."""

import random
from typing import Any, TypeVar

import msgspec
import pytest

from ullage.deploy.uninstalling import Uninstaller, cleaned
from ullage.errors import NotFound
from ullage.kube.client.api import Page
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import CONFIG_MAPS, CRDS, GPU_CLAIMS, NAMESPACES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.install import install
from ullage.kube.objects.node import KubeNode
from ullage.kube.write.node_pool import conditions_patch, unprotected
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import COMPONENT_LABEL, DO_NOT_DISRUPT, HANDOVER, SMART_SCHEDULER, Handover, WaitingPod
from ullage.model.units import Instant
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.controllers.wiring import start_actors
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_node, a_pod, a_taint

T = TypeVar("T")


@pytest.mark.parametrize("was_kept", [False, True], ids=["ours", "the-owners"])
def test_a_node_in_the_middle_of_a_hand_over_is_opened(was_kept: bool) -> None:
    handover = Handover(
        request="r", pods=(WaitingPod(ObjectKey("team", "p"), "u"),), since=Instant(0.0), was_kept=was_kept
    )
    body = a_node("n", taints=[a_taint(HANDOVER, "r"), a_taint("nvidia.com/gpu", "")])
    note = msgspec.json.encode(handover).decode()
    body["metadata"]["annotations"] = {HANDOVER: note, DO_NOT_DISRUPT: "true", "theirs": "x"}
    left = cleaned(msgspec.convert(body, KubeNode))
    assert [one.key for one in left.spec.taints] == ["nvidia.com/gpu"]
    assert left.metadata.annotations == {"theirs": "x"} | ({DO_NOT_DISRUPT: "true"} if was_kept else {})


def test_our_condition_comes_and_goes_and_karpenters_stay() -> None:
    ready = {"type": "Ready", "status": "True"}
    pool = {"metadata": {"name": "p", "resourceVersion": "7"}, "status": {"conditions": [ready]}}
    ours = unprotected("open", 3, Instant(0.0))
    assert conditions_patch(pool, ()) is None
    put = conditions_patch(pool, [ours])
    assert put is not None
    assert put.body == {"metadata": {"resourceVersion": "7"}, "status": {"conditions": [ready, ours]}}
    told = pool | {"status": {"conditions": [ready, ours]}}
    assert conditions_patch(told, [ours]) is None
    gone = conditions_patch(told, ())
    assert gone is not None
    assert gone.body["status"]["conditions"] == [ready]


@pytest.mark.story
@pytest.mark.parametrize(
    ("labels", "objects", "left"),
    [
        pytest.param({COMPONENT_LABEL: SMART_SCHEDULER}, [], False, id="made-by-the-controller"),
        pytest.param({}, [], True, id="made-by-a-user"),
        pytest.param({COMPONENT_LABEL: SMART_SCHEDULER}, ["theirs"], True, id="used-by-others"),
    ],
)
def test_the_namespace_of_smart_pods_goes_if_it_is_nobodys(
    labels: dict[str, str], objects: list[str], left: bool
) -> None:
    async def story() -> None:
        clock, said = loop_clock(), list[str]()
        api = RestApi(InMemoryTransport(SimulatedApiServer(clock, seed=1)), rng=random.Random(1))
        await install(api)
        for name, own in (("ullage-system", {}), ("tensor-fusion-system", labels)):
            await api.create(NAMESPACES, {"metadata": {"name": name, "labels": own}})
        smart = a_pod("smart", labels={COMPONENT_LABEL: SMART_SCHEDULER})
        await api.create(PODS, smart, "tensor-fusion-system")
        for name in ("kube-root-ca.crt", *objects):
            await api.create(CONFIG_MAPS, {"metadata": {"name": name}}, "tensor-fusion-system")
        async with start_actors(api, clock):
            await Uninstaller(api, "ullage-system", said.append).run()
        there = {one.metadata.name for one in (await api.list(NAMESPACES)).items}
        assert ("tensor-fusion-system" in there) is left
        assert not (await api.list(PODS)).items
        assert [line for line in said if line.startswith("kept")] == [
            "kept Namespace tensor-fusion-system: there are objects of others (ConfigMap)" for _ in objects
        ]

    run_virtual(story())


class ClaimsGoNow(RestApi):
    """Client of an API server that drops the kind of claims between two requests."""

    async def list(self, resource: Resource[T], *where: Any, **how: Any) -> Page[T]:
        if resource.id == GPU_CLAIMS.id:
            raise NotFound("404 page not found")
        return await super().list(resource, *where, **how)


@pytest.mark.story
def test_claims_whose_definition_goes_meanwhile_need_no_release() -> None:
    async def story() -> None:
        clock, said = loop_clock(), list[str]()
        api = ClaimsGoNow(InMemoryTransport(SimulatedApiServer(clock, seed=1)), rng=random.Random(1))
        await install(api)
        await api.create(NAMESPACES, {"metadata": {"name": "ullage-system"}})
        async with start_actors(api, clock):
            await Uninstaller(api, "ullage-system", said.append).run()
        assert not (await api.list(CRDS)).items

    run_virtual(story())
