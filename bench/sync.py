"""First sync: every pod and node of a large cluster into memory, ours beside the official Python client.

Both read the same 20,000 pods and 5,000 nodes from the same real API server, each in a process of its own, and hold
what they read. Decoding is measured apart, on the same bytes, so that the server's time does not blur it.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from bench.population import populate
from bench.record import Figure
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec

PODS, NODES = 20_000, 5_000
LESS_DECODING, LESS_MEMORY = 10.0, 5.0


def run(scale: float) -> list[Figure]:
    """Measure both readers on one server."""
    pods, nodes = int(PODS * scale), int(NODES * scale)
    with ControlPlane(ControlPlaneSpec()) as plane:
        print(f"   creating {nodes:,} nodes and {pods:,} pods", flush=True)
        asyncio.run(populate(plane.kubeconfig, pods=pods, nodes=nodes))
        ours = _read("ours", plane.kubeconfig)
        peer = _read("official", plane.kubeconfig)
    for reader in (ours, peer):
        if (reader["pods"], reader["nodes"]) != (pods, nodes):
            raise RuntimeError(f"a reader saw {reader['pods']:.0f} pods and {reader['nodes']:.0f} nodes")
    name = "official client"
    return [
        Figure("first sync, wall", "s", ours["sync_wall"], peer["sync_wall"], name),
        Figure("first sync, CPU", "s", ours["sync_cpu"], peer["sync_cpu"], name),
        Figure("decoding the same bytes, CPU", "s", ours["decode_cpu"], peer["decode_cpu"], name, LESS_DECODING),
        Figure(
            "memory per pod while holding all",
            "kB",
            ours["pod_bytes"] / 1000,
            peer["pod_bytes"] / 1000,
            name,
            LESS_MEMORY,
        ),
        Figure("resident after the sync", "MB", ours["resident"] / 1e6, peer["resident"] / 1e6, name),
    ]


def _read(reader: str, kubeconfig: Path) -> dict[str, float]:
    print(f"   reading with {reader}", flush=True)
    done = subprocess.run(
        (sys.executable, "-m", "bench.readers", reader, str(kubeconfig)), check=True, stdout=subprocess.PIPE, text=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result
