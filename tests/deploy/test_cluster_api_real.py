"""Cluster API with the controller's own token: a pool grows and shrinks, nothing is denied, no right is unused."""

import pytest

from tests.cloud.clusterapi.clusterapi_world import (
    DEPLOYMENTS,
    MACHINES,
    Controllers,
    a_deployment,
    install_cluster_api,
)
from tests.cloud.clusterapi.test_clusterapi import ClusterApiBench
from tests.deploy.cluster import NAMESPACE, kubectl, ullage
from tests.deploy.permissions import declared, denied, used
from ullage.clock import WallClock
from ullage.cloud.clusterapi.provider import ClusterApiProvider
from ullage.deploy.component import Component, Feature
from ullage.deploy.components import COMPONENTS
from ullage.kube.auth.connect import find_access, open_api
from ullage.kube.client.api import KubeApi
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.fixtures import StartControlPlane

pytestmark = pytest.mark.real
MACHINES_OF = "default"


@pytest.fixture
def plane(start_control_plane: StartControlPlane) -> ControlPlane:
    plane = start_control_plane(ControlPlaneSpec(audit=True))
    roles = ullage(plane, "install", "--only", "controller", "--feature", "cluster-api")
    kubectl(plane, "apply", "--server-side", "-f", "-", stdin=roles)
    return plane


async def test_a_pool_of_cluster_api_with_the_controllers_token(plane: ControlPlane) -> None:
    admin = open_api(find_access(plane.kubeconfig))
    mine = open_api(find_access(plane.kubeconfig_of_account("ullage-controller", NAMESPACE)))
    try:
        await install_cluster_api(admin)
        await admin.create(DEPLOYMENTS, a_deployment("md-one"), MACHINES_OF)
        await _grow_and_shrink(admin, mine)
    finally:
        await admin.close()
        await mine.close()
    log, controller = plane.audit(), COMPONENTS[Component.CONTROLLER]
    assert denied(log, NAMESPACE) == []
    rights = declared(controller, (Feature.CLUSTER_API,), seldom=True) - declared(controller, (), seldom=True)
    assert rights - used(log, controller.name, NAMESPACE) == set(), "verbs nobody used"


async def _grow_and_shrink(admin: KubeApi, mine: KubeApi) -> None:
    bench, controllers = ClusterApiBench(admin, MACHINES_OF), Controllers(admin, MACHINES_OF)
    provider, pool = ClusterApiProvider(mine, WallClock()), bench.pool("one")
    await provider.create(bench.request(pool, 3, "token"))
    await controllers.work()
    oldest, *_ = await provider.list([pool])
    await provider.delete([oldest.id])
    await controllers.work()
    left = [raw["metadata"]["name"] for raw in (await admin.list(MACHINES, MACHINES_OF)).items]
    assert left == ["md-one-001", "md-one-002"]
