"""Cluster API as far as a provider sees it: its kinds with a minimal schema, and what its controllers do, on demand."""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from tests.contract.expect import eventually
from ullage.errors import NotFound, TooManyRequests, Unreachable
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import CRDS
from ullage.testing.builders import a_crd

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
GROUP = "cluster.x-k8s.io"
DEPLOYMENTS = Resource[JsonObject](GROUP, "v1beta1", "machinedeployments", "MachineDeployment", True, dict)
MACHINES = Resource[JsonObject](GROUP, "v1beta1", "machines", "Machine", True, dict)


async def install_cluster_api(api: KubeApi) -> None:
    """Serve the two kinds, if they are not served yet."""
    for resource, parts in ((DEPLOYMENTS, ("status", "scale")), (MACHINES, ("status",))):
        try:
            await api.get(CRDS, resource.id)
        except NotFound:
            await api.create(CRDS, a_crd(resource, {"spec": OPEN, "status": OPEN}, subresources=parts))
        await eventually(partial(_is_served, api, resource), until=bool, seconds=30)


async def _is_served(api: KubeApi, resource: Resource[JsonObject]) -> bool:
    try:
        await api.list(resource)
    except (NotFound, TooManyRequests):
        return False
    return resource in await api.discover()


def a_deployment(name: str, replicas: int = 0, **annotations: str) -> JsonObject:
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"replicas": replicas}}


class Controllers:
    """What the controllers of Cluster API make of sizes. Machines with the annotation go first, then the newest."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._made = 0

    async def work(self) -> None:
        """Until nothing is left to do."""
        for deployment in (await self._api.list(DEPLOYMENTS, self._namespace)).items:
            name, wanted = deployment["metadata"]["name"], deployment["spec"]["replicas"]
            there = await self._of(name)
            for machine in sorted(there, key=_goes_first)[: max(0, len(there) - wanted)]:
                await self._api.delete(MACHINES, machine["metadata"]["name"], self._namespace)
            for _ in range(wanted - len(there)):
                await self._make(name)

    async def _of(self, deployment: str) -> Sequence[JsonObject]:
        found = (await self._api.list(MACHINES, self._namespace)).items
        return [one for one in found if one["metadata"]["labels"]["cluster.x-k8s.io/deployment-name"] == deployment]

    async def _make(self, deployment: str) -> None:
        name = f"{deployment}-{self._made:03}"
        self._made += 1
        labels = {"cluster.x-k8s.io/deployment-name": deployment}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"providerID": f"fake:///{name}"}}
        await self._api.create(MACHINES, body, self._namespace)
        status = MergePatch({"status": {"phase": "Running", "nodeRef": {"name": f"node-{name}"}}})
        await self._api.patch(MACHINES, name, status, self._namespace, subresource="status")


def _goes_first(machine: JsonObject) -> tuple[bool, str]:
    return "cluster.x-k8s.io/delete-machine" not in (machine["metadata"].get("annotations") or {}), _newest(machine)


def _newest(machine: JsonObject) -> str:
    return "".join(chr(255 - ord(letter)) for letter in machine["metadata"]["name"])


class Unsteady:
    """An API that loses the answers of writes to MachineDeployments, or is too busy for them."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self.lose_next = False
        self.busy = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def replace(self, resource: Resource[Any], body: Any, **how: Any) -> Any:
        if self.busy:
            raise TooManyRequests("too busy", retry_after=3.0)
        answer = await self._api.replace(resource, body, **how)
        if self.lose_next:
            self.lose_next = False
            raise Unreachable("connection reset before an answer came")
        return answer


def unsteady(api: KubeApi) -> tuple[KubeApi, Unsteady]:
    """The same API with weather."""
    wrapped = Unsteady(api)
    return cast(KubeApi, wrapped), wrapped
