"""Bodies that are too long, or announced to be: agents are refused before they have sent them."""

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from ullage.clock import WallClock
from ullage.control.vms.server import PermitServer, serving_vms
from ullage.observe.probes import ListenAddress
from ullage.observe.vm_metrics import VmSystemMetrics
from ullage.protocol.vm_permits import MAX_BODY

AT_ONCE = 2.0
"""Seconds; a server that waits for a body waits for longer."""


class Handler:
    """Permits nobody asks for."""

    async def handle(self, method: str, body: bytes, *, node: str | None) -> Any:
        raise AssertionError(f"{method} with {len(body)} bytes for {node} came through")


@pytest.mark.parametrize("sent", [0, MAX_BODY + 1], ids=["and does not come", "and comes"])
async def test_a_body_announced_as_too_long_is_refused_at_once(sent: int) -> None:
    handler: Any = Handler()
    server = PermitServer(handler, None, VmSystemMetrics(CollectorRegistry()), WallClock())
    async with serving_vms(ListenAddress("127.0.0.1", 0), None, server.answer) as address:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {MAX_BODY + 1}\r\n\r\n"
        writer.write(head.encode() + b"x" * sent)
        async with asyncio.timeout(AT_ONCE):
            answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(b"bad JSON")
