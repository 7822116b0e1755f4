"""Merge patches and JSON patches: the examples of their RFCs, and what holds for all documents."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.sim.apiserver.merge.json_patches import PatchFailed, apply_operations, merge
from ullage.sim.apiserver.storage.json_bytes import copied

SCALAR = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text("ab/~", max_size=3))
JSON = st.recursive(
    SCALAR,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.text("abc", max_size=2), JSON, max_size=4)


def copy(value: Any) -> Any:
    return copied({"v": value})["v"]


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_as_in_the_rfc(document: Any, patch: Any, result: Any) -> None:
    assert merge(document, patch) == result


@given(JSON, OBJECT)
def test_merging_twice_is_merging_once(document: Any, patch: Any) -> None:
    once = merge(copy(document), copy(patch))
    assert merge(copy(once), copy(patch)) == once


@given(OBJECT)
def test_merging_nothing_changes_nothing(document: Any) -> None:
    assert merge(copy(document), {}) == document


@pytest.mark.parametrize(
    ("document", "operations", "result"),
    [
        pytest.param({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}, id="add-member"),
        pytest.param({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}, id="add-item"),
        pytest.param({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}, id="append"),
        pytest.param({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}, id="remove"),
        pytest.param({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}, id="remove-item"),
        pytest.param({"a": [1, 2]}, [{"op": "replace", "path": "/a/0", "value": 9}], {"a": [9, 2]}, id="replace-item"),
        pytest.param({"a": 1}, [{"op": "replace", "path": "", "value": [5]}], [5], id="replace-all"),
        pytest.param({"a": {"b": 1}, "c": {}}, [{"op": "move", "from": "/a/b", "path": "/c/d"}],
                     {"a": {}, "c": {"d": 1}}, id="move"),
        pytest.param({"a": [1, 2, 3]}, [{"op": "move", "from": "/a/0", "path": "/a/2"}], {"a": [2, 3, 1]},
                     id="move-item"),
        pytest.param({"a": {"b": []}},
                     [{"op": "copy", "from": "/a", "path": "/c"}, {"op": "add", "path": "/c/b/-", "value": 1}],
                     {"a": {"b": []}, "c": {"b": [1]}}, id="a-copy-is-its-own"),
        pytest.param({"a/b": 1, "m~n": 2},
                     [{"op": "test", "path": "/a~1b", "value": 1}, {"op": "remove", "path": "/m~0n"}],
                     {"a/b": 1}, id="escapes"),
        pytest.param({"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}], {"a": 1}, id="numbers-are-equal-by-value"),
    ],
)  # fmt: skip
def test_operations(document: Any, operations: list[Any], result: Any) -> None:
    assert apply_operations(document, operations) == result


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/nothing"},
        {"op": "replace", "path": "/nothing", "value": 1},
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/t", "value": 1},
        {"op": "test", "path": "/a", "value": True},
        {"op": "add", "path": "/l/7", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "add", "path": "no-pointer", "value": 1},
        {"op": "add", "path": "/b"},
        {"op": "move", "path": "/b"},
        {"op": "move", "from": "/o", "path": "/o/inside"},
        {"op": "dance", "path": "/a"},
        {"path": "/a"},
        {"op": "remove", "path": ""},
        "text",
    ],
    ids=str,
)
def test_operations_that_do_not_apply(operation: Any) -> None:
    with pytest.raises(PatchFailed):
        apply_operations({"a": 1, "t": True, "l": [1], "o": {}}, [operation])


@given(OBJECT, st.text("ab/~", max_size=3), JSON)
def test_what_is_added_is_found_there_and_can_be_taken_away(document: Any, name: str, value: Any) -> None:
    path = "/" + name.replace("~", "~0").replace("/", "~1")
    without = {key: item for key, item in document.items() if key != name}
    added = apply_operations(copy(without), [{"op": "add", "path": path, "value": copy(value)}])
    assert apply_operations(copy(added), [{"op": "test", "path": path, "value": value}]) == added
    assert apply_operations(added, [{"op": "remove", "path": path}]) == without


@given(OBJECT, OBJECT)
def test_a_document_tests_equal_to_itself_only(one: Any, other: Any) -> None:
    operation = [{"op": "test", "path": "", "value": other}]
    try:
        apply_operations(copy(one), operation)
        passed = True
    except PatchFailed:
        passed = False
    assert passed is (repr(sorted_json(one)) == repr(sorted_json(other)))


def sorted_json(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, sorted_json(item)) for key, item in value.items())
    return [sorted_json(item) for item in value] if isinstance(value, list) else value
