"""Figures in pages, by the results they are from: `python -m bench.pages` writes them anew, and a test compares.

A page's sentence is found by its text with any number in place of each figure. So no figure in these sentences can go
stale: who keeps new results runs this.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase as fnmatch
from pathlib import Path

from bench import idle_table
from bench.pressure import POLICIES
from bench.record import RESULTS
from ullage.sim.report.axes import spoken, spoken_time

ROOT = Path(__file__).parents[1]
_NUMBER = r"[0-9](?:[0-9.,]*[0-9])?(?: (?:s|min|h|d)(?= ))?"


@dataclass(frozen=True, slots=True)
class Value:
    """A figure of a results file."""

    results: str
    name: str
    """May end in a star: some names have counts in them."""
    peer: str = ""
    """Name of the peer of the figure, where several have one name."""
    theirs: bool = False
    write: Callable[[float], str] = "{:.0f}".format

    def __str__(self) -> str:
        path = RESULTS / f"{self.results}.json"
        for figure in json.loads(path.read_text())["figures"]:
            if fnmatch(figure["name"], self.name) and (not self.peer or figure["peer_name"] == self.peer):
                return self.write(figure["peer" if self.theirs else "ours"])
        raise LookupError(f"{path.name} has no figure {self.name!r} beside {self.peer or 'nobody'}")


@dataclass(frozen=True, slots=True)
class Sentence:
    """Part of a page with `{}` in place of each figure."""

    page: str
    text: str
    values: tuple[Value, ...]

    def mend(self, page: str) -> str:
        """The page with the present figures. Raises LookupError if the sentence is not in it exactly once."""
        pattern = _NUMBER.join(map(re.escape, self.text.split("{}")))
        right = self.text.format(*self.values)
        found, count = re.subn(pattern, lambda _: right, page)
        if count != 1:
            raise LookupError(f"{self.page}: {self.text!r} is there {count} times, not once")
        return found


def pages() -> dict[Path, str]:
    """Pages as they should be."""
    found: dict[Path, str] = {}
    for one in SENTENCES:
        path = ROOT / one.page
        found[path] = one.mend(found.get(path) or path.read_text())
    operations = ROOT / idle_table.PAGE
    found[operations] = idle_table.mend(found.get(operations) or operations.read_text())
    return found


def main() -> None:
    for path, text in pages().items():
        if text != path.read_text():
            path.write_text(text)
            print(f"written: {path.relative_to(ROOT)}")


def _both(results: str, name: str, peer: str, write: Callable[[float], str] = "{:.0f}".format) -> tuple[Value, Value]:
    return Value(results, name, peer, write=write), Value(results, name, peer, theirs=True, write=write)


def _pressure(text: str, measure: str, write: Callable[[float], str]) -> Sentence:
    row = f"| {text} | " + " | ".join(["{}"] * len(POLICIES)) + " |"
    values = tuple(Value("pressure", f"{measure}, {policy}", write=write) for policy in POLICIES)
    return Sentence("docs/benchmarks.md", row, values)


def _percent(value: float) -> str:
    return f"{value * 100:.2f}"


_KUBE, _ONE, _TWO, _WHOLE = "kube-scheduler", "{:.1f}".format, "{:.2f}".format, "{:,.0f}".format
_MIXED, _NODES = "mixed pods bound", "nodes used by the mixed load"
_HANDOVER, _PLACEHOLDER = "hand-over of a new node, median of 20", "placeholder deleted, scheduled again"
SENTENCES: tuple[Sentence, ...] = (
    Sentence(
        "docs/dashboard.md",
        "the loop that watches is held for {} ms at most (promised 100),\na question for {} ms; a browser gets {} MB "
        "first, then {} KB a second while 100 pods a second come and go. The process\ntakes {} % of a core meanwhile, "
        "four questions included, and {} % while nothing happens.",
        (
            Value("dashboard", "loop held by a patch, longest"),
            Value("dashboard", "loop held by a question, longest", write=_ONE),
            Value("dashboard", "snapshot", write=_TWO),
            Value("dashboard", "sent to a reader, 100 pods a second"),
            Value("dashboard", "CPU, 100 pods a second and four questions", write=_ONE),
            Value("dashboard", "CPU, nothing happens", write=_TWO),
        ),
    ),
    Sentence(
        "docs/benchmarks.md",
        "p99 **{} ms** (promised 20) and **{} ms** for changes (promised 100), median {} and {} ms, no request without",
        tuple(
            Value("permits", f"permit that changes {what}, {measure}", write=_ONE)
            for measure in ("p99", "median")
            for what in ("nothing", "an allocation")
        ),
    ),
    Sentence(
        "README.md",
        "One-GPU pods bound per second: {}, kube-scheduler {}; with claims and their status {}.",
        (
            *_both("throughput", "one-GPU pods bound per second", _KUBE),
            Value("throughput", "the same with claims and their status", _KUBE),
        ),
    ),
    Sentence(
        "README.md",
        "Created to bound, median: {} ms, kube-scheduler {} ms.",
        _both("latency", "created to bound, one pod at a time, p50", _KUBE, _ONE),
    ),
    Sentence(
        "README.md",
        "A mixed load: {} nodes and all {} pods, kube-scheduler {} nodes and {} pods, with MostAllocated {} and {}",
        (
            Value("mixed", _NODES, _KUBE, write=_WHOLE),
            Value("mixed", _MIXED, _KUBE, write=_WHOLE),
            Value("mixed", _NODES, _KUBE, theirs=True, write=_WHOLE),
            Value("mixed", _MIXED, _KUBE, theirs=True, write=_WHOLE),
            Value("mixed", _NODES, "kube-scheduler, MostAllocated", theirs=True, write=_WHOLE),
            Value("mixed", _MIXED, "kube-scheduler, MostAllocated", theirs=True, write=_WHOLE),
        ),
    ),
    Sentence(
        "README.md",
        "to the bind, median: {} s, with a placeholder that is deleted {} s",
        _both("karpenter", _HANDOVER, _PLACEHOLDER, _TWO),
    ),
    Sentence(
        "docs/karpenter.md",
        "of the claim pod, median of 20: {} s, 90th percentile {} s; a\n"
        "placeholder that is deleted and scheduled again: {} s and {} s (kube-scheduler's back-off)",
        (
            Value("karpenter", _HANDOVER, _PLACEHOLDER, write=_TWO),
            Value("karpenter", "hand-over of a new node, p90", write=_TWO),
            Value("karpenter", _HANDOVER, _PLACEHOLDER, theirs=True, write=_TWO),
            Value("karpenter", "hand-over of a new node, p90", theirs=True, write=_TWO),
        ),
    ),
    Sentence(
        "README.md",
        "(2,000 nodes, 80,000 pods): {} CPU s",
        (Value("drain", "drain plan, 2,000 nodes, 80,000 pods", write=_TWO),),
    ),
    Sentence(
        "README.md",
        "A scale-up plan for 51,000 pods: {} CPU s",
        (Value("buying", "scale-up plan, 51,000 pods of six shapes", write=_TWO),),
    ),
    Sentence(
        "README.md",
        "by its published protocol: {} %, published best {} %, best-fit {} %",
        (
            *_both("packing", "default, ours, 130 % arrived", "published FGD", _TWO),
            Value("packing", "default, best-fit replayed, 130 % arrived", theirs=True, write=_TWO),
        ),
    ),
    Sentence(
        "docs/benchmarks.md",
        "| memory of the process | {} MB | {} MB |",
        _both("scale", "memory of the process", "f13395a")[::-1],
    ),
    Sentence(
        "docs/benchmarks.md",
        "| start-up from facts | {} s | {} s |",
        _both("scale", "start-up: 5,000 nodes, 100,000 pods", "f13395a", _ONE)[::-1],
    ),
    Sentence(
        "docs/benchmarks.md",
        "| requests of 5,000 idle agents | {}/s | {}/s |",
        _both("scale", "requests of 5,000 agents", "f13395a")[::-1],
    ),
    Sentence(
        "docs/benchmarks.md",
        "| a pod leaves | {} ms | {} ms |",
        _both("scale", "event: pod leaves", "f13395a", _TWO)[::-1],
    ),
    Sentence(
        "docs/benchmarks.md",
        "| a pod leaves, and the one that waits longest gets its place at once | | {} ms |",
        (Value("scale", "event: pod leaves, and one that waits is placed", write=_TWO),),
    ),
    Sentence(
        "docs/benchmarks.md",
        "| loop held: preemption for 1 GPU, for 8, everybody protected | 109, 110, 551 ms | {}, {}, {} ms |",
        (
            Value("scale", "hold: preemption for 1 GPUs*"),
            Value("scale", "hold: preemption for 8 GPUs*"),
            Value("scale", "hold: preemption, everybody protected*"),
        ),
    ),
    Sentence(
        "docs/benchmarks.md",
        "| loop held: preemption for a gang of 16; scale-up plan of 20,000 pods; drain plan | | {}, {}, {} ms |",
        (
            Value("scale", "hold: preemption for a gang of 16*"),
            Value("scale", "hold: scale-up plan, 20,000 pending pods*"),
            Value("scale", "hold: drain plan, 500 nodes*"),
        ),
    ),
    Sentence(
        "docs/benchmarks.md",
        "| loop held: a pod that makes up 800 resource names | 6.3 s | {} ms |",
        (Value("scale", "hold: a pod that makes up 800 names*", write=_ONE),),
    ),
    Sentence(
        "docs/benchmarks.md",
        "| nodes that hold the week's peaks of demand | {} | {} | {} |",
        (
            Value("vms", "nodes needed, agent and migration"),
            Value("vms", "nodes needed, agent alone"),
            Value("vms", "nodes needed, agent alone", theirs=True),
        ),
    ),
    Sentence(
        "docs/benchmarks.md",
        "| node time with a denied request, 50 nodes each | {} % | {} % | |",
        _both("vms", "time with denied requests, migration", "", _TWO),
    ),
    Sentence(
        "docs/benchmarks.md",
        "| VM time with less than needed, 50 nodes each | {} % | {} % | |",
        _both("vms", "time VMs were short, migration", "", "{:.4f}".format),
    ),
    Sentence(
        "docs/benchmarks.md",
        "| node time above the watermark, 50 nodes each | {} % | {} % | |",
        _both("vms", "time above watermark, migration", "", _TWO),
    ),
    Sentence(
        "docs/benchmarks.md",
        "634,555 approvals changed; {} minutes of CPU.",
        (Value("vms", "CPU of the simulation", write=_ONE),),
    ),
    Sentence(
        "docs/fidelity.md",
        "{} stories; {} of {} pods that came apart have the same node and GPUs; {} of {} bursts have the same counts;",
        (
            Value("fidelity", "stories"),
            *_both("fidelity", "pods that came apart, same node and GPUs", "of"),
            *_both("fidelity", "bursts with the same counts by node shape", "of"),
        ),
    ),
    Sentence(
        "docs/fidelity.md",
        "purchases agree in {} stories, removals in {}, median waits in {}.",
        (
            Value("fidelity", "stories with as many purchases"),
            Value("fidelity", "stories with as many removals"),
            Value("fidelity", "stories whose median wait agrees"),
        ),
    ),
    Sentence(
        "docs/fidelity.md",
        "medians: {} ms a write, {} ms more for each further one at once, {} ms a watch, {} ms until a pod\n"
        "runs, {} ms until an ended one is known; the machine's load was {} at most",
        (
            *(
                Value("fidelity", f"measured latency of {what}", write=_ONE)
                for what in ("a write", "each further call at once", "a watch", "a pod's start", "a pod's end")
            ),
            Value("fidelity", "load of the machine, largest", write=_ONE),
        ),
    ),
    _pressure("GPU allocation, %", "GPU allocation", _percent),
    _pressure("waste while pods waited, GPU hours", "waste while pods waited", spoken),
    _pressure("pods placed (of 250)", "pods placed", spoken),
    _pressure("waiting, mean", "waiting, mean", spoken_time),
    _pressure("waiting, 90 %", "waiting, 90 %", spoken_time),
    _pressure("waiting, 99 %", "waiting, 99 %", spoken_time),
)


if __name__ == "__main__":
    main()
