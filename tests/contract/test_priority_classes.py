"""Priority classes, and the priority a pod gets from them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.contract.expect import eventually, refused
from tests.contract.kinds import POD, PRIORITY_CLASS
from ullage.errors import Forbidden, Invalid
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.testing.builders import a_pod, a_priority_class

FORBIDDEN = "FieldValueForbidden"


@asynccontextmanager
async def priority_class(api: KubeApi, name: str, value: int, **fields: object) -> AsyncIterator[JsonObject]:
    """A class that is known to admission while the block runs, and no more afterwards."""
    made = await api.create(PRIORITY_CLASS, a_priority_class(name, value, **fields))
    spec: JsonObject = {} if fields.get("globalDefault") else {"priorityClassName": name}
    try:
        await eventually(lambda: admitted_priority(api, spec), until=lambda priority: priority == value)
        yield made
    finally:
        await api.delete(PRIORITY_CLASS, name)
        await eventually(lambda: admitted_priority(api, spec), until=lambda priority: priority != value)


async def admitted_priority(api: KubeApi, spec: JsonObject) -> int | None:
    """What a pod with this spec would get, or None where it would be refused."""
    try:
        shown = await api.create(POD, a_pod("trial", **spec), "default", dry_run=True)
    except Forbidden:
        return None
    return int(shown["spec"]["priority"])


async def test_pod_gets_the_priority_of_its_class(api: KubeApi, ns: str) -> None:
    async with priority_class(api, f"{ns}-high", 100, preemptionPolicy="Never") as made:
        assert made["metadata"]["generation"] == 1
        pod = await api.create(POD, a_pod("a", priorityClassName=f"{ns}-high"), ns)
    assert (pod["spec"]["priority"], pod["spec"]["preemptionPolicy"]) == (100, "Never")


async def test_class_preempts_unless_it_says_never(api: KubeApi, ns: str) -> None:
    async with priority_class(api, f"{ns}-high", 100) as made:
        assert made["preemptionPolicy"] == "PreemptLowerPriority"


async def test_pod_without_a_class_gets_the_default_one(api: KubeApi, ns: str) -> None:
    async with priority_class(api, f"{ns}-default", 7, globalDefault=True):
        pod = await api.create(POD, a_pod("a"), ns)
        says = f"PriorityClass {ns}-default is already marked as default. Only one default can exist"
        with refused(Forbidden, reason="Forbidden", says=says):
            await api.create(PRIORITY_CLASS, a_priority_class(f"{ns}-two", 8, globalDefault=True))
    assert (pod["spec"]["priority"], pod["spec"]["priorityClassName"]) == (7, f"{ns}-default")


async def test_unknown_class_is_forbidden(api: KubeApi, ns: str) -> None:
    says = f'pods "a" is forbidden: no PriorityClass with name {ns}-missing was found'
    with refused(Forbidden, reason="Forbidden", says=says):
        await api.create(POD, a_pod("a", priorityClassName=f"{ns}-missing"), ns)


async def test_priority_cannot_be_chosen_freely(api: KubeApi, ns: str) -> None:
    says = "the integer value of priority (7) must not be provided in pod spec"
    with refused(Forbidden, reason="Forbidden", says=says):
        await api.create(POD, a_pod("a", priority=7), ns)


@pytest.mark.parametrize(
    ("name", "value"), [("system-node-critical", 2000001000), ("system-cluster-critical", 2000000000)]
)
async def test_system_classes_are_always_there(api: KubeApi, ns: str, name: str, value: int) -> None:
    assert (await api.get(PRIORITY_CLASS, name))["value"] == value
    assert (await api.create(POD, a_pod("a", priorityClassName=name), ns))["spec"]["priority"] == value


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        pytest.param({"value": 200}, [("value", FORBIDDEN)], id="value"),
        pytest.param(
            {"preemptionPolicy": "Never"}, [("preemptionPolicy", "FieldValueInvalid")], id="preemption-policy"
        ),
    ],
)
async def test_class_is_fixed(api: KubeApi, ns: str, change: JsonObject, causes: list[tuple[str, str]]) -> None:
    async with priority_class(api, f"{ns}-high", 100):
        with refused(Invalid, reason="Invalid", causes=causes):
            await api.patch(PRIORITY_CLASS, f"{ns}-high", MergePatch(change))


async def test_value_has_a_limit(api: KubeApi, ns: str) -> None:
    says = "maximum allowed value of a user defined priority is 1000000000"
    with refused(Invalid, reason="Invalid", says=says, causes=[("value", FORBIDDEN)]):
        await api.create(PRIORITY_CLASS, a_priority_class(f"{ns}-high", 1_000_000_001))


async def test_system_names_are_taken(api: KubeApi) -> None:
    says = "priority class names with 'system-' prefix are reserved for system use only"
    with refused(Invalid, reason="Invalid", says=says, causes=[("metadata.name", FORBIDDEN)]):
        await api.create(PRIORITY_CLASS, a_priority_class("system-of-ours", 10))
