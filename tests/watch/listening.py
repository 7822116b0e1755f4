"""One informer on one hostile server, with everything a test wants to look at."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.watch.hostile import HostileServer, Reader, read
from ullage.errors import ApiError
from ullage.kube.client.calling import RetryPolicy
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import CONFIG_MAPS
from ullage.kube.client.rest import RestApi
from ullage.model.fact_event import ObjectKey
from ullage.sim.virtual_time import loop_clock
from ullage.watch.informer import Informer, InformerSpec, InformerTiming

Fact = tuple[str, str]
DEFAULT_PACE = InformerTiming()


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
    pace: InformerTiming = DEFAULT_PACE,
    chunk: int = 3,
    read: Callable[[JsonObject], Fact] = read,
    at_hand: bool = False,
) -> AsyncIterator[World]:
    reader, troubles = Reader(), list[ApiError]()
    rng = random.Random(seed)
    informer = Informer(
        RestApi(server, rng=rng, patience=RetryPolicy(attempts=1)),
        InformerSpec(CONFIG_MAPS, read, chunk=chunk, pace=pace, at_hand=at_hand),
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
