"""Intents and outcomes stand in one place each: frozen, with a why, and every outcome names what was asked."""

from dataclasses import fields, is_dataclass
from typing import Any, get_args

import pytest

from ullage.model import intents, outcomes

INTENTS: tuple[type[Any], ...] = get_args(intents.Intent)
OUTCOMES: tuple[type[Any], ...] = get_args(outcomes.Outcome)
WITHOUT_WHY = {intents.CreateClaimFromTemplate}
"""The pod that names a template is the reason."""


def named(kinds: tuple[type[Any], ...]) -> list[Any]:
    return [pytest.param(kind, id=kind.__name__) for kind in kinds]


@pytest.mark.parametrize("kind", named((*INTENTS, *OUTCOMES)))
def test_it_is_frozen_and_stands_here(kind: type[Any]) -> None:
    assert is_dataclass(kind)
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert kind.__module__.rpartition(".")[0] in (intents.__name__, outcomes.__name__)


@pytest.mark.parametrize("kind", named(tuple(kind for kind in INTENTS if kind not in WITHOUT_WHY)))
def test_an_intent_says_why(kind: type[Any]) -> None:
    assert "why" in {field.name for field in fields(kind)}


@pytest.mark.parametrize("kind", named(OUTCOMES))
def test_an_outcome_names_its_intent(kind: type[Any]) -> None:
    assert {"intent", "action", "status"} & {field.name for field in fields(kind)}
