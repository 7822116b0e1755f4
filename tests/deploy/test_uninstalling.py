"""What an uninstallation takes off nodes and NodePools that are Karpenter's."""

import msgspec
import pytest

from ullage.deploy.uninstalling import cleaned
from ullage.kube.objects.node import KubeNode
from ullage.kube.write.node_pool import conditions_patch, unprotected
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import DO_NOT_DISRUPT, HANDOVER, Handover, WaitingPod
from ullage.model.units import Instant
from ullage.testing.builders import a_node, a_taint


@pytest.mark.parametrize("was_kept", [False, True], ids=["ours", "the-owners"])
def test_a_node_in_the_middle_of_a_hand_over_is_opened(was_kept: bool) -> None:
    handover = Handover(
        request="r", pods=(WaitingPod(ObjectKey("team", "p"), "u"),), since=Instant(0.0), was_kept=was_kept
    )
    body = a_node("n", taints=[a_taint(HANDOVER, "r"), a_taint("nvidia.com/gpu", "")])
    note = msgspec.json.encode(handover).decode()
    body["metadata"]["annotations"] = {HANDOVER: note, DO_NOT_DISRUPT: "true", "theirs": "x"}
    left = cleaned(msgspec.convert(body, KubeNode))
    assert [one.key for one in left.spec.taints] == ["nvidia.com/gpu"]
    assert left.metadata.annotations == {"theirs": "x"} | ({DO_NOT_DISRUPT: "true"} if was_kept else {})


def test_our_condition_comes_and_goes_and_karpenters_stay() -> None:
    ready = {"type": "Ready", "status": "True"}
    pool = {"metadata": {"name": "p", "resourceVersion": "7"}, "status": {"conditions": [ready]}}
    ours = unprotected("open", 3, Instant(0.0))
    assert conditions_patch(pool, ()) is None
    put = conditions_patch(pool, [ours])
    assert put is not None
    assert put.body == {"metadata": {"resourceVersion": "7"}, "status": {"conditions": [ready, ours]}}
    told = pool | {"status": {"conditions": [ready, ours]}}
    assert conditions_patch(told, [ours]) is None
    gone = conditions_patch(told, ())
    assert gone is not None
    assert gone.body["status"]["conditions"] == [ready]
