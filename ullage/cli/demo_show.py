"""Demo: performances of a story, each in a world of its own, with an API over HTTP, a dashboard, a terminal view, keys.

Going back to the beginning ends a performance and starts another one at the same addresses. All is stopped at the end.
"""

import asyncio
import importlib.resources
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from ullage.cli.demo import DemoOptions
from ullage.cli.demo_browser import open_browser
from ullage.cli.demo_keyboard import Keyboard, keyboard
from ullage.cli.demo_output import DemoOutput, Performance, demo_output
from ullage.cli.demo_stopping import signals_handled, signals_held, ticking
from ullage.clock import Instant, WallClock
from ullage.config.dashboard import DashboardSettings
from ullage.errors import InvariantBroken
from ullage.observe.log import configure
from ullage.observe.probes import ListenAddress
from ullage.sim import demo
from ullage.sim.demo.captions import Caption, CaptionFeed
from ullage.sim.demo.catalog import story_named
from ullage.sim.demo.cluster import play, staged
from ullage.sim.demo.controls import DemoControls
from ullage.sim.demo.screen import Addresses, clock_of
from ullage.sim.demo.story import Story
from ullage.sim.http import ServeOptions, serving
from ullage.sim.scaled_time import ScaledLoop, run_scaled
from ullage.sim.world.world import World
from ullage.web.history.opening import open_history
from ullage.web.live import LiveView, follow_cluster, served

_HEAD_START = 86_400.0
"""Clients that work out ages themselves compare with their own clock: the story's begins a day earlier."""
_FRAME_SECONDS = 0.4
"""Real seconds between two pictures."""
_EXAMPLE = "claim.yaml"
_QUIT = "qQ"
_ANSWER_SECONDS = 0.3
"""Real seconds from the wish to go back to the end of the performance: the page gets its answer."""
_COUNTED = {
    "Scheduled": ("pod placed", "pods placed"),
    "NodesLaunched": ("purchase of nodes", "purchases of nodes"),
    "PodEvicted": ("pod moved", "pods moved"),
    "NodeRemoved": ("node given back", "nodes given back"),
}


def show(asked: DemoOptions) -> None:
    """Run the demo until it is over, or the user stops it."""
    showing = _Show(asked, story_named(asked.scenario))
    configure(level="error")  # whatever is worth telling is told on the screen
    with signals_held():
        with _folder() as folder, keyboard() as keys, demo_output() as output:
            showing.run(_Place(folder, keys, output))
        if not output.gone:
            click.echo(showing.farewell())
    if showing.broken:
        raise InvariantBroken(showing.broken)


@dataclass(frozen=True, slots=True)
class _Place:
    """Place of the performances: files, keys and output."""

    folder: Path
    keys: Keyboard
    output: DemoOutput


