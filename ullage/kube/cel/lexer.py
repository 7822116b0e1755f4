"""Text to tokens."""

import ast
import re
from dataclasses import dataclass
from typing import Any

from ullage.kube.cel.errors import NotCel

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*)
    | (?P<float>(?:\d+\.\d+|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    | (?P<int>0[xX][0-9a-fA-F]+|\d+)(?P<unsigned>[uU])?
    | (?P<string>(?P<prefix>[rRbB]{0,2})(?:\"{3}(?P<long1>(?:\\.|[^\\])*?)\"{3}|'{3}(?P<long2>(?:\\.|[^\\])*?)'{3}
        |"(?P<one>(?:\\.|[^"\\\n])*)"|'(?P<two>(?:\\.|[^'\\\n])*)'))
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<mark>&&|\|\||==|!=|<=|>=|\.\?|\[\?|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class CelToken:
    """`kind` is `value`, `name`, `mark` or `end`."""

    kind: str
    text: str
    at: int
    value: Any = None


def tokens(text: str) -> list[CelToken]:
    """Split an expression into tokens. Raises NotCel."""
    found: list[CelToken] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NotCel(f"Syntax error: token recognition error at: '{text[at]}'", at)
        if match["space"] is None:
            found.append(_token(match, at))
        at = match.end()
    return [*found, CelToken("end", "<EOF>", len(text))]


def _token(match: re.Match[str], at: int) -> CelToken:
    text = match[0]
    if match["float"] is not None:
        return CelToken("value", text, at, float(text))
    if match["int"] is not None:
        return CelToken(
            "value", text, at, int(match["int"], 0) if match["int"][:2] in ("0x", "0X") else int(match["int"])
        )
    if match["string"] is not None:
        return CelToken("value", text, at, _string(match, at))
    if match["name"] is not None:
        return CelToken("value", text, at, _WORDS[text]) if text in _WORDS else CelToken("name", text, at)
    return CelToken("mark", text, at)


def _string(match: re.Match[str], at: int) -> str | bytes:
    prefix = match["prefix"].lower()
    body = next(part for part in (match["long1"], match["long2"], match["one"], match["two"]) if part is not None)
    if "r" in prefix:
        # A raw literal is its characters; our pattern stepped over backslashes in pairs, which changes nothing.
        return body.encode() if "b" in prefix else body
    quoted = '"' + re.sub(r'(?<!\\)((?:\\\\)*)"', r"\1\\" + '"', body).replace("\n", "\\n") + '"'
    quoted = re.sub(r"\\([`?])", r"\1", quoted)
    try:
        read: str | bytes = ast.literal_eval(("b" if "b" in prefix else "") + quoted)
    except (ValueError, SyntaxError) as error:
        raise NotCel(f"Syntax error: invalid string literal {match[0]}", at) from error
    return read
