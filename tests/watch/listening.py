"""One informer on one hostile server, with everything a test wants to look at."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.watch.hostile import HostileServer, Reader, read
from ullage.errors import ApiError
from ullage.kube.calling import Patience
from ullage.kube.resource import JsonObject
from ullage.kube.resources import CONFIG_MAPS
from ullage.kube.rest import RestApi
from ullage.model.event import ObjectKey
from ullage.sim.time import loop_clock
from ullage.watch.informer import Informer, Interest, Pace

Fact = tuple[str, str]
DEFAULT_PACE = Pace()


@dataclass
class World:
    server: HostileServer
    reader: Reader
    informer: Informer[JsonObject, Fact]
    troubles: list[ApiError]


def one_key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


@asynccontextmanager
async def listening(
    server: HostileServer,
    *,
    seed: int = 1,
    pace: Pace = DEFAULT_PACE,
    chunk: int = 3,
    read: Callable[[JsonObject], Fact] = read,
) -> AsyncIterator[World]:
    reader, troubles = Reader(), list[ApiError]()
    rng = random.Random(seed)
    informer = Informer(
        RestApi(server, rng=rng, patience=Patience(attempts=1)),
        Interest(CONFIG_MAPS, read, chunk=chunk, pace=pace),
        reader.deliver,
        rng=rng,
        clock=loop_clock(),
        on_trouble=troubles.append,
    )
    task = asyncio.create_task(informer.run(), name="informer")
    try:
        yield World(server, reader, informer, troubles)
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.result()


def a_server(*names: str) -> HostileServer:
    server = HostileServer()
    for name in names:
        server.put(name, "1")
    return server
