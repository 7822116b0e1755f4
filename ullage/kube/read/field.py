"""Which field could not be read: each level of reading puts its own name in front."""

from collections.abc import Iterator
from contextlib import contextmanager


class FieldError(ValueError):
    """`path: what is wrong with it`."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path, self.problem = path, problem


@contextmanager
def within(path: str) -> Iterator[None]:
    """What goes wrong inside is about this field or one below it."""
    try:
        yield
    except FieldError as error:
        joint = "" if error.path.startswith("[") else "."
        raise FieldError(f"{path}{joint}{error.path}", error.problem) from error
    except ValueError as error:
        raise FieldError(path, str(error)) from error
