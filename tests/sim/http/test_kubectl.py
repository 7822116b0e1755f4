"""kubectl says the same of the simulated server as of the real one, command by command."""

import pytest

from tests.sim.http.conversation import SAMPLE, WHOLE
from tests.sim.http.kubectl import Kubectl
from tests.sim.http.write_sequence import Heard, Step, Story, compare, tell

pytestmark = pytest.mark.real


def numbered(story: Story) -> list[object]:
    return [pytest.param(number, one, id=f"{number:03}-{one}") for number, one in enumerate(story)]


@pytest.fixture(scope="module")
def sample(on_the_real_one: Kubectl, on_the_simulated_one: Kubectl) -> Heard:
    return tell(SAMPLE, on_the_real_one, on_the_simulated_one)


@pytest.fixture(scope="module")
def whole(on_the_real_one: Kubectl, on_the_simulated_one: Kubectl) -> Heard:
    return tell(WHOLE, on_the_real_one, on_the_simulated_one)


@pytest.mark.parametrize(("number", "one"), numbered(SAMPLE))
def test_kubectl_says_the_same(sample: Heard, number: int, one: Step) -> None:
    compare(one, sample.real[number], sample.simulated[number])


@pytest.mark.full
@pytest.mark.parametrize(("number", "one"), numbered(WHOLE))
def test_kubectl_says_the_same_at_length(whole: Heard, number: int, one: Step) -> None:
    compare(one, whole.real[number], whole.simulated[number])
