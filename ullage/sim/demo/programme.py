"""What has been told so far: the caption of the moment, and decisions, like ones folded into one."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from ullage.sim.demo.story import Moment, Story

_REMEMBERED = 100
_TOGETHER_SECONDS = 20.0
"""Decisions of one kind about pods of one workload that come this close are one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One thing that was told, with its why."""

    at: float
    """Seconds since the beginning."""
    who: str
    """The loop that decided, or `story`."""
    word: str
    """In one word: the reason of an Event, the name of a moment."""
    about: str = ""
    text: str
    warning: bool = False
    count: int = 1
    """How many like it were told: the text is that of the last one."""

    @property
    def family(self) -> tuple[str, str]:
        """What like ones have in common. Names that controllers made up differ in their last part alone."""
        return self.word, self.about.rpartition("-")[0] or self.about


class Programme:
    """Collects what is told, and passes it on as it comes."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.moment: Moment = story.moments[0]
        self.recent: deque[Told] = deque(maxlen=_REMEMBERED)
        """The latest last."""
        self._listeners: list[Callable[[Told], None]] = []

    @property
    def number(self) -> int:
        """Which moment of the story it is, from 1."""
        return self.story.moments.index(self.moment) + 1

    def listen(self, hear: Callable[[Told], None]) -> None:
        """Be told everything from now on, moments included."""
        self._listeners.append(hear)

    def begin(self, moment: Moment, at: float) -> None:
        """The story goes on."""
        self.moment = moment
        self._pass_on(Told(at=at, who="story", word=moment.name, text=moment.caption))

    def tell(self, told: Told) -> None:
        """Somebody decided something, or the API server refused it."""
        like = next((one for one in reversed(self.recent) if one.family == told.family), None)
        if like is not None and told.at - like.at <= _TOGETHER_SECONDS:
            self.recent.remove(like)
            self.recent.append(replace(told, count=like.count + 1))
        else:
            self.recent.append(told)
        self._pass_on(told)

    def _pass_on(self, told: Told) -> None:
        for hear in self._listeners:
            hear(told)
