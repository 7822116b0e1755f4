"""The judge of those who wait: somebody who would fit is found, and nobody else."""

import random
from typing import Any

from tests.control.scheduling.fleet import add_nodes, submit, submit_gang
from ullage.act.leases import LeaseClient, LeaseHolder, LeaseRequest
from ullage.kube.client.api import Binding, KubeApi
from ullage.kube.client.resources import NAMESPACES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.catalog import POD_GROUP
from ullage.kube.crds.install import install
from ullage.model.fact_event import ObjectKey
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_namespace
from ullage.testing.checks.pending_pods import read_fresh, waiting_for_nothing

LEASES = "leases"


def found(arrange: Any) -> list[str]:
    """What is said of a cluster of two nodes with eight GPUs each, after it was arranged so."""

    async def look() -> list[str]:
        clock = loop_clock()
        api = RestApi(InMemoryTransport(SimulatedApiServer(clock, seed=1)), rng=random.Random(1))
        await install(api)
        await install(api, (POD_GROUP,))
        await api.create(NAMESPACES, a_namespace(LEASES))
        await add_nodes(api, ["a", "b"], clock)
        await arrange(api)
        return list(waiting_for_nothing(await read_fresh(api, LEASES), now=clock.now()))

    return run_virtual(look())


async def placed(api: KubeApi, name: str, node: str, gpus: int) -> None:
    await submit(api, "default", name, gpus)
    allocated = f"{node}:{','.join(map(str, range(gpus)))}"
    await api.bind(name, "default", Binding(node, annotations={"gpu.scheduling/allocated": allocated}))


def test_a_pod_that_would_fit_is_named_with_its_place() -> None:
    async def arrange(api: KubeApi) -> None:
        await placed(api, "there", "a", 8)
        await submit(api, "default", "p", 8)

    assert found(arrange) == ["default/p waits, and would fit on b"]


def test_who_would_not_fit_waits_for_good_reason() -> None:
    async def arrange(api: KubeApi) -> None:
        await placed(api, "there", "a", 1)
        await placed(api, "here", "b", 1)
        await submit(api, "default", "p", 8)

    assert found(arrange) == []


def test_a_gpu_leased_for_a_bind_under_way_is_not_free() -> None:
    async def arrange(api: KubeApi) -> None:
        await placed(api, "there", "a", 8)
        await submit(api, "default", "coming", 8, pod={"schedulingGates": [{"name": "x"}]})
        uid = (await api.get(PODS, "coming", "default")).metadata.uid
        book = LeaseClient(api, LEASES, loop_clock())
        await book.reserve(LeaseHolder(ObjectKey("default", "coming"), uid), LeaseRequest("b", (0,)))
        await submit(api, "default", "p", 8)

    assert found(arrange) == []


def test_a_whole_gang_that_would_fit_is_named_and_half_a_gang_is_not() -> None:
    async def arrange(api: KubeApi) -> None:
        await submit_gang(api, "default", "fits", members=2, gpus=8)

    async def arrange_too_large(api: KubeApi) -> None:
        await submit_gang(api, "default", "large", members=3, gpus=8)

    assert len(found(arrange)) == 2
    assert found(arrange_too_large) == []
