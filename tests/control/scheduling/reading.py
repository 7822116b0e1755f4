"""Waiting for what schedulers have to bring about, by what is read back from the API server."""

import asyncio
from collections.abc import Callable, Iterable

from tests.control.scheduling.programs import Programs
from ullage.kube.client.api import KubeApi
from ullage.testing.checks.placement import PlacementReading, breaches, read_placements

LEASE_NAMESPACE = "ullage-system"
PAUSE_SECONDS = 0.3
"""Reading everything is work for the server under test, too."""


async def read(api: KubeApi) -> PlacementReading:
    return await read_placements(api, LEASE_NAMESPACE)


async def until(
    api: KubeApi,
    holds: Callable[[PlacementReading], bool],
    seconds: float,
    programs: Programs,
    *,
    wrong: Callable[[PlacementReading], Iterable[str]] = breaches,
) -> PlacementReading:
    """Read until it holds. A program that ended meanwhile, or what is `wrong` at the end, is said."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not holds(reading := await read(api)):
        programs.check_running()
        if loop.time() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {_state(reading, list(wrong(reading)))}")
        await asyncio.sleep(PAUSE_SECONDS)
    return reading


async def settled(api: KubeApi, seconds: float, programs: Programs) -> PlacementReading:
    """Everything placed, and every lease that should be gone, gone."""
    return await until(api, lambda now: not unplaced(now) and not list(breaches(now)), seconds, programs)


def unplaced(reading: PlacementReading) -> list[str]:
    return [str(pod.key) for pod in reading.pods if not pod.node]


def _state(reading: PlacementReading, wrong: list[str]) -> str:
    waiting = unplaced(reading)
    return f"{len(waiting)} wait ({', '.join(waiting[:5])}), {len(wrong)} breaches ({'; '.join(wrong[:5])})"
