"""Providers by name."""

from importlib.metadata import EntryPoint
from typing import cast

import pytest

from ullage.clock import WallClock
from ullage.cloud import registry
from ullage.cloud.api import CloudProvider
from ullage.cloud.registry import ProviderContext, load_provider, provider_names
from ullage.cloud.simulated import SimulatedCloud
from ullage.errors import UserError
from ullage.kube.client.api import KubeApi

HERE = "tests.cloud.test_registry"


class Theirs(SimulatedCloud):
    name = "theirs"


def make_theirs(surroundings: ProviderContext) -> CloudProvider:
    return Theirs(surroundings.clock)


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """What other packages announce."""
    points = [EntryPoint("theirs", f"{HERE}:make_theirs", registry.GROUP)]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == registry.GROUP else [])
    return points


@pytest.fixture
def surroundings() -> ProviderContext:
    # Making a provider asks nothing of the cluster.
    return ProviderContext(
        api=cast(KubeApi, None), clock=WallClock(), settings={"cluster": "ours", "region": "us-east-1"}
    )


async def test_ours_are_there_without_being_announced(
    surroundings: ProviderContext, announced: list[EntryPoint]
) -> None:
    assert announced
    assert provider_names() == ["aws", "clusterapi", "kwok", "simulated", "theirs"]
    for name in provider_names():
        provider = load_provider(name, surroundings)
        assert provider.name == name
        await provider.close()


def test_a_name_nobody_knows_is_refused_with_those_there_are(surroundings: ProviderContext) -> None:
    with pytest.raises(UserError, match="there is no provider 'gcp'; there are aws, clusterapi, kwok, simulated"):
        load_provider("gcp", surroundings)


@pytest.mark.parametrize(
    ("points", "says"),
    [
        pytest.param([("bad", "nowhere.at.all:make")], "cannot be loaded: No module named", id="no-such-module"),
        pytest.param([("bad", f"{HERE}:nothing")], "cannot be loaded: .* has no attribute", id="no-such-function"),
        pytest.param([("bad", f"{HERE}:make_theirs")], "calls itself 'theirs'", id="another-name"),
        pytest.param([("bad", "a:b"), ("bad", "c:d")], "is announced by a:b and c:d", id="announced-twice"),
    ],
)
def test_what_cannot_be_loaded_is_said(
    surroundings: ProviderContext, announced: list[EntryPoint], points: list[tuple[str, str]], says: str
) -> None:
    announced[:] = [EntryPoint(name, value, registry.GROUP) for name, value in points]
    with pytest.raises(UserError, match=says):
        load_provider("bad", surroundings)
