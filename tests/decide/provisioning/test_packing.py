"""Packing of new nodes: beside an exact solver, within limits and budgets, and where adding up is not enough."""

from collections.abc import Sequence
from random import Random

import pytest

from ullage.decide.provisioning.packing import Packing, pack
from ullage.decide.provisioning.patterns import Fill, NodeType, Pattern
from ullage.testing.exact_packing import bounds


def adds_up(_: int, pattern: Pattern) -> Pattern:
    return pattern


def packed(demands: Sequence[int], *types: NodeType, budgets: Sequence[float] = (), fill: Fill = adds_up) -> Packing:
    """A packing in which every pod is somewhere once, nothing is overfull, and no limit is passed."""
    found = pack(demands, types, budgets, fill)
    for shape, count in enumerate(demands):
        assert sum(one.pods[shape] * one.count for one in found.filled) + found.unserved[shape] == count
    for one in found.filled:
        assert min(types[one.node_type].left(one.pods)) >= 0
        assert any(one.pods)
    for kind, node in enumerate(types):
        assert nodes(found, kind) <= node.limit
    for place, budget in enumerate(budgets):
        assert sum(types[one.node_type].charges[place] * one.count for one in found.filled) <= budget
    return found


def nodes(found: Packing, kind: int = 0) -> int:
    return sum(one.count for one in found.filled if one.node_type == kind)


def eight(*sizes: int, cost: float = 8.0, limit: int = 10**6, charges: tuple[float, ...] = ()) -> NodeType:
    """Nodes of eight GPUs, and pods of so many."""
    return NodeType(cost=cost, limit=limit, room=(8,), sizes=tuple((size,) for size in sizes), charges=charges)


def four(*sizes: int, cost: float = 4.0, limit: int = 10**6) -> NodeType:
    found = tuple((size,) if size <= 4 else None for size in sizes)
    return NodeType(cost=cost, limit=limit, room=(4,), sizes=found)


@pytest.mark.parametrize(
    ("demands", "sizes", "expected"),
    [
        pytest.param((1667, 1667, 1666), (1, 2, 3), 1250, id="three-and-three-and-two-share-a-node"),
        pytest.param((4, 4), (5, 3), 4, id="five-and-three"),
        pytest.param((6, 6, 6), (4, 3, 1), 6, id="largest-first-alone-would-do"),
        pytest.param((1,), (8,), 1, id="one-pod"),
        pytest.param((0, 0), (1, 2), 0, id="nobody"),
    ],
)
def test_shapes_share_nodes(demands: tuple[int, ...], sizes: tuple[int, ...], expected: int) -> None:
    assert nodes(packed(demands, eight(*sizes))) == expected


def a_problem(random: Random) -> tuple[list[int], NodeType]:
    """A few shapes of random sizes in one to three resources."""
    resources, shapes = random.randint(1, 3), random.randint(2, 7)
    room = tuple(random.choice((8_000, 16_000, 64_000, 96_000)) for _ in range(resources))
    sizes = tuple(tuple(max(1, int(random.uniform(0.08, 0.7) * have)) for have in room) for _ in range(shapes))
    return [random.randint(1, 6) for _ in range(shapes)], NodeType(cost=1.0, limit=10**6, room=room, sizes=sizes)


def test_at_most_one_node_above_an_exact_solver() -> None:
    random = Random(7)
    for _ in range(200):
        demands, node = a_problem(random)
        _, best = bounds(demands, node)
        found = packed(demands, node)
        assert not any(found.unserved)
        assert best <= nodes(found) <= best + 1


def test_a_shape_that_fits_nowhere_is_left_and_the_others_are_not() -> None:
    found = packed((3, 2), NodeType(cost=1.0, limit=9, room=(8,), sizes=(None, (4,))))
    assert (found.unserved, nodes(found)) == ((3, 0), 1)


def test_the_last_pods_take_the_cheapest_node_that_holds_them() -> None:
    found = packed((3,), eight(4), four(4, cost=4.1))
    assert (nodes(found, 0), nodes(found, 1)) == (1, 1)


def test_a_type_at_its_limit_leaves_the_rest_to_others() -> None:
    found = packed((5,), four(4, limit=1), eight(4, limit=2))
    assert (nodes(found, 0), nodes(found, 1), found.unserved) == (1, 2, (0,))


def test_no_budget_is_passed() -> None:
    found = packed((5,), eight(8, charges=(8.0, 3.0)), budgets=(100.0, 10.0))
    assert (nodes(found), found.unserved) == (3, (2,))


def test_where_there_is_not_enough_most_pods_are_served() -> None:
    found = packed((8, 1), eight(1, 8, limit=1))
    assert found.unserved == (0, 1)


def test_what_adding_up_cannot_see_is_asked() -> None:
    """Two islands of four GPUs: two pods of three each fill them, and no pod of two fits beside."""

    def islands(_: int, pattern: Pattern) -> Pattern:
        threes, twos = pattern
        threes = min(threes, 2)
        return threes, min(twos, 2 * (2 - threes))

    found = packed((4, 4), eight(3, 2), fill=islands)
    assert not any(found.unserved)
    assert nodes(found) == 3
    assert all(islands(0, one.pods) == one.pods for one in found.filled)


def test_the_same_question_has_the_same_answer() -> None:
    demands, node = a_problem(Random(3))
    assert packed(demands, node) == packed(demands, node)
