"""The life of a pod on its node, step by step."""

from dataclasses import replace
from typing import Any

import pytest

from tests.sim.controllers.things import at, merged, pod, said, seconds
from ullage.sim.controllers.objects import ActorPod
from ullage.sim.kubelet.admission import KubeletShortage, shortage
from ullage.sim.kubelet.kubelet_pod import AdmittedPod, KubeletStep, next_step, reject
from ullage.sim.kubelet.timings import DURATION, EXIT_CODES, START, STOP, DurationRange, KubeletTimings

MODEL = KubeletTimings(start=DurationRange(5, 5), stop=DurationRange(3, 3))
BOUND = AdmittedPod(since=at(0), requests={}, address="10.0.0.1")
RUNNING = replace(BOUND, running_since=at(5))


def step(subject: ActorPod, memory: AdmittedPod | None = BOUND, *, now: float) -> KubeletStep:
    return next_step(subject, memory, MODEL, now=at(now))


def bound(**more: Any) -> ActorPod:
    return pod("a", phase="Pending", **more)


def status(taken: KubeletStep) -> dict[str, Any]:
    return dict(merged(taken.plan, "a")["status"])


def test_it_is_pending_while_it_starts() -> None:
    taken = step(bound(), now=0)
    assert (status(taken)["phase"], seconds(taken.plan.wake_at)) == ("Pending", 5)
    assert status(taken)["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}


def test_then_it_runs_and_is_ready() -> None:
    taken = step(bound(), now=5)
    seen = status(taken)
    conditions = {each["type"]: each["status"] for each in seen["conditions"]}
    assert (seen["phase"], seen["podIP"], seen["startTime"]) == ("Running", "10.0.0.1", "2026-01-01T00:00:00Z")
    wanted = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    assert [conditions[kind] for kind in wanted] == ["True"] * 4
    assert taken.memory is not None
    assert seconds(taken.memory.running_since) == 5


def test_conditions_of_others_are_kept() -> None:
    gate = {"type": "example.com/gate", "status": "True"}
    taken = step(bound(status={"conditions": [gate]}), now=5)
    assert gate in status(taken)["conditions"]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, 5, id="as-the-fleet-does"),
        pytest.param({START: "60"}, 60, id="as-the-pod-says"),
        pytest.param({START: "soon"}, 5, id="nonsense-is-not-heard"),
    ],
)
def test_how_long_it_takes_to_start(annotations: dict[str, str], expected: float) -> None:
    assert seconds(step(bound(annotations=annotations), now=0).plan.wake_at) == expected


def test_slow_images_start_slowly_and_chance_comes_from_the_seed() -> None:
    slow = KubeletTimings(start_by_image={"example.com/main:1": DurationRange(100, 200)}, seed=1)
    first, again = slow.start_seconds(bound()), slow.start_seconds(bound())
    other = replace(slow, seed=2).start_seconds(bound())
    assert 100 <= first <= 200
    assert first == again != other


def ending(policy: str, code: str, restarts: int = 0) -> KubeletStep:
    work = pod("a", restartPolicy=policy, annotations={DURATION: "10", EXIT_CODES: code})
    return step(work, replace(RUNNING, restarts=restarts), now=15)


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [
        pytest.param("Never", "0", "Succeeded", id="never-and-well"),
        pytest.param("Never", "3", "Failed", id="never-and-ill"),
        pytest.param("OnFailure", "0", "Succeeded", id="on-failure-and-well"),
    ],
)
def test_its_work_ends(policy: str, code: str, phase: str) -> None:
    seen = status(ending(policy, code))
    assert seen["phase"] == phase
    assert seen["containerStatuses"][0]["state"]["terminated"]["exitCode"] == int(code)
    assert {each["status"] for each in seen["conditions"] if each["type"] == "Ready"} == {"False"}


