"""Values as small numbers; the number of a value that is no longer in use is given to another."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from ullage.state.forking import Forkable

H = TypeVar("H", bound=Hashable)


class CodeTable(Forkable, Generic[H]):
    """Numbers for values, counted: each `take` is ended by one `release`."""

    def __init__(self) -> None:
        self._code: dict[H, int] = {}
        self._value: list[H | None] = []
        self._holders: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """One more than the largest number that was ever given."""
        return len(self._value)

    def __iter__(self) -> Iterator[H]:
        """Values that are in use."""
        return iter(self._code)

    def items(self) -> list[tuple[H, int]]:
        """Values that are in use, with their numbers."""
        return list(self._code.items())

    def get(self, value: H) -> int | None:
        return self._code.get(value)

    def value(self, code: int) -> H | None:
        return self._value[code]

    def take(self, value: H) -> int:
        code = self._code.get(value)
        if code is None:
            code = self._new(value)
        self._holders[code] += 1
        return code

    def release(self, code: int) -> None:
        self._holders[code] -= 1
        value = self._value[code]
        if self._holders[code] == 0 and value is not None:
            del self._code[value]
            self._value[code] = None
            self._free.append(code)

    def _new(self, value: H) -> int:
        if self._free:
            code = self._free.pop()
            self._value[code] = value
        else:
            code = len(self._value)
            self._value.append(value)
            self._holders.append(0)
        self._code[value] = code
        return code
