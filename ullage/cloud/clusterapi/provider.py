"""Nodes through Cluster API: a MachineDeployment per pool is scaled up; Machines are marked, then scaled down.

Works on every cloud Cluster API works on, and needs no SDK. Every change of a size is one conditional write of the
MachineDeployment that also notes its cause (a purchase's token, a Machine's name), so it is made once.

Parameters of a pool: `machineDeployment` (required), and `namespace` (default).
"""

from collections.abc import Sequence

from ullage.clock import Clock
from ullage.cloud.api import CreateRequest, CreateResult, PoolRef, RequestRejected
from ullage.cloud.clusterapi.sizes import (
    API_GROUP,
    DELETE_FIRST,
    DEPLOYMENT_LABEL,
    with_purchase,
    with_removal,
    without_one_missing,
)
from ullage.cloud.clusterapi.view import MachineDeploymentRef, MachineSet, described
from ullage.cloud.kube_errors import as_cloud_errors
from ullage.errors import NotFound
from ullage.kube.client.api import KubeApi, ListSelector, MergePatch
from ullage.kube.client.edit import edit
from ullage.kube.client.resource import JsonObject, Resource
from ullage.model.instance import Instance, InstanceState
from ullage.model.provisioner import NodeTemplate

VERSIONS = ("v1beta2", "v1beta1")
"""Versions of the API, newest first. The newest served is used; the fields read and written are the same in both."""


class ClusterApiProvider:
    """Client of the management cluster, which may be this cluster."""

    name = "clusterapi"
    staleness = 0.0

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._version = ""

    async def create(self, request: CreateRequest) -> CreateResult:
        with as_cloud_errors(f"create {request.count} machines of {request.pool.name}"):
            resource, where = await self._deployments(), _where(request.pool)
            now = self._clock.now()
            await edit(self._api, resource, where.name, where.namespace, lambda raw: with_purchase(raw, request, now))
            machines = await self._machines(request.pool)
        # Machines of this purchase cannot be told from others: the newest ones are taken for them.
        last = [one for one in machines.instances() if one.state is not InstanceState.STOPPING][-request.count :]
        return CreateResult(tuple(last))

    async def delete(self, ids: Sequence[str]) -> None:
        with as_cloud_errors(f"delete {', '.join(ids)}"):
            for one in ids:
                namespace, _, name = one.partition("/")
                deployment, missing, _ = name.partition("#")
                if missing:
                    await self._give_up_missing(namespace, deployment)
                elif name:
                    await self._delete(namespace, name)

    async def list(self, pools: Sequence[PoolRef]) -> Sequence[Instance]:
        with as_cloud_errors("list machines"):
            return [one for pool in pools for one in (await self._machines(pool)).instances()]

    async def templates(self, pool: PoolRef) -> Sequence[NodeTemplate]:
        """Template from the MachineDeployment's scale-from-zero annotations; empty without them."""
        with as_cloud_errors(f"describe {pool.name}"):
            where = _where(pool)
            raw = await self._api.get(await self._deployments(), where.name, where.namespace)
        return described(raw)

    async def run(self) -> None:
        """No background work: Cluster API makes the Machines."""

    async def close(self) -> None:
        """Nothing to close: the caller owns the connection."""

    async def _delete(self, namespace: str, name: str) -> None:
        machines = await self._resource("machines", "Machine")
        try:
            machine = await self._api.get(machines, name, namespace)
        except NotFound:
            return
        deployment = machine["metadata"].get("labels", {}).get(DEPLOYMENT_LABEL)
        if not deployment:
            raise RequestRejected(f"Machine {namespace}/{name} is of no MachineDeployment")
        if machine["metadata"].get("deletionTimestamp"):
            return
        # Marked first: the size must never fall while no Machine is marked to be deleted.
        mark = MergePatch({"metadata": {"annotations": {DELETE_FIRST: "yes"}}})
        await self._api.patch(machines, name, mark, namespace)
        there = await self._names(namespace, deployment)
        await edit(
            self._api,
            await self._deployments(),
            deployment,
            namespace,
            lambda raw: with_removal(raw, name, there),
        )

    async def _give_up_missing(self, namespace: str, deployment: str) -> None:
        """Give up one replica that is not made yet. If it is made meanwhile, a Machine without a node goes."""
        there = await self._names(namespace, deployment)
        await edit(
            self._api,
            await self._deployments(),
            deployment,
            namespace,
            lambda raw: without_one_missing(raw, there),
        )

    async def _machines(self, pool: PoolRef) -> MachineSet:
        where = _where(pool)
        raw = await self._api.get(await self._deployments(), where.name, where.namespace)
        found = await self._found(where.namespace, where.name)
        return MachineSet(pool.name, where, raw, found)

    async def _names(self, namespace: str, deployment: str) -> frozenset[str]:
        """Names of Machines that exist and are not being deleted."""
        found = await self._found(namespace, deployment)
        return frozenset(one["metadata"]["name"] for one in found if not one["metadata"].get("deletionTimestamp"))

    async def _found(self, namespace: str, deployment: str) -> Sequence[JsonObject]:
        selection = ListSelector(labels=f"{DEPLOYMENT_LABEL}={deployment}")
        machines = await self._resource("machines", "Machine")
        return (await self._api.list(machines, namespace, selection=selection)).items

    async def _deployments(self) -> Resource[JsonObject]:
        return await self._resource("machinedeployments", "MachineDeployment")

    async def _resource(self, plural: str, kind: str) -> Resource[JsonObject]:
        if not self._version:
            served = (await self._api.discover()).versions.get(f"machinedeployments.{API_GROUP}", ())
            found = [version for version in VERSIONS if version in served]
            if not found:
                raise RequestRejected(f"this API server does not serve MachineDeployments of {' or '.join(VERSIONS)}")
            self._version = found[0]
        return Resource[JsonObject](API_GROUP, self._version, plural, kind, True, dict)


def _where(pool: PoolRef) -> MachineDeploymentRef:
    name = pool.parameters.get("machineDeployment", "")
    if not name:
        raise RequestRejected(f"pool {pool.name}: provider parameter machineDeployment is not set")
    return MachineDeploymentRef(pool.parameters.get("namespace", "default"), name)
