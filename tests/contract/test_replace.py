"""Reading and replacing: optimistic concurrency, and what a replacement may not change."""

import asyncio

from tests.contract.expect import refused
from tests.contract.kinds import CONFIG_MAP, DEPLOYMENT, LEASE, POD, UNKNOWN
from tests.contract.steps import uid, version
from ullage.errors import Conflict, Invalid, NotFound, ServerFailure
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import LEASES
from ullage.testing.builders import a_config_map, a_lease, a_pod, a_workload, with_meta

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


async def test_missing_object_is_not_found(api: KubeApi, ns: str) -> None:
    with refused(NotFound, reason="NotFound", says='pods "missing" not found'):
        await api.get(POD, "missing", ns)


async def test_missing_object_of_a_group_is_named_with_it(api: KubeApi, ns: str) -> None:
    with refused(NotFound, reason="NotFound", says='leases.coordination.k8s.io "missing" not found'):
        await api.get(LEASE, "missing", ns)


async def test_object_of_another_namespace_is_not_found(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    with refused(NotFound, reason="NotFound", says='configmaps "a" not found'):
        await api.get(CONFIG_MAP, "a", "default")


async def test_kind_nobody_serves_is_not_found(api: KubeApi, ns: str) -> None:
    with refused(NotFound, reason=""):
        await api.get(UNKNOWN, "a", ns)


async def test_replacement_is_written_and_has_a_later_version(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1", y="1"), ns)
    written = await api.replace(CONFIG_MAP, made | {"data": {"x": "2"}})
    assert written["data"] == {"x": "2"}
    assert int(version(written)) > int(version(made))
    assert uid(written) == uid(made)
    assert await api.get(CONFIG_MAP, "a", ns) == written


async def test_stale_version_conflicts_and_changes_nothing(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    current = await api.replace(CONFIG_MAP, made | {"data": {"x": "2"}})
    with refused(Conflict, reason="Conflict", says=f'Operation cannot be fulfilled on configmaps "a": {MODIFIED}'):
        await api.replace(CONFIG_MAP, made | {"data": {"x": "3"}})
    assert await api.get(CONFIG_MAP, "a", ns) == current


async def test_without_a_version_the_last_writer_wins(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    body = with_meta(a_config_map("a", x="2"), namespace=ns)
    assert (await api.replace(CONFIG_MAP, body))["data"] == {"x": "2"}


async def test_another_uid_conflicts(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a"), ns)
    says = f"Precondition failed: UID in precondition: another, UID in object meta: {uid(made)}"
    with refused(Conflict, reason="Conflict", says=says):
        await api.replace(CONFIG_MAP, with_meta(a_config_map("a", x="2"), namespace=ns, uid="another"))


async def test_replacing_what_is_not_there_is_not_found(api: KubeApi, ns: str) -> None:
    with refused(NotFound, reason="NotFound", says='configmaps "missing" not found'):
        await api.replace(CONFIG_MAP, with_meta(a_config_map("missing"), namespace=ns))


async def test_replacing_what_was_deleted_is_not_found(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a"), ns)
    await api.delete(CONFIG_MAP, "a", ns)
    with refused(NotFound, reason="NotFound"):
        await api.replace(CONFIG_MAP, made)


async def test_recreated_object_is_not_the_one_it_was(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    await api.delete(CONFIG_MAP, "a", ns)
    await api.create(CONFIG_MAP, a_config_map("a", x="2"), ns)
    with refused(Conflict, reason="Conflict"):
        await api.replace(CONFIG_MAP, made)


async def test_writing_the_same_again_is_no_write(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    assert version(await api.replace(CONFIG_MAP, made)) == version(made)


async def test_what_is_left_out_is_erased(api: KubeApi, ns: str) -> None:
    labelled = with_meta(a_config_map("a", x="1"), labels={"a": "1"}, annotations={"b": "2"})
    await api.create(CONFIG_MAP, labelled, ns)
    written = await api.replace(CONFIG_MAP, {"metadata": {"name": "a", "namespace": ns}})
    assert "data" not in written
    assert "labels" not in written["metadata"]
    assert "annotations" not in written["metadata"]


async def test_birth_and_identity_survive_a_replacement_that_forgets_them(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    written = await api.replace(CONFIG_MAP, with_meta(a_config_map("a", x="2"), namespace=ns))
    for field in ("uid", "creationTimestamp"):
        assert written["metadata"][field] == made["metadata"][field]


async def test_version_that_is_no_number_breaks_the_server(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    with refused(ServerFailure, reason="", says='parsing "abc": invalid syntax'):
        await api.replace(CONFIG_MAP, with_meta(a_config_map("a", x="2"), namespace=ns, resourceVersion="abc"))


async def test_dry_run_shows_and_does_not_write(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    shown = await api.replace(CONFIG_MAP, made | {"data": {"x": "2"}}, dry_run=True)
    assert shown["data"] == {"x": "2"}
    assert await api.get(CONFIG_MAP, "a", ns) == made


async def test_generation_counts_changes_of_the_spec_only(api: KubeApi, ns: str) -> None:
    made = await api.create(DEPLOYMENT, a_workload("a", replicas=1), ns)
    labelled = await api.replace(DEPLOYMENT, with_meta(made, labels={"x": "y"}))
    scaled = await api.replace(DEPLOYMENT, labelled | {"spec": labelled["spec"] | {"replicas": 2}})
    assert [one["metadata"]["generation"] for one in (made, labelled, scaled)] == [1, 1, 2]


async def test_lease_is_never_replaced_blindly(api: KubeApi, ns: str) -> None:
    await api.create(LEASE, a_lease("a", "me"), ns)
    says = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    with refused(Invalid, reason="Invalid", says=says, causes=[("metadata.resourceVersion", "FieldValueInvalid")]):
        await api.replace(LEASE, with_meta(a_lease("a", "you"), namespace=ns))


async def test_replacing_a_missing_lease_creates_it(api: KubeApi, ns: str) -> None:
    written = await api.replace(LEASE, with_meta(a_lease("a", "me"), namespace=ns))
    assert written["spec"] == {"holderIdentity": "me"}
    assert version(await api.get(LEASE, "a", ns)) == version(written)


async def test_struct_carries_its_version_as_precondition(api: KubeApi, ns: str) -> None:
    made = await api.create(LEASES, a_lease("a", "me", leaseDurationSeconds=10), ns)
    await api.patch(LEASE, "a", MergePatch({"spec": {"holderIdentity": "you"}}), ns)
    with refused(Conflict, reason="Conflict", says=MODIFIED):
        await api.replace(LEASES, made)


async def test_of_writers_with_one_version_exactly_one_wins(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a"), ns)

    async def write(writer: int) -> JsonObject | Conflict:
        try:
            return await api.replace(CONFIG_MAP, made | {"data": {"writer": str(writer)}})
        except Conflict as lost:
            return lost

    outcomes = await asyncio.gather(*(write(writer) for writer in range(8)))
    won = [outcome for outcome in outcomes if isinstance(outcome, dict)]
    assert len(won) == 1
    assert await api.get(CONFIG_MAP, "a", ns) == won[0]


async def test_compare_and_swap_loses_no_increment(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("counter", value="0"), ns)

    async def increment() -> None:
        while True:
            read = await api.get(CONFIG_MAP, "counter", ns)
            try:
                await api.replace(CONFIG_MAP, read | {"data": {"value": str(int(read["data"]["value"]) + 1)}})
            except Conflict:
                continue
            return

    await asyncio.gather(*(increment() for _ in range(6)))
    assert (await api.get(CONFIG_MAP, "counter", ns))["data"] == {"value": "6"}


async def test_of_creators_of_one_name_exactly_one_wins(api: KubeApi, ns: str) -> None:
    attempts = (api.create(POD, a_pod("a"), ns) for _ in range(6))
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    assert sum(isinstance(outcome, dict) for outcome in outcomes) == 1
    assert {type(outcome).__name__ for outcome in outcomes} == {"dict", "AlreadyExists"}
