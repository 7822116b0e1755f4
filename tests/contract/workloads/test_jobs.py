"""Jobs: pods that end, and how a Job tells that it has."""

from typing import Any

from tests.contract.kinds import JOB, POD
from tests.contract.workloads.cluster import (
    FAILS_AFTER_A_SECOND,
    RUNS_A_SECOND,
    Cluster,
    has_condition,
    names,
)
from tests.contract.workloads.stories import in_both_worlds
from ullage.kube.client.resource import JsonObject
from ullage.testing.builders import a_job

INDEX = "batch.kubernetes.io/job-completion-index"


def a_job_whose_pods(annotations: dict[str, str], **spec: Any) -> JsonObject:
    job = a_job("work", **spec)
    job["spec"]["template"]["metadata"]["annotations"] = annotations
    return job


async def ends(cluster: Cluster, kind: str, reason: str | None = None) -> JsonObject:
    """The Job, once it has this condition."""
    return await cluster.become(
        lambda: cluster.get(JOB, "work"), lambda seen: has_condition(seen, kind, reason=reason), seconds=60
    )


@in_both_worlds
async def test_it_completes_when_enough_pods_have_succeeded(cluster: Cluster) -> None:
    await cluster.create(JOB, a_job_whose_pods(RUNS_A_SECOND, completions=3, parallelism=2))
    await cluster.become(lambda: cluster.pods(), lambda pods: len(pods) == 2)
    seen = await ends(cluster, "Complete", "CompletionsReached")
    assert has_condition(seen, "SuccessCriteriaMet", reason="CompletionsReached")
    status = seen["status"]
    assert (status["succeeded"], status.get("failed", 0), status.get("active", 0)) == (3, 0, 0)
    assert status["completionTime"] >= status["startTime"]
    pods = await cluster.all(POD)
    assert len(pods) == 3
    assert all("finalizers" not in pod["metadata"] for pod in pods)


@in_both_worlds
async def test_its_pods_are_held_until_they_are_counted(cluster: Cluster) -> None:
    cluster.schedules.clear()
    await cluster.create(JOB, a_job_whose_pods(RUNS_A_SECOND))
    (pod,) = await cluster.become(lambda: cluster.pods(), lambda pods: len(pods) == 1)
    assert pod["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "work"
    await cluster.has_status(JOB, "work", active=1, ready=0)


@in_both_worlds
async def test_it_fails_beyond_its_backoff_limit(cluster: Cluster) -> None:
    await cluster.create(JOB, a_job_whose_pods(FAILS_AFTER_A_SECOND, backoffLimit=0))
    seen = await ends(cluster, "Failed", "BackoffLimitExceeded")
    assert has_condition(seen, "FailureTarget", reason="BackoffLimitExceeded")
    assert (seen["status"]["failed"], seen["status"].get("succeeded", 0)) == (1, 0)
    assert "completionTime" not in seen["status"]


@in_both_worlds
async def test_a_failed_pod_is_replaced_after_a_while(cluster: Cluster) -> None:
    await cluster.create(JOB, a_job_whose_pods(FAILS_AFTER_A_SECOND, backoffLimit=1))
    await cluster.has_status(JOB, "work", failed=1)
    await cluster.stays(lambda: cluster.all(POD), lambda pods: len(pods) == 1, seconds=5)
    seen = await ends(cluster, "Failed", "BackoffLimitExceeded")
    assert seen["status"]["failed"] == 2


@in_both_worlds
async def test_every_index_completes_once(cluster: Cluster) -> None:
    job = a_job_whose_pods(RUNS_A_SECOND, completions=3, parallelism=3, completionMode="Indexed")
    await cluster.create(JOB, job)
    pods = await cluster.become(lambda: cluster.pods(), lambda found: len(found) == 3)
    assert sorted(pod["metadata"]["annotations"][INDEX] for pod in pods) == ["0", "1", "2"]
    assert all(pod["metadata"]["labels"][INDEX] == pod["metadata"]["annotations"][INDEX] for pod in pods)
    assert sorted(pod["spec"]["hostname"] for pod in pods) == ["work-0", "work-1", "work-2"]
    seen = await ends(cluster, "Complete")
    assert (seen["status"]["completedIndexes"], seen["status"]["succeeded"]) == ("0-2", 3)


@in_both_worlds
async def test_a_suspended_job_waits_until_it_is_resumed(cluster: Cluster) -> None:
    await cluster.create(JOB, a_job_whose_pods(RUNS_A_SECOND, suspend=True))
    seen = await ends(cluster, "Suspended", "JobSuspended")
    assert "startTime" not in seen["status"]
    await cluster.stays(lambda: cluster.all(POD), lambda pods: pods == [], seconds=1)
    await cluster.patch(JOB, "work", {"spec": {"suspend": False}})
    done = await ends(cluster, "Complete")
    assert has_condition(done, "Suspended", "False", "JobResumed")


@in_both_worlds
async def test_suspending_removes_its_pods_without_counting_them(cluster: Cluster) -> None:
    await cluster.create(JOB, a_job("work", parallelism=2, completions=2))
    await cluster.has_ready_pods(2)
    await cluster.patch(JOB, "work", {"spec": {"suspend": True}})
    await cluster.become(lambda: cluster.all(POD), lambda pods: pods == [])
    await cluster.has_status(JOB, "work", active=0, failed=0)


@in_both_worlds
async def test_a_job_that_takes_too_long_fails_and_its_pods_go(cluster: Cluster) -> None:
    await cluster.create(JOB, a_job("work", activeDeadlineSeconds=2))
    await cluster.has_ready_pods(1)
    await ends(cluster, "Failed", "DeadlineExceeded")
    assert await cluster.all(POD) == []


@in_both_worlds
async def test_a_finished_job_goes_after_its_time(cluster: Cluster) -> None:
    await cluster.create(JOB, a_job_whose_pods(RUNS_A_SECOND, ttlSecondsAfterFinished=1))
    await ends(cluster, "Complete")
    await cluster.is_gone(JOB, "work")
    await cluster.become(lambda: cluster.all(POD), lambda pods: pods == [])


@in_both_worlds
async def test_a_deleted_pod_counts_as_failed_and_is_replaced_after_a_while(cluster: Cluster) -> None:
    await cluster.create(JOB, a_job("work"))
    (pod,) = names(await cluster.has_ready_pods(1))
    await cluster.delete(POD, pod)
    await cluster.has_status(JOB, "work", failed=1)
    await cluster.is_gone(POD, pod)
    await cluster.stays(lambda: cluster.all(POD), lambda pods: pods == [], seconds=5)
    await cluster.become(lambda: cluster.ready_pods(), lambda pods: len(pods) == 1 and names(pods) != [pod])
