"""Stories of the certificate: short enough, all of one seed, and with something in each that can differ."""

import pytest

from ullage.testing.fidelity.simulated import play_simulated
from ullage.testing.fidelity.stories import KINDS, MOST_SECONDS, STORIES, short_story, story


@pytest.mark.parametrize("number", range(STORIES))
def test_a_story_is_short_and_the_same_each_time(number: int) -> None:
    one, again = story(number), story(number)
    assert one.seconds <= MOST_SECONDS
    assert (one.objects, one.steps) == (again.objects, again.steps)
    assert one.arrivals
    assert story((number + len(KINDS)) % STORIES).steps != one.steps


@pytest.mark.story
def test_the_simulator_plays_a_story_alike_each_time() -> None:
    one = play_simulated(short_story())
    assert one == play_simulated(short_story())
    assert all(pod.node for pod in one.pods.values())
    assert one.bought == {"pool": 1}
