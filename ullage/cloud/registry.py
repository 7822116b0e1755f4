"""Cloud providers by name: built-in ones, and entry points `ullage.cloud_providers` of other packages.

An entry point names a function that takes `ProviderContext` and returns a CloudProvider:

    [project.entry-points."ullage.cloud_providers"]
    mycloud = "mycloud.ullage:make_provider"
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points

from ullage.clock import Clock
from ullage.cloud.api import CloudProvider
from ullage.errors import UserError
from ullage.kube.client.api import KubeApi

GROUP = "ullage.cloud_providers"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContext:
    """Dependencies a provider may need."""

    api: KubeApi
    """API of the cluster the nodes are for."""
    clock: Clock
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of this provider, from the controller's configuration."""


Make = Callable[[ProviderContext], CloudProvider]


def provider_names() -> list[str]:
    """Names of all providers that can be loaded."""
    return sorted({*_OURS, *(point.name for point in entry_points(group=GROUP))})


def load_provider(name: str, surroundings: ProviderContext) -> CloudProvider:
    """Provider of this name. A built-in one wins over one of another package. Raises UserError."""
    make = _OURS.get(name) or _announced(name)
    provider = make(surroundings)
    if provider.name != name:
        raise UserError(f"provider {name!r} calls itself {provider.name!r}; NodeProvisioners could not refer to it")
    return provider


def _announced(name: str) -> Make:
    found = [point for point in entry_points(group=GROUP) if point.name == name]
    if not found:
        raise UserError(f"there is no provider {name!r}; there are {', '.join(provider_names())}")
    if len(found) > 1:
        packages = " and ".join(sorted(_package(point) for point in found))
        raise UserError(f"provider {name!r} is announced by {packages}; remove one of them")
    return _loaded(found[0])


def _loaded(point: EntryPoint) -> Make:
    try:
        make: Make = point.load()
    except (ImportError, AttributeError) as error:
        raise UserError(f"provider {point.name!r} of {_package(point)} cannot be loaded: {error}") from error
    return make


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _aws(surroundings: ProviderContext) -> CloudProvider:
    from ullage.cloud.aws.provider import AwsProvider, AwsSettings

    given = surroundings.settings
    settings = AwsSettings(
        cluster=given.get("cluster", ""), region=given.get("region", ""), endpoint=given.get("endpoint", "")
    )
    return AwsProvider(settings, surroundings.clock)


def _clusterapi(surroundings: ProviderContext) -> CloudProvider:
    from ullage.cloud.clusterapi.provider import ClusterApiProvider

    return ClusterApiProvider(surroundings.api, surroundings.clock)


def _kwok(surroundings: ProviderContext) -> CloudProvider:
    from ullage.cloud.kwok.provider import KwokProvider

    namespace = surroundings.settings.get("namespace", "ullage-kwok")
    return KwokProvider(surroundings.api, surroundings.clock, namespace=namespace)


def _simulated(surroundings: ProviderContext) -> CloudProvider:
    from ullage.cloud.simulated import CloudBehaviour, SimulatedCloud

    boot = float(surroundings.settings.get("bootSeconds", 0))
    return SimulatedCloud(surroundings.clock, CloudBehaviour(boot=boot))


_OURS: Mapping[str, Make] = {"aws": _aws, "clusterapi": _clusterapi, "kwok": _kwok, "simulated": _simulated}
