"""Controls of a demo: the same verbs for keys in the terminal and buttons in the browser.

Time verbs act on the pace of the running loop, the others on the cluster. No terminal and no socket here.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import Any, Protocol

import msgspec

from ullage.errors import UserError
from ullage.sim.demo.captions import Caption, CaptionFeed
from ullage.sim.demo.cluster_actions import ClusterActions
from ullage.sim.world.world import World

SPEEDS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 1000.0)
"""Speeds that `faster` and `slower` go through."""
LONGEST_STEP_SECONDS = 30.0
"""Simulated seconds after which a step ends though nothing was told."""
BY = "you"
"""Author of the captions of actions."""


class DemoVerb(StrEnum):
    """Verbs that an onlooker may ask for."""

    PAUSE = "pause"
    RESUME = "resume"
    STEP = "step"
    FASTER = "faster"
    SLOWER = "slower"
    RESTART = "restart"
    BREAK_GPU = "break-gpu"
    REPAIR = "repair"
    ADD_GANG = "add-gang"
    DRAIN_NODE = "drain-node"


@dataclass(frozen=True, slots=True)
class DemoKey:
    """A key of the terminal."""

    key: str
    shown: str
    """Name of the key on the screen."""
    meaning: str


KEYS: Mapping[DemoVerb, DemoKey] = {
    DemoVerb.PAUSE: DemoKey(" ", "space", "pause and go on"),
    DemoVerb.STEP: DemoKey("s", "s", "step"),
    DemoVerb.FASTER: DemoKey("+", "+", "faster"),
    DemoVerb.SLOWER: DemoKey("-", "-", "slower"),
    DemoVerb.RESTART: DemoKey("r", "r", "from the beginning"),
    DemoVerb.BREAK_GPU: DemoKey("b", "b", "break a GPU"),
    DemoVerb.REPAIR: DemoKey("f", "f", "fix GPUs"),
    DemoVerb.ADD_GANG: DemoKey("g", "g", "add a gang"),
    DemoVerb.DRAIN_NODE: DemoKey("d", "d", "drain a node"),
}
_ALSO = {"=": DemoVerb.FASTER, "_": DemoVerb.SLOWER, ".": DemoVerb.STEP}


def verb_of(key: str) -> DemoVerb | None:
    """Verb of a key; None if it has none."""
    return next((verb for verb, one in KEYS.items() if one.key == key.lower()), _ALSO.get(key))


class Pace(Protocol):
    """Time that can be paused: that of a ScaledLoop."""

    speed: float

    @property
    def paused(self) -> bool: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class DemoControls:
    """Controls of one performance. Methods are called in its loop."""

    def __init__(self, pace: Pace, world: World, feed: CaptionFeed, restart: Callable[[], None]) -> None:
        self.assets: Mapping[str, bytes] = _assets()
        self.said = ""
        """Sentence of what was done last."""
        self.refused = False
        """True of a sentence that says why something was not done."""
        self.on_change: Callable[[], None] = lambda: None
        """Called after every verb, and when a step is over."""
        self._pace = pace
        self._world = world
        self._feed = feed
        self._restart = restart
        self._stepping: asyncio.TimerHandle | None = None
        self._work: set[asyncio.Task[None]] = set()
        self._actions = ClusterActions(world, self._start, lambda text: self._announce(DemoVerb.DRAIN_NODE, text))
        feed.listen(self._captioned)

    @property
    def speed(self) -> float:
        """Speed at which time passes now: 0 while it stands still."""
        return 0.0 if self._pace.paused else self._pace.speed

    def state(self) -> bytes:
        """State of the controls, as JSON."""
        story = self._feed.story
        return msgspec.json.encode(
            {
                "paused": self._pace.paused,
                "speed": self._pace.speed,
                "elapsed": self._world.elapsed,
                "step": f"{self._feed.number}/{len(story.story_steps)} {self._feed.story_step.name}",
                "nodes": self._actions.nodes(),
                "said": self.said,
                "refused": self.refused,
            }
        )

    def act(self, verb: str, arguments: Mapping[str, str]) -> bytes:
        """Do it, and return the state. Raises UserError with the sentence that is shown, too."""
        try:
            asked = DemoVerb(verb)
        except ValueError:
            raise UserError(f"there is no {verb}: there are {', '.join(DemoVerb)}") from None
        try:
            self._perform(asked, arguments.get("node", ""))
        except UserError as error:
            self._announce(asked, str(error), warning=True)
            raise
        finally:
            self.on_change()
        return self.state()

    def press(self, key: str) -> bool:
        """Do what a key of the terminal means. False if it means nothing; what is refused is told, not raised."""
        verb = verb_of(key)
        if verb is DemoVerb.PAUSE and self._pace.paused:
            verb = DemoVerb.RESUME
        if verb is not None:
            with suppress(UserError):
                self.act(verb, {})
        return verb is not None

    def close(self) -> None:
        """End what was started here and is not over."""
        for task in self._work:
            task.cancel()

    def _perform(self, verb: DemoVerb, node: str) -> None:
        match verb:
            case DemoVerb.PAUSE | DemoVerb.RESUME:
                self._pause(paused=verb is DemoVerb.PAUSE)
            case DemoVerb.STEP:
                self._step()
            case DemoVerb.FASTER | DemoVerb.SLOWER:
                self._change_speed(faster=verb is DemoVerb.FASTER)
            case DemoVerb.RESTART:
                self._say("From the beginning: the same seed, the same story.")
                self._restart()
            case DemoVerb.BREAK_GPU:
                self._announce(verb, self._actions.break_gpu(node))
            case DemoVerb.REPAIR:
                self._announce(verb, self._actions.repair())
            case DemoVerb.ADD_GANG:
                self._announce(verb, self._actions.add_gang())
            case DemoVerb.DRAIN_NODE:
                self._announce(verb, self._actions.drain_node(node))

    def _pause(self, *, paused: bool) -> None:
        self._end_step()
        if paused:
            self._pace.pause()
        else:
            self._pace.resume()
        self._announce(
            DemoVerb.PAUSE if paused else DemoVerb.RESUME, "Time stands still." if paused else "Time passes."
        )

    def _step(self) -> None:
        """Let time pass until something is told, for half a minute at most."""
        self._end_step()
        self._say("On to the next thing that happens.")
        self._stepping = asyncio.get_running_loop().call_later(LONGEST_STEP_SECONDS, self._stop_stepping)
        self._pace.resume()

    def _captioned(self, spoken: Caption) -> None:
        if self._stepping is not None and spoken.who != BY:
            self._stop_stepping()

    def _stop_stepping(self) -> None:
        self._end_step()
        self._pace.pause()
        self._say("One step further; time stands still.")
        self.on_change()

    def _end_step(self) -> None:
        if self._stepping is not None:
            self._stepping.cancel()
            self._stepping = None

    def _change_speed(self, *, faster: bool) -> None:
        now = self._pace.speed
        known = [one for one in SPEEDS if (one > now if faster else one < now)]
        if not known:
            raise UserError(f"{now:g} times as fast is the {'most' if faster else 'least'}")
        self._pace.speed = min(known) if faster else max(known)
        self._announce(DemoVerb.FASTER if faster else DemoVerb.SLOWER, f"{self._pace.speed:g} times as fast.")

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def _say(self, text: str, *, refused: bool = False) -> None:
        self.said, self.refused = text, refused

    def _announce(self, verb: DemoVerb, text: str, *, warning: bool = False) -> None:
        self._say(text, refused=warning)
        word = "".join(part.capitalize() for part in verb.value.split("-"))
        self._feed.record(Caption(at=self._world.elapsed, who=BY, word=word, text=text, warning=warning))
        self.on_change()


def _assets() -> Mapping[str, bytes]:
    folder = resources.files("ullage.sim.demo")
    return {name: folder.joinpath(name).read_bytes() for name in ("demo.js", "demo.css")}
