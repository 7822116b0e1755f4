"""One record per reason: cure, advice and words stand beside the rule, and a new rule is written in two files."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import ullage
from ullage.decide.placement.filters.codes import CODE
from ullage.decide.placement.filters.rules import RULES
from ullage.decide.placement.reasons import DECLARED, REASON_INFO, reasons_page
from ullage.model.verdict import Reason

PACKAGE = Path(ullage.__file__).parent


def test_every_reason_but_fits_is_declared_exactly_once() -> None:
    assert Counter(info.reason for info in DECLARED) == Counter(set(Reason) - {Reason.FITS})


def test_rules_are_evaluated_in_the_order_of_their_codes() -> None:
    codes = [CODE[rule.reason] for rule in RULES]
    assert codes == sorted(codes)


@pytest.mark.parametrize("reason", [pytest.param(reason, id=reason.value) for reason in REASON_INFO])
def test_the_page_has_a_line_for_the_reason(reason: Reason) -> None:
    info = REASON_INFO[reason]
    assert info.words.endswith(".")
    assert f"| `{reason.value}` | {info.words} |" in reasons_page()


NEW_REASON = ("model/verdict.py", '    HOST_PORT_TAKEN = "HostPortTaken"\n', '    NODE_IN_REPAIR = "NodeInRepair"\n')
NEW_RULE = (
    "decide/placement/filters/node.py",
    ')\n"""Rules in the order they are evaluated."""',
    """    node_rule(
        Reason.NODE_IN_REPAIR,
        "The node is being repaired.",
        says("wait for the repair of {node}: {detail}"),
        lambda _, node: "it has label repair" if "repair" in node.labels else None,
        lambda _, snapshot: masks.has_label(snapshot, Requirement("repair", Operator.EXISTS)),
    ),
""",
)
IMPORT = "from ullage.model.selector import Operator, Requirement\n"

USES_IT = """
from tests.decide.scenes import Scene, node, pod
from ullage.cli.reference import PAGES
from ullage.decide.explain.pod import explain_pod
from ullage.decide.placement.engine import NoFit, PlacementEngine
from ullage.decide.placement.filters.codes import REASONS
from ullage.model.fact_event import ObjectKey, Updated
from ullage.model.verdict import ClusterEvent, Reason
from msgspec.structs import replace

scene = Scene(node("fine"), node("n", labels={"repair": "yes"}), pod("p"), pod("q", nodeSelector={"none": "x"}))
snapshot, p, new = scene.snapshot, scene.pod("p"), Reason("NodeInRepair")
engine, row = PlacementEngine(snapshot), snapshot.columns.rows["n"]
assert REASONS[engine.codes(p, now=0.0)[row]] is new, "vector test"
assert engine.explain(p, now=0.0)["n"].detail == "it has label repair", "scalar test"
assert engine.place(p, now=0.0).node == "fine", "the node is left out"
fine = snapshot.state.nodes["fine"]
snapshot.apply(Updated(ObjectKey("", "fine"), fine, replace(fine, labels={"repair": ""})))
assert REASONS[engine.codes(p, now=0.0)[snapshot.columns.rows["fine"]]] is new, "one renewed row"
refusal = engine.place(p, now=0.0)
assert isinstance(refusal, NoFit) and str(refusal) == "0/2 nodes fit: 2 NodeInRepair", "words of the refusal"
assert refusal.wakes_on == {ClusterEvent.NODE_APPEARED, ClusterEvent.NODE_CHANGED}, "cure"
assert explain_pod(snapshot, p, scene.known, now=0.0).steps[0] == (
    "wait for the repair of fine: it has label repair"
), "advice"
assert "| `NodeInRepair` | The node is being repaired. |" in PAGES["reasons.md"](), "docs"
"""


def test_a_new_filter_of_the_node_is_written_in_two_files(tmp_path: Path) -> None:
    """The copy gets a reason and a record. Scalar test, vector test, cure, advice and docs work with nothing else."""
    shutil.copytree(PACKAGE, tmp_path / "ullage", ignore=shutil.ignore_patterns("__pycache__", "*.js", "*.css"))
    for file, before, text in (NEW_REASON, NEW_RULE):
        path = tmp_path / "ullage" / file
        source = path.read_text()
        assert source.count(before) == 1
        path.write_text(source.replace(before, text + before))
    rules = tmp_path / "ullage" / NEW_RULE[0]
    source = rules.read_text()
    rules.write_text(
        source.replace("from ullage.model.shape import Shape\n", IMPORT + "from ullage.model.shape import Shape\n")
    )
    tests = PACKAGE.parent / "tests"
    (tmp_path / "tests").symlink_to(tests, target_is_directory=True)
    done = subprocess.run(
        [sys.executable, "-c", USES_IT], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
