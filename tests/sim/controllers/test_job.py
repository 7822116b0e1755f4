"""Jobs: how pods are counted, when a Job ends, and how soon it tries again."""

from typing import Any

import pytest

from tests.sim.controllers.things import at, job, merged, owner, pod, said, seconds
from ullage.sim.controllers.job import newly_ended, plan_job
from ullage.sim.controllers.job_pods import INDEX, TRACKING, EndedJobPod, next_creation, read_indexes, write_indexes
from ullage.sim.controllers.objects import ActorJob, ActorPod
from ullage.sim.controllers.writes import ControllerPlan, CreateObject

NOW = at(1000)
STARTED = {"startTime": "2026-01-01T00:00:00Z"}


def member(
    name: str, phase: str = "Running", *, counted: bool = False, index: int | None = None, **more: Any
) -> ActorPod:
    notes = {} if index is None else {INDEX: str(index)}
    finalizers = () if counted else (TRACKING,)
    return pod(name, phase=phase, annotations=notes, finalizers=finalizers, owned_by=owner("Job", "task"), **more)


def planned(work: ActorJob, pods: list[ActorPod], *, settled: bool = True) -> ControllerPlan:
    return plan_job(work, pods, newly_ended(work, pods).values(), settled=settled, now=NOW)


@pytest.mark.parametrize(
    ("spec", "status", "pods", "expected"),
    [
        pytest.param({"completions": 3, "parallelism": 2}, {}, [], 2, id="as-many-as-may-run"),
        pytest.param({"completions": 3, "parallelism": 9}, {}, [], 3, id="no-more-than-are-needed"),
        pytest.param({"completions": 3, "parallelism": 2}, {"succeeded": 2}, [], 1, id="no-more-than-are-left"),
        pytest.param({"completions": 3, "parallelism": 2}, {}, [member("a")], 1, id="beside-those-that-run"),
        pytest.param({"parallelism": 2}, {}, [member("a"), member("b")], 0, id="enough"),
        pytest.param({"parallelism": 2, "suspend": True}, {}, [], 0, id="none-while-suspended"),
    ],
)
def test_how_many_are_made(spec: dict[str, Any], status: dict[str, Any], pods: list[ActorPod], expected: int) -> None:
    plan = planned(job(status=STARTED | status, **spec), pods)
    assert said(plan).count("create pods") == expected


def test_nothing_is_made_while_own_acts_are_unseen() -> None:
    assert "create pods" not in said(planned(job(status=STARTED), [], settled=False))


def test_a_pod_is_counted_in_three_steps() -> None:
    over = member("a", "Succeeded")
    noticed = planned(job(status=STARTED, completions=2), [over])
    uncounted = {"succeeded": ["uid-a"], "failed": None}
    assert merged(noticed, "task")["status"]["uncountedTerminatedPods"] == uncounted
    assert said(noticed)[-2:] == ["merge jobs/task/status", "merge pods/a"]
    assert merged(noticed, "a")["metadata"]["finalizers"] is None

    waiting = job(status=STARTED | {"uncountedTerminatedPods": {"succeeded": ["uid-a"]}}, completions=2)
    still_held = planned(waiting, [over])
    assert "merge pods/a" in said(still_held)
    let_go = planned(waiting, [member("a", "Succeeded", counted=True)])
    status = merged(let_go, "task")["status"]
    assert (status["succeeded"], status["uncountedTerminatedPods"]["succeeded"]) == (1, None)


def ended_with(plan: ControllerPlan) -> list[str]:
    """Conditions the plan adds, in order."""
    return [each["type"] for each in merged(plan, "task")["status"].get("conditions") or ()]


def test_success_is_announced_first_and_declared_when_all_is_quiet() -> None:
    last = member("a", "Succeeded")
    announced = planned(job(status=STARTED, completions=1), [last])
    assert ended_with(announced) == ["SuccessCriteriaMet"]
    conditions = merged(announced, "task")["status"]["conditions"]
    told = job(status=STARTED | {"conditions": conditions, "uncountedTerminatedPods": {"succeeded": ["uid-a"]}})
    assert said(planned(told, [last])) == ["merge pods/a"]
    quiet = planned(told, [member("a", "Succeeded", counted=True)])
    assert ended_with(quiet) == ["SuccessCriteriaMet", "Complete"]
    assert merged(quiet, "task")["status"]["completionTime"] == "2026-01-01T00:16:40Z"


