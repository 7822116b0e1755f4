"""Pages for people: every reason has an entry, every alert is told, every task's YAML is taken by the API server."""

import re
from enum import StrEnum
from pathlib import Path

import pytest
import yaml

from bench.monitoring_pictures import ALERTS_PICTURE, DASHBOARD, fingerprint
from tests.deploy.cluster import kubectl, ullage
from tests.deploy.newcomer import ON_KIND, commands
from ullage.agent import conditions
from ullage.decide.explain.pod import ExplainedState
from ullage.decide.preemption.preempt import NoPreemptionReason
from ullage.decide.provisioning.node_offers import ScaleUpBlocked
from ullage.decide.vms.migration import NotMigrated
from ullage.deploy.findings import FindingCode
from ullage.deploy.foreign_names import FOREIGN_NAMES
from ullage.deploy.monitoring import ALERTS
from ullage.deploy.names import CONDITIONS, NAMES
from ullage.kube.client.resource import JsonObject
from ullage.kube.crds.catalog import VM_KINDS
from ullage.kube.write import gpu, provisioner
from ullage.model import karpenter
from ullage.model.admission import DenialReason
from ullage.model.claim_status import ClaimReason
from ullage.model.draining import UnremovableReason
from ullage.model.karpenter_failure import FailureReason
from ullage.model.outcomes import (
    BindFailure,
    ClaimCreateFailure,
    EvictionFailure,
    MarkFailure,
    PoolFailure,
    RemovalFailure,
    StatusWriteFailure,
)
from ullage.model.provisioner import CloudFailure
from ullage.model.refusal import PodScheduledReason
from ullage.model.verdict import Reason
from ullage.model.vm import VmRefusal
from ullage.observe.events import KINDS
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec, GoProgram
from ullage.testing.controlplane.fixtures import StartControlPlane
from ullage.vm_agent.client import AskTrouble
from ullage.vm_agent.metrics_source import MetricsTrouble

DOCS = Path(__file__).parents[2] / "docs"
LISTS: list[tuple[str, type[StrEnum]]] = [
    ("`ullage check`", FindingCode),
    ("A pod does not fit on a node", Reason),
    ("What `ullage explain` says of a pod", ExplainedState),
    ("The condition PodScheduled", PodScheduledReason),
    ("A bind did not happen", BindFailure),
    ("Nobody is preempted", NoPreemptionReason),
    ("A pod to preempt was not evicted", EvictionFailure),
    ("A claim or a status was not written", ClaimCreateFailure),
    ("A claim or a status was not written", StatusWriteFailure),
    ("A claim or a status was not written", MarkFailure),
    ("The phase of a claim", ClaimReason),
    ("The webhook refuses a write", DenialReason),
    ("A pool buys nothing", ScaleUpBlocked),
    ("A pool buys nothing", CloudFailure),
    ("A node stays", UnremovableReason),
    ("A removal was given up", RemovalFailure),
    ("A removal was given up", PoolFailure),
    ("Karpenter bought no node", FailureReason),
    ("VMs", VmRefusal),
    ("A VM is not migrated", NotMigrated),
    ("A vm-agent gets no permit or no metrics", AskTrouble),
    ("A vm-agent gets no permit or no metrics", MetricsTrouble),
]
WARNINGS = "Events of type Warning"


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


def test_every_warning_has_cause_and_cure() -> None:
    assert set(entries(WARNINGS)) == {one.value for one, style in KINDS.items() if style.warning}


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


def test_a_newcomer_needs_five_commands_and_both_pages_say_the_same() -> None:
    readme = commands(DOCS.parent / "README.md", "## Install it")
    assert readme == commands(DOCS / "install.md", "# Install")
    assert len(readme) == len(commands(DOCS / "install.md", "# Install", ON_KIND)) == 5
    files = [DOCS.parent / word for line in readme for word in line.split() if word.endswith(".yaml")]
    assert all(one.exists() for one in files), files


def test_pages_of_the_site_exist() -> None:
    text = (DOCS.parent / "mkdocs.yml").read_text()
    named = set(re.findall(r"[\w/.-]+\.md", text))
    assert not [page for page in sorted(named) if not (DOCS / page).exists()]
    assert len(named) > 25


def test_files_of_the_source_that_pages_name_exist() -> None:
    root = DOCS.parent
    known = {one.name for one in (root / "ullage").iterdir() if one.is_dir()} - {"deploy"}
    named = {
        (page.name, name)
        for page in [*DOCS.glob("*.md"), root / "README.md", root / "CONTRIBUTING.md"]
        for name in re.findall(r"`(?:ullage/)?([a-z_]+/[a-z_/]*(?:\.py)?)`", page.read_text())
        if name.partition("/")[0] in known
    }
    assert len(named) > 50
    assert not [one for one in sorted(named) if not (root / "ullage" / one[1]).exists()]


