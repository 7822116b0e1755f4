"""`make bench`: run the benchmarks, print one line per figure, keep the results, fail when a promise is broken."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.record import Figure, keep
from ullage.observe import log

BENCHMARKS = {
    "sync": "first sync of 20,000 pods and 5,000 nodes from the real API server, beside the official client",
    "throughput": "pods bound per second on the real API server, beside kube-scheduler",
    "latency": "from a pod's creation to its bind on the real API server, beside kube-scheduler",
    "mixed": "how many nodes a mixed load takes on the real API server, beside kube-scheduler",
    "decisions": "pods seated per second in memory, with few and many shapes, and growth with the number of nodes",
    "packing": "how full GPUs get on public traces (folder in ULLAGE_OPENB), beside the published results",
    "drain": "CPU time of a drain plan, on the shape of Cluster Autoscaler's own benchmark",
    "buying": "CPU time of a scale-up plan for many pods, and nodes beside the least that would do",
    "churn": "149 days of a public trace (folder in ULLAGE_OPENB) through the simulator with all loops: CPU and memory",
    "pressure": "policies side by side on a small part of a public trace (folder in ULLAGE_OPENB), 20 times as fast",
    "scale": "5,000 nodes and 100,000 pods: memory, start-up, events, longest holds of the loop, agents, take-over",
    "karpenter": "from a claim pod that needs a new node to its bind on a real Karpenter, beside the naive way",
    "idle": "processor, memory, API requests and log lines of each process with 1,000 nodes and nothing happening",
    "dashboard": "5,000 nodes in the dashboard: longest holds of the loop, what is sent, processor",
    "permits": "permit requests of VM agents per second and their times, on the real API server",
    "vms": "a simulated week of 50 nodes with 40 VMs each, beside no migration and static maxima",
    "fidelity": "20 stories on the real control plane with KWOK and in the simulator: how far they agree",
    "webhook": "admissions per second over TLS, and how long one takes at 200 a second",
}


def main(arguments: Sequence[str]) -> int:
    """Returns 0 when every promised ratio holds."""
    lines = "\n".join(f"  {name:<12} {what}" for name, what in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="make bench ARGS=...", epilog=lines, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="which benchmarks; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the full size, for a quick look (not kept)")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"no benchmark called {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
    with Path(os.devnull).open("w") as nowhere:
        log.configure(form="json", stream=nowhere)  # a line for each decision is written, as it is in production
        return _run(options.names or list(BENCHMARKS), options.scale)


def _run(names: Sequence[str], scale: float) -> int:
    broken = 0
    for name in names:
        print(f"== {name}: {BENCHMARKS[name]}", flush=True)
        figures: list[Figure] = importlib.import_module(f"bench.{name}").run(scale)
        for figure in figures:
            print(figure.line(), flush=True)
        broken += sum(not figure.holds for figure in figures)
        if scale == 1.0 and figures:
            print(f"kept in bench/results/{keep(name, figures).name}")
            importlib.import_module("bench.pages").main()
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
