"""When a refusal is for good: the claim is wrong, or no node there is could ever take the pod."""

import pytest

from tests.decide.scenes import Scene, claim, leased, node, pod
from ullage.decide.placement.prefilter import permanent_reason, with_claim
from ullage.kube.client.resource import JsonObject
from ullage.model.pod import Pod
from ullage.model.verdict import Reason

TAINT = {"key": "kept", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("nodes", "permanent"),
    [
        pytest.param([], False, id="no-node-is-known"),
        pytest.param(leased("a"), True, id="no-node-is-large-enough"),
        pytest.param([*leased("a"), node("big", 16)], False, id="one-is"),
        pytest.param([*leased("a"), node("big", 16, unschedulable=True)], False, id="one-would-be-if-uncordoned"),
        pytest.param([*leased("a"), node("small", taints=[TAINT])], True, id="a-taint-hides-another-small-one"),
    ],
)
def test_a_claim_above_every_node(nodes: list[JsonObject], permanent: bool) -> None:
    scene = Scene(nodes, claim("c", 12), pod("p", claim="c"))
    asking = with_claim(scene.pod("p"), scene.snapshot)
    assert isinstance(asking, Pod)
    reasons = {Reason.NODE_TOO_SMALL: 1, Reason.TAINT_NOT_TOLERATED: 1}
    assert permanent_reason(asking, reasons, scene.snapshot) is (Reason.NODE_TOO_SMALL if permanent else None)


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.FITS])
def test_only_what_is_wrong_with_the_claim_itself_is_for_good(reason: Reason) -> None:
    scene = Scene(leased("a"), claim("c"), pod("p", claim="c"))
    expected = reason if reason is Reason.CLAIM_INVALID else None
    assert permanent_reason(scene.pod("p"), (reason,), scene.snapshot) is expected
