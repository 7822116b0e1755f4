"""Deleting: at once, when finalizers let go, or when grace is over; only the one that was meant."""

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import CONFIG_MAP, DEPLOYMENT, JOB, LEASE, NODE, POD
from tests.contract.steps import bound_pod, uid, version
from ullage.errors import AlreadyExists, Conflict, Invalid, NotFound
from ullage.kube.client.api import DELETE_NOW, Deletion, KubeApi, MergePatch, Propagation
from ullage.testing.builders import a_config_map, a_job, a_lease, a_node, a_pod, a_workload, with_meta

FINALIZER = "ullage.dev/hold"


async def test_deleted_object_is_gone(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    await api.delete(CONFIG_MAP, "a", ns)
    with refused(NotFound, reason="NotFound", says='configmaps "a" not found'):
        await api.get(CONFIG_MAP, "a", ns)


async def test_deleting_what_is_not_there_is_not_found(api: KubeApi, ns: str) -> None:
    with refused(NotFound, reason="NotFound", says='configmaps "missing" not found'):
        await api.delete(CONFIG_MAP, "missing", ns)


async def test_cluster_scoped_object_is_deleted_without_a_namespace(api: KubeApi, ns: str) -> None:
    await api.create(NODE, a_node(f"{ns}-a"))
    await api.delete(NODE, f"{ns}-a")
    with refused(NotFound, reason="NotFound", says=f'nodes "{ns}-a" not found'):
        await api.get(NODE, f"{ns}-a")


async def test_name_is_free_again(api: KubeApi, ns: str) -> None:
    first = await api.create(CONFIG_MAP, a_config_map("a"), ns)
    await api.delete(CONFIG_MAP, "a", ns)
    second = await api.create(CONFIG_MAP, a_config_map("a"), ns)
    assert uid(first) != uid(second)


async def test_another_uid_is_spared(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a"), ns)
    says = f"the UID in the precondition (another) does not match the UID in record ({uid(made)})"
    with refused(Conflict, reason="Conflict", says=says):
        await api.delete(CONFIG_MAP, "a", ns, how=Deletion(uid="another"))
    await api.delete(CONFIG_MAP, "a", ns, how=Deletion(uid=uid(made)))


async def test_changed_object_is_spared(api: KubeApi, ns: str) -> None:
    made = await api.create(LEASE, a_lease("a", "me"), ns)
    held = await api.patch(LEASE, "a", MergePatch({"spec": {"leaseTransitions": 1}}), ns)
    with refused(Conflict, reason="Conflict", says=f"the ResourceVersion in the precondition ({version(made)})"):
        await api.delete(LEASE, "a", ns, how=Deletion(resource_version=version(made)))
    await api.delete(LEASE, "a", ns, how=Deletion(uid=uid(made), resource_version=version(held)))
    with refused(NotFound, reason="NotFound"):
        await api.get(LEASE, "a", ns)


async def test_dry_run_deletes_nothing(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a"), ns)
    await api.delete(CONFIG_MAP, "a", ns, how=Deletion(dry_run=True))
    assert await api.get(CONFIG_MAP, "a", ns) == made


async def test_finalizer_holds_the_object_until_removed(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, with_meta(a_config_map("a"), finalizers=[FINALIZER]), ns)
    await api.delete(CONFIG_MAP, "a", ns)
    held = await api.get(CONFIG_MAP, "a", ns)
    assert held["metadata"]["deletionTimestamp"]
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    assert held["metadata"]["finalizers"] == [FINALIZER]
    assert int(version(held)) > int(version(made))
    await api.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"finalizers": None}}), ns)
    with refused(NotFound, reason="NotFound"):
        await api.get(CONFIG_MAP, "a", ns)


async def test_last_finalizer_removed_by_a_replacement_frees_the_object(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, with_meta(a_config_map("a"), finalizers=[FINALIZER, "ullage.dev/other"]), ns)
    await api.delete(CONFIG_MAP, "a", ns)
    held = await api.get(CONFIG_MAP, "a", ns)
    still = await api.replace(CONFIG_MAP, with_meta(held, finalizers=[FINALIZER]))
    assert (await api.get(CONFIG_MAP, "a", ns))["metadata"]["finalizers"] == [FINALIZER]
    await api.replace(CONFIG_MAP, with_meta(still, finalizers=[]))
    with refused(NotFound, reason="NotFound"):
        await api.get(CONFIG_MAP, "a", ns)


async def test_deleting_a_held_object_again_changes_nothing(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, with_meta(a_config_map("a"), finalizers=[FINALIZER]), ns)
    await api.delete(CONFIG_MAP, "a", ns)
    held = await api.get(CONFIG_MAP, "a", ns)
    await api.delete(CONFIG_MAP, "a", ns)
    assert await api.get(CONFIG_MAP, "a", ns) == held


async def test_held_object_keeps_its_name(api: KubeApi, ns: str) -> None:
    await api.create(POD, with_meta(a_pod("a"), finalizers=[FINALIZER]), ns)
    await api.delete(POD, "a", ns)
    with refused(AlreadyExists, reason="AlreadyExists", says='object is being deleted: pods "a" already exists'):
        await api.create(POD, a_pod("a"), ns)


async def test_finalizers_cannot_be_added_to_what_is_going(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, with_meta(a_config_map("a"), finalizers=[FINALIZER]), ns)
    await api.delete(CONFIG_MAP, "a", ns)
    says = "no new finalizers can be added if the object is being deleted"
    with refused(Invalid, reason="Invalid", says=says, causes=[("metadata.finalizers", "FieldValueForbidden")]):
        late = MergePatch({"metadata": {"finalizers": [FINALIZER, "ullage.dev/late"]}})
        await api.patch(CONFIG_MAP, "a", late, ns)


