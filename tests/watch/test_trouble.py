"""Trouble of informers: said when it begins and when it is over, and to whoever asks whether all is well."""

from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from ullage.errors import ApiError, Forbidden, Unreachable
from ullage.watch.informer import InformerHealth
from ullage.watch.trouble import TroubleLog, unheard

WELL = None


@pytest.mark.parametrize(
    ("what_happens", "said"),
    [
        pytest.param([Forbidden("no")] * 5, ["no"], id="a-role-is-missing"),
        pytest.param([Forbidden("no"), Forbidden("nor this")], ["no", "nor this"], id="then-another"),
        pytest.param([Unreachable("x")] * 2, [], id="a-hiccup"),
        pytest.param([Unreachable("x"), WELL] * 9, [], id="hiccups"),
        pytest.param([Unreachable(str(n)) for n in range(9)], ["2"], id="an-outage-in-many-words"),
        pytest.param([Forbidden("no"), WELL, Forbidden("no")], ["no", "again", "no"], id="it-comes-back"),
    ],
)
def test_each_trouble_is_a_line_when_it_begins_and_one_when_it_is_over(
    what_happens: list[ApiError | None], said: list[str]
) -> None:
    log = TroubleLog("nodes")
    with capture_logs() as lines:
        for one in what_happens:
            if one is None:
                log.well()
            else:
                log.failed(one)
    assert [one.get("error", "again") for one in lines] == said


@dataclass
class Listener:
    source: str
    synced: bool = True
    trouble: ApiError | None = None
    health: InformerHealth = field(init=False)

    def __post_init__(self) -> None:
        self.health = InformerHealth(self.synced, None, None, self.trouble)


@pytest.mark.parametrize(
    ("informers", "said"),
    [
        pytest.param([Listener("nodes"), Listener("pods")], "", id="all-is-well"),
        pytest.param([Listener("nodes"), Listener("pods", synced=False)], "pods has not been read yet", id="a-start"),
        pytest.param(
            [Listener("nodes", synced=False, trouble=Forbidden("no"))],
            "nodes cannot be read: no",
            id="a-role-is-missing",
        ),
        pytest.param(
            [Listener("nodes", synced=False, trouble=Unreachable("x"))], "nodes cannot be read: x", id="no-server-yet"
        ),
        pytest.param([Listener("nodes", trouble=Unreachable("x"))], "", id="no-answer-for-a-while"),
        pytest.param([Listener("nodes", trouble=Forbidden("no"))], "nodes cannot be read: no", id="a-role-was-taken"),
    ],
)
def test_readiness_says_what_is_missing(informers: list[Listener], said: str) -> None:
    assert unheard(informers) == said
