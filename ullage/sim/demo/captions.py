"""Caption feed of a demo: the current caption and the recent decisions. Similar decisions are folded into one line."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from ullage.sim.demo.story import Story, StoryStep

_REMEMBERED = 100
_TOGETHER_SECONDS = 20.0
"""Seconds within which decisions of one kind about pods of one workload are folded into one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caption:
    """One line of the feed: a decision or a story step, with its reason."""

    at: float
    """Seconds since the beginning."""
    who: str
    """The loop that decided, or `story`."""
    word: str
    """One word: the reason of an Event, or the name of a story step."""
    about: str = ""
    text: str
    warning: bool = False
    count: int = 1
    """Number of similar captions folded into this one. The text is that of the latest."""

    @property
    def family(self) -> tuple[str, str]:
        """Key that similar captions share: the word, and the object name without the suffix a controller generated."""
        return self.word, self.about.rpartition("-")[0] or self.about


class CaptionFeed:
    """Collects captions and passes each on to the listeners."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.story_step: StoryStep = story.story_steps[0]
        self.recent: deque[Caption] = deque(maxlen=_REMEMBERED)
        """Oldest first."""
        self._listeners: list[Callable[[Caption], None]] = []

    @property
    def number(self) -> int:
        """Number of the current story step, from 1."""
        return self.story.story_steps.index(self.story_step) + 1

    def listen(self, listener: Callable[[Caption], None]) -> None:
        """Call `hear` with every caption from now on, story steps included."""
        self._listeners.append(listener)

    def begin(self, story_step: StoryStep, at: float) -> None:
        """Go to the next story step."""
        self.story_step = story_step
        self._pass_on(Caption(at=at, who="story", word=story_step.name, text=story_step.caption))

    def record(self, spoken: Caption) -> None:
        """Add a decision of a loop, or a rejection by the API server."""
        like = next((one for one in reversed(self.recent) if one.family == spoken.family), None)
        if like is not None and spoken.at - like.at <= _TOGETHER_SECONDS:
            self.recent.remove(like)
            self.recent.append(replace(spoken, count=like.count + 1))
        else:
            self.recent.append(spoken)
        self._pass_on(spoken)

    def _pass_on(self, spoken: Caption) -> None:
        for listener in self._listeners:
            listener(spoken)
