"""One control plane for the tests of a file, with its controllers and KWOK: each test finds it empty."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.fleet import each
from ullage.errors import AlreadyExists, NotFound
from ullage.kube.auth.connect import find_access, open_api
from ullage.kube.client.api import DELETE_NOW, KubeApi, MergePatch
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import (
    BUDGETS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    GPU_CLAIMS,
    GPU_NODE_STATUSES,
    LEASES,
    NAMESPACES,
    NODE_PROVISIONERS,
    NODES,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
)
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.kube.crds.install import install
from ullage.testing.builders import a_namespace
from ullage.testing.controlplane import WORKLOADS, ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.fixtures import prepare

SWEPT = (
    NODE_PROVISIONERS,
    BUDGETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    PODS,
    GPU_CLAIMS,
    POD_GROUPS,
    NODES,
    GPU_NODE_STATUSES,
    CONFIG_MAPS,
    LEASES,
    EVENTS,
)
"""What tests make, owners before what they own."""
SWEEPING_SECONDS = 240.0


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with prepare(ControlPlaneSpec(components=WORKLOADS)) as started:
        yield started


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[KubeApi]:
    opened = open_api(find_access(plane.kubeconfig), seed=0)
    try:
        await install(opened, (*OURS, POD_GROUP))
        with suppress(AlreadyExists):
            await opened.create(NAMESPACES, a_namespace("ullage-system"))
        yield opened
        async with asyncio.timeout(SWEEPING_SECONDS):
            while await _swept(opened):  # noqa: ASYNC110 - nobody tells when controllers have made their last pod
                await asyncio.sleep(0.5)
    finally:
        await opened.close()


async def _swept(api: KubeApi) -> bool:
    """Whether anything was there. Programs of the test are gone by now."""
    found = [await _empty(api, resource) for resource in SWEPT]
    return any(found)


async def _empty(api: KubeApi, resource: Resource[Any]) -> bool:
    found = [one["metadata"] for one in (await api.list(resource.whole())).items]
    ours = [meta for meta in found if not meta.get("namespace", "").startswith("kube-")]
    kept = [meta for meta in ours if meta["name"] != "kube-root-ca.crt"]

    async def gone(meta: dict[str, Any]) -> None:
        name, namespace = meta["name"], meta.get("namespace", "")
        with suppress(NotFound):
            if meta.get("finalizers"):
                await api.patch(resource, name, MergePatch({"metadata": {"finalizers": None}}), namespace)
            await api.delete(resource, name, namespace, how=DELETE_NOW)

    await each(kept, gone)
    return bool(kept)


@pytest.fixture
def programs(api: KubeApi, tmp_path: Path) -> Iterator[PoolPrograms]:  # noqa: ARG001 - the cluster outlives its programs
    with PoolPrograms(tmp_path) as running:
        yield running
