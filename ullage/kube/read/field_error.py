"""Path of a field that could not be read. Each level of reading puts its own name in front."""

from collections.abc import Iterator
from contextlib import contextmanager


class FieldReadError(ValueError):
    """`path: what is wrong with it`."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path, self.problem = path, problem


@contextmanager
def within(path: str) -> Iterator[None]:
    """Put `path` in front of the path of any error raised inside. A plain ValueError is an error of `path` itself."""
    try:
        yield
    except FieldReadError as error:
        joint = "" if error.path.startswith("[") else "."
        raise FieldReadError(f"{path}{joint}{error.path}", error.problem) from error
    except ValueError as error:
        raise FieldReadError(path, str(error)) from error
