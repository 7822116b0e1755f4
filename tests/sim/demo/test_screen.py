"""The terminal's view: all that matters is on it at any width, it fits, and colour is not all that tells."""

import io
import re

import pytest
from rich.console import Console

from tests.sim.demo.facts import NOW, a_node, a_pod_of, inventory_of, provisioner, terminal
from ullage.sim.demo.captions import Caption, CaptionFeed
from ullage.sim.demo.gpu_map import Palette
from ullage.sim.demo.screen import Addresses, Frame, line_of
from ullage.sim.demo.terminal_model import pools, waiting
from ullage.sim.demo.tour import TOUR

ADDRESSES = Addresses(
    dashboard="http://127.0.0.1:8080/",
    kubeconfig="/tmp/ullage-demo-x1b2c3d4/kubeconfig",
    example="/tmp/ullage-demo-x1b2c3d4/claim.yaml",
)


def frame(programme: CaptionFeed, more_nodes: int = 0) -> Frame:
    more = [f"train-{number:04}" for number in range(more_nodes)]
    seen = terminal(
        nodes=[a_node(name, pool="train") for name in ("train-a", "train-b", *more)],
        inventories=[inventory_of("train-a", broken=(7,)), *map(inventory_of, ("train-b", *more))],
        pods=[
            a_pod_of("tune", node="train-a", gpus=(0, 1, 2, 3)),
            *(a_pod_of(f"next-{number}", waits=("", f"reason {number} " * 9)) for number in range(more_nodes)),
            a_pod_of("wide", waits=("Unschedulable", "0/2 nodes fit: 2 InsufficientResources"), created=NOW - 90),
        ],
        provisioners=[provisioner("train", current=2 + more_nodes, target=4 + more_nodes, coming=2)],
    )
    return Frame(
        programme=programme,
        pools=pools(seen, NOW),
        waiting=waiting(seen, NOW),
        elapsed=570,
        speed=30,
        addresses=ADDRESSES,
        palette=Palette(),
    )


def drawn(programme: CaptionFeed, width: int, height: int, more_nodes: int = 0) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    with console.capture() as captured:
        console.print(frame(programme, more_nodes), height=height)
    return captured.get().rstrip("\n").splitlines()


def a_programme(decisions: int = 3) -> CaptionFeed:
    programme = CaptionFeed(TOUR)
    for number in range(decisions):
        programme.record(
            Caption(
                at=float(60 * number),
                who="scheduler",
                word="Scheduled",
                about=f"p{number}",
                text="to train-a, best of 2",
            )
        )
    return programme


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 40), (100, 30), (140, 42), (200, 60)])
def test_everything_that_matters_is_on_it(width: int, height: int) -> None:
    text = "\n".join(drawn(a_programme(), width, height))
    for wanted in (
        TOUR.story_steps[0].caption[:40],
        "tour",
        "00:09:30",
        ADDRESSES.dashboard,
        "train-a",
        "[■■■■] [□□□✗]",
        "2 → 4 nodes, 2 coming",
        "Waiting (1)",
        "wide (1 GPU each) for 1m30s",
        "InsufficientResources",
        "Scheduled p2",
    ):
        assert wanted in text, wanted


@pytest.mark.parametrize("width", [80, 100, 140])
def test_every_command_is_a_line_that_can_be_copied(width: int) -> None:
    lines = [line.strip() for line in drawn(a_programme(), width, 24)]
    for command in ("get pods,gpuclaims,nodeprovisioners", f"apply -f {ADDRESSES.example}"):
        line = next(line for line in lines if command in line)
        typed = line[line.index("kubectl") :]
        told = f"export KUBECONFIG={ADDRESSES.kubeconfig}"
        if ADDRESSES.kubeconfig in typed:
            assert typed == f"kubectl --kubeconfig {ADDRESSES.kubeconfig} {command}"
        else:
            assert typed == f"kubectl {command}"
            assert any(line.endswith(told) for line in lines)


@pytest.mark.parametrize("more_nodes", [0, 6, 16, 60])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 40), (100, 30), (140, 30), (140, 42)])
def test_it_fits_however_much_there_is(width: int, height: int, more_nodes: int) -> None:
    lines = drawn(a_programme(decisions=80), width, height, more_nodes)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert text.count("Scheduled p") >= 4, "decisions are not crowded out"
    shown = len(re.findall(r"train-(?:\d{4}|a|b) +\[", text)) or sum(map(len, re.findall(r"^  ([□✗▁-█]+)", text, re.M)))
    hidden = re.search(r"(\d+) nodes are not shown", text)
    assert shown + (int(hidden[1]) if hidden else 0) == 2 + more_nodes, "who is not shown is counted"


def test_two_hundred_nodes_are_a_sign_each() -> None:
    text = "\n".join(drawn(a_programme(), 140, 42, more_nodes=198))
    assert "□✗" in text, "a node with a broken GPU stands out"
    assert sum(map(len, re.findall(r"^  ([□✗▁-█]+)", text, re.M))) == 200
    assert "a sign is a node:" in text


def test_a_long_why_is_cut_after_two_lines() -> None:
    programme = CaptionFeed(TOUR)
    programme.record(Caption(at=1, who="scheduler", word="FailedScheduling", about="x", text="no " * 200, warning=True))
    lines = [line for line in drawn(programme, 140, 42) if "no no" in line]
    assert len(lines) == 2
    assert lines[1].rstrip().endswith("…")


def test_decisions_about_one_workload_fold_into_one_line() -> None:
    programme = CaptionFeed(TOUR)
    for number in range(16):
        programme.record(
            Caption(at=number, who="scheduler", word="Scheduled", about=f"chat-6v8-{number:05}", text=f"to n{number}")
        )
    programme.record(Caption(at=100, who="scheduler", word="Scheduled", about="chat-6v8-later", text="to z"))
    assert [(told.count, told.text) for told in programme.recent] == [(16, "to n15"), (1, "to z")]


def test_a_colour_once_given_stays() -> None:
    palette = Palette()
    first = palette.colour("chat")
    assert palette.colour("train") != first
    assert palette.colour("chat") == first


@pytest.mark.parametrize(
    ("told", "line"),
    [
        pytest.param(
            Caption(at=3725, who="scheduler", word="Scheduled", about="a", text="to  b\nnow"),
            "[01:02:05] scheduler Scheduled a: to b now",
            id="decision",
        ),
        pytest.param(
            Caption(at=0, who="story", word="gang", text="Look."), "[00:00:00] gang: Look.", id="moment-of-the-story"
        ),
    ],
)
def test_lines_for_those_who_cannot_be_drawn_for(told: Caption, line: str) -> None:
    assert line_of(told) == line
