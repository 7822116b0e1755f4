"""Cluster API: the contract on both API servers, and what happens between a size and its Machines."""

import pytest

from tests.cloud.benches import Requests
from tests.cloud.clusterapi.clusterapi_world import (
    DEPLOYMENTS,
    MACHINES,
    Controllers,
    a_deployment,
    install_cluster_api,
    unsteady,
)
from tests.contract.worlds import World
from ullage.clock import WallClock
from ullage.cloud.api import CloudProvider, PoolRef, RequestRejected
from ullage.cloud.clusterapi.provider import ClusterApiProvider
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.model.instance import InstanceState
from ullage.model.node import Taint
from ullage.testing.cloud_contract import CannotHappen, CloudContract, CloudTrouble, ProviderBench


class ClusterApiBench(Requests):
    def __init__(self, api: KubeApi, namespace: str) -> None:
        parameters = {name: {"machineDeployment": f"md-{name}", "namespace": namespace} for name in ("one", "two")}
        super().__init__(parameters)
        self.controllers = Controllers(api, namespace)
        wrapped, self.network = unsteady(api)
        self.capi = ClusterApiProvider(wrapped, WallClock())

    @property
    def provider(self) -> CloudProvider:
        return self.capi

    async def settle(self) -> None:
        await self.controllers.work()

    async def trouble(self, trouble: CloudTrouble) -> None:
        match trouble:
            case CloudTrouble.NO_CAPACITY | CloudTrouble.ONE_LEFT | CloudTrouble.QUOTA:
                raise CannotHappen("a MachineDeployment takes any size; Machines that cannot be made just stay away")
            case CloudTrouble.THROTTLED:
                self.network.busy = True
            case CloudTrouble.LOST_ANSWER | CloudTrouble.DELETE_FAILS:
                self.network.lose_next = True


@pytest.fixture
async def machines(api: KubeApi, world: World) -> ClusterApiBench:
    """Two pools, whose MachineDeployments have no Machines yet."""
    await install_cluster_api(api)
    for name in ("md-one", "md-two"):
        await api.create(DEPLOYMENTS, a_deployment(name), world.namespace)
    return ClusterApiBench(api, world.namespace)


class TestClusterApi(CloudContract):
    @pytest.fixture
    def bench(self, machines: ClusterApiBench) -> ProviderBench:
        return machines


async def test_what_is_asked_for_is_seen_before_there_is_a_machine(machines: ClusterApiBench) -> None:
    pool = machines.pool("one")
    created = await machines.capi.create(machines.request(pool, 2, "token"))
    assert [one.state for one in created.instances] == [InstanceState.REQUESTED] * 2
    assert list(created.instances) == await machines.capi.list([pool])
    await machines.settle()
    made = await machines.capi.list([pool])
    assert [(one.state, one.node, one.provider_id) for one in made] == [
        (InstanceState.RUNNING, "node-md-one-000", "fake:///md-one-000"),
        (InstanceState.RUNNING, "node-md-one-001", "fake:///md-one-001"),
    ]


async def test_the_machine_meant_is_the_one_that_goes(machines: ClusterApiBench, api: KubeApi, world: World) -> None:
    pool = machines.pool("one")
    await machines.capi.create(machines.request(pool, 3, "token"))
    await machines.settle()
    oldest, *_ = await machines.capi.list([pool])
    await machines.capi.delete([oldest.id])
    states = {one.id: one.state for one in await machines.capi.list([pool])}
    assert states[oldest.id] is InstanceState.STOPPING, "it does not count from now on, though it is still there"
    await machines.settle()
    left = [raw["metadata"]["name"] for raw in (await api.list(MACHINES, world.namespace)).items]
    assert left == ["md-one-001", "md-one-002"]


async def test_one_that_is_not_made_yet_can_be_given_up(machines: ClusterApiBench, api: KubeApi, world: World) -> None:
    pool = machines.pool("one")
    await machines.capi.create(machines.request(pool, 2, "token"))
    first, _ = await machines.capi.list([pool])
    await machines.capi.delete([first.id])
    assert (await api.get(DEPLOYMENTS, "md-one", world.namespace))["spec"]["replicas"] == 1
    await machines.settle()
    for _ in range(2):
        await machines.capi.delete([first.id])
    assert len(await machines.capi.list([pool])) == 1, "nothing is missing any more, so nothing can be given up"


async def test_machines_made_by_hand_are_of_the_pool_and_scaling_by_hand_is_kept(
    machines: ClusterApiBench, api: KubeApi, world: World
) -> None:
    await api.scale(DEPLOYMENTS, "md-one", world.namespace, 2)
    await machines.settle()
    pool = machines.pool("one")
    await machines.capi.create(machines.request(pool, 1, "token"))
    await machines.settle()
    assert len(await machines.capi.list([pool])) == 3


@pytest.mark.parametrize(
    ("annotations", "says"),
    [
        pytest.param(
            {"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "5"},
            "is scaled by cluster-autoscaler",
            id="another-autoscaler",
        ),
        pytest.param({"gpu.scheduling/purchases": "yes"}, "is not ours to read", id="notes-that-are-no-json"),
        pytest.param({"gpu.scheduling/purchases": "[1]"}, "is not ours to read", id="notes-of-another-kind"),
    ],
)
async def test_what_is_not_ours_is_left_alone(
    machines: ClusterApiBench, api: KubeApi, world: World, annotations: dict[str, str], says: str
) -> None:
    patch = MergePatch({"metadata": {"annotations": annotations}})
    await api.patch(DEPLOYMENTS, "md-one", patch, world.namespace)
    with pytest.raises(RequestRejected, match=says):
        await machines.capi.create(machines.request(machines.pool("one"), 1, "token"))
    assert (await api.get(DEPLOYMENTS, "md-one", world.namespace))["spec"]["replicas"] == 0


async def test_a_pool_without_its_deployment_is_refused_by_name(machines: ClusterApiBench) -> None:
    with pytest.raises(RequestRejected, match="pool x: provider parameter machineDeployment is not set"):
        await machines.capi.list([PoolRef(name="x")])
    gone = PoolRef(name="x", parameters={"machineDeployment": "nowhere"})
    with pytest.raises(RequestRejected, match="nowhere"):
        await machines.capi.create(machines.request(gone, 1, "token"))


async def test_a_template_is_read_from_its_annotations(machines: ClusterApiBench, api: KubeApi, world: World) -> None:
    prefix = "capacity.cluster-autoscaler.kubernetes.io/"
    said = {
        "cpu": "96",
        "memory": "1Ti",
        "gpu-type": "nvidia.com/gpu",
        "gpu-count": "8",
        "labels": "cluster-api/accelerator=H100,topology.kubernetes.io/zone=a",
        "taints": "team=a:NoSchedule",
    }
    annotations = {f"{prefix}{key}": text for key, text in said.items()}
    patch = MergePatch({"metadata": {"annotations": annotations}})
    await api.patch(DEPLOYMENTS, "md-one", patch, world.namespace)
    (template,) = await machines.capi.templates(machines.pool("one"))
    assert (template.gpus.model, template.gpus.count, template.zones) == ("H100", 8, ("a",))
    assert template.resources == {"cpu": 96_000, "memory": (1 << 40) * 1000}
    assert template.taints == (Taint("team", "a", "NoSchedule"),)
    assert await machines.capi.templates(machines.pool("two")) == []
