"""The four alerts, evaluated by promtool on series recorded from the controller in virtual time."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.control.karpenter.stage import Stage, play
from tests.promtool import EVERY, Recording, promtool, silent
from ullage.kube.client.transport import Request
from ullage.observe.karpenter_metrics import KARPENTER_METRICS
from ullage.sim.apiserver.network_faults import NetworkFault
from ullage.sim.karpenter.timings import KarpenterTimings
from ullage.testing.karpenter_cluster import G1, G8, SMART_NAMESPACE

pytestmark = pytest.mark.story

RULES = Path(__file__).parents[3] / "deploy" / "karpenter" / "alerts.yaml"
PENDING, FAILING, SLOW, CLEANUP = (
    "SmartPodsPendingTooLong",
    "NodeClaimFailureRate",
    "SlowScalingResponse",
    "SmartPodCleanupFailures",
)


def recorded(story: Callable[[Stage], Awaitable[None]], minutes: float, **play_with: Any) -> Recording:
    found = Recording()

    async def told(stage: Stage) -> None:
        telling = asyncio.ensure_future(story(stage))
        for _ in range(int(minutes * 60 / EVERY)):
            found.scrape(stage.registry)
            await asyncio.sleep(EVERY)
        await telling

    play(told, **play_with)
    return found


def alerts_at_end(recording: Recording, folder: Path) -> set[str]:
    """Alerts that fire at the last scrape: promtool is asked about each alone."""
    rules = yaml.safe_load(RULES.read_text())["spec"]
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
    names = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    return {name for name in names if not silent(name, recording, folder)}


async def _served(stage: Stage) -> None:
    for number in range(3):
        await stage.claim_pod(f"p{number}")
        await asyncio.sleep(60.0)


async def _one(stage: Stage) -> None:
    await stage.claim_pod("a")


async def _cannot_be_deleted(stage: Stage) -> None:
    def deletes(request: Request) -> NetworkFault | None:
        smart = request.method == "DELETE" and f"/{SMART_NAMESPACE}/pods/" in request.path
        return NetworkFault.UNAVAILABLE if smart else None

    stage.network.script(deletes)
    await stage.claim_pod("a")


NONE_LEFT = tuple(replace(one, available=False) for one in (G1, G8))
SLOW_BOOT = KarpenterTimings(registration=840.0)


@pytest.mark.parametrize(
    ("story", "minutes", "play_with", "firing"),
    [
        pytest.param(_served, 20, {}, set(), id="nodes-come-in-seconds"),
        pytest.param(_one, 14, {"timings": SLOW_BOOT}, {PENDING}, id="an-instance-that-boots-14-min"),
        pytest.param(_one, 20, {"timings": SLOW_BOOT}, {SLOW}, id="it-came-after-14-min"),
        pytest.param(_one, 16, {"types": NONE_LEFT}, {FAILING}, id="a-cloud-without-capacity"),
        pytest.param(_cannot_be_deleted, 30, {}, {CLEANUP}, id="an-api-server-that-deletes-nothing"),
    ],
)
def test_each_alert_fires_for_its_cause_alone(
    story: Callable[[Stage], Awaitable[None]],
    minutes: float,
    play_with: dict[str, Any],
    firing: set[str],
    tmp_path: Path,
) -> None:
    promtool()
    assert alerts_at_end(recorded(story, minutes, **play_with), tmp_path) == firing


def test_promtool_accepts_the_rules_and_every_metric_they_name_exists(tmp_path: Path) -> None:
    spec = yaml.safe_load(RULES.read_text())["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(spec))
    done = subprocess.run(
        [promtool(), "check", "rules", "rules.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 rules found" in done.stdout
    exposed = {one.name for one in KARPENTER_METRICS}
    for rule in spec["groups"][0]["rules"]:
        assert any(name in rule["expr"] for name in exposed), rule["alert"]
