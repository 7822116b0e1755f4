"""The alert on lasting pressure, evaluated by promtool on series recorded from the scheduler's core in virtual time."""

from pathlib import Path

import msgspec
import pytest
import yaml
from prometheus_client import CollectorRegistry

from tests.promtool import EVERY, Recording, promtool, silent
from tests.vms import a_ledger, a_migration, a_vm, a_vm_pod, key, size
from ullage.decide.vms.core import VmCore, VmRules
from ullage.model.intents import StartMigration
from ullage.model.units import Instant
from ullage.observe.vm_metrics import VmSystemMetrics

pytestmark = pytest.mark.story
RULES = Path(__file__).parents[3] / "deploy" / "helm" / "ullage" / "files" / "alerts.yaml"
ALERT = "UllageVmPressure"
MINUTES = 25
PRESSED, CALM = size(14, 56), size(4, 16)
"""Reserved by the VM on a node of 16 cores and 64Gi with a watermark of 12."""


def played(*, shrinks_after: int | None = None, other_node: bool = False) -> Recording:
    """One VM presses its node from the beginning. It shrinks after some minutes, or can leave for another node."""
    core = VmCore(a_ledger(a_vm("v", CALM, PRESSED), a_vm_pod("v", "n", PRESSED), n=size(16, 64)), VmRules())
    if other_node:
        core.ledger.put_node("roomy", size(32, 128))
    registry = CollectorRegistry()
    metrics, recording = VmSystemMetrics(registry), Recording()
    moving_until: float | None = None
    for scrape in range(int(MINUTES * 60 / EVERY)):
        now = scrape * EVERY
        if shrinks_after is not None and now >= shrinks_after * 60:
            core.ledger.put_pod(a_vm_pod("v", "n", CALM))
        if moving_until is not None and now >= moving_until:
            core.ledger.drop_migration(key("ullage-v"))
            core.ledger.put_pod(a_vm_pod("v", "roomy", PRESSED))
        for intent in core.next_intents(now=Instant(now)):
            if isinstance(intent, StartMigration):
                core.ledger.put_migration(msgspec.structs.replace(a_migration("v", source="v"), key=key(intent.name)))
                moving_until = now + 60
        ledgers = [core.ledger.ledger(node) for node in core.ledger.nodes()]
        metrics.show(ledgers, list(core.unrelieved.values()))
        recording.scrape(registry)
    return recording


@pytest.mark.parametrize(
    ("recording", "fires"),
    [
        pytest.param(played(), True, id="nobody-can-leave"),
        pytest.param(played(shrinks_after=12), False, id="over-after-twelve-minutes"),
        pytest.param(played(shrinks_after=24), False, id="over-at-the-end"),
        pytest.param(played(other_node=True), False, id="a-migration-relieves-it"),
    ],
)
def test_the_alert_fires_for_pressure_that_lasts_and_no_other(
    recording: Recording, fires: bool, tmp_path: Path
) -> None:
    promtool()
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(yaml.safe_load(RULES.read_text())))
    assert 'ullage_vm_nodes{state="unrelieved"}' in recording.series
    assert silent(ALERT, recording, tmp_path) is not fires