def test_every_task_has_a_page_that_shows_its_yaml() -> None:
    """`vms.yaml` is shown by `vms.md`, or stands in the list alone."""
    listed = (DOCS / "tasks" / "README.md").read_text()
    for path in sorted((DOCS / "tasks").glob("*.yaml")):
        page = path.with_suffix(".md")
        assert f"({page.name})" in listed or f"({path.name})" in listed, path.name
        if page.exists():
            assert f'--8<-- "{path.name}"' in page.read_text(), page.name


def test_every_key_in_the_source_is_in_the_reference() -> None:
    written: set[str] = set()
    for path in (DOCS.parent / "ullage").rglob("*.py"):
        if path.name != "names.py" and "sim" not in path.parts and "testing" not in path.parts:
            written |= set(re.findall(r'"(gpu\.scheduling/[a-z][a-z-]*)"', path.read_text()))
    assert written - {"gpu.scheduling/v1", "gpu.scheduling/v"} == {one.key for one in NAMES}


def test_every_key_of_other_projects_in_the_source_is_in_the_reference() -> None:
    words = (
        r"cluster-autoscaler\.kubernetes\.io|karpenter\.sh|autoscaling\.neon\.tech|cluster\.x-k8s\.io|kwok\.x-k8s\.io"
    )
    written = {
        text for text in vars(karpenter).values() if isinstance(text, str) and text.startswith("tensor-fusion.ai/")
    }
    for path in (DOCS.parent / "ullage").rglob("*.py"):
        if path.name != "foreign_names.py" and "sim" not in path.parts and "testing" not in path.parts:
            written |= set(re.findall(rf'"((?:{words})/[a-z][a-z-]+)"', path.read_text()))
    others = {"vm.neon.tech/name", "nvidia.com/gpu.present", "nvidia.com/gpu"}
    assert written == {one.key for one in FOREIGN_NAMES} - others


def test_every_condition_in_the_source_is_in_the_reference() -> None:
    told = {name for _, name, _ in CONDITIONS}
    assert {provisioner.READY, provisioner.SCALING_UP, provisioner.SCALING_DOWN} <= told
    assert {provisioner.CAPACITY_BLOCKED, provisioner.SCALE_DOWN_THROTTLED, provisioner.AGENTS_SILENT} <= told
    assert {gpu.ALLOCATED, gpu.READY, gpu.EXHAUSTED, conditions.ALL_HEALTHY, conditions.KIND_SETTLED} <= told


def test_pictures_show_the_queries_of_today() -> None:
    """`python -m bench.monitoring_pictures docs/images` makes them again."""
    for name in (DASHBOARD, ALERTS_PICTURE):
        assert f"queries {fingerprint()}<" in (DOCS / "images" / name).read_text(), name


LWS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: leaderworkersets.leaderworkerset.x-k8s.io}
spec:
  group: leaderworkerset.x-k8s.io
  scope: Namespaced
  names: {kind: LeaderWorkerSet, plural: leaderworkersets, singular: leaderworkerset, shortNames: [lws]}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              required: [leaderWorkerTemplate]
              properties:
                replicas: {type: integer}
                startupPolicy: {type: string, enum: [LeaderReady, LeaderCreated]}
                leaderWorkerTemplate:
                  type: object
                  required: [workerTemplate]
                  properties:
                    size: {type: integer, minimum: 1}
                    restartPolicy: {type: string, enum: [None, Default, RecreateGroupOnPodRestart]}
                    leaderTemplate: {type: object, x-kubernetes-preserve-unknown-fields: true}
                    workerTemplate: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
"""The fields of LeaderWorkerSet v1 that the page uses; its own definition is not among the pinned modules."""


def lws_pods(text: str) -> list[JsonObject]:
    """Pods of the templates of a LeaderWorkerSet, which its stand-in definition does not look into."""
    found = []
    for body in yaml.safe_load_all(text):
        if body["kind"] == "LeaderWorkerSet":
            template = body["spec"]["leaderWorkerTemplate"]
            for name in ("leaderTemplate", "workerTemplate"):
                meta = {"name": name.lower(), "namespace": "default", **template[name]["metadata"]}
                found.append({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template[name]["spec"]})
    return found


@pytest.mark.real
def test_the_yaml_of_every_task_is_taken(start_control_plane: StartControlPlane) -> None:
    plane: ControlPlane = start_control_plane(ControlPlaneSpec(components=(GoProgram.KARPENTER,)))
    ullage(plane, "install", "--definitions-only", "--apply")
    kubectl(plane, "apply", "--server-side", "-f", "-", stdin="---".join([LWS, *(kind.text() for kind in VM_KINDS)]))
    kubectl(plane, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    pods = lws_pods((DOCS / "tasks" / "leaderworkerset.yaml").read_text())
    tried = ("apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", "-")
    assert "pod/leadertemplate" in kubectl(plane, *tried, stdin=yaml.safe_dump_all(pods))
    for path in sorted((DOCS / "tasks").glob("*.yaml")):
        said = kubectl(plane, "apply", "--server-side", "--validate=strict", "-f", str(path))
        assert "serverside-applied" in said, path.name
