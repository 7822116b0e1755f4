"""Plans: who is asked first, who is asked again, gangs, quotas, and what is said to those without a place."""

from typing import Any

import pytest

from tests.decide.scenes import A100, Scene, claim, leased, node, pod, pod_group, quota, report
from ullage.decide.explain.plan_schedule import SchedulePlan, plan_schedule
from ullage.decide.explain.pod import PodExplanation, explain_pod
from ullage.model.units import Instant

HOST = "kubernetes.io/hostname"


def plan(scene: Scene, policy: str = "fragmentation") -> SchedulePlan:
    return plan_schedule(scene.snapshot, scene.known, now=Instant(scene.now), policy=policy)


def placed(found: SchedulePlan) -> dict[str, str]:
    """Pods with their node and GPUs, in the order they were decided on."""
    return {
        one.pod.name: f"{placed.node}:{','.join(map(str, placed.choice.ids if placed.choice else ()))}"
        for one in found.placements
        for placed in (one.placement,)
    }


def reasons(found: SchedulePlan) -> dict[str, list[str]]:
    return {one.pod.name: [rejection.reason.value for rejection in one.rejections] for one in found.unschedulable}


def steps(found: SchedulePlan, name: str) -> tuple[str, ...]:
    return next(one.steps for one in found.unschedulable if one.pod.name == name)


@pytest.mark.parametrize(
    ("rivals", "winner"),
    [
        pytest.param([pod("a", 8), pod("b", 8)], "a", id="by-name"),
        pytest.param([pod("a", 8, namespace="z"), pod("b", 8, namespace="y")], "b", id="by-namespace-first"),
        pytest.param([pod("a", 8), pod("b", 8, created="2030-01-01T00:00:00Z")], "b", id="made-before-not-yet-made"),
        pytest.param(
            [pod("a", 8, created="2030-01-02T00:00:00Z"), pod("b", 8, created="2030-01-01T00:00:00Z")], "b", id="age"
        ),
        pytest.param(
            [pod("a", 8, created="2030-01-01T00:00:00Z"), pod("b", 8, created="2030-01-02T00:00:00Z", priority=1)],
            "b",
            id="priority-before-age",
        ),
        pytest.param([pod("a", 8, schedulerName="x"), pod("b", 8)], "a", id="whatever-scheduler"),
    ],
)
def test_who_gets_the_last_node(rivals: list[dict[str, object]], winner: str) -> None:
    found = plan(Scene(leased("n"), rivals))
    assert list(placed(found)) == [winner]
    assert len(found.unschedulable) == 1


