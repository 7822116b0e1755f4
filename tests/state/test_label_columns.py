"""Columns of labels: pods may name whatever they like, and only labels that nodes have are kept."""

from ullage.model.fact_event import Added, Deleted, ObjectKey
from ullage.model.node import Node
from ullage.state.snapshot import ClusterSnapshot
from ullage.testing.facts import node_fact


def labelled(name: str, **labels: str) -> Node:
    return node_fact(name, labels=labels)


def values(snapshot: ClusterSnapshot, key: str) -> dict[str, str]:
    """Value by node, as the column of a label says it."""
    column = snapshot.labels.column(key)
    spoken = {code: value for value, code in column.values.items()}
    return {
        name: spoken[int(column.codes[row])] for name, row in snapshot.columns.rows.items() if column.codes[row] >= 0
    }


def test_a_label_is_known_as_long_as_a_node_has_it_and_forgotten_with_the_last() -> None:
    snapshot = ClusterSnapshot()
    nodes = [labelled("a", rack="1"), labelled("b", rack="2"), labelled("c", zone="z")]
    for node in nodes:
        snapshot.apply(Added(ObjectKey("", node.name), node))
    assert values(snapshot, "rack") == {"a": "1", "b": "2"}
    assert values(snapshot, "nobody has it") == {}
    assert len(snapshot.labels) == 1, "a label that no node has needs no column"
    snapshot.apply(Deleted(ObjectKey("", "a"), nodes[0]))
    assert values(snapshot, "rack") == {"b": "2"}
    assert len(snapshot.labels) == 1
    snapshot.apply(Deleted(ObjectKey("", "b"), nodes[1]))
    assert values(snapshot, "rack") == {}
    assert len(snapshot.labels) == 0
