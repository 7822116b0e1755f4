"""Definitions of custom kinds, and discovery of what is served."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.contract.expect import eventually, refused
from tests.contract.kinds import CRD, GROUP, UNKNOWN, WIDGET
from tests.contract.steps import is_served, read_watch, widgets_served
from ullage.errors import AlreadyExists, Invalid, NotFound
from ullage.kube.client import resources
from ullage.kube.client.api import KubeApi, MergePatch, WatchEventType
from ullage.kube.client.resource import JsonObject, Resource
from ullage.testing.builders import a_crd, with_meta

PASSING = Resource[JsonObject](GROUP, "v1", "mayflies", "Mayfly", True, dict)
SPEC: JsonObject = {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}

BUILTIN = [
    resource
    for resource in vars(resources).values()
    if isinstance(resource, Resource)
    and re.fullmatch(r"[a-z]*|(?!.*\.x-).*\.k8s\.io", resource.group)
    and "alpha" not in resource.version
]
"""Those of the resources we know that Kubernetes itself brings: custom ones have other groups, alpha ones are off."""


@asynccontextmanager
async def defined(api: KubeApi) -> AsyncIterator[JsonObject]:
    """A kind that is served while the block runs, and that may be gone before it ends."""
    made = await api.create(CRD, a_crd(PASSING, SPEC))
    await eventually(lambda: is_served(api, PASSING), until=bool)
    try:
        yield made
    finally:
        await forget_kind(api)


async def forget_kind(api: KubeApi) -> None:
    try:
        await api.delete(CRD, PASSING.id)
    except NotFound:
        return
    await eventually(lambda: is_there(api), until=lambda there: not there)


async def is_there(api: KubeApi) -> bool:
    try:
        await api.get(CRD, PASSING.id)
    except NotFound:
        return False
    return True


async def test_kind_is_served_while_it_is_defined(api: KubeApi, ns: str) -> None:
    assert not await is_served(api, PASSING)
    async with defined(api):
        await api.create(PASSING, {"metadata": {"name": "a"}, "spec": {"any": "thing"}}, ns)
        assert (await api.get(PASSING, "a", ns))["spec"] == {"any": "thing"}
        assert PASSING in await eventually(api.discover, until=lambda served: PASSING in served)
    assert not await is_served(api, PASSING)
    assert PASSING not in await eventually(api.discover, until=lambda served: PASSING not in served)


async def test_objects_go_with_their_kind(api: KubeApi, ns: str) -> None:
    async with defined(api):
        await api.create(PASSING, {"metadata": {"name": "a"}}, ns)
    async with defined(api):
        assert list((await api.list(PASSING, ns)).items) == []


async def test_definition_says_when_it_is_established(api: KubeApi) -> None:
    await widgets_served(api)
    status = (await api.get(CRD, WIDGET.id))["status"]
    conditions = {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}
    assert conditions == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    assert (status["acceptedNames"], status["storedVersions"]) == (names, ["v1"])


async def test_definition_is_named_by_plural_and_group(api: KubeApi) -> None:
    says = 'must be spec.names.plural+"."+spec.group'
    with refused(Invalid, reason="Invalid", says=says, causes=[("metadata.name", "FieldValueInvalid")]):
        await api.create(CRD, with_meta(a_crd(PASSING, SPEC), name="flies.contract.ullage.dev"))


async def test_definition_needs_a_schema(api: KubeApi) -> None:
    body = a_crd(PASSING, SPEC)
    del body["spec"]["versions"][0]["schema"]
    causes = [("spec.versions[0].schema.openAPIV3Schema", "FieldValueRequired")]
    with refused(Invalid, reason="Invalid", causes=causes):
        await api.create(CRD, body)


async def test_definition_cannot_be_made_twice(api: KubeApi) -> None:
    await widgets_served(api)
    says = f'customresourcedefinitions.apiextensions.k8s.io "{WIDGET.id}" already exists'
    with refused(AlreadyExists, reason="AlreadyExists", says=says):
        await api.create(CRD, a_crd(WIDGET, SPEC))


async def test_old_objects_outlive_a_stricter_schema(api: KubeApi, ns: str) -> None:
    async with defined(api):
        await api.create(PASSING, {"metadata": {"name": "old"}, "spec": {"size": "huge"}}, ns)
        stricter = a_crd(PASSING, {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}})
        await api.patch(CRD, PASSING.id, MergePatch({"spec": {"versions": stricter["spec"]["versions"]}}))

        async def refuses_text() -> bool:
            try:
                await api.create(PASSING, {"metadata": {"name": "new"}, "spec": {"size": "x"}}, ns, dry_run=True)
            except Invalid:
                return True
            return False

        await eventually(refuses_text, until=bool)
        assert (await api.get(PASSING, "old", ns))["spec"] == {"size": "huge"}


async def test_custom_objects_are_watched(api: KubeApi, ns: str) -> None:
    await widgets_served(api)
    start = (await api.list(WIDGET, ns)).resource_version
    made = await api.create(WIDGET, {"metadata": {"name": "a"}, "spec": {"size": 1}}, ns)
    (event,) = await read_watch(api, WIDGET, ns, start, count=1)
    assert (event.change, event.object) == (WatchEventType.ADDED, made)


async def test_every_builtin_resource_we_know_is_served(api: KubeApi) -> None:
    served = await api.discover()
    assert len(BUILTIN) > 15
    assert [resource.id for resource in BUILTIN if resource not in served] == []


async def test_discovery_knows_what_is_not_served(api: KubeApi) -> None:
    served = await api.discover()
    assert UNKNOWN not in served
    assert Resource("apps", "v9", "deployments", "Deployment", True, dict) not in served
    assert not [name for name in served.versions if "/" in name], "subresources are not resources"


async def test_discovery_knows_the_version_of_the_server(api: KubeApi) -> None:
    assert (await api.discover()).server_version.startswith("v1.")
