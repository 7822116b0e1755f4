"""The stories there are, by name. A new one is one line here and a module of data."""

from collections.abc import Mapping

from ullage.errors import UserError
from ullage.sim.demo.crowding import CROWDING
from ullage.sim.demo.ebb import EBB
from ullage.sim.demo.story import Story
from ullage.sim.demo.tour import TOUR

STORIES: Mapping[str, Story] = {story.name: story for story in (TOUR, CROWDING, EBB)}


def story_named(name: str) -> Story:
    """Raises UserError that names those there are."""
    if name not in STORIES:
        raise UserError(f"--scenario {name}: there is none of that name; there are {', '.join(STORIES)}")
    return STORIES[name]