@pytest.mark.parametrize(
    ("policy", "code", "restarts", "again"),
    [
        pytest.param("OnFailure", "1", 0, 25, id="after-ten-seconds"),
        pytest.param("Always", "0", 0, 25, id="always-means-always"),
        pytest.param("Always", "1", 2, 55, id="later-every-time"),
        pytest.param("Always", "1", 9, 315, id="never-later-than-five-minutes"),
        pytest.param("OnFailure", "1,1,0", 1, 35, id="codes-are-taken-one-by-one"),
    ],
)
def test_it_is_restarted(policy: str, code: str, restarts: int, again: float) -> None:
    taken = ending(policy, code, restarts)
    assert seconds(taken.plan.wake_at) == again
    resting = pod("a", ready=False, restartPolicy=policy, annotations={DURATION: "10", EXIT_CODES: code})
    restarted = next_step(resting, taken.memory, MODEL, now=at(again))
    assert status(restarted)["containerStatuses"][0]["restartCount"] == restarts + 1


@pytest.mark.parametrize(
    ("grace", "annotations", "gone_at"),
    [
        pytest.param(30, {}, 103, id="as-long-as-it-needs"),
        pytest.param(30, {STOP: "20"}, 120, id="as-long-as-it-says"),
        pytest.param(10, {STOP: "20"}, 110, id="no-longer-than-it-may"),
    ],
)
def test_it_is_told_to_go(grace: int, annotations: dict[str, str], gone_at: float) -> None:
    going = pod("a", going=100, grace=grace, annotations=annotations)
    early = step(going, RUNNING, now=100)
    assert (said(early.plan), seconds(early.plan.wake_at)) == ([], gone_at)
    late = step(going, early.memory, now=gone_at)
    assert said(late.plan) == ["merge pods/a/status", "delete pods/a"]
    assert status(late)["phase"] == "Failed"


def test_a_pod_others_called_not_ready_is_said_to_be_ready_again() -> None:
    doubted = step(pod("a", ready=False, ready_at=50), RUNNING, now=100)
    conditions = {each["type"]: each["status"] for each in status(doubted)["conditions"]}
    assert conditions["Ready"] == "True"
    assert status(doubted)["containerStatuses"][0]["state"]["running"]["startedAt"] == "2026-01-01T00:00:05Z"


def test_what_never_started_goes_at_once() -> None:
    going = pod("a", phase="Pending", going=100)
    assert said(step(going, None, now=100).plan)[-1] == "delete pods/a"


def test_its_own_deadline_ends_it() -> None:
    hurried = pod("a", activeDeadlineSeconds=60)
    assert seconds(step(hurried, RUNNING, now=10).plan.wake_at) == 60
    late = step(hurried, RUNNING, now=60)
    assert (status(late)["phase"], status(late)["reason"]) == ("Failed", "DeadlineExceeded")
    assert late.memory is not None
    assert late.memory.is_over


ROOM = {"cpu": "4", "memory": "8Gi", "pods": "2", "nvidia.com/gpu": "8"}


@pytest.mark.parametrize(
    ("request_", "held", "lacking"),
    [
        pytest.param({"cpu": 4000}, [], None, id="just-fits"),
        pytest.param({"cpu": 2000}, [{"cpu": 3000}], "cpu", id="one-cpu-short"),
        pytest.param({"nvidia.com/gpu": 8000}, [{"nvidia.com/gpu": 1000}], "nvidia.com/gpu", id="a-gpu-is-taken"),
        pytest.param({}, [{}, {}], "pods", id="no-place-for-another-pod"),
        pytest.param({"example.com/odd": 1000}, [], None, id="not-its-to-judge"),
        pytest.param({"ephemeral-storage": 1000}, [], "ephemeral-storage", id="what-is-not-said-is-not-there"),
    ],
)
def test_room_on_the_node(request_: dict[str, int], held: list[dict[str, int]], lacking: str | None) -> None:
    found = shortage(request_, held, ROOM)
    assert (found.resource if found else None) == lacking


def test_a_rejection_names_what_is_missing() -> None:
    write = reject(bound(), KubeletShortage("nvidia.com/gpu", 2000, 7000, 8000), now=at(0))
    seen = write.body["status"]
    assert (seen["phase"], seen["reason"]) == ("Failed", "OutOfnvidia.com/gpu")
    assert "nvidia.com/gpu, requested: 2, used: 7, capacity: 8" in seen["message"]
