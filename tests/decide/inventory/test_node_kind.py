"""Who chooses the GPUs of a node, look after look."""

import pytest

from tests.decide.scenes import pod, read
from ullage.decide.inventory.node_kind import (
    GONE_AFTER,
    NEVER_CAME_AFTER,
    KindChoice,
    NodeEvidence,
    NodeKindMode,
    choose_kind,
    gpu_pods,
)
from ullage.kube.client.resource import JsonObject
from ullage.model.device import GpuNodeKind
from ullage.model.pod import Pod
from ullage.model.units import Steady

LEASED, COUNTED, DRA = GpuNodeKind.LEASED, GpuNodeKind.COUNTED, GpuNodeKind.DRA
NOTHING = NodeEvidence(plugin=False)


def after(
    seconds: float, *looks: NodeEvidence, mode: NodeKindMode = NodeKindMode.AUTO, every: float = 30.0
) -> KindChoice:
    """The last of these goes on for so long."""
    choice, now = KindChoice(), 1000.0
    for seen in looks:
        choice, now = choose_kind(mode, choice, seen, now=Steady(now)), now + every
    end = now + seconds
    while now <= end:
        choice, now = choose_kind(mode, choice, looks[-1], now=Steady(now)), now + every
    return choice


@pytest.mark.parametrize(
    ("mode", "seen", "kind"),
    [
        pytest.param(NodeKindMode.LEASED, NodeEvidence(plugin=True, dra=True, advertised=True), LEASED, id="said-so"),
        pytest.param(NodeKindMode.COUNTED, NodeEvidence(plugin=False, label="leased"), COUNTED, id="said-otherwise"),
        pytest.param(NodeKindMode.AUTO, NodeEvidence(plugin=True, label="leased"), COUNTED, id="a-plugin-came"),
        pytest.param(NodeKindMode.AUTO, NodeEvidence(plugin=False, dra=True), DRA, id="a-dra-driver"),
        pytest.param(
            NodeKindMode.AUTO, NodeEvidence(plugin=False, dra=True, label="leased"), DRA, id="a-dra-driver-came"
        ),
        pytest.param(NodeKindMode.AUTO, NodeEvidence(dra=True), DRA, id="a-dra-driver-and-kubelet-silent"),
        pytest.param(
            NodeKindMode.AUTO, NodeEvidence(plugin=True, dra=True), COUNTED, id="a-plugin-beside-a-dra-driver"
        ),
        pytest.param(NodeKindMode.AUTO, NodeEvidence(plugin=False, label="leased"), LEASED, id="bought-as-leased"),
        pytest.param(NodeKindMode.AUTO, NodeEvidence(label="counted"), COUNTED, id="kubelet-silent-label-stays"),
        pytest.param(
            NodeKindMode.AUTO, NodeEvidence(advertised=True), COUNTED, id="kubelet-silent-somebody-advertises"
        ),
        pytest.param(NodeKindMode.AUTO, NodeEvidence(plugin=False), None, id="one-empty-answer"),
        pytest.param(NodeKindMode.AUTO, NodeEvidence(), None, id="nothing-known-yet"),
        pytest.param(
            NodeKindMode.AUTO, NodeEvidence(plugin=False, label="counted"), COUNTED, id="one-empty-answer-of-many"
        ),
    ],
)
def test_the_first_look(mode: NodeKindMode, seen: NodeEvidence, kind: GpuNodeKind | None) -> None:
    assert choose_kind(mode, KindChoice(), seen, now=Steady(0.0)).kind is kind


@pytest.mark.parametrize(
    ("looks", "seconds", "kind"),
    [
        pytest.param([NOTHING], NEVER_CAME_AFTER - 40, None, id="a-new-node-waits"),
        pytest.param([NOTHING], NEVER_CAME_AFTER + 30, LEASED, id="no-plugin-ever-came"),
        pytest.param([NodeEvidence(plugin=True), NOTHING], GONE_AFTER - 60, COUNTED, id="the-plugin-restarts"),
        pytest.param([NodeEvidence(plugin=True), NOTHING], GONE_AFTER + 60, LEASED, id="the-plugin-is-gone"),
        pytest.param([NodeEvidence(dra=True), NOTHING], GONE_AFTER - 60, DRA, id="the-dra-driver-restarts"),
        pytest.param(
            [NodeEvidence(plugin=True), NodeEvidence(plugin=False, other_pods=1)],
            100 * GONE_AFTER,
            COUNTED,
            id="the-plugin-is-gone-and-its-pod-runs",
        ),
        pytest.param(
            [NodeEvidence(plugin=False, label="leased"), NodeEvidence(plugin=True, leased_pods=2)],
            GONE_AFTER,
            LEASED,
            id="a-plugin-came-and-our-pods-run",
        ),
        pytest.param(
            [NodeEvidence(plugin=False, label="leased"), NodeEvidence(plugin=True, other_pods=2)],
            0,
            COUNTED,
            id="a-plugin-came-and-pods-of-others-run",
        ),
        pytest.param(
            [NodeEvidence(plugin=False, label="leased"), NodeEvidence(dra=True, leased_pods=1)],
            GONE_AFTER,
            LEASED,
            id="a-dra-driver-came-and-our-pod-runs",
        ),
    ],
)
def test_later_looks(looks: list[NodeEvidence], seconds: float, kind: GpuNodeKind | None) -> None:
    assert after(seconds, *looks).kind is kind


def test_a_plugin_that_answers_once_in_a_while_is_there() -> None:
    looks = [NodeEvidence(plugin=number % 15 == 0) for number in range(100)]
    assert after(0.0, *looks).kind is COUNTED


def test_why_says_what_it_waits_for() -> None:
    waiting = after(60, NodeEvidence(plugin=True), NodeEvidence(plugin=False, other_pods=3))
    assert (waiting.settled, waiting.next) == (False, LEASED)
    assert waiting.why == "3 pods with GPUs of others run here; Leased when they are gone"
    assert after(0, NodeEvidence(dra=True)).why == "a DRA driver publishes the GPUs"


def _pods(*manifests: JsonObject) -> list[Pod]:
    return list(read(*manifests).state.pods.values())


def test_whose_pods_have_gpus() -> None:
    found = _pods(
        pod("ours", 2, on="a", held="0,1"),
        pod("plugged", 1, on="a"),
        pod("over", 1, on="a") | {"status": {"phase": "Succeeded"}},
        pod("plain", 0, on="a"),
        pod("by-claim", 0, on="a", resourceClaims=[{"name": "g", "resourceClaimName": "c"}]),
    )
    assert gpu_pods(found) == (1, 2)
    assert gpu_pods(found, [next(one.uid for one in found if one.key.name == "plain")]) == (1, 3)
