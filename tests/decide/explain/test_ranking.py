"""The one ranking of reasons: the nodes nearest to taking a pod say why it waits."""

import pytest

from tests.decide.explain.situations import SITUATIONS, Situation, h100, held, spec_of, status_of, unready, wants
from tests.decide.scenes import A100, NOON, Scene, claim, leased, node, pod, pod_group
from ullage.decide.gang.placement import GangNoFit
from ullage.decide.placement.engine import NoFit
from ullage.decide.placement.obstacle import find_obstacle, main_reason
from ullage.decide.placement.reasons import DECLARED
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.kube.client.resource import JsonObject
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.units import Instant
from ullage.model.verdict import CuredBy, Reason

CORDON_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("nodes", "reason", "cured_by"),
    [
        pytest.param([h100("h"), held("h")], Reason.TOO_FEW_GPUS, CuredBy.ROOM, id="full"),
        pytest.param(
            [h100("h"), held("h"), unready(h100("new"), since=NOON, created=NOON)],
            Reason.NODE_STARTING,
            CuredBy.TIME,
            id="a-node-that-starts-comes-before-one-that-is-full",
        ),
        pytest.param(
            [h100("h"), held("h"), spec_of(h100("shut"), unschedulable=True, taints=[CORDON_TAINT])],
            Reason.TOO_FEW_GPUS,
            CuredBy.ROOM,
            id="room-comes-before-an-uncordon",
        ),
        pytest.param(
            [spec_of(h100("shut"), unschedulable=True, taints=[CORDON_TAINT]), leased("a", model=A100)],
            Reason.NODE_UNSCHEDULABLE,
            CuredBy.REPAIR,
            id="the-taint-of-a-cordon-is-no-reason-of-its-own",
        ),
        pytest.param(
            [leased(f"a{number}", model=A100) for number in range(5)] + [h100("h"), held("h")],
            Reason.TOO_FEW_GPUS,
            CuredBy.ROOM,
            id="the-many-of-another-model-do-not-count",
        ),
        pytest.param(
            [
                status_of(h100("h"), allocatable={"cpu": "64", "memory": "512Gi", "pods": "0", "nvidia.com/gpu": "8"}),
                held("h"),
            ],
            Reason.TOO_MANY_PODS,
            CuredBy.ROOM,
            id="two-reasons-of-room",
        ),
        pytest.param([node("cpu")], Reason.NO_GPUS, CuredBy.OTHER_NODES, id="no-gpus-at-all"),
        pytest.param([], None, CuredBy.OTHER_NODES, id="no-nodes"),
    ],
)
def test_the_nearest_nodes_speak(nodes: list[JsonObject], reason: Reason | None, cured_by: CuredBy) -> None:
    scene = Scene(*nodes, wants())
    assigner = PodAssigner(scene.snapshot)
    ready = assigner.entitled(scene.pod("p"))
    assert isinstance(ready, Pod)
    found = find_obstacle(assigner.engine, ready, now=Instant(scene.now))
    assert found is not None
    assert (found.reason, found.cured_by) == (reason, cured_by)


TIER = {"tier": "gpu"}
LARGE = [claim("c", 16, devices={"model": "H100"}), pod("p", claim="c", nodeSelector=TIER)]


@pytest.mark.parametrize(
    "newcomer",
    [
        pytest.param(unready([node("new")], since=NOON, created=NOON), id="it-is-starting"),
        pytest.param(unready([node("new", 8)], since=NOON, created=NOON), id="it-is-starting-and-counts-its-gpus"),
        pytest.param([node("new", 8)], id="it-has-joined-and-nobody-reports-its-gpus"),
        pytest.param([node("new", labels={"gpu.scheduling/provisioner": "p"})], id="its-gpus-have-not-appeared"),
        pytest.param([node("new", 8, labels=TIER)], id="it-has-its-label-and-nobody-reports-its-gpus"),
    ],
)
def test_a_new_node_does_not_hide_that_the_nodes_are_too_small(newcomer: list[JsonObject]) -> None:
    """Nobody knows yet what it will be: that it has no label yet says nothing about the pod."""
    scene = Scene(h100("h", labels=TIER), h100("g", labels=TIER), newcomer, LARGE)
    assigner = PodAssigner(scene.snapshot)
    ready = assigner.entitled(scene.pod("p"))
    assert isinstance(ready, Pod)
    found = find_obstacle(assigner.engine, ready, now=Instant(scene.now))
    assert found is not None
    assert (found.reason, found.cured_by) == (Reason.NODE_TOO_SMALL, CuredBy.OTHER_NODES)


def test_labels_are_the_obstacle_where_a_known_node_without_them_could_take_the_pod() -> None:
    scene = Scene(h100("h", labels=TIER), h100("large", 16), LARGE)
    assigner = PodAssigner(scene.snapshot)
    ready = assigner.entitled(scene.pod("p"))
    assert isinstance(ready, Pod)
    found = find_obstacle(assigner.engine, ready, now=Instant(scene.now))
    assert found is not None
    assert (found.reason, found.example) == (Reason.NODE_SELECTOR_MISMATCH, "large")


