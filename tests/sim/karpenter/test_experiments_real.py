"""The same experiments on the real Karpenter and kube-scheduler, which are right by definition."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.sim.karpenter.experiments import EXPERIMENTS, TYPES, Experiment, a_pool
from tests.sim.karpenter.lab import Lab
from ullage.clock import WallClock
from ullage.errors import AlreadyExists
from ullage.kube.auth.connect import find_access, open_api
from ullage.kube.client.resources import NODE_POOLS
from ullage.kube.crds.catalog import OURS
from ullage.kube.crds.install import install
from ullage.testing.controlplane import ControlPlane
from ullage.testing.controlplane.fixtures import prepare
from ullage.testing.karpenter_cluster import NODE_CLASSES, empty_cluster, karpenter_spec

pytestmark = [pytest.mark.real, pytest.mark.timeout(280)]

QUICK = ("X4b",)
FIGURES = "KARPENTER_FIGURES"
"""Variable that names a file for the figures measured. No setting of ours, so without our prefix."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with prepare(karpenter_spec(tmp_path_factory.mktemp("karpenter"), TYPES)) as started:
        yield started


@pytest.fixture
async def lab(plane: ControlPlane) -> AsyncIterator[Lab]:
    api = open_api(find_access(plane.kubeconfig), seed=0)
    try:
        await install(api, OURS)
        await empty_cluster(api)
        with suppress(AlreadyExists):
            node_class = {"metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": "5s"}}
            await api.create(NODE_CLASSES, node_class)
        yield Lab(api, WallClock())
    finally:
        await api.close()


def _sized(one: Experiment) -> object:
    return pytest.param(one, id=one.id, marks=() if one.id in QUICK else pytest.mark.full)


@pytest.mark.parametrize("one", [_sized(one) for one in EXPERIMENTS])
async def test_the_real_one_does_what_the_table_says(lab: Lab, one: Experiment) -> None:
    await lab.api.create(NODE_POOLS, a_pool(one))
    await asyncio.sleep(2.0)
    try:
        await one.story(lab)
    finally:
        _keep(lab.written(one.id))
    lab.check()


def _keep(lines: str) -> None:
    if FIGURES in os.environ:
        with Path(os.environ[FIGURES]).open("a") as written:
            written.write(lines)
