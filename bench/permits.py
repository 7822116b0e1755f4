"""Permit requests on the real control plane: 20 nodes, 200 VM pods, 20 vm-agents, and a generator of 500 a second.

Each of the generator's requests is sent at its own time, whatever became of those before, over TLS connections that
stay open, with the token of its node. 50 a second change an allocation, which is a write. Time counts from when the
request was due.
"""

import asyncio
import json
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from bench.permit_site import NODE_COUNT, NS, UNIT, VMS_PER_NODE, PermitSite, a_machine, built_site
from bench.record import Figure
from ullage.errors import Unreachable
from ullage.kube.auth.credentials import Credential, FixedCredentials, bearer
from ullage.kube.auth.tls import Pem, ServerTrust
from ullage.kube.client.transport import Request
from ullage.kube.http.http import Endpoint, HttpTransport
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec

RATE, CHANGES = 500, 50
SECONDS, RUNS = 60.0, 3
MOST_SAME_MS, MOST_CHANGE_MS = 20.0, 100.0


@dataclass
class _Times:
    same: list[float] = field(default_factory=list)
    change: list[float] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    """Requests without a permit, by the answer or error."""
    elapsed: float = 0.0


def run(scale: float) -> list[Figure]:
    """Median of three runs of a minute each."""
    with tempfile.TemporaryDirectory() as folder, ControlPlane(ControlPlaneSpec(fsync=True)) as plane:
        work = _measured(plane, Path(folder), max(2.0, SECONDS * scale), RUNS if scale == 1.0 else 1)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runs = runner.run(work)

    def median(figures: list[float]) -> float:
        return statistics.median(figures)

    for one in runs:
        for problem, count in one.failed.most_common(3):
            print(f"  without a permit: {count} times {problem}")
    rate = median([(len(one.same) + len(one.change)) / one.elapsed for one in runs])
    same = median([_quantile(one.same, 0.99) for one in runs])
    change = median([_quantile(one.change, 0.99) for one in runs])
    return [
        Figure("permit requests answered", "/s", rate, RATE * 0.99, "asked", 1.0, more_is_better=True),
        Figure("of them changing an allocation", "/s", median([len(one.change) / one.elapsed for one in runs])),
        Figure("requests without a permit", "", median([float(one.failed.total()) for one in runs])),
        Figure("permit that changes nothing, median", "ms", median([_quantile(one.same, 0.5) for one in runs])),
        Figure("permit that changes nothing, p99", "ms", same, MOST_SAME_MS, "promised at most", 1.0),
        Figure("permit that changes an allocation, median", "ms", median([_quantile(one.change, 0.5) for one in runs])),
        Figure("permit that changes an allocation, p99", "ms", change, MOST_CHANGE_MS, "promised at most", 1.0),
    ]


def _quantile(times: list[float], part: float) -> float:
    return sorted(times)[min(int(len(times) * part), len(times) - 1)] * 1000 if times else float("inf")


async def _measured(plane: ControlPlane, folder: Path, seconds: float, runs: int) -> list[_Times]:
    async with built_site(plane, folder) as site, a_machine() as metrics:
        with site.scheduler():
            (folder / "ca.crt").write_text(await site.authority())
            with site.agents(metrics):
                generator = _Generator(site)
                try:
                    await site.agents_at_work()
                    await generator.warm_up()
                    return [await _counted(site, generator, seconds) for _ in range(runs)]
                finally:
                    await generator.close()


async def _counted(site: PermitSite, generator: "_Generator", seconds: float) -> _Times:
    """One run, with the processor time of each program beside it."""
    before = site.processor_seconds()
    times = await generator.run(seconds)
    spent = {name: after - before[name] for name, after in site.processor_seconds().items()}
    shares = ", ".join(f"{name} {100 * part / times.elapsed:.0f} %" for name, part in spent.items())
    print(
        f"  {_quantile(times.same, 0.99):.1f} ms, {_quantile(times.change, 0.99):.1f} ms for changes (p99); "
        f"one core's time: {shares}",
        flush=True,
    )
    return times


class _Generator:
    """Requests for the VMs that no agent has taken over: every second one of each node."""

    def __init__(self, site: PermitSite) -> None:
        trust = ServerTrust(authority=Pem((site.folder / "ca.crt").read_bytes(), "ca.crt"))
        server = Endpoint(site.url.rstrip("/"), trust)
        self._nodes = {
            node: HttpTransport(server, FixedCredentials(Credential(bearer(token)), node))
            for node, token in site.tokens.items()
        }
        self._vms = [
            (f"n{node:02}", f"n{node:02}-v{number}")
            for number in range(1, VMS_PER_NODE, 2)
            for node in range(NODE_COUNT)
        ]
        self._units = {vm: 1 for _, vm in self._vms}
        self._messages = {(vm, units): _message(vm, units) for _, vm in self._vms for units in (1, 2)}

    async def warm_up(self) -> None:
        """Wait until the scheduler answers, and has seen every VM's agent once."""
        async with asyncio.timeout(120):
            for node, vm in self._vms:
                while await self._asked(node, vm, 1):  # noqa: ASYNC110 - only answers tell
                    await asyncio.sleep(0.2)

    async def run(self, seconds: float) -> _Times:
        times = _Times()
        tasks: set[asyncio.Task[None]] = set()  # those under way: thousands that are over would make collections long
        began = time.perf_counter()
        for number in range(int(RATE * seconds)):
            due = began + number / RATE
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            # Changes go round all VMs, so that one of a VM is over before its next; other requests keep its size.
            changes = number % (RATE // CHANGES) == 0
            task = asyncio.create_task(self._one(number, due, changes, times))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
        times.elapsed = time.perf_counter() - began
        return times

    async def _one(self, number: int, due: float, changes: bool, times: _Times) -> None:
        step = RATE // CHANGES
        node, vm = self._vms[(number // step if changes else number * 7 + 3) % len(self._vms)]
        units = self._units[vm]
        if changes:
            units = self._units[vm] = 3 - units
        done = await self._asked(node, vm, units)
        took = time.perf_counter() - due
        if done:
            times.failed[done] += 1
        (times.change if changes else times.same).append(took)

    async def _asked(self, node: str, vm: str, units: int) -> str:
        """Send one request; returns the problem, empty if a permit came."""
        try:
            answer = await self._nodes[node].send(Request("POST", "/", body=self._messages[vm, units]))
        except (Unreachable, TimeoutError) as error:
            return type(error).__name__
        return "" if answer.status == 200 else f"{answer.status} {answer.body[:60].decode(errors='replace')}"

    async def close(self) -> None:
        for transport in self._nodes.values():
            await transport.close()


def _message(vm: str, units: int) -> bytes:
    amounts = UNIT.times(units)
    message = {
        "protoVersion": 7,
        "pod": {"namespace": NS, "name": vm},
        "computeUnit": {"vCPUs": UNIT.cpu // 1000, "mem": UNIT.memory},
        "resources": {"vCPUs": amounts.cpu // 1000, "mem": amounts.memory},
        "lastPermit": None,
        "metrics": {"loadAvg1M": 0.5},
    }
    return json.dumps(message).encode()