def test_a_pod_that_fits_has_no_obstacle() -> None:
    scene = Scene(h100("h"), wants())
    assigner = PodAssigner(scene.snapshot)
    ready = assigner.entitled(scene.pod("p"))
    assert isinstance(ready, Pod)
    assert find_obstacle(assigner.engine, ready, now=Instant(scene.now)) is None


def test_the_sentence_stays_while_counts_change() -> None:
    """The first sentence has no numbers: one Event per reason keeps being true."""
    said = set()
    for count in (1, 3):
        scene = Scene(*(leased(f"a{number}", model=A100) for number in range(count)), wants())
        assigner = PodAssigner(scene.snapshot)
        ready = assigner.entitled(scene.pod("p"))
        assert isinstance(ready, Pod)
        answer = assigner.engine.place(ready, now=Instant(scene.now))
        assert isinstance(answer, NoFit)
        word, sentence = assigner.why(ready, answer, now=Instant(scene.now))
        said.add((word, sentence.partition(". ")[0]))
    assert said == {("GpuModelMismatch", "no node has GPUs of the model that it asks for (GpuModelMismatch)")}


@pytest.mark.parametrize("info", [pytest.param(info, id=info.reason.value) for info in DECLARED])
def test_headlines_have_no_numbers_and_are_plain(info: object) -> None:
    for text in (getattr(info, "headline", ""), getattr(info, "lasting_headline", "")):
        assert not any(letter.isdigit() for letter in text)
        assert not text.endswith(".")


def test_of_first_reasons_alone_the_nearest_is_told() -> None:
    assert main_reason({Reason.GPU_MODEL_MISMATCH: 9, Reason.TOO_FEW_GPUS: 1}) is Reason.TOO_FEW_GPUS
    assert main_reason({Reason.TOO_FEW_GPUS: 1, Reason.INSUFFICIENT_RESOURCES: 2}) is Reason.INSUFFICIENT_RESOURCES
    assert main_reason({}) is None


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        pytest.param([h100("h"), h100("full"), held("full")], Reason.TOO_FEW_GPUS, id="gpus-that-are-taken"),
        pytest.param([h100("h"), h100("s", 4)], Reason.TOO_FEW_GPUS, id="the-other-node-is-too-small"),
        pytest.param(
            [h100("h"), h100("full"), held("full"), unready(h100("new"), since=NOON, created=NOON)],
            Reason.NODE_STARTING,
            id="a-node-is-starting",
        ),
        pytest.param(
            [h100("h"), leased("a", model=A100), unready(h100("new"), since=NOON, created=NOON)],
            Reason.NODE_STARTING,
            id="a-node-is-starting-and-one-is-of-another-model",
        ),
    ],
)
def test_a_gang_of_which_some_fit_says_what_a_pod_says(nodes: list[JsonObject], reason: Reason) -> None:
    """The first member takes node h; the second is told what a pod that finds h taken is told."""
    members = [(claim(name, 8, devices={"model": "H100"}, gangRef="g"), pod(name, claim=name)) for name in ("m0", "m1")]
    gang = Scene(*nodes, *members, pod_group("g", 2))
    alone = Scene(*nodes, held("h"), wants(8))
    of_gang, of_pod = PodAssigner(gang.snapshot), PodAssigner(alone.snapshot)
    refused = of_gang.assign_gang(of_gang.gang_ask(ObjectKey("team", "g")), (), now=Instant(gang.now))
    assert isinstance(refused, GangNoFit)
    assert refused.placed == 1
    before = dict(gang.snapshot.pods)
    assert of_gang.why(gang.pod("m0"), refused, now=Instant(gang.now))[0] == reason.value
    assert dict(gang.snapshot.pods) == before
    ready = of_pod.entitled(alone.pod("p"))
    assert isinstance(ready, Pod)
    answer = of_pod.assign_pod(ready, (), now=Instant(alone.now))
    assert isinstance(answer, NoFit)
    assert of_pod.why(ready, answer, now=Instant(alone.now))[0] == reason.value


def test_another_member_of_a_gang_does_not_matter_to_a_claim_that_waits() -> None:
    """A claim for one GPU of a cluster that has none of its model, beside one that fits."""
    scene = Scene(leased("a", model=A100), claim("c", devices={"model": "B200"}), pod("p", claim="c"), pod("q", 1))
    assigner = PodAssigner(scene.snapshot)
    ready = assigner.entitled(scene.pod("p"))
    assert isinstance(ready, Pod)
    found = find_obstacle(assigner.engine, ready, now=Instant(scene.now))
    assert found is not None
    assert found.alone
    assert found.lasting


@pytest.mark.parametrize("one", [pytest.param(one, id=one.name.replace(" ", "-")) for one in SITUATIONS[:8]])
def test_asking_changes_nothing(one: Situation) -> None:
    """An explanation is tried on copies: asked twice, it says the same."""
    from tests.decide.explain.test_situations import explained

    assert explained(one).steps == explained(one).steps
