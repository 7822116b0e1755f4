"""Callers by their tokens: what is asked of the API server, how long its answer is believed, and who is an agent."""

import asyncio
import base64
import json
from typing import Any

import pytest

from ullage.control.vms.callers import (
    BAD_TOKEN,
    NO_NODE,
    NO_TOKEN,
    NOT_AN_AGENT,
    NOT_CHECKED,
    CallerRefused,
    TokenCallers,
)
from ullage.errors import Unreachable
from ullage.model.units import Steady

AGENT = "system:serviceaccount:ullage-system:ullage-vm-agent"


class Hands:
    """A clock whose hands are set by the test. The wall clock may jump; the steady one does not."""

    def __init__(self) -> None:
        self.wall = self.steadily = 1000.0

    def now(self) -> float:
        return self.wall

    def steady(self) -> Steady:
        return Steady(self.steadily)

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.steadily += seconds


class Reviewing:
    """The API server's side of a TokenReview."""

    def __init__(self, user: str = AGENT, node: str = "n", *, valid: bool = True) -> None:
        extra = {"authentication.kubernetes.io/node-name": [node]} if node else {}
        self.status: dict[str, Any] = {"authenticated": valid, "user": {"username": user, "extra": extra}}
        self.asked = 0
        self.down = False

    async def create(self, _resource: Any, _body: Any) -> dict[str, Any]:
        self.asked += 1
        if self.down:
            raise Unreachable("no answer")
        return {"status": self.status}


def a_token(exp: float | None = None) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({} if exp is None else {"exp": exp}).encode()).decode().rstrip("=")
    return f"Bearer head.{claims}.proof"


def asking(reviews: Reviewing, clock: Hands) -> TokenCallers:
    api: Any = reviews
    hands: Any = clock
    return TokenCallers(api, hands, agent_account="ullage-system/ullage-vm-agent", believed=60.0)


def node_of(callers: TokenCallers, header: str | None) -> str | CallerRefused:
    return asyncio.run(callers.agent_node(header))


@pytest.mark.parametrize(
    ("header", "reviews", "expected", "asked"),
    [
        pytest.param(a_token(), Reviewing(), "n", 1, id="an-agent"),
        pytest.param("bearer x", Reviewing(), "n", 1, id="the-scheme-in-small-letters"),
        pytest.param(None, Reviewing(), NO_TOKEN, 0, id="no-header"),
        pytest.param("Basic eDp5", Reviewing(), NO_TOKEN, 0, id="another-scheme"),
        pytest.param("Bearer ", Reviewing(), NO_TOKEN, 0, id="an-empty-token"),
        pytest.param("Bearer " + "x" * 20_000, Reviewing(), NO_TOKEN, 0, id="an-endless-token"),
        pytest.param(a_token(), Reviewing(valid=False), BAD_TOKEN, 1, id="not-valid"),
        pytest.param(a_token(), Reviewing(user="system:node:n"), NOT_AN_AGENT, 1, id="another-user"),
        pytest.param(a_token(), Reviewing(node=""), NO_NODE, 1, id="bound-to-no-node"),
    ],
)
def test_who_is_an_agent(header: str | None, reviews: Reviewing, expected: str | CallerRefused, asked: int) -> None:
    callers = asking(reviews, Hands())
    assert node_of(callers, header) == expected
    assert node_of(callers, header) == expected
    assert reviews.asked == asked


@pytest.mark.parametrize(
    ("exp", "after", "asked"),
    [
        pytest.param(None, 44.0, 1, id="believed"),
        pytest.param(None, 60.0, 2, id="no-longer-believed"),
        pytest.param(1010.0, 7.0, 1, id="until-it-ends"),
        pytest.param(1010.0, 10.0, 2, id="it-has-ended"),
        pytest.param(990.0, 0.0, 2, id="ended-by-our-clock-asked-each-time"),
    ],
)
def test_an_answer_is_believed_for_a_while(exp: float | None, after: float, asked: int) -> None:
    reviews, clock = Reviewing(), Hands()
    callers = asking(reviews, clock)
    node_of(callers, a_token(exp))
    clock.pass_by(after)
    assert node_of(callers, a_token(exp)) == "n"
    assert reviews.asked == asked


def test_a_wall_clock_that_jumps_back_makes_no_answer_last() -> None:
    reviews, clock = Reviewing(), Hands()
    callers = asking(reviews, clock)
    node_of(callers, a_token())
    clock.pass_by(61.0)
    clock.wall -= 3600.0
    reviews.status["authenticated"] = False
    assert node_of(callers, a_token()) == BAD_TOKEN


def test_without_the_api_server_nobody_new_is_answered_and_nothing_is_remembered() -> None:
    reviews, clock = Reviewing(), Hands()
    callers = asking(reviews, clock)
    reviews.down = True
    assert node_of(callers, a_token()) == NOT_CHECKED
    reviews.down = False
    assert node_of(callers, a_token()) == "n"
    reviews.down = True
    assert node_of(callers, a_token()) == "n", "believed from before"


def test_requests_that_come_together_ask_about_their_token_once() -> None:
    reviews = Reviewing()
    callers = asking(reviews, Hands())

    async def together() -> list[str | CallerRefused]:
        return await asyncio.gather(*(callers.agent_node(a_token()) for _ in range(50)))

    assert asyncio.run(together()) == ["n"] * 50
    assert reviews.asked == 1


@pytest.mark.parametrize(
    ("withdrawn", "later"), [pytest.param(False, "n", id="still-valid"), pytest.param(True, BAD_TOKEN, id="withdrawn")]
)
def test_an_answer_is_renewed_before_it_ends_and_no_request_waits_for_it(
    withdrawn: bool, later: str | CallerRefused
) -> None:
    reviews, clock = Reviewing(), Hands()
    callers = asking(reviews, clock)

    async def story() -> tuple[str | CallerRefused, str | CallerRefused]:
        await callers.agent_node(a_token())
        clock.pass_by(50.0)
        reviews.status["authenticated"] = not withdrawn
        during = await callers.agent_node(a_token())
        await asyncio.sleep(0)
        assert reviews.asked == 2, "while the first answer is still believed"
        clock.pass_by(11.0)
        return during, await callers.agent_node(a_token())

    assert asyncio.run(story()) == ("n", later)


def test_a_request_that_is_given_up_does_not_end_the_review_others_wait_for() -> None:
    reviews = Reviewing()
    callers = asking(reviews, Hands())

    async def story() -> str | CallerRefused:
        given_up = asyncio.create_task(callers.agent_node(a_token()))
        other = asyncio.create_task(callers.agent_node(a_token()))
        await asyncio.sleep(0)
        given_up.cancel()
        return await other

    assert asyncio.run(story()) == "n"
