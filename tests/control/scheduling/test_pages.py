"""What the scheduler shows of itself: gauges by hand, and the pages of the program on the real control plane."""

import asyncio
import re

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.control.scheduling.fleet import add_nodes, submit
from tests.control.scheduling.programs import ALONE, Programs
from tests.control.scheduling.reading import unplaced, until
from tests.decide.preemption.fleets import H100, NOW, a_pod, leased
from tests.decide.scheduling.test_core import Sitting, wanting
from ullage.cli.main import run
from ullage.cli.scheduler import election_of
from ullage.clock import WallClock
from ullage.control.scheduling.gauges import gpu_states, show
from ullage.kube.client.api import KubeApi
from ullage.observe.scheduler_metrics import GpuMetricState, SchedulerMetrics
from ullage.testing.controlplane import ControlPlane


def test_gpus_are_counted_by_state_and_model() -> None:
    whole, part = a_pod("whole", on="a", gpus=[0]), a_pod("part", on="a", gpus=[1], gpu_share=300)
    sitting = Sitting(leased("a", 4), whole, part)
    snapshot = sitting.core.snapshot
    fresh = {(GpuMetricState.USED, H100): 1, (GpuMetricState.PARTLY_USED, H100): 1, (GpuMetricState.FREE, H100): 2}
    assert gpu_states(snapshot, now=NOW) == fresh
    assert gpu_states(snapshot, now=NOW + 3600.0) == {(GpuMetricState.STALE, H100): 4}


def test_who_waits_is_shown() -> None:
    sitting = Sitting(leased("a", 1), wanting("p"), wanting("q"))
    sitting.decide()
    registry = CollectorRegistry()
    show(SchedulerMetrics(registry), sitting.core, now=NOW)
    page = generate_latest(registry).decode()
    assert 'ullage_scheduler_queue_pods{place="asleep"} 1.0' in page
    assert f'ullage_gpus{{model="{H100}",state="used"}} 1.0' in page


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(("--profile", "a=nonsense"), "--profile: a: is 'nonsense'; allowed: fragmentation,", id="policy"),
        pytest.param(("--profile", "=packing"), "names no scheduler", id="nameless"),
        pytest.param(("--profile", "a", "--profile", "a=spread"), "a is given twice", id="twice"),
        pytest.param(("--listen", "everywhere"), "'everywhere' is not HOST:PORT", id="no-port"),
        pytest.param(("--listen", "127.0.0.1:99999"), "is not HOST:PORT", id="port-too-high"),
        pytest.param(("--kubeconfig", "/nowhere/at-all"), "/nowhere/at-all", id="no-kubeconfig"),
    ],
)
def test_a_wrong_option_is_named(options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scheduler", *options]) == 1
    words = capsys.readouterr().err
    assert said in words
    assert "Traceback" not in words


@pytest.mark.parametrize(
    ("profiles", "lease"),
    [
        pytest.param({"gpu-scheduler": "packing"}, "ullage-scheduler", id="the-usual-one"),
        pytest.param({"gpu-scheduler": "spread", "batch": "packing"}, "ullage-scheduler", id="with-another"),
        pytest.param({"batch": "packing"}, "ullage-scheduler-batch", id="another-deployment"),
        pytest.param({"a_b": "packing"}, "ullage-scheduler-648fa9b31bc7ff7e", id="no-name-of-a-lease"),
    ],
)
def test_deployments_with_other_profiles_elect_leaders_of_their_own(profiles: dict[str, str], lease: str) -> None:
    assert election_of(profiles) == lease


async def scraped(session: aiohttp.ClientSession, at: str, *lines: str) -> str:
    """The metrics, once they have these lines: the API server has a write before the scheduler has its answer."""
    page = ""
    try:
        async with asyncio.timeout(30):
            while True:
                async with session.get(f"{at}/metrics") as metrics:
                    page = await metrics.text()
                if all(line in page for line in lines):
                    return page
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not there: {[line for line in lines if line not in page]} in\n{page}") from None


@pytest.mark.real
async def test_the_program_serves_its_metrics_and_is_ready(
    plane: ControlPlane, api: KubeApi, programs: Programs
) -> None:
    await add_nodes(api, ["node-000"], WallClock())
    programs.scheduler(plane.kubeconfig, ALONE, "--listen", "127.0.0.1:0", "--profile", "gpu-scheduler=packing")
    await submit(api, "default", "p", 2)
    await submit(api, "default", "too-large", 16)
    await until(api, lambda now: unplaced(now) == ["default/too-large"], 30, programs)
    address = re.search(r"metrics at (http://[^/]+)", programs.said())
    assert address is not None
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{address[1]}/readyz") as ready:
            assert (ready.status, await ready.text()) == (200, "ok\n")
        await scraped(
            session,
            address[1],
            "ullage_scheduler_queue_wait_seconds_count 1.0",
            'ullage_scheduler_attempts_total{reason="Fits",result="placed"} 1.0',
            'ullage_scheduler_attempts_total{reason="NodeTooSmall",result="refused"}',
            "ullage_gpu_leases 2.0",
        )
