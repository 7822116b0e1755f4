"""Discovery of the APIs a server serves, by its unaggregated discovery documents."""

import asyncio

import msgspec

from ullage.errors import NotFound, ServerFailure
from ullage.kube.client.api import ServedResources
from ullage.kube.client.calling import RetryingCaller
from ullage.kube.client.json_codec import decode_as
from ullage.kube.client.transport import Request


class _CoreVersions(msgspec.Struct, gc=False):
    versions: list[str] = []


class _GroupVersion(msgspec.Struct, gc=False, rename="camel"):
    group_version: str


class _Group(msgspec.Struct, gc=False):
    versions: list[_GroupVersion] = []


class _Groups(msgspec.Struct, gc=False):
    groups: list[_Group] = []


class _ServedResource(msgspec.Struct, gc=False):
    name: str


class _Resources(msgspec.Struct, gc=False):
    resources: list[_ServedResource] = []


class _Version(msgspec.Struct, gc=False, rename="camel"):
    git_version: str = ""


async def discover(caller: RetryingCaller) -> ServedResources:
    """Every resource in every version. An aggregated API whose own server is down counts as not served."""
    version = decode_as(_Version, await _read(caller, "/version"), "the server's version")
    core = decode_as(_CoreVersions, await _read(caller, "/api"), "the core API's versions")
    groups = decode_as(_Groups, await _read(caller, "/apis"), "the API groups")
    places = [("", f"/api/{one}") for one in core.versions]
    for group in groups.groups:
        for one in group.versions:
            name, _, _ = one.group_version.rpartition("/")
            places.append((name, f"/apis/{one.group_version}"))
    found = await asyncio.gather(*(_names(caller, path) for _, path in places), return_exceptions=True)

    versions: dict[str, list[str]] = {}
    for (group_name, path), names in zip(places, found, strict=True):
        if isinstance(names, (ServerFailure, NotFound)):
            continue
        if isinstance(names, BaseException):
            raise names
        for name in names:
            resource_id = f"{name}.{group_name}" if group_name else name
            versions.setdefault(resource_id, []).append(path.rpartition("/")[2])
    return ServedResources({key: tuple(each) for key, each in versions.items()}, version.git_version)


async def _names(caller: RetryingCaller, path: str) -> list[str]:
    """The plural names served at a group and version; subresources are none of them."""
    listed = decode_as(_Resources, await _read(caller, path), f"the resources of {path}")
    return [one.name for one in listed.resources if "/" not in one.name]


async def _read(caller: RetryingCaller, path: str) -> bytes:
    return await caller.ask(Request("GET", path), f"read {path}")
