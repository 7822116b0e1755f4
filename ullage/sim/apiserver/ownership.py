"""Who owns which fields of an object, for server-side apply.

Unless the server accounts from birth (`World`), an object nobody has applied yet carries only its creator's name, who
is then the owner of everything in it. From the first apply on, every write is accounted for, and the object shows it
in `managedFields`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ullage.sim.apiserver.fieldsets import Leaves, Path, leaves, paths_in, rendered
from ullage.sim.apiserver.schema_types import MergeSchema
from ullage.sim.apiserver.wire import JsonObject

APPLY = "Apply"
UPDATE = "Update"


@dataclass(frozen=True, slots=True, order=True)
class Manager:
    """One writer in one role: the same name applying and updating is two managers."""

    name: str
    operation: str
    part: str
    version: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A manager's fields, and when they last changed."""

    paths: frozenset[Path]
    since: str


@dataclass(frozen=True, slots=True)
class Ownership:
    """All claims on one object. Replaced, never changed."""

    claims: dict[Manager, Claim] = field(default_factory=dict)

    def paths(self, manager: Manager) -> frozenset[Path]:
        claim = self.claims.get(manager)
        return claim.paths if claim else frozenset()

    def others(self, manager: Manager) -> frozenset[Path]:
        """What anybody else owns."""
        return frozenset(path for other, claim in self.claims.items() if other != manager for path in claim.paths)

    def with_claim(self, manager: Manager, paths: Iterable[Path], now: str) -> "Ownership":
        """The manager owns exactly these; whoever owns nothing is forgotten."""
        wanted = frozenset(paths)
        claims = dict(self.claims)
        before = claims.pop(manager, None)
        if wanted:
            claims[manager] = before if before and before.paths == wanted else Claim(wanted, now)
        return Ownership(claims)

    def without(self, gone: frozenset[Path], now: str, *, but: Manager) -> "Ownership":
        """Everybody but one loses these paths."""
        result = self
        for manager in sorted(self.claims):
            if manager != but and self.claims[manager].paths & gone:
                result = result.with_claim(manager, self.claims[manager].paths - gone, now)
        return result

    def show(self) -> list[JsonObject]:
        """`metadata.managedFields`."""
        return [_entry(manager, self.claims[manager]) for manager in sorted(self.claims)]


def _entry(manager: Manager, claim: Claim) -> JsonObject:
    items = frozenset(path for path in claim.paths if path[-1].startswith("k:"))
    entry: JsonObject = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.version,
        "time": claim.since,
        "fieldsType": "FieldsV1",
        "fieldsV1": rendered(claim.paths, items),
    }
    if manager.part:
        entry["subresource"] = manager.part
    return entry


def read_ownership(entries: Iterable[JsonObject]) -> Ownership:
    """From `metadata.managedFields`, as somebody rewrote it; entries that make no sense are nobody's."""
    claims: dict[Manager, Claim] = {}
    for entry in entries:
        name, operation = entry.get("manager"), entry.get("operation")
        if name and operation in (APPLY, UPDATE) and isinstance(entry.get("fieldsV1"), dict):
            manager = Manager(name, operation, entry.get("subresource", ""), entry.get("apiVersion", ""))
            claims[manager] = Claim(paths_in(entry["fieldsV1"]), entry.get("time", ""))
    return Ownership(claims)


def ownership_of(owners: object, live: JsonObject, schema: MergeSchema, version: str) -> Ownership:
    """The claims on an object; one that was never applied belongs to its creator."""
    if isinstance(owners, Ownership):
        return owners
    creator = owners if isinstance(owners, str) and owners else "before-first-apply"
    born = live["metadata"].get("creationTimestamp", "")
    found = frozenset(leaves(live, schema))
    status = frozenset(path for path in found if path[0] == "f:status")
    claims = Ownership().with_claim(Manager(creator, UPDATE, "", version), found - status, born)
    return claims.with_claim(Manager(creator, UPDATE, "status", version), status, born)


def after_update(owners: Ownership, manager: Manager, before: Leaves, after: Leaves, now: str) -> Ownership:
    """A write that is not an apply: what it changes becomes the writer's, what it removes is nobody's."""
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    removed = frozenset(path for path in before if path not in after)
    if not changed and not removed:
        return owners
    if manager.part == "scale":  # changes hands only if it was somebody's
        changed &= owners.others(manager) | owners.paths(manager)
    taken = owners.without(frozenset(changed) | removed, now, but=manager)
    return taken.with_claim(manager, (owners.paths(manager) | changed) - removed, now)
