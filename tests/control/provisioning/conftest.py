"""Programs on a real control plane for all tests of a file: its controllers and KWOK keep fake nodes and pods going."""

import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.control.scheduling.fleet import each
from tests.control.scheduling.programs import PROGRAM, Programs
from ullage.errors import AlreadyExists, NotFound
from ullage.kube.auth.connect import find_access, open_api
from ullage.kube.client.api import DELETE_NOW, KubeApi
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import (
    CONFIG_MAPS,
    GPU_NODE_STATUSES,
    LEASES,
    NAMESPACES,
    NODE_PROVISIONERS,
    NODES,
    PODS,
)
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.kube.crds.install import install
from ullage.testing.builders import a_namespace
from ullage.testing.controlplane import WORKLOADS, ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.fixtures import prepare


class PoolPrograms(Programs):
    """Schedulers and controllers."""

    def controller(self, kubeconfig: Path, *options: str) -> subprocess.Popen[bytes]:
        """Start one."""
        self._started += 1
        log = self._folder / f"controller-{self._started}.log"
        command: Sequence[str | Path] = (PROGRAM, "controller", "--kubeconfig", kubeconfig, *options)
        with log.open("wb") as words:
            process = subprocess.Popen(command, stdout=words, stderr=subprocess.STDOUT)
        self._running[process] = log
        return process


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with prepare(ControlPlaneSpec(components=WORKLOADS)) as started:
        yield started


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[KubeApi]:
    """A cluster in which there is nothing; it is left so."""
    opened = open_api(find_access(plane.kubeconfig), seed=0)
    try:
        await install(opened, (*OURS, POD_GROUP))
        with suppress(AlreadyExists):
            await opened.create(NAMESPACES, a_namespace("ullage-system"))
        yield opened
        for resource in (NODE_PROVISIONERS, PODS, NODES, GPU_NODE_STATUSES, CONFIG_MAPS, LEASES):
            await _empty(opened, resource)
    finally:
        await opened.close()


async def _empty(api: KubeApi, resource: Resource[Any]) -> None:
    """Programs are gone by now: nothing comes back."""
    found = [one["metadata"] for one in (await api.list(resource.whole())).items]
    ours = [meta for meta in found if not meta.get("namespace", "").startswith("kube-")]

    async def gone(place: int) -> None:
        with suppress(NotFound):
            await api.delete(resource, ours[place]["name"], ours[place].get("namespace", ""), how=DELETE_NOW)

    await each(range(len(ours)), gone)


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[PoolPrograms]:
    with PoolPrograms(tmp_path) as running:
        yield running
