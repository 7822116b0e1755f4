"""Merge schemas for server-side apply: a value merges atomically, member by member, or as a list with keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class MergeKind(Enum):
    ATOMIC = "atomic"
    """Owned and replaced whole: scalars, atomic lists and atomic maps."""
    MEMBERS = "members"
    """An object or map: every member has its own owners."""
    KEYED = "keyed"
    """A list of objects identified by some of their members."""
    SET = "set"
    """A list of scalars, each of them owned by itself."""
    GUESS = "guess"
    """No schema: objects by member, everything else whole."""


@dataclass(frozen=True, slots=True)
class MergeSchema:
    """The shape of a value and of what is in it. `rest` is for members that are not named."""

    shape: MergeKind
    members: Mapping[str, "MergeSchema"] = field(default_factory=dict)
    rest: "MergeSchema | None" = None
    keys: tuple[str, ...] = ()
    key_defaults: Mapping[str, str | int] = field(default_factory=dict)
    """Key members that may be left out, with their defaults."""
    patch_merges: bool = False
    """A list whose items a strategic merge patch merges; it replaces others."""
    patch_key: str = ""
    """Member that tells items apart in a strategic merge patch; empty for scalars."""

    def member(self, name: str) -> "MergeSchema":
        return self.members.get(name) or self.rest or ATOMIC_UNKNOWN


ATOMIC = MergeSchema(MergeKind.ATOMIC)
ATOMIC_UNKNOWN = MergeSchema(MergeKind.GUESS)
SET = MergeSchema(MergeKind.SET, patch_merges=True)


def members(rest: MergeSchema | None = None, /, **named: MergeSchema) -> MergeSchema:
    return MergeSchema(MergeKind.MEMBERS, members=named, rest=rest)


def keyed(
    *keys: str, item: MergeSchema = ATOMIC_UNKNOWN, defaults: Mapping[str, str | int] | None = None
) -> MergeSchema:
    """A list whose items are identified by these members."""
    return MergeSchema(
        MergeKind.KEYED, rest=item, keys=keys, key_defaults=defaults or {}, patch_merges=True, patch_key=keys[0]
    )
