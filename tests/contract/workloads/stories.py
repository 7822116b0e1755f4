"""How a story becomes a test: `@in_both_worlds` on a coroutine that takes a `Cluster`."""

from collections.abc import Awaitable, Callable

from tests.contract.workloads.cluster import Cluster

Story = Callable[[Cluster], Awaitable[None]]
Play = Callable[[Story], None]


def in_both_worlds(story: Story) -> Callable[[Play], None]:
    """The test that plays this story in the world it is given."""

    def test(play: Play) -> None:
        play(story)

    test.__name__ = getattr(story, "__name__", "story")
    test.__qualname__ = test.__name__
    test.__module__ = story.__module__
    test.__doc__ = story.__doc__
    return test