class _Show:
    """Performances of one story, one after the other, at the same addresses."""

    def __init__(self, asked: DemoOptions, story: Story) -> None:
        self._asked = asked
        self._story = story
        self._epoch = Instant(WallClock().now() - _HEAD_START)
        self._until = None if asked.duration is None else time.monotonic() + asked.duration
        self._speed = asked.speed
        self._dashboard = self._api = ListenAddress("127.0.0.1", 0)
        self._opens_browser = asked.browser
        self._again = True
        self._running: asyncio.Task[None] | None = None
        self._words: Counter[str] = Counter()
        self._elapsed = 0.0
        self.broken = ""
        """First breach of an invariant, in a sentence; empty if there was none."""

    def run(self, place: _Place) -> None:
        """Give performances until the user stops, or the time is over."""
        while self._again:
            self._again = False
            run_scaled(self._until_stopped(self._perform(place)), speed=self._speed, epoch=self._epoch)

    def farewell(self) -> str:
        counted = [f"{times} {what[times > 1]}" for word, what in _COUNTED.items() if (times := self._words[word])]
        done = ", ".join(counted) or "nothing was decided"
        return f"{clock_of(self._elapsed)} simulated: {done}. Nothing is left behind."

    async def _until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        running = self._running = asyncio.ensure_future(work)
        # In seconds of the onlooker, also while time stands still.
        left = 0.0 if self._until is None else max(0.0, self._until - time.monotonic())
        alarm = threading.Timer(left, asyncio.get_running_loop().call_soon_threadsafe, (self._end,))
        if self._until is not None:
            alarm.start()
        try:
            with signals_handled(self._end):
                await running
        except asyncio.CancelledError:
            if self._running is not None:
                raise
        finally:
            alarm.cancel()

    def _end(self) -> None:
        """End the show. What is being cleaned up is not interrupted by asking again."""
        self._again = False
        self._stop()

    def _restart(self) -> None:
        """End the performance and give another one, after whoever asked has an answer."""
        if self._running is not None:
            self._again = True
            threading.Timer(_ANSWER_SECONDS, asyncio.get_running_loop().call_soon_threadsafe, (self._stop,)).start()

    def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.cancel()

    async def _perform(self, place: _Place) -> None:
        """Give one performance, until cancelled."""
        loop = asyncio.get_running_loop()
        if not isinstance(loop, ScaledLoop):
            raise TypeError("a demo needs a loop that can be paused")
        self._words.clear()
        feed = CaptionFeed(self._story)
        async with staged(self._story, self._asked.seed) as world:
            controls = DemoControls(loop, world, feed, self._restart)
            history = open_history(DashboardSettings(), world.clock)
            title = f"demo: {self._asked.scenario}"
            view = LiveView(world.clock, title=title, speed=loop.speed, history=history)
            try:
                async with self._served(view, controls, world, place.folder) as addresses:
                    await self._play(Performance.of(world, feed, controls, addresses, place.keys), view, place)
            finally:
                controls.close()
                history.close()
                self._speed, self._elapsed = loop.speed, world.elapsed

    @asynccontextmanager
    async def _served(
        self, view: LiveView, controls: DemoControls, world: World, folder: Path
    ) -> AsyncIterator[Addresses]:
        options = ServeOptions(address=self._api, kubeconfig=folder / "kubeconfig")
        async with serving(world.server, options) as api, served(view, self._dashboard, controls=controls) as url:
            self._api, self._dashboard = _address(api.url), _address(url)
            yield Addresses(dashboard=url, kubeconfig=str(api.kubeconfig), example=str(folder / _EXAMPLE))

    async def _play(self, shown: Performance, view: LiveView, place: _Place) -> None:
        """Start all observers before the story begins."""
        async with asyncio.TaskGroup() as group, ticking(_FRAME_SECONDS) as tick:
            group.create_task(shown.watching.run(), name="what the terminal shows")
            follow = follow_cluster(shown.world.api, view, seed=self._asked.seed)
            group.create_task(follow, name="what the dashboard shows")
            await shown.watching.wait_synced()
            self._connect(shown, view, tick)
            place.output.begin(shown)
            group.create_task(play(shown.world, shown.feed), name="story")
            group.create_task(self._watch_over(shown), name="invariants")
            with place.keys.listening(lambda key: self._press(key, shown, place.output)):
                while not place.output.gone:
                    place.output.refresh()
                    await tick.wait()
                    tick.clear()
            self._end()
            await asyncio.get_running_loop().create_future()  # until that has its effect

    def _connect(self, shown: Performance, view: LiveView, tick: asyncio.Event) -> None:
        """Let everybody hear what is told, and see what the controls change."""

        def changed() -> None:
            view.speed = shown.controls.speed
            tick.set()

        def pass_on(spoken: Caption) -> None:
            self._words[spoken.word] += 1
            if spoken.who == "story":
                view.caption = spoken.text

        shown.controls.on_change = changed
        shown.feed.listen(pass_on)
        if self._opens_browser:
            self._opens_browser = False
            open_browser(shown.addresses.dashboard)

    def _press(self, key: str, shown: Performance, output: DemoOutput) -> None:
        if key in _QUIT:
            self._end()
        elif not shown.controls.press(key):
            output.explain_keys()

    async def _watch_over(self, shown: Performance) -> None:
        """Report and remember a breach of an invariant; the demo goes on, so that it can be looked at."""
        await shown.world.broken()
        if (violation := shown.world.violation) is not None:
            self.broken = violation.breach
            spoken = Caption(at=violation.at, who="demo", word="InvariantBroken", text=violation.breach, warning=True)
            shown.feed.record(spoken)


def _address(url: str) -> ListenAddress:
    parts = urlsplit(url)
    return ListenAddress(parts.hostname or "127.0.0.1", parts.port or 0)


@contextmanager
def _folder() -> Iterator[Path]:
    """Temporary folder for the kubeconfig and the example, removed when the demo ends."""
    with tempfile.TemporaryDirectory(prefix="ullage-demo-") as name:
        folder = Path(name)
        text = importlib.resources.files(demo).joinpath(_EXAMPLE).read_text()
        (folder / _EXAMPLE).write_text(text)
        yield folder
