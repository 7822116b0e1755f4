"""SIGKILL and SIGSTOP of every process at random points under load: all converges, and no GPU is ever seen twice.

Exclusivity is judged from kube-apiserver's own watch by code that knows the API's objects only.
"""

import asyncio
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.control.signals.load import Load, at_work
from tests.control.signals.site import CONVERGES_SECONDS, ApiHistory, SignalSite, Target, pool_is_empty, started_site
from ullage.errors import ApiError
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import KubeApi

pytestmark = [pytest.mark.real, pytest.mark.fault]

POINTS = 10
KILL, STOP = signal.SIGKILL, signal.SIGSTOP
QUICK = (Target.ETCD, KILL)
"""The one point of every run: all processes lose their API server's store at once."""


class Sites:
    """One site for all tests, and another one after a failure."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._site: SignalSite | None = None

    def get(self) -> SignalSite:
        if self._site is None or self._site.broken:
            self._open.close()
            self._site = self._open.enter_context(started_site())
        return self._site

    def close(self) -> None:
        self._open.close()


@pytest.fixture(scope="module")
def sites() -> Iterator[Sites]:
    sites = Sites()
    yield sites
    sites.close()


@pytest.fixture
def site(sites: Sites) -> SignalSite:
    return sites.get()


@pytest.fixture
async def api(site: SignalSite) -> AsyncIterator[KubeApi]:
    opened = connect(site.plane.kubeconfig, seed=0)
    yield opened
    await opened.close()


def pause_of(number: signal.Signals, chance: random.Random) -> float:
    """Seconds until it goes on: at once, after a while, or (stopped) after another may have taken its place."""
    if number is KILL:
        return chance.choice((0.0, chance.uniform(0.0, 0.5), chance.uniform(0.5, 3.0)))
    (least, most) = chance.choices(((0.1, 1.0), (2.0, 8.0), (16.0, 22.0)), (5, 3, 2))[0]
    return chance.uniform(least, most)


class Trial:
    """Signals at random points of one load. A failure says seed, point and moment."""

    def __init__(self, site: SignalSite, api: KubeApi, history: ApiHistory, seed: int) -> None:
        self._site = site
        self._api = api
        self._history = history
        self._seed = seed
        self._chance = random.Random(f"signals/{seed}")
        self._load = Load(api, seed)
        self._began = time.monotonic()

    async def play(self, target: Target, number: signal.Signals, points: int) -> None:
        for point in range(points):
            before, pause = self._chance.uniform(1.0, 3.0), pause_of(number, self._chance)
            moment = ""
            try:
                async with at_work(self._load):
                    await asyncio.sleep(before)
                    moment = f"{time.monotonic() - self._began:.2f} s, version {self._history.pods.version}"
                    await self._site.strike(target, number, pause)
                    await asyncio.sleep(self._chance.uniform(0.2, 1.5))
                await self._converged()
                assert self._history.breaches() == []
            except BaseException as error:
                at = f"seed {self._seed}, point {point} of {points}: {number.name} of {target.value}"
                error.add_note(f"{at} at {moment or 'no moment'}, for {pause:.2f} s")
                raise

    async def _converged(self) -> None:
        await self._until(self._answers)
        await self._load.complete()
        await self._until(self._settled)
        self._site.check_running()

    async def _answers(self) -> list[str]:
        try:
            await self._api.discover()
        except ApiError as error:
            return [str(error)]
        return []

    async def _settled(self) -> list[str]:
        return self._history.unsettled()

    async def _until(self, wrong: Callable[[], Awaitable[list[str]]]) -> None:
        """Wait until nothing is wrong twice in a row; what still is, is said."""
        ends, quiet = time.monotonic() + CONVERGES_SECONDS, 0
        while quiet < 2:
            found = await wrong()
            quiet = 0 if found else quiet + 1
            assert time.monotonic() < ends, f"not converged within {CONVERGES_SECONDS:.0f} s: {found}"
            await asyncio.sleep(0.3)

    async def leave(self) -> None:
        """Everything leaves: no pod, no Lease and no machine is left."""
        await self._load.end_all()

        async def left() -> list[str]:
            pods = [*self._history.pods.present]
            empty = await pool_is_empty(self._api)
            return [*pods, *self._history.unsettled(), *([] if empty else ["the pool has machines"])]

        await self._until(left)


CASES = [(target, number) for target in Target for number in (KILL, STOP)]


async def played(site: SignalSite, api: KubeApi, case: tuple[Target, signal.Signals], points: int) -> None:
    history, seed = ApiHistory(site.plane), CASES.index(case)
    try:
        with history.recording():
            trial = Trial(site, api, history, seed)
            await trial.play(*case, points)
            await trial.leave()
            assert history.breaches() == []
    except BaseException:
        site.broken = True
        raise
    seen = len(history.pods.changes) + len(history.leases.changes)
    assert seen > 20 * points, "there was hardly any load: this run shows little"
    sys.stderr.write(f"{points} points, {seen} versions judged, {history.pods.listed} listed one by one\n")


@pytest.mark.timeout(120)
async def test_all_converges_after_etcd_was_killed_under_load(site: SignalSite, api: KubeApi) -> None:
    await played(site, api, QUICK, 1)


@pytest.mark.full
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("case", [pytest.param(one, id=f"{one[0].value}-{one[1].name}") for one in CASES])
async def test_all_converges_after_ten_signals_at_random_points(
    site: SignalSite, api: KubeApi, case: tuple[Target, signal.Signals]
) -> None:
    await played(site, api, case, POINTS)
