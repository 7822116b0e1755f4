"""A leader that is stopped for longer than its Lease and continued answers no permit, wherever the stop met it.

A stop is a time in which nothing of the process runs. Meanwhile the next leader grants what is free.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader, web
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry

from tests.control.vms.test_permits import NS, Town, a_town
from tests.sim.controllers.stage import Stage, on_stage
from tests.vms import node_config, size, vm_config
from ullage.control.leader.guard import GuardedTransport
from ullage.control.leader.leadership import ElectionTiming, Leadership
from ullage.control.vms.permits import PermitHandler
from ullage.control.vms.server import PermitServer
from ullage.decide.vms.core import VmCore, VmRules
from ullage.kube.client.resources import VIRTUAL_MACHINES
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Request, Response, Transport
from ullage.kube.read.vm import read_vm
from ullage.observe.vm_metrics import VmSystemMetrics
from ullage.sim.apiserver import InMemoryTransport
from ullage.sim.virtual_time import loop_clock
from ullage.state.vm_ledger import VmLedger

pytestmark = pytest.mark.story
TIMING = ElectionTiming()
STOPPED = 2.0 * TIMING.duration
VMS = "ab"
FREE = 7
"""Cores that may be reserved on the node."""


class StoppingTransport:
    """Wire of a process that is stopped once: before or after the call of one method."""

    def __init__(self, inner: Transport, method: str = "", *, before: bool = False) -> None:
        self._inner = inner
        self._method = method
        self._before = before

    async def send(self, request: Request) -> Response:
        here = request.method == self._method
        if here and self._before:
            await asyncio.sleep(STOPPED)
        response = await self._inner.send(request)
        if here and not self._before:
            await asyncio.sleep(STOPPED)
        return response

    def stream(self, request: Request) -> AsyncIterator[Sequence[bytes]]:
        return self._inner.stream(request)

    async def close(self) -> None:
        return None


def a_server(core: VmCore, wire: Transport, leadership: Leadership) -> PermitServer:
    api = RestApi(wire, rng=random.Random(1))
    metrics = VmSystemMetrics(CollectorRegistry())
    handler = PermitHandler(core, api, loop_clock())
    return PermitServer(handler, None, metrics, loop_clock(), lambda: leadership.remaining() > 0)


async def ask(server: PermitServer, vm: str, cores: int) -> web.Response:
    message = {
        "protoVersion": 2,
        "pod": {"namespace": NS, "name": vm},
        "resources": {"vCPUs": cores, "mem": 4 * cores},
        "metrics": {"loadAvg1M": 1.0, "loadAvg5M": 1.0},
    }
    body = StreamReader(Mock(_reading_paused=False), 1 << 16, loop=asyncio.get_running_loop())
    body.feed_data(json.dumps(message).encode())
    body.feed_eof()
    return await server.answer(make_mocked_request("POST", "/", payload=body))


def a_term(identity: str, term: int) -> Leadership:
    leadership = Leadership(identity, term, loop_clock(), TIMING.margin)
    leadership.extend(loop_clock().steady() + TIMING.duration)
    return leadership


async def next_leader(town: Town) -> PermitServer:
    """Another replica, that has listed all objects."""
    ledger = VmLedger(vm_config(node_config(unit=size(1, 4))))
    ledger.put_node("n", size(8, 32))
    for name in VMS:
        ledger.put_vm(read_vm(await town.stage.api.get(VIRTUAL_MACHINES, name, NS)))
        ledger.put_pod(await town.pod(name))
    leadership = a_term("second", 2)
    wire = GuardedTransport(InMemoryTransport(town.stage.server, user="second"), leadership)
    return a_server(VmCore(ledger, VmRules()), wire, leadership)


@pytest.mark.parametrize(
    ("method", "before", "waits", "approved"),
    [
        pytest.param("", False, STOPPED, {"a": 1, "b": 6}, id="before-it-read-the-request"),
        pytest.param("PATCH", True, 0.0, {"a": 1, "b": 6}, id="before-its-write"),
        pytest.param("PATCH", False, 0.0, {"a": 6, "b": 1}, id="after-its-write"),
    ],
)
def test_a_leader_that_was_stopped_answers_no_permit(
    method: str, before: bool, waits: float, approved: dict[str, int]
) -> None:
    async def story(stage: Stage) -> None:
        town = await a_town(stage, VMS)
        leadership = a_term("first", 1)
        wire = StoppingTransport(
            GuardedTransport(InMemoryTransport(stage.server, user="first"), leadership), method, before=before
        )
        first = a_server(town.core, wire, leadership)

        async def asked() -> web.Response:
            await asyncio.sleep(waits)
            return await ask(first, "a", 6)

        asking = asyncio.ensure_future(asked())
        await asyncio.sleep(TIMING.duration + 1)
        assert not asking.done()
        second = await next_leader(town)
        granted = await ask(second, "b", 6)
        assert granted.status == 200
        late = await asking
        assert late.status == 503
        assert json.loads(granted.text or "")["permit"]["vCPUs"] == approved["b"]
        cores = {name: amounts.cpu // 1000 for name in VMS if (amounts := (await town.pod(name)).approved)}
        assert cores == approved
        assert sum(cores.values()) <= FREE
        assert (await ask(first, "a", 1)).status == 503, "and none later"

    on_stage(story)


def test_a_leader_that_is_not_stopped_answers() -> None:
    async def story(stage: Stage) -> None:
        town = await a_town(stage, VMS)
        leadership = a_term("first", 1)
        wire = StoppingTransport(GuardedTransport(InMemoryTransport(stage.server, user="first"), leadership))
        answer = await ask(a_server(town.core, wire, leadership), "a", 6)
        assert answer.status == 200

    on_stage(story)
