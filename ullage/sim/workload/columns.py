"""Columns of lists: the names people give them, and a refusal with a suggestion for every name nobody knows.

Knows no rows. Which columns a format has is said by the format.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ullage.config.values import nearest
from ullage.errors import UserError


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Columns of a format, each with the other names it goes by."""

    others: Mapping[str, tuple[str, ...]]
    needed: tuple[str, ...] = ()
    ignore_unknown: bool = False

    def resolve(self, names: Iterable[str], where: str) -> dict[str, str]:
        """The format's name of each given name; unknown ones are left out. Raises UserError.

        `where` is the file and the line, for the message.
        """
        known = {other: column for column, others in self.others.items() for other in (column, *others)}
        found: dict[str, str] = {}
        unknown: list[str] = []
        given = list(names)
        for name in given:
            column = known.get(folded(name))
            if column is None:
                unknown.append(name)
            elif column in found.values():
                first = next(one for one, same in found.items() if same == column)
                raise UserError(f"{where}: the columns {first} and {name} both mean {column}; remove one of them")
            else:
                found[name] = column
        missing = [column for column in self.needed if column not in found.values()]
        if unknown and not self.ignore_unknown and not (missing and not nearest(folded(unknown[0]), tuple(known))):
            raise UserError(f"{where}: {self._strange(unknown[0], known)}")
        if missing:
            has = ", ".join(given) or "nothing"
            raise UserError(
                f"{where}: the column {missing[0]} is missing; it has {has}; needed: {', '.join(self.needed)}"
            )
        return found

    def _strange(self, name: str, known: Mapping[str, str]) -> str:
        """Refusal of a name. The suggestion is the column's own name, which the list has, not another name of it."""
        allowed = f"allowed: {', '.join(self.others)}"
        if not name:
            return f"a column has no name; remove it, or name it; {allowed}"
        near = nearest(folded(name), tuple(known))
        near = f"; did you mean {known[near]}?" if near else ""
        return f"there is no column {name}{near or ';'} {allowed}; leave others out with --unknown-columns ignore"


def folded(name: str) -> str:
    """A name in small letters with underscores: `Num GPUs`, `num-gpus` and `numGPUs` are `num_gpus`."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", parts.lower()).strip("_")
