"""Marks: constraints in the schema of a field beyond its type. Marks stand in `Annotated`; rules are kept in `rules`.

Marks are hints to the schema and never to msgspec's decoder: a value out of bounds must make one object unreadable,
with its name in the message, and not the whole list it came in.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from msgspec import Meta

from ullage.model.duration import PATTERN as DURATION_PATTERN

_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
_BYTES = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([kMGTPE]|[KMGTPE]i|[eE][0-9]{1,2})?$"
_QUANTITY = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][0-9]{1,2})?$"
_PRICE = r"^[0-9]{1,9}(\.[0-9]{1,6})?$"
_MOST_QUANTITY = 32


def _schema(**keys: Any) -> Meta:
    return Meta(extra_json_schema=keys)


REQUIRED = Meta(extra={"required": True})
"""Must be set and not empty, though our structs decode objects without it."""

DATE_TIME = _schema(format="date-time")
OBJECT_NAME = _schema(pattern=_SUBDOMAIN, minLength=1, maxLength=253)
"""The name of another object: a DNS subdomain."""
LABEL_VALUE = _schema(pattern=_LABEL_VALUE, maxLength=63)
BYTES = _schema(pattern=_BYTES, maxLength=_MOST_QUANTITY, minimum=1)
"""A quantity of memory: bytes as a number, or with a suffix. Never a fraction of a byte, never negative."""
QUANTITY = _schema(pattern=_QUANTITY, maxLength=_MOST_QUANTITY, minimum=0)
"""An amount of any resource, such as 500m, 64 or 2Ti. Never negative."""
DURATION = _schema(pattern=DURATION_PATTERN, minLength=1, maxLength=32)
"""A length of time such as 1h30m, 90s or 2d: the grammar of `model.duration`."""
PRICE = _schema(pattern=_PRICE, maxLength=_MOST_QUANTITY, minimum=0)
"""An amount of money, to a millionth."""
SET = _schema(**{"x-kubernetes-list-type": "set"})
"""A list without duplicates, of which each item has its own owner."""
OPEN = _schema(**{"x-kubernetes-preserve-unknown-fields": True})
"""Fields of other writers occur here too, and must be preserved."""


def at_least(least: int) -> Meta:
    return _schema(minimum=least)


def between(least: int, most: int) -> Meta:
    return _schema(minimum=least, maximum=most)


def length(least: int, most: int) -> Meta:
    return _schema(minLength=least, maxLength=most)


def at_most_items(most: int) -> Meta:
    return _schema(maxItems=most)


def at_most_entries(most: int) -> Meta:
    return _schema(maxProperties=most)


def one_of(words: Iterable[StrEnum]) -> Meta:
    """A closed list of words, in the order they are declared in."""
    return _schema(enum=[word.value for word in words])


def map_by(key: str) -> Meta:
    """A list of objects told apart by one of their fields: several writers can each own some of them."""
    return _schema(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]})


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRule:
    """Rule between the fields of a struct, written once, in CEL: for the API server, for manifests and for readers.

    `field` is the field that the message names, relative to the struct.
    """

    cel: str
    message: str
    field: str = ""
    reason: str = "FieldValueInvalid"

    @property
    def compares(self) -> bool:
        """True for transition rules, which need the object as it was: only a server has it."""
        return "oldSelf" in self.cel
