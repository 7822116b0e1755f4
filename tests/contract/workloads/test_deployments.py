"""Deployments: pods come, change with the template, and go."""

from tests.contract.kinds import DEPLOYMENT, POD, REPLICA_SET
from tests.contract.workloads.cluster import Cluster, has_condition, names
from tests.contract.workloads.stories import in_both_worlds
from ullage.kube.client.resource import JsonObject
from ullage.testing.builders import a_workload

REVISION = "deployment.kubernetes.io/revision"


def a_new_template(version: str) -> JsonObject:
    return {"spec": {"template": {"metadata": {"annotations": {"version": version}}}}}


def versions(pods: list[JsonObject]) -> set[str]:
    return {pod["metadata"].get("annotations", {}).get("version", "") for pod in pods}


async def revisions(cluster: Cluster) -> dict[str, int]:
    """Replicas asked of the ReplicaSet of each revision."""
    sets = await cluster.all(REPLICA_SET)
    return {each["metadata"]["annotations"][REVISION]: each["spec"]["replicas"] for each in sets}


@in_both_worlds
async def test_its_pods_run_and_its_status_counts_them(cluster: Cluster) -> None:
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=3))
    await cluster.has_ready_pods(3)
    made = await cluster.has_status(
        DEPLOYMENT, "web", replicas=3, updatedReplicas=3, readyReplicas=3, availableReplicas=3, unavailableReplicas=0
    )
    assert made["status"]["observedGeneration"] == made["metadata"]["generation"]
    assert has_condition(made, "Available", reason="MinimumReplicasAvailable")
    await cluster.become(
        lambda: cluster.get(DEPLOYMENT, "web"),
        lambda seen: has_condition(seen, "Progressing", reason="NewReplicaSetAvailable"),
    )


@in_both_worlds
async def test_the_pods_carry_the_hash_of_their_template(cluster: Cluster) -> None:
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=1))
    (pod,) = await cluster.has_ready_pods(1)
    (replica_set,) = await cluster.all(REPLICA_SET)
    label = pod["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{label}"
    assert replica_set["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": label}
    assert replica_set["metadata"]["annotations"][REVISION] == "1"
    assert pod["metadata"]["generateName"] == f"web-{label}-"


@in_both_worlds
async def test_scaling_makes_and_removes_pods(cluster: Cluster) -> None:
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=1))
    (first,) = await cluster.has_ready_pods(1)
    await cluster.api.scale(DEPLOYMENT, "web", cluster.namespace, 4)
    assert names([first])[0] in names(await cluster.has_ready_pods(4))
    await cluster.api.scale(DEPLOYMENT, "web", cluster.namespace, 0)
    await cluster.become(lambda: cluster.all(POD), lambda pods: pods == [])
    await cluster.has_status(DEPLOYMENT, "web", replicas=0, availableReplicas=0)


@in_both_worlds
async def test_a_deleted_pod_is_replaced(cluster: Cluster) -> None:
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=2))
    first, second = names(await cluster.has_ready_pods(2))
    await cluster.delete(POD, first)
    await cluster.is_gone(POD, first)
    after = names(await cluster.has_ready_pods(2))
    assert second in after
    assert first not in after


@in_both_worlds
async def test_a_rolling_update_ends_with_only_new_pods(cluster: Cluster) -> None:
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=3))
    await cluster.has_ready_pods(3)
    await cluster.patch(DEPLOYMENT, "web", a_new_template("2"))
    await cluster.become(lambda: cluster.ready_pods(), lambda pods: len(pods) == 3 and versions(pods) == {"2"})
    await cluster.become(lambda: cluster.all(POD), lambda pods: len(pods) == 3)
    assert await revisions(cluster) == {"1": 0, "2": 3}
    await cluster.has_status(DEPLOYMENT, "web", replicas=3, updatedReplicas=3, availableReplicas=3)


