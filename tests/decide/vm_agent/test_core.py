"""The agent's state machine: stories of one VM in compute units of a core with 4Gi, second by second."""

from dataclasses import dataclass, field

import pytest

from tests.vms import GI, size
from ullage.decide.vm_agent.core import AgentActions, AskScheduler, ResizeVm, VmAgentCore
from ullage.decide.vm_agent.goal import VmBounds, VmMetrics
from ullage.model.units import Instant
from ullage.model.vm import VmAmounts

UNIT = size(1, 4)


def units(count: int) -> VmAmounts:
    return UNIT.times(count)


@dataclass
class Story:
    """One agent at work. Time is told; outcomes are said by the story."""

    using: int = 1
    maximum: int = 8
    now: float = 1000.0
    core: VmAgentCore = field(init=False)

    def __post_init__(self) -> None:
        self.core = VmAgentCore(self.bounds(self.using), UNIT)
        self.load(self.using)

    def bounds(self, using: int, minimum: int = 1) -> VmBounds:
        return VmBounds(using=units(using), minimum=units(minimum), maximum=units(self.maximum))

    def load(self, count: int) -> None:
        """Metrics whose goal is so many units."""
        seen = VmMetrics(load1=0.9 * count, load5=0.9 * count, memory_usage=GI)
        self.core.observe_metrics(seen, now=Instant(self.now))

    def next(self) -> AgentActions:
        return self.core.next_actions(now=Instant(self.now))

    def asks(self, count: int) -> None:
        """The only action is a request for so many units; it is sent."""
        actions = self.next()
        assert actions.resize is None
        assert actions.ask is not None
        assert actions.ask.wanted == units(count)
        self.core.ask_begun(actions.ask, now=Instant(self.now))

    def answered(self, count: int) -> None:
        assert self.core.ask_answered(units(count), now=Instant(self.now))

    def resizes(self, count: int) -> None:
        """The only action is to make the VM so large; it is started."""
        actions = self.next()
        assert actions.ask is None
        assert actions.resize is not None
        assert actions.resize.target == units(count)
        self.core.resize_begun(actions.resize)

    def rests(self) -> None:
        actions = self.next()
        assert (actions.ask, actions.resize) == (None, None)

    def settled(self) -> "Story":
        """The first request of an agent has been answered."""
        self.asks(self.using)
        self.answered(self.using)
        self.rests()
        return self


def test_the_first_thing_an_agent_does_is_to_report() -> None:
    story = Story(using=2)
    story.asks(2)
    story.rests()
    story.answered(2)
    story.rests()


def test_up_asks_first_and_down_shrinks_first() -> None:
    story = Story().settled()
    story.load(2)
    story.asks(2)
    story.rests()
    story.answered(2)
    story.resizes(2)
    story.rests()
    story.core.resize_done()
    story.rests()
    story.load(1)
    story.resizes(1)
    story.rests()
    story.core.resize_done()
    story.asks(1)
    story.answered(1)
    story.rests()


def test_a_settled_agent_reports_every_fifteen_seconds() -> None:
    story = Story().settled()
    sent = []
    for second in range(1, 61):
        story.now = 1000.0 + second
        story.load(1)
        if story.next().ask is not None:
            sent.append(second)
            story.asks(1)
            story.answered(1)
    assert sent == [15, 30, 45, 60]


def test_an_agent_says_when_it_wants_to_be_asked_again() -> None:
    story = Story().settled()
    assert story.next().wait_until == 1015.0
    story.core.ask_begun(AskScheduler(units(1), units(1), ""), now=Instant(1001.0))
    assert story.next().wait_until is None, "the answer wakes it"
    story.core.ask_failed(now=Instant(1003.0))
    story.now = 1004.0
    assert story.next().wait_until == 1006.0


def test_a_partial_permit_is_used_and_the_rest_asked_for_again_after_two_seconds() -> None:
    story = Story().settled()
    story.load(4)
    story.asks(4)
    story.answered(3)
    story.resizes(3)
    story.core.resize_done()
    assert story.next().wait_until == 1002.0
    story.now = 1001.9
    story.rests()
    story.now = 1002.0
    story.asks(4)
    story.answered(4)
    story.resizes(4)


def test_a_failed_request_is_repeated_after_three_seconds() -> None:
    story = Story().settled()
    story.load(2)
    story.asks(2)
    story.core.ask_failed(now=Instant(story.now))
    story.now = 1002.9
    story.rests()
    story.now = 1003.0
    story.asks(2)


def test_a_failed_report_is_repeated_too() -> None:
    story = Story()
    story.asks(1)
    story.core.ask_failed(now=Instant(story.now))
    story.now = 1003.0
    story.asks(1)


def test_a_failed_resize_is_repeated_after_five_seconds() -> None:
    story = Story().settled()
    story.load(2)
    story.asks(2)
    story.answered(2)
    story.resizes(2)
    story.core.resize_failed(now=Instant(story.now))
    story.core.observe_vm(story.bounds(1))
    story.now = 1004.9
    story.rests()
    story.now = 1005.0
    story.load(2)
    story.resizes(2)


