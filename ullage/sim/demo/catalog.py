"""Catalog of stories by name. A new story is one line here and a module of data."""

from collections.abc import Mapping

from ullage.errors import UserError
from ullage.sim.demo.contention import CROWDING
from ullage.sim.demo.fleet import FLEET
from ullage.sim.demo.karpenter import KARPENTER_STORY
from ullage.sim.demo.scale_down import EBB
from ullage.sim.demo.story import Story
from ullage.sim.demo.tour import TOUR
from ullage.sim.demo.vms import VMS

STORIES: Mapping[str, Story] = {story.name: story for story in (TOUR, CROWDING, EBB, FLEET, KARPENTER_STORY, VMS)}


def story_named(name: str) -> Story:
    """Story of this name. Raises UserError that lists the known names."""
    if name not in STORIES:
        raise UserError(f"--scenario {name}: there is none of that name; there are {', '.join(STORIES)}")
    return STORIES[name]
