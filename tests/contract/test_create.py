"""Creating: what the server fills in, what it refuses, what it ignores."""

import re

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import CONFIG_MAP, DEPLOYMENT, LEASE, POD
from tests.contract.steps import uid, version
from ullage.errors import AlreadyExists, BadRequest, Invalid, NotFound, ServerFailure
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import LEASES
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.policy import Lease, LeaseSpec
from ullage.testing.builders import a_config_map, a_pod, a_workload, with_meta

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


async def test_server_fills_in_who_and_when(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    meta = made["metadata"]
    assert (made["apiVersion"], made["kind"], made["data"]) == ("v1", "ConfigMap", {"x": "1"})
    assert (meta["name"], meta["namespace"]) == ("a", ns)
    assert UUID.fullmatch(meta["uid"])
    assert TIME.fullmatch(meta["creationTimestamp"])
    assert int(meta["resourceVersion"]) > 0


async def test_what_was_created_can_be_read(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    assert await api.get(CONFIG_MAP, "a", ns) == made


async def test_each_creation_has_its_own_uid_and_a_later_version(api: KubeApi, ns: str) -> None:
    first = await api.create(CONFIG_MAP, a_config_map("a"), ns)
    second = await api.create(CONFIG_MAP, a_config_map("b"), ns)
    assert uid(first) != uid(second)
    assert int(version(first)) < int(version(second))


async def test_versions_of_different_kinds_share_one_order(api: KubeApi, ns: str) -> None:
    first = await api.create(POD, a_pod("a"), ns)
    second = await api.create(CONFIG_MAP, a_config_map("a"), ns)
    assert int(version(first)) < int(version(second))


async def test_taken_name_is_refused(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    with refused(AlreadyExists, reason="AlreadyExists", says='configmaps "a" already exists'):
        await api.create(CONFIG_MAP, a_config_map("a", x="2"), ns)
    assert (await api.get(CONFIG_MAP, "a", ns))["data"] == {"x": "1"}


async def test_taken_name_of_a_grouped_kind_is_named_with_its_group(api: KubeApi, ns: str) -> None:
    await api.create(DEPLOYMENT, a_workload("a"), ns)
    with refused(AlreadyExists, reason="AlreadyExists", says='deployments.apps "a" already exists'):
        await api.create(DEPLOYMENT, a_workload("a"), ns)


async def test_same_name_in_another_kind_is_free(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    await api.create(POD, a_pod("a"), ns)


async def test_missing_namespace_is_not_found(api: KubeApi, ns: str) -> None:
    with refused(NotFound, reason="NotFound", says=f'namespaces "{ns}-missing" not found'):
        await api.create(CONFIG_MAP, a_config_map("a"), f"{ns}-missing")


async def test_namespace_in_the_body_must_be_that_of_the_request(api: KubeApi, ns: str) -> None:
    says = "the namespace of the provided object does not match the namespace sent on the request"
    with refused(BadRequest, reason="BadRequest", says=says):
        await api.create(CONFIG_MAP, with_meta(a_config_map("a"), namespace="elsewhere"), ns)


async def test_version_on_creation_is_refused(api: KubeApi, ns: str) -> None:
    says = "resourceVersion should not be set on objects to be created"
    with refused(ServerFailure, reason="", says=says):
        await api.create(CONFIG_MAP, with_meta(a_config_map("a"), resourceVersion="7"), ns)


async def test_identity_cannot_be_chosen(api: KubeApi, ns: str) -> None:
    claimed = {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2001-01-01T00:00:00Z"}
    made = await api.create(CONFIG_MAP, with_meta(a_config_map("a"), **claimed), ns)
    assert UUID.fullmatch(uid(made))
    assert made["metadata"]["creationTimestamp"] > "2001-01-02"
    assert "deletionTimestamp" not in made["metadata"]


async def test_kind_of_another_resource_is_refused(api: KubeApi, ns: str) -> None:
    with refused(BadRequest, reason="BadRequest", says="cannot be handled as a ConfigMap"):
        await api.create(CONFIG_MAP, a_config_map("a") | {"apiVersion": "v1", "kind": "Secret"}, ns)


async def test_fields_unknown_to_a_builtin_kind_are_dropped(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1") | {"color": "red"}, ns)
    assert "color" not in made
    nested = await api.create(POD, a_pod("a", favouriteColour="red"), ns)
    assert "favouriteColour" not in nested["spec"]


async def test_wrong_type_of_a_field_is_a_bad_request(api: KubeApi, ns: str) -> None:
    with refused(BadRequest, reason="BadRequest", says="ConfigMap in version"):
        await api.create(CONFIG_MAP, {"metadata": {"name": "a"}, "data": {"x": 1}}, ns)


async def test_struct_is_written_as_well_as_json(api: KubeApi, ns: str) -> None:
    lease = Lease(metadata=ObjectMeta(name="a"), spec=LeaseSpec(holder_identity="me", lease_duration_seconds=15))
    made = await api.create(LEASES, lease, ns)
    assert (made.metadata.name, made.spec) == ("a", lease.spec)
    assert (await api.get(LEASE, "a", ns))["spec"] == {"holderIdentity": "me", "leaseDurationSeconds": 15}


async def test_dry_run_answers_and_changes_nothing(api: KubeApi, ns: str) -> None:
    made = await api.create(POD, a_pod("a"), ns, dry_run=True)
    assert UUID.fullmatch(uid(made))
    assert made["spec"]["schedulerName"] == "default-scheduler"
    with refused(NotFound, reason="NotFound", says='pods "a" not found'):
        await api.get(POD, "a", ns)


async def test_dry_run_refuses_what_creation_would(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    with refused(AlreadyExists, reason="AlreadyExists"):
        await api.create(CONFIG_MAP, a_config_map("a"), ns, dry_run=True)
    with refused(Invalid, reason="Invalid"):
        await api.create(CONFIG_MAP, a_config_map("Not_Valid"), ns, dry_run=True)


async def test_generation_starts_at_one_where_a_kind_has_one(api: KubeApi, ns: str) -> None:
    deployment = await api.create(DEPLOYMENT, a_workload("a"), ns)
    pod = await api.create(POD, a_pod("a"), ns)
    config_map = await api.create(CONFIG_MAP, a_config_map("a"), ns)
    assert (deployment["metadata"]["generation"], pod["metadata"]["generation"]) == (1, 1)
    assert "generation" not in config_map["metadata"]


TWO_CONTROLLERS = [
    {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in ("a", "b")
]


@pytest.mark.parametrize(
    ("metadata", "field", "reason", "says"),
    [
        pytest.param(
            {"name": ""}, "metadata.name", "FieldValueRequired", "name or generateName is required", id="no-name"
        ),
        pytest.param(
            {"name": "Not_Valid"},
            "metadata.name",
            "FieldValueInvalid",
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters",
            id="name-with-capitals",
        ),
        pytest.param(
            {"name": "n" * 254},
            "metadata.name",
            "FieldValueInvalid",
            "must be no more than 253 characters",
            id="name-too-long",
        ),
        pytest.param(
            {"labels": {"a b": "x"}},
            "metadata.labels",
            "FieldValueInvalid",
            "name part must consist of alphanumeric characters",
            id="label-key-with-space",
        ),
        pytest.param(
            {"labels": {"a": "x y"}},
            "metadata.labels",
            "FieldValueInvalid",
            "a valid label must be an empty string or consist of alphanumeric characters",
            id="label-value-with-space",
        ),
        pytest.param(
            {"annotations": {"a b": "x y"}},
            "metadata.annotations",
            "FieldValueInvalid",
            "name part must consist of alphanumeric characters",
            id="annotation-key-with-space",
        ),
        pytest.param(
            {"finalizers": ["nodomain"]},
            "metadata.finalizers[0]",
            "FieldValueInvalid",
            "name is neither a standard finalizer name nor is it fully qualified",
            id="finalizer-without-domain",
        ),
        pytest.param(
            {"ownerReferences": TWO_CONTROLLERS},
            "metadata.ownerReferences",
            "FieldValueInvalid",
            "Only one reference can have Controller set to true",
            id="two-controllers",
        ),
    ],
)
async def test_bad_metadata_is_refused_by_field(
    api: KubeApi, ns: str, metadata: JsonObject, field: str, reason: str, says: str
) -> None:
    with refused(Invalid, reason="Invalid", says=says, causes=[(field, reason)]):
        await api.create(CONFIG_MAP, with_meta(a_config_map("a"), **metadata), ns)


@pytest.mark.parametrize("missing", ["apiVersion", "kind", "name", "uid"])
async def test_an_owner_is_named_in_full(api: KubeApi, ns: str, minor: int, missing: str) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y", missing: ""}
    cause = (f"metadata.ownerReferences[0].{missing}", "FieldValueRequired")
    if minor < 37:
        cause = (f"metadata.ownerReferences.{missing}", "FieldValueInvalid")
    with refused(Invalid, reason="Invalid", says="must not be empty", causes=[cause]):
        await api.create(CONFIG_MAP, with_meta(a_config_map("a"), ownerReferences=[owner]), ns)


async def test_annotation_values_may_be_anything(api: KubeApi, ns: str) -> None:
    notes = {"ullage.dev/text": "any text, even ünïcode\n{}", "empty": ""}
    made = await api.create(CONFIG_MAP, with_meta(a_config_map("a"), annotations=notes), ns)
    assert made["metadata"]["annotations"] == notes


async def test_name_with_dots_is_a_name(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("gpu-node.a.b-0"), ns)
    assert (await api.get(CONFIG_MAP, "gpu-node.a.b-0", ns))["metadata"]["name"] == "gpu-node.a.b-0"