def test_a_resize_of_unknown_outcome_counts_as_done_until_the_vm_was_seen() -> None:
    story = Story().settled()
    story.load(4)
    story.asks(4)
    story.answered(4)
    story.resizes(4)
    story.core.resize_failed(now=Instant(story.now))
    story.load(1)
    story.rests()
    story.now = 1015.0
    story.load(1)
    actions = story.next()
    assert actions.ask is not None
    assert actions.ask.wanted == units(4), "the VM may have four units"


def test_load_that_returns_while_the_vm_shrinks() -> None:
    story = Story(using=2).settled()
    story.load(1)
    story.resizes(1)
    story.load(2)
    story.rests()
    story.core.resize_done()
    story.resizes(2)
    story.core.resize_done()
    story.rests()


def test_load_that_returns_while_the_scheduler_is_told_of_less() -> None:
    story = Story(using=2).settled()
    story.load(1)
    story.resizes(1)
    story.core.resize_done()
    story.asks(1)
    story.load(2)
    story.rests()
    story.answered(1)
    story.asks(2)
    story.answered(2)
    story.resizes(2)


def test_the_scheduler_is_told_what_is_in_use_while_a_vm_shrinks() -> None:
    story = Story(using=3).settled()
    story.load(1)
    story.resizes(1)
    story.now = 1015.0
    story.load(1)
    story.asks(3)


def test_what_is_given_up_is_gone_although_the_answer_is_lost() -> None:
    story = Story(using=3).settled()
    story.load(1)
    story.resizes(1)
    story.core.resize_done()
    story.asks(1)
    story.core.ask_failed(now=Instant(story.now))
    assert story.core.permit == units(1)
    story.load(3)
    story.rests()
    story.now = 1003.0
    story.asks(3)


def test_bounds_that_shrink_and_grow() -> None:
    story = Story(using=4).settled()
    story.maximum = 2
    story.core.observe_vm(story.bounds(4))
    story.resizes(2)
    story.core.resize_done()
    story.asks(2)
    story.answered(2)
    story.maximum = 8
    story.core.observe_vm(story.bounds(2, minimum=6))
    story.asks(6)


def test_without_a_scheduler_a_vm_shrinks_freely_and_grows_to_its_last_permit() -> None:
    story = Story(using=4).settled()
    story.now = 1015.0
    story.load(2)
    actions = story.next()
    assert actions.ask is not None
    story.core.ask_begun(actions.ask, now=Instant(story.now))
    story.core.ask_failed(now=Instant(story.now))
    story.resizes(2)
    story.core.resize_done()
    story.load(8)
    story.resizes(4)


def test_before_the_first_permit_a_vm_may_only_shrink() -> None:
    story = Story(using=2)
    story.load(4)
    story.asks(4)
    story.core.ask_failed(now=Instant(story.now))
    story.rests()
    story.load(1)
    story.resizes(1)


@pytest.mark.parametrize(
    "granted",
    [
        pytest.param(units(1), id="below-what-is-in-use"),
        pytest.param(units(5), id="more-than-asked"),
        pytest.param(VmAmounts(0, 8 * GI), id="nothing"),
        pytest.param(VmAmounts(2000, 13 * GI), id="more-of-one-resource"),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_failure(granted: VmAmounts) -> None:
    story = Story(using=2).settled()
    story.load(3)
    story.asks(3)
    assert not story.core.ask_answered(granted, now=Instant(story.now))
    assert story.core.permit == units(2)
    story.rests()
    story.now = 1003.0
    story.asks(3)


def test_metrics_that_are_too_old_shrink_nothing() -> None:
    story = Story(using=4).settled()
    story.load(1)
    story.now = 1020.0
    actions = story.next()
    assert actions.resize is None
    assert actions.ask is not None
    assert actions.ask.wanted == units(4)


def test_a_migrating_vm_does_not_change_and_goes_on_when_the_migration_failed() -> None:
    story = Story(using=2).settled()
    story.core.observe_vm(story.bounds(2), migrating=True)
    story.load(4)
    story.rests()
    story.now = 1015.0
    story.asks(2)
    story.answered(2)
    story.core.observe_vm(story.bounds(2))
    story.load(4)
    story.asks(4)


def test_an_agent_told_to_migrate_waits_until_an_answer_says_otherwise() -> None:
    story = Story(using=2).settled()
    story.load(4)
    story.now = 1001.0
    story.asks(4)
    assert story.core.ask_answered(units(4), migrate=True, now=Instant(story.now))
    story.rests()
    story.now = 1016.0
    story.load(4)
    story.asks(4)
    story.answered(4)
    story.resizes(4)


def test_actions_say_why() -> None:
    story = Story().settled()
    story.load(2)
    ask = story.next().ask
    assert ask is not None
    assert ask.why == "the VM needs more"
    story.asks(2)
    story.answered(2)
    assert story.next().resize == ResizeVm(units(2), "the scheduler permits more")
