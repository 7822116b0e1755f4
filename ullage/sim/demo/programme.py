"""What has been told so far: the caption of the moment, remarks on it, and decisions, for whoever looks on."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ullage.sim.demo.story import Moment, Story

_REMEMBERED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One thing that was told, with its why."""

    at: float
    """Seconds since the beginning."""
    who: str
    """The loop that decided, or `story`."""
    word: str
    """In one word: the reason of an Event, the name of a moment."""
    about: str
    text: str
    warning: bool = False


class Programme:
    """Collects what is told, and passes it on as it comes."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.moment: Moment = story.moments[0]
        self.recent: deque[Told] = deque(maxlen=_REMEMBERED)
        self._listeners: list[Callable[[Told], None]] = []

    @property
    def number(self) -> int:
        """Which moment of the story it is, from 1."""
        return self.story.moments.index(self.moment) + 1

    def listen(self, hear: Callable[[Told], None]) -> None:
        self._listeners.append(hear)

    def begin(self, moment: Moment, at: float) -> None:
        """The story goes on."""
        self.moment = moment
        for hear in self._listeners:
            hear(Told(at=at, who="story", word=moment.name, about="", text=moment.caption))

    def tell(self, told: Told) -> None:
        """Somebody decided something, or the API server refused it."""
        self.recent.append(told)
        for hear in self._listeners:
            hear(told)
