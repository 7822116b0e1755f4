"""Tokens to a tree: precedence as in the language's definition."""

from dataclasses import dataclass
from typing import Any

from ullage.kube.cel.errors import NotCel
from ullage.kube.cel.lexer import CelToken, tokens

_BINARY = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
"""From the loosest to the tightest."""


@dataclass(frozen=True, slots=True)
class CelNode:
    """`op` says what it is: `value`, `name`, `select`, `index`, `call`, `list`, `map`, `?:`, or an operator.

    `name` is that of a variable, field or function. A member call has its target as the first of `parts`.
    """

    op: str
    at: int
    name: str = ""
    parts: tuple["CelNode", ...] = ()
    value: Any = None
    member: bool = False
    optional: bool = False


def parse(text: str) -> CelNode:
    """Parse an expression. Raises NotCel."""
    reader = _Reader(tokens(text))
    tree = reader.expression()
    reader.expect("<EOF>", kind="end")
    return tree


class _Reader:
    def __init__(self, found: list[CelToken]) -> None:
        self._tokens = found
        self._place = 0

    def expression(self) -> CelNode:
        condition = self._binary(0)
        if self._take("?"):
            at = self._next.at
            yes = self._binary(0)
            self.expect(":")
            condition = CelNode("?:", at, parts=(condition, yes, self.expression()))
        return condition

    def expect(self, text: str, *, kind: str = "mark") -> None:
        if self._next.kind != kind or self._next.text != text:
            raise NotCel(f"Syntax error: mismatched input '{self._next.text}' expecting '{text}'", self._next.at)
        self._place += 1

    @property
    def _next(self) -> CelToken:
        return self._tokens[min(self._place, len(self._tokens) - 1)]

    def _take(self, *texts: str) -> CelToken | None:
        token = self._next
        if token.kind in ("mark", "name") and token.text in texts:
            self._place += 1
            return token
        return None

    def _binary(self, level: int) -> CelNode:
        if level == len(_BINARY):
            return self._unary()
        left = self._binary(level + 1)
        while (operator := self._take(*_BINARY[level])) is not None:
            left = CelNode(operator.text, operator.at, parts=(left, self._binary(level + 1)))
        return left

    def _unary(self) -> CelNode:
        if (operator := self._take("!", "-")) is None:
            return self._member()
        return CelNode("not" if operator.text == "!" else "negative", operator.at, parts=(self._unary(),))

    def _member(self) -> CelNode:
        found = self._primary()
        while (mark := self._take(".", ".?", "[", "[?")) is not None:
            optional = "?" in mark.text
            if mark.text.startswith("["):
                found = CelNode("index", mark.at, parts=(found, self.expression()), optional=optional)
                self.expect("]")
                continue
            name = self._name()
            if not optional and self._take("("):
                found = CelNode("call", name.at, name.text, (found, *self._arguments(")")), member=True)
            else:
                found = CelNode("select", mark.at, name.text, (found,), optional=optional)
        return found

    def _name(self) -> CelToken:
        token = self._next
        if token.kind != "name":
            raise NotCel(f"Syntax error: no viable alternative at input '.{token.text}'", token.at)
        self._place += 1
        return token

    def _primary(self) -> CelNode:
        token = self._next
        self._place += 1
        if token.kind == "value":
            return CelNode("value", token.at, value=token.value)
        if token.kind == "name":
            if self._take("("):
                return CelNode("call", token.at, token.text, self._arguments(")"))
            return CelNode("name", token.at, token.text)
        match token.text if token.kind == "mark" else "":
            case "(":
                inner = self.expression()
                self.expect(")")
                return inner
            case "[":
                return CelNode("list", token.at, parts=self._arguments("]"))
            case "{":
                return self._map(token)
            case ".":
                return self._primary()
            case _:
                raise NotCel(f"Syntax error: mismatched input '{token.text}'", token.at)

    def _arguments(self, end: str) -> tuple[CelNode, ...]:
        found: list[CelNode] = []
        while not self._take(end):
            found.append(self.expression())
            if self._take(","):
                continue
            self.expect(end)
            break
        return tuple(found)

    def _map(self, token: CelToken) -> CelNode:
        found: list[CelNode] = []
        while not self._take("}"):
            found.append(self.expression())
            self.expect(":")
            found.append(self.expression())
            if self._take(","):
                continue
            self.expect("}")
            break
        return CelNode("map", token.at, parts=tuple(found))
