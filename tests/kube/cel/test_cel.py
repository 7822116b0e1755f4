"""The expression language of rules: what expressions are worth, what has no value, and what is no expression."""

from typing import Any

import pytest

from ullage.kube.cel import CelError, NotCel, compiled

SELF = {"self": {"a": 3, "s": "text", "l": [1, 2, 3], "m": {"k": "v"}, "x-y": 1, "namespace": "n", "f": 1.5, "n": None}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 - 4 / 2", 5),
        ("(1 + 2) * 3", 9),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("7.0 / 2.0", 3.5),
        ("0x10 == 16 && 1e3 == 1000.0", True),
        ("'a' + \"b\" == 'ab'", True),
        ("[1] + [2] == [1, 2]", True),
        ("1 == 1.0", True),
        ("1 == true", False),
        ("{'a': [1, {'b': 2}]} == {'a': [1, {'b': 2.0}]}", True),
        ("'a' < 'b' && 1 < 1.5", True),
        ("true ? 1 : 2", 1),
        ("false ? 1 : true ? 2 : 3", 2),
        ("!false && !!true", True),
        ("2 in self.l && !(4 in self.l) && 'k' in self.m", True),
        ("self.m.k == self.m['k']", True),
        ("self.l[1]", 2),
        ("has(self.a) && !has(self.b) && !has(self.n)", True),
        ("size(self.s) == 4 && self.l.size() == 3 && size('äö') == 2", True),
        ("self.s.startsWith('te') && self.s.endsWith('xt') && self.s.contains('ex')", True),
        (r"self.s.matches('^t.*t$') && 'a.b'.matches(r'^a\.b$') && !'axb'.matches('^a\\.b$')", True),
        ("self.l.all(x, x > 0) && self.l.exists(x, x == 2) && self.l.exists_one(x, x == 3)", True),
        ("self.m.all(k, k == 'k')", True),
        ("self.l.filter(x, x > 1).map(x, x * x)", [4, 9]),
        ("self.l.map(x, x > 1, x + 1)", [3, 4]),
        ("[[1], [2]].all(inner, inner.all(x, x < 3))", True),
        ("self.x__dash__y == 1 && self.__namespace__ == 'n'", True),
        ("type(1) == int && type('') == string && type(self.l) == list && type(1.0) != int", True),
        ("int('12') + int(3.9) == 15 && string(7) == '7' && double('1.5') == 1.5", True),
        ("duration('1h30m') > duration('80m') && duration('-5s') < duration('0')", True),
        ("timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z') == duration('24h')", True),
        ("self.?b.orValue(9) == 9 && self.?a.hasValue() && self[?'a'].value() == 3", True),
        ("'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b'", True),
        ("'Abc'.lowerAscii() == 'abc' && ' x '.trim() == 'x' && 'abc'.substring(1, 2) == 'b'", True),
        ("[1, 2, 2].isSorted() && [1, 2].sum() == 3 && [3, 1].min() == 1 && 'abc'.indexOf('c') == 2", True),
        ("'''it's \"so\"''' == 'it\\'s \"so\"'", True),
        ("'\\u00e4\\n' == 'ä\\n'", True),
        ("1 == 1 // said in passing", True),
    ],
)
def test_expressions_have_values(text: str, value: Any) -> None:
    found = compiled(text).run(SELF)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("self.b", "no such key: b"),
        ("self.m['z']", "no such key: z"),
        ("self.l[3]", "index out of bounds: 3"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("1 + 1.0", "no such overload"),
        ("1 < 'a'", "no such overload"),
        ("'a' && true", "no such overload"),
        ("self.a.startsWith('x')", "no such overload"),
        ("self.a.all(x, true)", "no such overload"),
        ("int('x')", "type conversion error"),
        ("nobody", "no such attribute: nobody"),
        ("self.?b.value()", "dereference"),
        ("self.s.matches('(')", "error parsing regexp"),
    ],
)
def test_some_expressions_have_none(text: str, problem: str) -> None:
    with pytest.raises(CelError, match=problem):
        compiled(text).run(SELF)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true || self.b == 1", True),
        ("self.b == 1 || true", True),
        ("false && self.b == 1", False),
        ("self.b == 1 && false", False),
        ("self.l.exists(x, x == 3 || 1 / (x - 1) > 0)", True),
        ("self.l.all(x, x < 0 && 1 / 0 == 1)", False),
    ],
)
def test_either_side_may_decide_where_the_other_has_no_value(text: str, value: bool) -> None:
    assert compiled(text).run(SELF) is value


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("self.", 6),
        ("1 +", 4),
        ("(1", 3),
        ("self.a b", 8),
        ("foo(1)", 4),
        ("self.a.foo()", 11),
        ("has(self)", 5),
        ("'open", 1),
        ("[1, 2", 6),
        ("self.l.all(1, true)", 12),
        ("#", 1),
        ("", 1),
    ],
)
def test_what_is_no_expression_is_pointed_at(text: str, place: int) -> None:
    with pytest.raises(NotCel) as caught:
        compiled(text)
    first, shown, pointer = caught.value.marked(text).split("\n")
    assert (first.split(": ")[1], shown, len(pointer)) == (f"<input>:1:{place}", f" | {text}", place + 3)


def test_a_program_knows_the_variables_it_speaks_of() -> None:
    assert {"self", "oldSelf"} <= compiled("self.a >= oldSelf.a").names
    assert "oldSelf" not in compiled("self.oldSelf == 'oldSelf'").names


def test_deep_nesting_ends_in_an_error_and_not_in_the_stack() -> None:
    with pytest.raises(NotCel, match="recursion limit"):
        compiled("(" * 1000 + "1" + ")" * 1000)
