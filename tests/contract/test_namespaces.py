"""Namespaces: how they begin, and what happens in one that ends."""

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import CONFIG_MAP, NAMESPACE, POD
from ullage.errors import Forbidden, Invalid
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import NAMESPACES
from ullage.testing.builders import a_config_map, a_namespace, a_pod


async def test_new_namespace_is_active_and_labelled(api: KubeApi, ns: str) -> None:
    made = await api.create(NAMESPACE, a_namespace(f"{ns}-x", labels={"team": "a"}))
    assert made["status"] == {"phase": "Active"}
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["metadata"]["labels"] == {"team": "a", "kubernetes.io/metadata.name": f"{ns}-x"}


async def test_namespaces_of_the_system_are_there(api: KubeApi) -> None:
    present = {item.metadata.name for item in (await api.list(NAMESPACES)).items}
    assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= present


async def test_deleted_namespace_lingers_terminating(api: KubeApi, ns: str) -> None:
    await api.delete(NAMESPACE, ns)
    going = await api.get(NAMESPACE, ns)
    assert going["status"]["phase"] == "Terminating"
    assert going["metadata"]["deletionTimestamp"]
    await api.delete(NAMESPACE, ns)


async def test_nothing_new_begins_where_all_ends(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    await api.delete(NAMESPACE, ns)
    says = f'pods "p" is forbidden: unable to create new content in namespace {ns} because it is being terminated'
    with refused(Forbidden, reason="Forbidden", says=says):
        await api.create(POD, a_pod("p"), ns)


async def test_what_is_there_can_still_be_changed_and_deleted(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    await api.delete(NAMESPACE, ns)
    patched = await api.patch(CONFIG_MAP, "a", MergePatch({"data": {"x": "1"}}), ns)
    assert patched["data"] == {"x": "1"}
    await api.delete(CONFIG_MAP, "a", ns)


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_namespaces_of_the_system_stay(api: KubeApi, name: str) -> None:
    with refused(Forbidden, reason="Forbidden", says=f'namespaces "{name}" is forbidden'):
        await api.delete(NAMESPACE, name)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("Capital", "a lowercase RFC 1123 label", id="capitals"),
        pytest.param("with.dots", "must not contain dots", id="dots"),
    ],
)
async def test_name_of_a_namespace_is_a_label(api: KubeApi, name: str, says: str) -> None:
    with refused(Invalid, reason="Invalid", says=says, causes=[("metadata.name", "FieldValueInvalid")]):
        await api.create(NAMESPACE, a_namespace(name))
