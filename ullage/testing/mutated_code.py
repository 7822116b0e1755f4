"""Functions of this process with the code of a mutant: imports are paid once, and all who imported one have it."""

import gc
import inspect
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from types import CodeType, FunctionType

from ullage.testing.mutants import Mutant


def changes_code(mutant: Mutant, source: str) -> bool:
    """True if a mutant compiles, and changes the code of the function it is in: no default, no constant of a module."""
    try:
        return bool(mutant.place) and _same_shape(mutant, source) is not None
    except (SyntaxError, ValueError):
        return False


def put_in(mutant: Mutant, source: str, file: str) -> int:
    """Give every live function of the mutant's place its code. Returns how many there are; there is no way back.

    Left out are functions made before that use other names of the function around them than the mutant does.
    """
    import_module(mutant.path.removesuffix(".py").replace("/", "."))
    pairs = {_name(old): new for old, new in _same_shape(mutant, source) or ()}
    found = 0
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename == file:
            new = pairs.get(_name(one.__code__))
            if new is not None and new.co_freevars == one.__code__.co_freevars:
                one.__code__ = new.replace(co_filename=file)
                found += 1
    return found


def _same_shape(mutant: Mutant, source: str) -> list[tuple[CodeType, CodeType]] | None:
    """Code of the function of the mutant, and of those within it, before and after; None if nothing changes."""
    before = _codes(compile(source, mutant.path, "exec"))
    after = _codes(compile(mutant.applied(source), mutant.path, "exec"))
    outer = next((key for key, one in before.items() if key[0] == mutant.place and _holds(one, mutant.line)), None)
    if outer is None or outer not in after or before[outer] == after[outer]:
        return None
    within = f"{mutant.place}.<locals>."
    inner = [key for key in before if key[0].startswith(within) and key in after]
    return [(before[key], after[key]) for key in (outer, *inner)]


def _codes(module: CodeType) -> dict[tuple[str, int], CodeType]:
    """Code by qualified name and number among its namesakes: setters are called as their properties."""
    every = sorted(_within(module), key=lambda one: (one.co_qualname, one.co_firstlineno))
    groups = groupby(every, key=lambda one: one.co_qualname)
    return {(name, number): one for name, group in groups for number, one in enumerate(group)}


def _within(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if inspect.iscode(one):
            yield one
            yield from _within(one)


def _holds(code: CodeType, line: int) -> bool:
    return any(line == at for one in (code, *_within(code)) for *_, at in one.co_lines())


def _name(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno
