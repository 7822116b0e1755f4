"""Soft scores in the choice of a node: whose wish counts for how much, and what it may not undo."""

from typing import Any

import pytest

from tests.decide.scenes import Scene, claim, leased, node, pod, report
from ullage.decide.placement.engine import Placement, PlacementEngine, hold
from ullage.decide.placement.prefilter import with_claim
from ullage.kube.client.resource import JsonObject
from ullage.model.pod import Pod
from ullage.model.units import Instant

ZONE = "topology.kubernetes.io/zone"
LEAVING = {"key": "leaving", "effect": "PreferNoSchedule"}
WEB = {"app": "web"}
SMALL, LARGE = ("1g.10gb", "10Gi"), ("3g.40gb", "40Gi")


def chosen(scene: Scene, name: str = "waits") -> str:
    waiting = with_claim(scene.pod(name), scene.snapshot)
    assert isinstance(waiting, Pod)
    answer = PlacementEngine(scene.snapshot).place(waiting, now=Instant(scene.now))
    assert isinstance(answer, Placement)
    return answer.node


def gpu_node(name: str, *, images: tuple[str, ...] = (), **spec: Any) -> list[JsonObject]:
    """A leased node with eight GPUs in two islands."""
    made = node(name, 8, **spec)
    made["status"]["images"] = [{"names": [image], "sizeBytes": 5 << 30} for image in images]
    return [made, report(name)]


def preferring(**labels: str) -> dict[str, Any]:
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    wish = {"weight": 1, "preference": {"matchExpressions": terms}}
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}}


def company(kind: str) -> dict[str, Any]:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": WEB}}
    wish = {"weight": 1, "podAffinityTerm": term}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}}


def spreading() -> dict[str, Any]:
    constraint = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    return {"topologySpreadConstraints": [constraint | {"labelSelector": {"matchLabels": WEB}}], "labels": WEB}


@pytest.mark.parametrize(
    ("full", "empty", "rules", "winner"),
    [
        pytest.param({}, {}, {}, "full", id="without-wishes-gpus-are-packed"),
        pytest.param({}, {"labels": {"disk": "ssd"}}, preferring(disk="ssd"), "empty", id="a-preferred-label"),
        pytest.param({"labels": {"disk": "ssd"}}, {}, preferring(disk="ssd"), "full", id="a-label-of-the-packed-node"),
        pytest.param({"taints": [LEAVING]}, {}, {}, "empty", id="a-taint-that-prefers-no-pods"),
        pytest.param(
            {"taints": [LEAVING]}, {}, {"tolerations": [{"key": "leaving"}]}, "full", id="a-taint-that-is-tolerated"
        ),
        pytest.param({"taints": [LEAVING]}, {"taints": [LEAVING]}, {}, "full", id="a-taint-on-all-tells-nothing-apart"),
        pytest.param({"labels": {ZONE: "1"}}, {"labels": {ZONE: "2"}}, spreading(), "empty", id="soft-spread"),
        pytest.param(
            {"labels": {ZONE: "1"}}, {"labels": {ZONE: "2"}}, company("podAntiAffinity"), "empty", id="wish-to-be-away"
        ),
        pytest.param(
            {"labels": {ZONE: "1"}}, {"labels": {ZONE: "2"}}, company("podAffinity"), "full", id="wish-to-be-near"
        ),
        pytest.param({}, {"images": ("x:latest",)}, {}, "full", id="images-do-not-undo-packing"),
        pytest.param(
            {"taints": [LEAVING]},
            {"labels": {"disk": "hdd"}},
            preferring(disk="ssd"),
            "empty",
            id="a-wish-nobody-fulfils-does-not-count",
        ),
        pytest.param(
            {"taints": [LEAVING], "labels": {"disk": "ssd"}},
            {},
            preferring(disk="ssd"),
            "empty",
            id="taints-weigh-more",
        ),
    ],
)
def test_pods_with_gpus(full: dict[str, Any], empty: dict[str, Any], rules: dict[str, Any], winner: str) -> None:
    runs = pod("runs", 4, on="full", held="0,1,2,3", labels=WEB)
    scene = Scene(gpu_node("full", **full), gpu_node("empty", **empty), runs, pod("waits", 1, **rules))
    assert chosen(scene) == winner


def test_placed_pods_wish_too() -> None:
    scene = Scene(
        gpu_node("a", labels={ZONE: "1"}),
        gpu_node("b", labels={ZONE: "2"}),
        pod("runs", 1, on="a", held="0"),
        pod("lonely", on="b", **company("podAffinity")),
        pod("waits", 1, labels=WEB),
    )
    assert chosen(scene) == "b"


def test_of_equal_nodes_one_that_has_the_image_is_taken() -> None:
    assert chosen(Scene(gpu_node("a"), gpu_node("b", images=("x:latest",)), pod("waits", 1))) == "b"


TWO_APART = pod("runs", 6, on="a", held="0,1,2,4,5,6")
"""Leaves one GPU in each island."""


@pytest.mark.parametrize(
    ("wanted", "waits", "winner"),
    [
        pytest.param(claim("two", 2), pod("waits", claim="two"), "b", id="preferred-topology-comes-first"),
        pytest.param(
            claim("two", 2), pod("waits", claim="two", **preferring(disk="ssd")), "b", id="and-before-other-wishes"
        ),
        pytest.param(
            claim("two", 2, topology={"mode": "Ignore"}), pod("waits", claim="two"), "a", id="ignored-topology"
        ),
        pytest.param(claim("two", 1), pod("waits", claim="two"), "a", id="one-gpu-is-always-together"),
        pytest.param([], pod("waits", 2), "a", id="a-plain-request-says-nothing-of-topology"),
    ],
)
def test_topology_that_is_preferred(wanted: Any, waits: JsonObject, winner: str) -> None:
    scene = Scene(gpu_node("a", labels={"disk": "ssd"}), gpu_node("b"), TWO_APART, wanted, waits)
    assert chosen(scene) == winner


def mig_node(name: str, *gpus: tuple[tuple[str, str], ...]) -> list[JsonObject]:
    return leased(name, len(gpus), mig=dict(enumerate(gpus)))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param([(LARGE,)], [(SMALL,)], id="the-smallest-instance-that-does"),
        pytest.param([(SMALL, SMALL)], [(SMALL, SMALL, SMALL)], id="a-gpu-in-use-before-one-that-is-not"),
        pytest.param([(SMALL,), (SMALL,)], [(SMALL, SMALL, SMALL)], id="however-many-gpus-the-other-has"),
    ],
)
def test_mig(a: list[tuple[tuple[str, str], ...]], b: list[tuple[tuple[str, str], ...]]) -> None:
    """Where `b` has more than one instance, somebody has its first."""
    asked = claim("slice", devices={"exclusivity": "MIG", "memory": "8Gi"})
    pods = [pod(name, template="slice") for name in ("first", "waits")]
    scene = Scene(mig_node("a", *a), mig_node("b", *b), asked, pods)
    if len(b[0]) > 1:
        first = with_claim(scene.pod("first"), scene.snapshot)
        assert isinstance(first, Pod)
        placement = PlacementEngine(scene.snapshot).place_on(first, "b", now=Instant(scene.now))
        assert isinstance(placement, Placement)
        hold(scene.snapshot, first, placement)
    assert chosen(scene) == "b"


BUSY = pod("runs", 8, on="busy", held="0,1,2,3,4,5,6,7")
CPU = {"cpu": "4", "memory": "32Gi"}


@pytest.mark.parametrize(
    ("there", "rules", "winner"),
    [
        pytest.param(
            [gpu_node("a-idle"), node("z-cpu"), pod("other", on="z-cpu", requests=CPU)],
            {},
            "z-cpu",
            id="a-node-without-gpus-before-one-with",
        ),
        pytest.param([gpu_node("a-idle"), gpu_node("busy"), BUSY], {}, "busy", id="else-one-whose-gpus-are-busy"),
        pytest.param(
            [node("a"), node("b"), pod("other", on="a", requests=CPU)], {}, "b", id="the-emptier-of-nodes-without-gpus"
        ),
        pytest.param(
            [node("a"), node("b", labels={ZONE: "2"})], preferring(**{ZONE: "2"}), "b", id="wishes-count-as-ever"
        ),
        pytest.param(
            [gpu_node("a-idle", labels={ZONE: "2"}), node("z-cpu")],
            preferring(**{ZONE: "2"}),
            "z-cpu",
            id="one-wish-weighs-less-than-a-gpu-node",
        ),
        pytest.param(
            [gpu_node("a-idle", labels={ZONE: "2"}), node("z-cpu", taints=[LEAVING], labels={ZONE: "1"})],
            preferring(**{ZONE: "2"}),
            "a-idle",
            id="two-wishes-weigh-more",
        ),
    ],
)
def test_pods_without_gpus(there: Any, rules: dict[str, Any], winner: str) -> None:
    flat = [one for each in there for one in ([each] if isinstance(each, dict) else each)]
    assert chosen(Scene(*flat, pod("waits", requests=CPU, **rules))) == winner
