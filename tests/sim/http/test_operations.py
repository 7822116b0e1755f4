"""An operator's day with kubectl, on simulated actors and on the real controllers, command by command."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sim.http.cluster import in_a_thread
from tests.sim.http.conftest import real_kubectl
from tests.sim.http.kubectl import Kubectl
from tests.sim.http.operations import STORY, settled
from tests.sim.http.write_sequence import Heard, Step, compare, kubectl_for, tell
from ullage.sim.http import ServeOptions
from ullage.testing.controlplane import ControlPlane

pytestmark = [pytest.mark.real, pytest.mark.full]


@pytest.fixture(scope="module")
def acted(folder: Path) -> Iterator[Kubectl]:
    with in_a_thread(ServeOptions(kubeconfig=folder / "acted.kubeconfig"), actors=True) as served:
        yield kubectl_for(served.kubeconfig, folder / "acted")


@pytest.fixture(scope="module")
def wait(workload_control_plane: ControlPlane, acted: Kubectl, folder: Path) -> Heard:
    return tell(STORY, real_kubectl(workload_control_plane, folder), acted)


@pytest.mark.parametrize(
    ("number", "one"), [pytest.param(number, one, id=f"{number:03}-{one}") for number, one in enumerate(STORY)]
)
def test_operators_see_the_same(heard: Heard, number: int, one: Step) -> None:
    compare(one, heard.real[number], heard.simulated[number], settled)
