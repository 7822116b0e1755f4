"""Fields of our own kinds that nobody reads: misspelt, they would have no effect and no message."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect as shapes

from ullage.config.values import meant


def unknown_fields(body: Any, kind: type[msgspec.Struct], at: str) -> list[str]:
    """Sentences on fields below `at` that the kind does not have, each with the nearest that it has."""
    return list(_below(_shape(kind), body, at))


@cache
def _shape(kind: type[msgspec.Struct]) -> shapes.Type:
    return shapes.type_info(kind)


def _below(shape: shapes.Type, value: Any, at: str) -> Iterator[str]:
    match shape, value:
        case shapes.StructType(fields=fields), dict():
            known = {field.encode_name: field.type for field in fields}
            for name, inside in value.items():
                if name in known:
                    yield from _below(known[name], inside, f"{at}.{name}")
                else:
                    near = meant(str(name), tuple(known)) or f"; allowed: {', '.join(known)}"
                    yield f"{at}.{name}: has no effect: there is no such field{near}"
        case ((shapes.ListType(item_type=item) | shapes.VarTupleType(item_type=item)), list()):
            for place, inside in enumerate(value):
                yield from _below(item, inside, f"{at}[{place}]")
        case shapes.DictType(value_type=item), dict():
            for name, inside in value.items():
                yield from _below(item, inside, f"{at}.{name}")
        case shapes.UnionType(types=types), dict() | list():
            for one in types:
                yield from _below(one, value, at)
        case _:
            pass