@pytest.mark.parametrize(
    ("spec", "status", "pods", "reason"),
    [
        pytest.param({"backoffLimit": 0}, {}, [member("a", "Failed")], "BackoffLimitExceeded", id="one-failure"),
        pytest.param({"backoffLimit": 1}, {"failed": 2}, [], "BackoffLimitExceeded", id="too-many-failures"),
        pytest.param({"activeDeadlineSeconds": 999}, {}, [member("a")], "DeadlineExceeded", id="too-late"),
        pytest.param(
            {"backoffLimit": 2, "pod": {"restartPolicy": "OnFailure", "containers": []}},
            {},
            [member("a", restarts=2)],
            "BackoffLimitExceeded",
            id="too-many-restarts-in-place",
        ),
    ],
)
def test_failure(spec: dict[str, Any], status: dict[str, Any], pods: list[ActorPod], reason: str) -> None:
    plan = planned(job(status=STARTED | status, **spec), pods)
    (condition,) = merged(plan, "task")["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("FailureTarget", reason)
    running = [each.metadata.name for each in pods if each.status.phase == "Running"]
    assert [each for each in said(plan) if each.startswith("delete")] == [f"delete pods/{name}" for name in running]


def test_a_job_that_may_run_longer_is_looked_at_again_in_time() -> None:
    plan = planned(job(status=STARTED, activeDeadlineSeconds=1500), [member("a")])
    assert seconds(plan.wake_at) == 1500


def test_pods_no_longer_wanted_are_let_go_before_they_are_deleted() -> None:
    plan = planned(job(status=STARTED, parallelism=0, completions=2), [member("a")])
    assert said(plan)[:2] == ["merge pods/a", "delete pods/a"]
    assert merged(plan, "task")["status"]["uncountedTerminatedPods"] == {"succeeded": None, "failed": None}


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        pytest.param([], 0, id="nothing-yet"),
        pytest.param([(100, True)], 110, id="ten-seconds-after-a-failure"),
        pytest.param([(100, True), (200, True)], 220, id="twice-as-long-after-the-second"),
        pytest.param([(100, True), (200, False)], 0, id="a-success-forgives"),
        pytest.param([(100, False), (200, True)], 210, id="failures-since-the-last-success"),
        pytest.param([(moment, True) for moment in range(20)], 619, id="never-longer-than-ten-minutes"),
    ],
)
def test_when_the_next_pod_may_be_made(ended: list[tuple[int, bool]], expected: int) -> None:
    moment = next_creation([EndedJobPod(at(when), failed) for when, failed in ended])
    assert (seconds(moment) if moment else 0) == expected


def test_a_failed_pod_is_not_replaced_at_once() -> None:
    just_now = member("a", "Failed", ready_at=995)
    plan = planned(job(status=STARTED), [just_now])
    assert "create pods" not in said(plan)
    assert seconds(plan.wake_at) == 1005


def indexed(status: dict[str, Any], pods: list[ActorPod]) -> ControllerPlan:
    return planned(job(status=STARTED | status, completions=4, parallelism=4, completionMode="Indexed"), pods)


def test_missing_indexes_are_made() -> None:
    plan = indexed({"completedIndexes": "0", "succeeded": 1}, [member("b", index=2)])
    made = [write.body["metadata"]["annotations"][INDEX] for write in plan.writes if isinstance(write, CreateObject)]
    assert made == ["1", "3"]


def test_of_two_pods_with_one_index_the_younger_goes() -> None:
    plan = indexed({}, [member("a", index=0), member("b", index=0, ready_at=990)])
    assert [each for each in said(plan) if each.startswith("delete")] == ["delete pods/b"]


def test_an_index_counts_once() -> None:
    plan = indexed({"completedIndexes": "0-1", "succeeded": 2}, [member("a", "Succeeded", index=1)])
    assert merged(plan, "task")["status"]["succeeded"] == 2
    assert merged(plan, "a")["metadata"]["finalizers"] is None


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        pytest.param(set(), "", id="none"),
        pytest.param({3}, "3", id="one"),
        pytest.param({1, 2}, "1,2", id="two-in-a-row"),
        pytest.param({1, 3, 4, 5, 7}, "1,3-5,7", id="runs"),
    ],
)
def test_indexes_are_written_and_read(indexes: set[int], text: str) -> None:
    assert write_indexes(frozenset(indexes)) == text
    assert read_indexes(text) == indexes


def test_a_finished_job_deletes_itself_when_its_time_is_up() -> None:
    done = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:15:00Z"}
    early = planned(job(status={"conditions": [done]}, ttlSecondsAfterFinished=200), [])
    due = planned(job(status={"conditions": [done]}, ttlSecondsAfterFinished=100), [])
    assert (said(early), seconds(early.wake_at)) == ([], 1100)
    assert said(due) == ["delete jobs/task"]
