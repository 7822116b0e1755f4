"""Which kinds are followed: those the server has, also where it has only just started and does not say so yet."""

import random
from dataclasses import replace
from typing import Any

import pytest

from ullage.errors import Unreadable
from ullage.kube.client.api import ServedResources
from ullage.kube.client.resources import GPU_CLAIMS, GPU_NODE_STATUSES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.install import install
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.watch.sources import sources_served


class Forgetful(RestApi):
    """A server whose discovery leaves kinds out, as that of one that is starting does."""

    forgets: tuple[str, ...] = ()

    async def discover(self) -> ServedResources:
        served = await super().discover()
        known = {name: versions for name, versions in served.versions.items() if name not in self.forgets}
        return replace(served, versions=known)


def followed(*, installed: bool, forgets: tuple[str, ...] = ()) -> set[str]:
    async def ask() -> set[str]:
        api: Any = Forgetful(InMemoryTransport(SimulatedApiServer(loop_clock(), seed=1)), rng=random.Random(1))
        api.forgets = forgets
        if installed:
            await install(api)
        return {source.resource.id for source in await sources_served(api)}

    return run_virtual(ask())


def test_kinds_that_are_not_installed_are_not_followed() -> None:
    ours = {GPU_CLAIMS.id, GPU_NODE_STATUSES.id}
    assert not ours & followed(installed=False)
    assert ours <= followed(installed=True)


def test_kinds_a_starting_server_does_not_mention_are_followed() -> None:
    assert followed(installed=True, forgets=(GPU_CLAIMS.id, GPU_NODE_STATUSES.id)) == followed(installed=True)


def test_a_server_without_pods_is_no_kubernetes() -> None:
    with pytest.raises(Unreadable, match="does not serve pods"):
        followed(installed=False, forgets=(PODS.id,))
