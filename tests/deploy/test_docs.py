"""Pages for people: every reason has an entry, every alert is told, every task's YAML is taken by the API server."""

import re
from enum import StrEnum
from pathlib import Path

import pytest

from tests.deploy.cluster import kubectl, ullage
from ullage.decide.preemption.preempt import NoPreemptionReason
from ullage.decide.provisioning.node_offers import ScaleUpBlocked
from ullage.deploy.findings import FindingCode
from ullage.deploy.monitoring import ALERTS
from ullage.model.admission import DenialReason
from ullage.model.claim_status import ClaimReason
from ullage.model.draining import UnremovableReason
from ullage.model.karpenter_failure import FailureReason
from ullage.model.outcomes import BindFailure, RemovalFailure
from ullage.model.provisioner import CloudFailure
from ullage.model.verdict import Reason
from ullage.model.vm import VmRefusal
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.fixtures import StartControlPlane

DOCS = Path(__file__).parents[2] / "docs"
LISTS: list[tuple[str, type[StrEnum]]] = [
    ("`ullage check`", FindingCode),
    ("A pod does not fit on a node", Reason),
    ("A bind did not happen", BindFailure),
    ("Nobody is preempted", NoPreemptionReason),
    ("The phase of a claim", ClaimReason),
    ("The webhook refuses a write", DenialReason),
    ("A pool buys nothing", ScaleUpBlocked),
    ("A pool buys nothing", CloudFailure),
    ("A node stays", UnremovableReason),
    ("A removal was given up", RemovalFailure),
    ("Karpenter bought no node", FailureReason),
    ("VMs", VmRefusal),
]


def entries(section: str) -> dict[str, list[str]]:
    """Rows of a section's table by their first cell."""
    text = (DOCS / "troubleshooting.md").read_text()
    body = re.split(r"^## ", text.split(f"## {section}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    rows = [line.strip("|").split("|") for line in body.splitlines() if line.startswith("| `")]
    return {row[0].strip().strip("`"): [cell.strip() for cell in row[1:]] for row in rows}


@pytest.mark.parametrize(("section", "reasons"), [pytest.param(*one, id=one[1].__name__) for one in LISTS])
def test_every_reason_has_cause_and_cure(section: str, reasons: type[StrEnum]) -> None:
    told = entries(section)
    missing = [one.value for one in reasons if one.value not in told and one.value != Reason.FITS.value]
    assert not missing
    assert all(len(cells) == 2 and all(cells) for cells in told.values())


def test_no_entry_is_about_a_reason_that_is_gone() -> None:
    for section in {name for name, _ in LISTS}:
        known = {one.value for name, reasons in LISTS if name == section for one in reasons}
        assert set(entries(section)) <= known, section


def test_every_alert_is_told() -> None:
    text = (DOCS / "operations.md").read_text()
    assert not [one.name for one in ALERTS if f"`{one.name}`" not in text]


def test_links_of_the_new_pages_lead_somewhere() -> None:
    for name in ("install", "operations", "security", "comparison", "migration", "troubleshooting", "tasks/README"):
        page = DOCS / f"{name}.md"
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_pages_of_the_site_exist() -> None:
    text = (DOCS.parent / "mkdocs.yml").read_text()
    named = set(re.findall(r"[\w/.-]+\.md", text))
    assert not [page for page in sorted(named) if not (DOCS / page).exists()]
    assert len(named) > 25


@pytest.mark.real
def test_the_yaml_of_every_task_is_taken(start_control_plane: StartControlPlane) -> None:
    plane: ControlPlane = start_control_plane(ControlPlaneSpec())
    ullage(plane, "install", "--definitions-only", "--apply")
    for path in sorted((DOCS / "tasks").glob("*.yaml")):
        said = kubectl(plane, "apply", "--server-side", "--validate=strict", "-f", str(path))
        assert "serverside-applied" in said, path.name
