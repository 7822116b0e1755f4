"""Both API servers over plain HTTP, as any client sees them: what is sent and what comes back, to the header."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from ullage.clock import WallClock
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.http import serving

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
_PARTING_YIELDS = 10
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@dataclass(frozen=True)
class Told:
    """An answer."""

    status: int
    kind: str
    body: Any
    warnings: list[str] = field(default_factory=list)

    @property
    def message(self) -> str:
        return str(self.body["message"])


@dataclass(frozen=True)
class Wire:
    """One server, and a namespace of one's own in it."""

    session: aiohttp.ClientSession
    url: str
    namespace: str = ""

    async def ask(self, method: str, path: str, body: Any = None, *, kind: str = JSON, accept: str = JSON) -> Told:
        """`{ns}` in the path is our namespace. A body is JSON unless it is bytes already."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = {"Accept": accept} | ({"Content-Type": kind} if data is not None else {})
        async with self.session.request(method, self._address(path), data=data, headers=headers) as answer:
            raw = await answer.read()
            said = json.loads(raw) if raw.startswith(b"{") else raw.decode()
            return Told(
                answer.status, answer.content_type, said, [_quoted(w) for w in answer.headers.getall("Warning", [])]
            )

    async def get(self, path: str, accept: str = JSON) -> Told:
        return await self.ask("GET", path, accept=accept)

    async def post(self, path: str, body: Any, **how: str) -> Told:
        return await self.ask("POST", path, body, **how)

    async def lines(self, path: str, count: int, accept: str = JSON) -> list[Any]:
        """The first lines of a watch."""
        found: list[Any] = []
        async with self.session.get(self._address(path), headers={"Accept": accept}) as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                found.append(json.loads(line))
                if len(found) == count:
                    _hang_up(answer)
                    break
        return found

    def _address(self, path: str) -> str:
        return self.url + path.replace("{ns}", self.namespace)


def _hang_up(answer: aiohttp.ClientResponse) -> None:
    """Leave a stream that goes on: a polite goodbye under TLS would outlive the test."""
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()


def _quoted(warning: str) -> str:
    """Without the code and the agent in front of it."""
    return str(json.loads(warning.split(" ", 2)[2]))


async def with_namespace(wire: Wire) -> Wire:
    made = await wire.post("/api/v1/namespaces", {"metadata": {"generateName": "wire-"}})
    return Wire(wire.session, wire.url, made.body["metadata"]["name"])


@asynccontextmanager
async def simulated_wire() -> AsyncIterator[Wire]:
    server = SimulatedApiServer(WallClock(), seed=1)
    async with serving(server) as served, aiohttp.ClientSession() as session:
        yield await with_namespace(Wire(session, served.url))


@asynccontextmanager
async def real_wire(kubeconfig: Path, folder: Path) -> AsyncIterator[Wire]:
    url, context = read_access(kubeconfig, folder)
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield await with_namespace(Wire(session, url))
        await connector.close(abort_ssl=True)
        for _ in range(_PARTING_YIELDS):  # what is aborted is let go of in the turns after
            await asyncio.sleep(0)


def read_access(kubeconfig: Path, folder: Path) -> tuple[str, ssl.SSLContext]:
    """The address, and how to show who we are."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    trusted = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=trusted)
    pair = folder / "client.pem"
    pair.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
    context.load_cert_chain(pair)
    return str(cluster["server"]), context