@in_both_worlds
async def test_a_rolling_update_keeps_enough_pods_ready(cluster: Cluster) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=3, strategy=strategy))
    await cluster.has_ready_pods(3)
    await cluster.patch(DEPLOYMENT, "web", a_new_template("2"))
    seen: list[tuple[int, int]] = []

    async def look() -> list[JsonObject]:
        pods, ready = await cluster.pods(), await cluster.ready_pods()
        seen.append((len(ready), len(pods)))
        return ready

    await cluster.become(look, lambda pods: len(pods) == 3 and versions(pods) == {"2"})
    assert min(ready for ready, _ in seen) >= 3
    assert max(pods for _, pods in seen) <= 4


@in_both_worlds
async def test_a_template_that_comes_back_gets_its_old_replica_set_and_a_new_revision(cluster: Cluster) -> None:
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=1) | {})
    await cluster.has_ready_pods(1)
    (original,) = names(await cluster.all(REPLICA_SET))
    await cluster.patch(DEPLOYMENT, "web", a_new_template("2"))
    await cluster.become(lambda: cluster.ready_pods(), lambda pods: versions(pods) == {"2"} and len(pods) == 1)
    await cluster.patch(DEPLOYMENT, "web", {"spec": {"template": {"metadata": {"annotations": None}}}})
    await cluster.become(lambda: cluster.ready_pods(), lambda pods: versions(pods) == {""} and len(pods) == 1)
    assert await revisions(cluster) == {"2": 0, "3": 1}
    again = await cluster.get(REPLICA_SET, original)
    assert again["metadata"]["annotations"][REVISION] == "3"


@in_both_worlds
async def test_recreate_never_mixes_old_and_new_pods(cluster: Cluster) -> None:
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=2, strategy={"type": "Recreate"}))
    await cluster.has_ready_pods(2)
    await cluster.patch(DEPLOYMENT, "web", a_new_template("2"))
    mixtures: list[set[str]] = []

    async def look() -> list[JsonObject]:
        mixtures.append(versions(await cluster.all(POD)))
        return await cluster.ready_pods()

    await cluster.become(look, lambda pods: len(pods) == 2 and versions(pods) == {"2"})
    assert {"", "2"} not in mixtures


@in_both_worlds
async def test_old_replica_sets_beyond_the_history_limit_go(cluster: Cluster) -> None:
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=1, revisionHistoryLimit=1))
    await cluster.has_ready_pods(1)
    for version in ("2", "3"):
        await cluster.patch(DEPLOYMENT, "web", a_new_template(version))
        wanted = {version}
        await cluster.become(lambda: cluster.ready_pods(), lambda pods, wanted=wanted: versions(pods) == wanted)  # type: ignore[misc]  # default binds the loop's value
    await cluster.become(lambda: revisions(cluster), lambda seen: seen == {"2": 0, "3": 1})


@in_both_worlds
async def test_while_paused_it_scales_but_does_not_roll(cluster: Cluster) -> None:
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=1))
    await cluster.has_ready_pods(1)
    await cluster.patch(DEPLOYMENT, "web", {"spec": {"paused": True}})
    await cluster.patch(DEPLOYMENT, "web", a_new_template("2") | {})
    await cluster.api.scale(DEPLOYMENT, "web", cluster.namespace, 2)
    assert versions(await cluster.has_ready_pods(2)) == {""}
    await cluster.stays(lambda: cluster.pods(), lambda pods: versions(pods) == {""}, seconds=1)
    await cluster.patch(DEPLOYMENT, "web", {"spec": {"paused": False}})
    await cluster.become(lambda: cluster.ready_pods(), lambda pods: len(pods) == 2 and versions(pods) == {"2"})


@in_both_worlds
async def test_a_rollout_that_stands_still_is_said_to(cluster: Cluster) -> None:
    cluster.schedules.clear()
    await cluster.create(DEPLOYMENT, a_workload("web", replicas=1, progressDeadlineSeconds=1, minReadySeconds=0))
    await cluster.become(
        lambda: cluster.get(DEPLOYMENT, "web"),
        lambda seen: has_condition(seen, "Progressing", "False", "ProgressDeadlineExceeded"),
    )
    assert has_condition(await cluster.get(DEPLOYMENT, "web"), "Available", "False", "MinimumReplicasUnavailable")