async def test_deletion_cannot_be_taken_back(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, with_meta(a_config_map("a"), finalizers=[FINALIZER]), ns)
    await api.delete(CONFIG_MAP, "a", ns)
    held = await api.get(CONFIG_MAP, "a", ns)
    assert await api.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"deletionTimestamp": None}}), ns) == held


async def test_what_is_going_can_still_be_changed(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, with_meta(a_config_map("a"), finalizers=[FINALIZER]), ns)
    await api.delete(CONFIG_MAP, "a", ns)
    patched = await api.patch(CONFIG_MAP, "a", MergePatch({"data": {"x": "1"}}), ns)
    assert patched["data"] == {"x": "1"}
    assert patched["metadata"]["deletionTimestamp"]


async def test_finalizer_without_deletion_does_nothing(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, with_meta(a_config_map("a"), finalizers=[FINALIZER]), ns)
    freed = await api.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"finalizers": None}}), ns)
    assert await api.get(CONFIG_MAP, "a", ns) == freed


async def test_asking_for_deletion_counts_as_a_generation(api: KubeApi, ns: str) -> None:
    await api.create(DEPLOYMENT, with_meta(a_workload("a"), finalizers=[FINALIZER]), ns)
    await api.delete(DEPLOYMENT, "a", ns)
    assert (await api.get(DEPLOYMENT, "a", ns))["metadata"]["generation"] == 2


async def test_pod_without_a_node_goes_at_once(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    await api.delete(POD, "a", ns)
    with refused(NotFound, reason="NotFound"):
        await api.get(POD, "a", ns)


async def test_bound_pod_waits_for_its_kubelet(api: KubeApi, ns: str) -> None:
    await bound_pod(api, ns, a_pod("a"))
    await api.delete(POD, "a", ns)
    going = (await api.get(POD, "a", ns))["metadata"]
    assert going["deletionGracePeriodSeconds"] == 30
    assert going["deletionTimestamp"] > going["creationTimestamp"]


async def test_grace_is_the_pods_own(api: KubeApi, ns: str) -> None:
    await bound_pod(api, ns, a_pod("a", terminationGracePeriodSeconds=7))
    await api.delete(POD, "a", ns)
    assert (await api.get(POD, "a", ns))["metadata"]["deletionGracePeriodSeconds"] == 7


async def test_grace_can_be_shortened_and_not_lengthened(api: KubeApi, ns: str) -> None:
    await bound_pod(api, ns, a_pod("a"))
    await api.delete(POD, "a", ns)
    await api.delete(POD, "a", ns, how=Deletion(grace_seconds=5))
    assert (await api.get(POD, "a", ns))["metadata"]["deletionGracePeriodSeconds"] == 5
    await api.delete(POD, "a", ns, how=Deletion(grace_seconds=50))
    assert (await api.get(POD, "a", ns))["metadata"]["deletionGracePeriodSeconds"] == 5


async def test_no_grace_means_now(api: KubeApi, ns: str) -> None:
    await bound_pod(api, ns, a_pod("a"))
    await api.delete(POD, "a", ns)
    await api.delete(POD, "a", ns, how=DELETE_NOW)
    with refused(NotFound, reason="NotFound"):
        await api.get(POD, "a", ns)


async def test_finalizer_holds_even_without_grace(api: KubeApi, ns: str, node: str) -> None:
    await api.create(POD, with_meta(a_pod("a", nodeName=node), finalizers=[FINALIZER]), ns)
    await api.delete(POD, "a", ns, how=DELETE_NOW)
    going = (await api.get(POD, "a", ns))["metadata"]
    assert (going["finalizers"], going["deletionGracePeriodSeconds"]) == ([FINALIZER], 0)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_finished_pod_needs_no_grace(api: KubeApi, ns: str, phase: str) -> None:
    await bound_pod(api, ns, a_pod("a"))
    await api.patch(POD, "a", MergePatch({"status": {"phase": phase}}), ns, subresource="status")
    await api.delete(POD, "a", ns)
    with refused(NotFound, reason="NotFound"):
        await api.get(POD, "a", ns)


@pytest.mark.parametrize(
    ("propagation", "finalizer"),
    [
        pytest.param(Propagation.FOREGROUND, "foregroundDeletion", id="foreground"),
        pytest.param(Propagation.ORPHAN, "orphan", id="orphan"),
    ],
)
async def test_dependents_first_is_a_finalizer_for_the_collector(
    api: KubeApi, ns: str, propagation: Propagation, finalizer: str
) -> None:
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    await api.delete(CONFIG_MAP, "a", ns, how=Deletion(propagation=propagation))
    held = (await api.get(CONFIG_MAP, "a", ns))["metadata"]
    assert held["finalizers"] == [finalizer]
    assert held["deletionTimestamp"]


async def test_background_deletion_does_not_wait(api: KubeApi, ns: str) -> None:
    await api.create(DEPLOYMENT, a_workload("a"), ns)
    await api.delete(DEPLOYMENT, "a", ns, how=Deletion(propagation=Propagation.BACKGROUND))
    with refused(NotFound, reason="NotFound"):
        await api.get(DEPLOYMENT, "a", ns)


async def test_jobs_leave_orphans_unless_told_otherwise(api: KubeApi, ns: str) -> None:
    await api.create(JOB, a_job("a"), ns)
    await api.delete(JOB, "a", ns)
    assert (await api.get(JOB, "a", ns))["metadata"]["finalizers"] == ["orphan"]
