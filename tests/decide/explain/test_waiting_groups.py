"""Waiting pods in groups, as on-call looks at them."""

from msgspec.structs import replace

from tests.decide.scenes import Scene, leased, pod
from ullage.decide.explain.waiting_groups import WaitingEntry, waiting_groups, workload_of
from ullage.model.pod import Owner, Pod

WORKLOADS = (("Job", "train", 200, "TooFewGpus"), ("ReplicaSet", "chat-5d9f8c7b6", 100, "GpuModelMismatch"))


def a_waiting(name: str, owner: Owner | None = None) -> Pod:
    scene = Scene(leased("a"), pod(name, 2))
    return replace(scene.pod(name), owner=owner)


def test_369_pods_of_three_workloads_are_three_rows_with_one_action_each() -> None:
    first = a_waiting("p")
    waiting = []
    for kind, name, count, word in WORKLOADS:
        owner = Owner(kind, name, name)
        for number in range(count):
            key = first.key._replace(name=f"{name}-{number}")
            waiting.append(
                WaitingEntry(replace(first, key=key, owner=owner), word, f"because ({word}). 0/260 nodes fit")
            )
    for number in range(69):
        key = first.key._replace(name=f"probe-{number}")
        waiting.append(WaitingEntry(replace(first, key=key), "NodeStarting", "the node is starting (NodeStarting)"))
    groups = waiting_groups(waiting, lambda one: (f"help {one.key.name}", ("kubectl",)))
    assert [(one.workload, one.reason, len(one.pods), one.gpus) for one in groups] == [
        ("Job/train", "TooFewGpus", 200, 400),
        ("Deployment/chat", "GpuModelMismatch", 100, 200),
        ("Pod/probe", "NodeStarting", 69, 138),
    ]
    assert all(one.action.startswith("help ") and one.commands for one in groups)
    assert groups[0].sentence == "because"


def test_workloads_by_name() -> None:
    assert workload_of(a_waiting("alone")) == "Pod/alone"
    assert workload_of(a_waiting("serve-0233")) == "Pod/serve"
    assert workload_of(a_waiting("p", Owner("StatefulSet", "db", "u"))) == "StatefulSet/db"
    assert workload_of(a_waiting("p"), "ring") == "Gang/ring"
