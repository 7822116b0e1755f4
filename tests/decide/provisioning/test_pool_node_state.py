"""Lifecycle of a pool's node: its state by what was observed, and steps that the table does not have."""

from typing import Any

import pytest

from tests.decide.provisioning.pools import a_node
from ullage.decide.provisioning.pool_node_state import check_steps, pool_node_state
from ullage.model.intents import PoolIntent, TaintForDeletion, TerminateInstance, Untaint
from ullage.model.lifecycle import IllegalTransition
from ullage.model.lifecycles import PoolNodeState
from ullage.model.units import Instant

S = PoolNodeState
SOON = Instant(600.0)

STATES: dict[str, tuple[dict[str, Any], PoolNodeState]] = {
    "asked for": ({"registered": False, "instance": ""}, S.REQUESTED),
    "made by the cloud": ({"registered": False, "upcoming": True}, S.LAUNCHED),
    "a Node without its GPUs": ({"upcoming": True}, S.REGISTERED),
    "ready": ({}, S.READY),
    "to be deleted": ({"delete_after": SOON}, S.MARKED_FOR_DELETION),
    "pods are moved away": ({"draining": True}, S.DRAINING),
    "given up": ({"registered": False, "failed_to_register": True}, S.FAILED_TO_REGISTER),
}


@pytest.mark.parametrize(("facts", "state"), STATES.values(), ids=STATES)
def test_state_by_what_was_observed(facts: dict[str, Any], state: PoolNodeState) -> None:
    assert pool_node_state(a_node("n", **facts)) is state


def taint() -> PoolIntent:
    return TaintForDeletion(node="n", delete_after=SOON, why="")


def untaint() -> PoolIntent:
    return Untaint(node="n", why="")


def terminate(node: str = "n") -> PoolIntent:
    return TerminateInstance(node=node, instance="i-n", why="")


@pytest.mark.parametrize(
    ("step", "allowed"),
    [
        pytest.param(taint(), {"ready", "a Node without its GPUs", "to be deleted"}, id="taint"),
        pytest.param(
            untaint(), {"ready", "a Node without its GPUs", "to be deleted", "pods are moved away"}, id="untaint"
        ),
        pytest.param(terminate(), {"to be deleted", "pods are moved away", "given up"}, id="terminate"),
    ],
)
def test_steps_that_the_table_does_not_have_are_refused(step: PoolIntent, allowed: set[str]) -> None:
    def refused(facts: dict[str, Any]) -> bool:
        try:
            check_steps([step], [a_node("n", **facts)])
        except IllegalTransition:
            return True
        return False

    assert {name for name, (facts, _) in STATES.items() if not refused(facts)} == allowed


def test_an_instance_without_a_node_is_found_by_its_id() -> None:
    check_steps([terminate(node="")], [a_node("i-n", instance="i-n", registered=False, failed_to_register=True)])
    with pytest.raises(IllegalTransition, match="node of a pool i-n: Launched -> Deleting is not in the table"):
        check_steps([terminate(node="")], [a_node("i-n", instance="i-n", registered=False)])
