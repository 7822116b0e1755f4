"""What becomes of things whose owners go."""

from typing import Any

import msgspec
import pytest

from tests.sim.controllers.things import NS, at, merged, node, owner, pod, said, seconds
from ullage.kube.client.api import Propagation
from ullage.kube.client.resources import CONFIG_MAPS
from ullage.kube.objects.meta import PartialObject
from ullage.sim.controllers.garbage import FOREGROUND, ORPHAN, OwnerObject, collect, state_of_owner
from ullage.sim.controllers.objects import PODS
from ullage.sim.controllers.pod_garbage import collect_pod, over_threshold
from ullage.sim.controllers.writes import DeleteObject
from ullage.testing.builders import a_taint

NOW = at(1000)


def thing(name: str, *owners: str, going: bool = False, blocks: bool = True, **meta: Any) -> PartialObject:
    references = [owner("ConfigMap", each, controller=False, blocks=blocks) for each in owners]
    body = {"name": name, "namespace": NS, "uid": f"uid-{name}", "resourceVersion": "7", "ownerReferences": references}
    body |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}
    return msgspec.convert({"metadata": body | meta}, PartialObject)


STANDS, GONE, WAITS = OwnerObject.STANDS, OwnerObject.GONE, OwnerObject.WAITS


@pytest.mark.parametrize(
    ("owners", "dependents", "expected"),
    [
        pytest.param({}, [], [], id="nobody-owns-it"),
        pytest.param({"one": STANDS}, [], [], id="its-owner-stands"),
        pytest.param({"one": GONE}, [], ["delete configmaps/it Background"], id="its-owner-is-gone"),
        pytest.param({"one": GONE, "two": STANDS}, [], ["merge configmaps/it"], id="one-of-two-is-gone"),
        pytest.param({"one": WAITS, "two": STANDS}, [], ["merge configmaps/it"], id="one-of-two-waits-for-it"),
        pytest.param({"one": WAITS}, [], ["delete configmaps/it Background"], id="its-owner-waits-for-it"),
        pytest.param(
            {"one": WAITS}, [thing("child", "it")], ["delete configmaps/it Foreground"], id="it-has-dependents-itself"
        ),
        pytest.param(
            {"one": WAITS},
            [thing("child", "it", going=True, finalizers=[FOREGROUND])],
            ["merge configmaps/it", "delete configmaps/it Foreground"],
            id="a-circle-is-broken",
        ),
    ],
)
def test_collecting(owners: dict[str, OwnerObject], dependents: list[PartialObject], expected: list[str]) -> None:
    it = thing("it", *owners)
    states = {f"uid-{name}": state for name, state in owners.items()}
    writes = collect(CONFIG_MAPS, it.metadata, states, [(CONFIG_MAPS, each) for each in dependents])
    words = [
        f"{word} {write.how.propagation}" if isinstance(write, DeleteObject) else word
        for word, write in zip(said(writes), writes, strict=True)
    ]
    assert words == expected


@pytest.mark.parametrize(
    ("dependents", "expected"),
    [
        pytest.param([thing("child", "it")], [], id="it-waits-for-those-that-block"),
        pytest.param([thing("child", "it", blocks=False)], ["merge configmaps/it"], id="not-for-others"),
        pytest.param([], ["merge configmaps/it"], id="and-then-goes"),
    ],
)
def test_deleting_in_the_foreground(dependents: list[PartialObject], expected: list[str]) -> None:
    it = thing("it", going=True, finalizers=[FOREGROUND])
    writes = collect(CONFIG_MAPS, it.metadata, {}, [(CONFIG_MAPS, each) for each in dependents])
    assert said(writes) == expected
    if writes:
        assert merged(writes, "it")["metadata"]["finalizers"] is None


def test_orphans_forget_their_owner_before_it_goes() -> None:
    it = thing("it", going=True, finalizers=[ORPHAN, "other"])
    writes = collect(CONFIG_MAPS, it.metadata, {}, [(CONFIG_MAPS, thing("child", "it", "other"))])
    assert said(writes) == ["merge configmaps/child", "merge configmaps/it"]
    (left,) = merged(writes, "child")["metadata"]["ownerReferences"]
    assert left["name"] == "other"
    assert merged(writes, "it")["metadata"]["finalizers"] == ["other"]


def test_a_deletion_is_only_of_what_was_judged() -> None:
    (write,) = collect(PODS, thing("it", "one").metadata, {"uid-one": GONE}, [])
    assert isinstance(write, DeleteObject)
    assert (write.how.uid, write.how.resource_version) == ("uid-it", "7")
    assert write.how.propagation is Propagation.BACKGROUND


def test_what_an_owner_is() -> None:
    assert state_of_owner(None) is GONE
    assert state_of_owner(thing("o", going=True, finalizers=[FOREGROUND]).metadata) is WAITS
    assert state_of_owner(thing("o", going=True).metadata) is STANDS


def test_a_pod_whose_node_is_missing_is_given_up_after_a_while() -> None:
    early = collect_pod(pod("a"), None, at(990), now=NOW)
    late = collect_pod(pod("a"), None, at(960), now=NOW)
    assert (said(early), seconds(early.wake_at)) == ([], 1030)
    assert said(late) == ["merge pods/a/status", "delete pods/a"]
    status = merged(late, "a")["status"]
    assert (status["phase"], status["conditions"][-1]["reason"]) == ("Failed", "DeletionByPodGC")


@pytest.mark.parametrize(
    ("subject", "on", "expected"),
    [
        pytest.param(pod("a"), node(), [], id="all-is-well"),
        pytest.param(pod("a", going=1), node(), [], id="its-kubelet-will-finish-it"),
        pytest.param(
            pod("a", going=1, node="", phase="Pending"),
            None,
            ["merge pods/a/status", "delete pods/a"],
            id="never-had-a-node",
        ),
        pytest.param(
            pod("a", going=1),
            node(ready=False, taints=[a_taint("node.kubernetes.io/out-of-service", effect="NoExecute")]),
            ["merge pods/a/status", "delete pods/a"],
            id="its-node-is-out-of-service",
        ),
    ],
)
def test_pods_nobody_will_finish(subject: Any, on: Any, expected: list[str]) -> None:
    assert said(collect_pod(subject, on, None, now=NOW)) == expected


def test_ended_pods_beyond_the_number_kept_go_oldest_first() -> None:
    pods = [pod(name, phase="Succeeded", created=age) for name, age in (("c", 3), ("a", 1), ("b", 2))]
    assert said(over_threshold([*pods, pod("live")], 2, now=NOW)) == ["delete pods/a"]
