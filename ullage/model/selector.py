"""Label selectors: parsed from Kubernetes' string syntax or built from `matchLabels` and `matchExpressions`.

One evaluation serves the simulated API server, disruption budgets, affinity and claims.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True if the labels satisfy it. Absent keys satisfy NotIn and DoesNotExist, as in Kubernetes."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GREATER | Operator.LESS:
                return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        if "_" in value:
            return False  # Python reads 1_0 as ten; Kubernetes does not
        try:
            ours, theirs = int(value), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return ours > theirs if self.operator is Operator.GREATER else ours < theirs


@dataclass(frozen=True, slots=True)
class Selector:
    """Conjunction of requirements. Without any it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})")
_COMPARE = re.compile(rf"({_KEY})\s*([<>])\s*(-?\d+)")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")


def parse_selector(text: str) -> Selector:
    """Selector from its string syntax: `app=web,tier in (a,b),!old`. Raises ValueError naming the bad part."""
    parts = [part.strip() for part in re.split(r",(?![^()]*\))", text)]
    return Selector(tuple(_parse_requirement(part) for part in parts)) if text.strip() else Selector()


def _parse_requirement(part: str) -> Requirement:
    if match := _SET.fullmatch(part):
        values = tuple(sorted(value.strip() for value in match[3].split(",")))
        return Requirement(match[1], Operator.IN if match[2] == "in" else Operator.NOT_IN, values)
    if match := _EQUAL.fullmatch(part):
        return Requirement(match[1], Operator.NOT_IN if match[2] == "!=" else Operator.IN, (match[3],))
    if match := _COMPARE.fullmatch(part):
        return Requirement(match[1], Operator.GREATER if match[2] == ">" else Operator.LESS, (match[3],))
    if match := _EXISTS.fullmatch(part):
        return Requirement(match[2], Operator.DOES_NOT_EXIST if match[1] else Operator.EXISTS)
    raise ValueError(f"cannot read {part!r} as a label requirement: expected key=value, key in (a,b), key or !key")