def test_who_is_not_asked_at_all() -> None:
    done = pod("done", 1) | {"status": {"phase": "Failed"}}
    leaving = pod("leaving", 1)
    leaving["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    found = plan(Scene(leased("n"), done, leaving, pod("runs", 1, on="n", held="0")))
    assert found == SchedulePlan((), (), ())


def test_who_waited_for_a_later_pod_is_asked_again() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": HOST}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [node(name, labels={HOST: name}) for name in ("x", "y")]
    scene = Scene(nodes, pod("a", affinity=near), pod("b", labels={"app": "db"}, nodeSelector={HOST: "y"}))
    assert placed(plan(scene)) == {"b": "y:", "a": "y:"}


def test_no_gpu_is_planned_twice() -> None:
    scene = Scene(leased("a"), leased("b"), [pod(f"p{n}", 1 + n % 3) for n in range(12)])
    found = plan(scene)
    given = [
        (one.placement.node, gpu)
        for one in found.placements
        for gpu in (one.placement.choice.ids if one.placement.choice else ())
    ]
    assert len(given) == len(set(given)) == 16
    assert scene.snapshot.columns.gpus.free.min() == 0


@pytest.mark.parametrize(
    ("running", "unnamed"),
    [
        pytest.param(
            [
                claim("c", 4, status={"phase": "Bound", "nodeName": "n", "gpuIds": [0, 1, 2, 3]}),
                pod("runs", 4, claim="c", on="n"),
            ],
            [],
            id="by-its-claim",
        ),
        pytest.param([pod("seen", 4, on="n")], [], id="by-what-the-node-sees"),
        pytest.param([pod("runs", 4, on="n")], ["runs"], id="nobody-knows"),
    ],
)
def test_gpus_of_pods_that_do_not_name_them(running: list[dict[str, object]], unnamed: list[str]) -> None:
    scene = Scene(leased("n", in_use={gpu: ["uid-seen"] for gpu in range(4)}), running, pod("waits", 4), pod("x", 1))
    assert [key.name for key in scene.unnamed] == unnamed
    found = plan(scene)
    assert list(placed(found)) == ["waits"], "their number counts in any case"
    if not unnamed:
        assert placed(found)["waits"] == "n:4,5,6,7"


def gang(count: int, size: int = 4, **spec: Any) -> list[dict[str, object]]:
    made = claim("member", size, gangRef="g", **spec)
    return [made, *(pod(f"g{n}", template="member") for n in range(count))]


@pytest.mark.parametrize(
    ("objects", "placements", "complete"),
    [
        pytest.param([*gang(4), pod_group("g", 4)], 4, True, id="all-fit"),
        pytest.param(gang(4, gangMinMember=4), 4, True, id="sized-by-its-claims"),
        pytest.param([*gang(5), pod_group("g", 5)], 0, False, id="one-too-many"),
        pytest.param([*gang(5), pod_group("g", 3)], 4, True, id="enough-and-one-more"),
        pytest.param([*gang(3), pod_group("g", 4)], 0, False, id="a-member-is-missing"),
        pytest.param([*gang(4), pod_group("g", 4), quota(gpus=15)], 0, False, id="too-much-for-the-quota"),
        pytest.param([*gang(4), pod_group("g", 2), quota(gpus=8)], 2, True, id="the-quota-allows-what-it-needs"),
    ],
)
def test_a_gang_is_placed_whole_or_not_at_all(
    objects: list[dict[str, object]], placements: int, complete: bool
) -> None:
    found = plan(Scene(leased("a"), leased("b"), objects))
    (whole,) = found.gangs
    assert len(found.placements) == whole.placed == placements
    assert (whole.placed >= whole.min_member) is complete
    assert bool(whole.detail) is not complete


def test_a_gang_without_a_size_is_refused_and_the_gap_is_left_to_others() -> None:
    found = plan(Scene(leased("a"), gang(2), pod("small", 1)))
    assert list(placed(found)) == ["small"]
    assert reasons(found) == {"g0": ["GangSizeUnknown"], "g1": ["GangSizeUnknown"]}


def test_bound_members_count() -> None:
    found = plan(
        Scene(leased("a"), gang(1), pod_group("g", 2), pod("g9", 4, template="member", on="a", held="0,1,2,3"))
    )
    assert placed(found) == {"g0": "a:4,5,6,7"}
    assert found.gangs[0].bound == 1


def test_a_quota_counts_what_was_planned_before() -> None:
    found = plan(
        Scene(leased("a"), quota(gpus=3), claim("two", 2), pod("p1", template="two"), pod("p2", template="two"))
    )
    assert list(placed(found)) == ["p1"]
    assert reasons(found) == {"p2": ["QuotaExceeded"]}
    assert steps(found, "p2") == ("a larger GpuQuota, or ending pods of its namespace: 2 GPUs asked, 2 of 3 are held",)


def test_a_quota_on_one_model_leaves_the_other() -> None:
    scene = Scene(leased("a"), leased("b", model=A100), quota(byModel={"H100": 0}), claim("one"), pod("p", claim="one"))
    assert placed(plan(scene)) == {"p": "b:0"}


KEPT: dict[str, Any] = {"taints": [{"key": "gpu.scheduling/leased", "value": "true", "effect": "NoSchedule"}]}
TAINTED: dict[str, Any] = {"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        pytest.param([node("n", 1, **TAINTED), pod("p", 1)], "tolerate taint team=x:NoSchedule, as on n", id="taint"),
        pytest.param(
            [node("n", 1, **KEPT), pod("p", 1)],
            "name a GpuClaim in the annotation gpu.scheduling/claim: n gives its GPUs by claims only",
            id="a-leased-node-is-not-to-be-tolerated",
        ),
        pytest.param(
            [node("n", 8, **KEPT), report("n", 8), claim("c"), pod("p", claim="c")],
            "create team/p again while the webhook runs, for n",
            id="a-pod-nobody-prepared",
        ),
        pytest.param([node("n", 1, unschedulable=True), pod("p", 1)], "uncordon n", id="cordon"),
        pytest.param(
            [node("n", 4), pod("r", 3, on="n"), pod("p", 2)], "1 more nvidia.com/gpu free on n", id="count-short"
        ),
        pytest.param([node("n", 4), pod("p", 8)], "a node with 8 nvidia.com/gpu", id="no-node-so-large"),
        pytest.param(
            [leased("n"), claim("c", 8, devices={"model": "B200"}), pod("p", claim="c")],
            "a node with 8 GPUs of model B200",
            id="model",
        ),
        pytest.param(
            [
                leased("n"),
                pod("r1", 2, on="n", held="0,1"),
                pod("r2", 1, on="n", held="4"),
                claim("c", 4, topology={"mode": "Required"}),
                pod("p", claim="c"),
            ],
            "1 more free GPU in one island of n",
            id="island-short",
        ),
        pytest.param(
            [
                leased("n"),
                pod("r1", 2, on="n", held="0,1"),
                pod("r2", 1, on="n", held="4"),
                claim("c", 4, topology={"mode": "Required"}),
                pod("p", claim="c"),
            ],
            "free GPU 4 on n by ending team/r2",
            id="who-is-in-the-way",
        ),
        pytest.param(
            [leased("n", island=2), claim("c", 3, topology={"mode": "Required"}), pod("p", claim="c")],
            "a node with an island of 3 GPUs, or topology.mode Preferred",
            id="no-island-so-large",
        ),
        pytest.param([leased("n", 2), pod("p", nodeSelector={"disk": "fast"})], "a node with disk=fast", id="label"),
        pytest.param(
            [claim("c", namespace="other"), pod("p", claim="c")],
            "create GpuClaim team/c, or correct the pod's annotation; the one in namespace other is of no use to it",
            id="claim-elsewhere",
        ),
    ],
)
def test_what_would_help(objects: list[dict[str, object]], said: str) -> None:
    found = steps(plan(Scene(*objects)), "p")
    assert any(step.startswith(said) for step in found), found


