"""Any mix of changes and mishaps, found by Hypothesis: nothing is lost, nothing is told twice."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.watch.hostile import Mishap
from tests.watch.listening import a_server, listening
from ullage.sim.virtual_time import run_virtual

NAMES = st.sampled_from("abcd")
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, st.sampled_from("123")),
    st.tuples(st.just("delete"), NAMES, st.just("")),
    st.tuples(st.just("happen"), st.sampled_from(list(Mishap)), st.just("")),
)


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(st.tuples(STEPS, st.sampled_from([0.0, 0.1, 3.0])), max_size=40), seed=st.integers(0, 1000))
def test_whatever_happens_nothing_is_lost_or_told_twice(
    steps: list[tuple[tuple[str, str, str], float]], seed: int
) -> None:
    """`Reader` fails at any event that does not follow from the ones before; in the end all three views are equal."""

    async def story() -> None:
        async with listening(a_server("a", "b"), seed=seed) as world:
            for (what, which, value), pause in steps:
                match what:
                    case "put":
                        world.server.put(which, value)
                    case "delete":
                        world.server.delete(which)
                    case _:
                        world.server.happen(Mishap(which))
                await asyncio.sleep(pause)
            await asyncio.sleep(400)
            expected = {name: thing["data"]["value"] for name, thing in world.server.things.items()}
            assert world.reader.values == expected
            assert dict(world.informer.facts) == world.reader.view

    run_virtual(story())
