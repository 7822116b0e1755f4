"""Grids of settings: every combination, and what is wrong with one named."""

import pytest

from ullage.config.settings import Settings
from ullage.errors import UserError
from ullage.sim.experiment.grid import grid, read_axis

MANY = ",".join(str(number) for number in range(1, 102))


def test_every_combination_in_order() -> None:
    axes = [read_axis("scheduling.policy=packing,spread"), read_axis("seed=1,2")]
    cells = grid(Settings(), axes, seed=9)
    assert [(cell.label, cell.settings.scheduling.policy, cell.seed) for cell in cells] == [
        ("scheduling.policy=packing seed=1", "packing", 1),
        ("scheduling.policy=packing seed=2", "packing", 2),
        ("scheduling.policy=spread seed=1", "spread", 1),
        ("scheduling.policy=spread seed=2", "spread", 2),
    ]
    assert [cell.seed for cell in grid(Settings(), axes[:1], seed=9)] == [9, 9]


def test_brackets_keep_commas_together() -> None:
    axis = read_axis("simulation.loops=[scheduler],[scheduler, provisioning]")
    assert axis.values == ("[scheduler]", "[scheduler, provisioning]")
    assert [cell.settings.simulation.loops for cell in grid(Settings(), [axis], 0)] == [
        ("scheduler",),
        ("scheduler", "provisioning"),
    ]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        pytest.param(["scheduling.policy"], "is not KEY=VALUE", id="no-values"),
        pytest.param(["scheduling.policy=a,,b"], "is not KEY=VALUE", id="an-empty-value"),
        pytest.param(["seed=1,1"], "has a value twice", id="a-value-twice"),
        pytest.param(["seed=1", "seed=2"], "a key is given twice", id="a-key-twice"),
        pytest.param(["seed=one"], "seed: 'one' is not a whole number", id="no-seed"),
        pytest.param(["scheduling.polcy=x"], "--sweep: scheduling.polcy: there is no such setting", id="no-setting"),
        pytest.param(["scheduling.policy=packng"], "--sweep: scheduling.policy: is 'packng'", id="no-value-of-it"),
        pytest.param([f"seed={MANY}", f"simulation.load={MANY}"], "more than 10000 combinations", id="too-many"),
    ],
)
def test_what_is_wrong_is_named(texts: list[str], said: str) -> None:
    with pytest.raises(UserError) as raised:
        grid(Settings(), [read_axis(text) for text in texts], 0)
    assert said in str(raised.value)
