"""Lifecycle tables: only moves of ours are refused, and every state can be reached and left."""

from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from ullage.model.karpenter_failure import FailureReason
from ullage.model.lifecycle import IllegalTransition, Lifecycle
from ullage.model.lifecycles import LIFECYCLES, SMART_POD, lifecycles_page
from ullage.model.lifecycles import SmartPodState as S

DOCS = Path(__file__).parents[2] / "docs" / "karpenter.md"


def test_a_move_of_ours_must_be_in_the_table() -> None:
    assert SMART_POD.advance("x", S.PENDING, S.NOMINATED) is S.NOMINATED
    assert SMART_POD.advance("x", S.PENDING, S.PENDING) is S.PENDING
    with pytest.raises(IllegalTransition, match="smart pod x: HandedOver -> Pending is not in the table"):
        SMART_POD.advance("x", S.HANDED_OVER, S.PENDING)


def test_what_is_found_on_objects_is_believed() -> None:
    assert SMART_POD.observe(None, S.RESERVED) == (S.RESERVED, "")
    assert SMART_POD.observe(S.HANDED_OVER, S.PENDING) == (S.PENDING, "")
    assert SMART_POD.is_jump(S.HANDED_OVER, S.PENDING)
    assert not SMART_POD.is_jump(S.PENDING, S.PENDING)
    assert SMART_POD.observe(S.PENDING, S.NOMINATED)[1] == SMART_POD.edges[S.PENDING, S.NOMINATED]


def test_every_state_is_reached_from_the_first() -> None:
    reached, edge = set[S](), {S.REQUESTED}
    while edge:
        reached |= edge
        edge = {end for state in edge for end in SMART_POD.leads_to(state)} - reached
    assert reached == set(S)


def test_every_edge_has_a_sentence() -> None:
    assert all(len(sentence.split()) > 3 for sentence in SMART_POD.edges.values())


def test_the_page_names_every_state_and_every_reason() -> None:
    text = DOCS.read_text()
    missing = [word for word in (*S, *FailureReason) if word.value not in text]
    assert not missing


def test_states_come_in_the_order_of_the_table() -> None:
    table = Lifecycle[S]("x", {(S.PENDING, S.NOMINATED): "a", (S.NOMINATED, S.LAUNCHED): "b"})
    assert table.states == (S.PENDING, S.NOMINATED, S.LAUNCHED)


@pytest.mark.parametrize("table", [pytest.param(one, id=one.name) for one in LIFECYCLES])
def test_every_state_of_a_table_is_reached_from_its_first(table: Lifecycle[Any]) -> None:
    kind: type[Enum] = type(table.states[0])
    reached, edge = {table.states[0]}, {table.states[0]}
    while edge := {end for start in edge for end in table.leads_to(start)} - reached:
        reached |= edge
    assert reached == set(kind)


@pytest.mark.parametrize("table", [pytest.param(one, id=one.name) for one in LIFECYCLES])
def test_every_edge_has_a_sentence_on_the_page(table: Lifecycle[Any]) -> None:
    page = lifecycles_page()
    for (start, end), sentence in table.edges.items():
        assert f"| {start.value} | {end.value} | {sentence} |" in page
