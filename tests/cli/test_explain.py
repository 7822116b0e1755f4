"""`ullage explain pod/…` on manifests: every node, grouped for people, and what would help."""

from pathlib import Path

import msgspec
import pytest

from ullage.cli.main import run

FOLDER = Path(__file__).with_name("manifests")
FILES = tuple(part for name in ("cluster", "pending", "claims") for part in ("-f", str(FOLDER / f"{name}.yaml")))
NODES = ["node-a", "node-b", "node-cordoned", "node-counted", "node-tainted"]


class Node(msgspec.Struct, forbid_unknown_fields=True):
    node: str
    fits: bool
    reason: str
    detail: str


class Remedy(msgspec.Struct, forbid_unknown_fields=True):
    advice: str
    commands: list[str]
    works: bool
    proof: str


class Explained(msgspec.Struct, forbid_unknown_fields=True):
    """As promised to programs."""

    pod: str
    verdict: str
    reason: str
    message: str
    nodes: list[Node]
    helps: list[str]
    remedies: list[Remedy]


def explained(capsys: pytest.CaptureFixture[str], what: str, *options: str) -> Explained:
    assert run(["explain", what, *FILES, "-o", "json", *options]) == 0
    return msgspec.json.decode(capsys.readouterr().out, type=Explained)


@pytest.mark.parametrize(
    ("what", "verdict", "reasons"),
    [
        pytest.param(
            "pod/team/eight",
            "Unschedulable",
            [
                "InsufficientResources",
                "InsufficientResources",
                "NodeUnschedulable",
                "NodeTooSmall",
                "TaintNotTolerated",
            ],
            id="no-node",
        ),
        pytest.param("pod/team/names-nothing", "ClaimMissing", ["ClaimMissing"] * 5, id="claim-missing"),
        pytest.param("pod/team/second", "ClaimInUse", ["ClaimInUse"] * 5, id="claim-in-use"),
        pytest.param("pod/team/too-few-ids", "ClaimInvalid", ["ClaimInvalid"] * 5, id="claim-invalid"),
        pytest.param("pod/team/lonely", "GangSizeUnknown", ["GangSizeUnknown"] * 5, id="gang-of-nothing"),
        pytest.param("pod/team/gated", "SchedulingGated", ["SchedulingGated"] * 5, id="gated"),
        pytest.param(
            "pod/poor/greedy",
            "Unschedulable",
            ["QuotaExceeded", "QuotaExceeded", "NodeUnschedulable", "QuotaExceeded", "TaintNotTolerated"],
            id="quota",
        ),
        pytest.param(
            "pod/no-gpus", "Fits", ["Fits", "Fits", "NodeUnschedulable", "Fits", "TaintNotTolerated"], id="fits"
        ),
        pytest.param(
            "pod/team/runs-on-a",
            "Bound",
            ["Fits", "Fits", "NodeUnschedulable", "Fits", "TaintNotTolerated"],
            id="bound",
        ),
    ],
)
def test_every_node_is_listed(what: str, verdict: str, reasons: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(capsys, what)
    assert found.verdict == verdict
    assert [one.node for one in found.nodes] == NODES
    assert [one.reason for one in found.nodes] == reasons
    assert all(one.fits == (one.reason == "Fits") for one in found.nodes)
    assert bool(found.helps) == (verdict not in ("Fits", "Bound"))
    assert found.pod in (what.removeprefix("pod/"), "default/no-gpus")


def test_what_would_help_is_concrete(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(capsys, "pod/team/ids-taken")
    assert found.reason == "PreferredGpusTaken"
    assert found.helps[0] == "in GpuClaim team/ids-taken, leave preferIds out"
    assert (found.remedies[0].advice, found.remedies[0].works) == (found.helps[0], True)
    assert found.remedies[0].commands[0].startswith("kubectl -n team patch gpuclaim ids-taken")
    assert {one.node: one.detail for one in found.nodes}["node-b"] == "2 asked, 1 healthy: GPU 3 is not"


def test_for_people_nodes_are_grouped(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "pod/team/sixteen", *FILES]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "team/sixteen: Unschedulable: no node is large enough, even when empty (NodeTooSmall). "
        "0/5 nodes fit: 3 NodeTooSmall, 1 NodeUnschedulable, 1 TaintNotTolerated"
    )
    assert ["NODES", "REASON", "WHICH", "DETAIL"] in [line.split() for line in lines]
    assert "2       NodeTooSmall        node-a, node-b   wants 16 of nvidia.com/gpu, the node has 8" in lines
    assert lines[3] == "  3 more nodes, each with 16 GPUs", "pods ahead of it take two of them"
    assert any(line.startswith("  ask for at most 8 nvidia.com/gpu: ") for line in lines)


def test_many_nodes_are_few_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = "---\n".join(
        f"apiVersion: v1\nkind: Node\nmetadata: {{name: n{n:02}}}\nstatus: {{allocatable: {{cpu: {n}m, pods: 9}}}}\n"
        for n in range(40)
    )
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{resources: {requests: {cpu: 1}}}]}\n"
    (tmp_path / "many.yaml").write_text(f"{nodes}---\n{pod}")
    assert run(["explain", "pod/p", "-f", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("NodeTooSmall" in line for line in lines[1:]) == 4
    assert any(line.startswith("37      NodeTooSmall") for line in lines)


@pytest.mark.parametrize(
    ("what", "options"),
    [
        pytest.param("pod/eight", ("-n", "team"), id="namespace-option"),
        pytest.param("pods/team/eight", (), id="plural"),
        pytest.param("po/team/eight", (), id="short"),
    ],
)
def test_names_of_pods(what: str, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(capsys, what, *options).pod == "team/eight"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        pytest.param("pod/team/eigth", "pod team/eigth is not in the files; there is team/eight", id="misspelt"),
        pytest.param("pod/eight", "pod default/eight is not in the files; there is team/eight", id="other-namespace"),
        pytest.param("pod/zzz", "check the name and the namespace", id="nothing-like-it"),
        pytest.param("job/a", "'job/a' cannot be explained; KIND is one of pod, vm", id="not-a-kind"),
        pytest.param("nod/a", "did you mean node/?", id="misspelt-kind"),
        pytest.param("node/a/b", "give node/NAME", id="nodes-have-no-namespace"),
        pytest.param("node/a", "node a is not in the files; there is node-a", id="no-such-node"),
        pytest.param("pod", "give pod/NAME or pod/NAMESPACE/NAME", id="no-name"),
        pytest.param("pod/a/b/c", "give pod/NAME or pod/NAMESPACE/NAME", id="too-many-parts"),
        pytest.param("pod//b", "give pod/NAME or pod/NAMESPACE/NAME", id="empty-namespace"),
    ],
)
def test_bad_names_are_sentences(what: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", what, *FILES]) == 1
    told = capsys.readouterr()
    assert said in told.err
    assert told.out == ""


def test_a_pod_that_fits_and_could_not_be_bound_is_not_said_to_go_anywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = 'not bound to node-a: pods "stuck" is forbidden'
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": words}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stuck"},
        "spec": {"containers": [{}]},
        "status": {"conditions": [condition]},
    }
    file = tmp_path / "stuck.json"
    file.write_bytes(msgspec.json.encode(pod))
    found = explained(capsys, "pod/stuck", "-f", str(file))
    assert found.verdict == "NotBound"
    assert words in found.message
    assert "goes to" not in found.message
    assert "--identity" in found.helps[0]