def test_what_leads_to_the_next_refusal_is_no_help() -> None:
    scene = Scene(node("n", 1, **TAINTED), node("m", 1, unschedulable=True), pod("p", 2))
    assert steps(plan(scene), "p") == ()
    assert reasons(plan(scene)) == {"p": ["NodeUnschedulable", "TaintNotTolerated"]}


def test_a_cordoned_node_with_a_taint_is_not_opened_by_uncordoning() -> None:
    assert steps(plan(Scene(node("n", 1, unschedulable=True, **TAINTED), pod("p", 1))), "p") == ()


def explained(scene: Scene, name: str) -> PodExplanation:
    return explain_pod(scene.snapshot, scene.pod(name), scene.known, now=Instant(scene.now))


@pytest.mark.parametrize(
    ("name", "verdict", "said"),
    [
        pytest.param("runs", "Bound", "it is on n with GPU 0", id="bound"),
        pytest.param("done", "Finished", "succeeded", id="finished"),
        pytest.param("gated", "SchedulingGated", "gates", id="gated"),
        pytest.param("first", "Fits", "1 of 2 nodes fit; it goes to n with GPU 1,2,3,4", id="fits"),
        pytest.param("late", "Unschedulable", "with those ahead of it, 0/2 nodes fit", id="others-first"),
        pytest.param("big", "Unschedulable", "0/2 nodes fit: 2 NodeTooSmall", id="no-node"),
    ],
)
def test_verdicts_on_pods(name: str, verdict: str, said: str) -> None:
    scene = Scene(
        leased("n", island=8),
        node("m"),
        pod("runs", 1, on="n", held="0"),
        pod("done", 1, on="n") | {"status": {"phase": "Succeeded"}},
        pod("gated", 1, schedulingGates=[{"name": "x"}]),
        pod("first", 4, priority=9),
        pod("late", 4),
        pod("big", 9),
    )
    found = explained(scene, name)
    assert found.verdict == verdict
    assert said in found.message
    assert list(found.nodes) == ([] if verdict == "Finished" else ["m", "n"])


def test_explaining_leaves_the_picture_as_it_is() -> None:
    scene = Scene(leased("n"), pod("a", 4, priority=1), pod("b", 4))
    explained(scene, "b")
    assert not scene.snapshot.pods
    assert placed(plan(scene)).keys() == {"a", "b"}


def test_a_member_of_a_gang_that_does_not_fit_is_told_so() -> None:
    found = explained(Scene(leased("a"), gang(3), pod_group("g", 3)), "g0")
    assert found.verdict == "Unschedulable"
    assert "gang team/g: places for 2 of the 3 it needs" in found.message


@pytest.mark.parametrize("policy", ["fragmentation", "best-fit", "packing", "spread"])
def test_the_same_objects_give_the_same_plan_in_any_order(policy: str) -> None:
    objects = [*leased("a"), *leased("b"), *leased("c"), *(pod(f"p{n}", 1 + n % 4) for n in range(9))]
    assert plan(Scene(objects), policy) == plan(Scene(objects[::-1]), policy)


def storage(kind: str, name: str, **body: Any) -> dict[str, Any]:
    version = "storage.k8s.io/v1" if kind == "StorageClass" else "v1"
    meta = {"name": name} | ({"namespace": "team"} if kind == "PersistentVolumeClaim" else {})
    return {"apiVersion": version, "kind": kind, "metadata": meta} | body


def disk_claim(name: str) -> dict[str, Any]:
    spec = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return storage("PersistentVolumeClaim", name, spec=spec)


def mounting(name: str, claim_name: str) -> dict[str, Any]:
    return pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}])


def test_one_local_disk_is_planned_for_one_pod_only() -> None:
    on_a = {"nodeSelectorTerms": [{"matchExpressions": [{"key": HOST, "operator": "In", "values": ["a"]}]}]}
    disk = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "nodeAffinity": {"required": on_a},
    }
    late = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    found = plan(
        Scene(
            node("a", labels={HOST: "a"}),
            node("b", labels={HOST: "b"}),
            storage("StorageClass", "local", **late),
            storage("PersistentVolume", "disk", spec=disk, status={"phase": "Available"}),
            [disk_claim("first"), disk_claim("second")],
            [mounting("one", "first"), mounting("two", "second")],
        )
    )
    assert placed(found) == {"one": "a:"}
    assert reasons(found) == {"two": ["VolumeElsewhere"]}
