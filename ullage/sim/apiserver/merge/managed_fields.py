"""Managed fields: owners of the fields of an object, for server-side apply.

Unless owners are recorded from creation on (`ServerContext.accounts_from_birth`), an object that was never applied
carries only its creator's name, and the creator owns every field. From the first apply on, every write is recorded, and
the object shows it in `managedFields`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from ullage.sim.apiserver.merge.field_sets import Leaves, Path, leaves, paths_in, rendered
from ullage.sim.apiserver.merge.merge_schema import MergeSchema
from ullage.sim.apiserver.storage.json_bytes import JsonObject

APPLY = "Apply"
UPDATE = "Update"


@dataclass(frozen=True, slots=True, order=True)
class FieldManager:
    """One writer in one role: the same name applying and updating is two managers."""

    name: str
    operation: str
    part: str
    version: str


@dataclass(frozen=True)
class ManagedFieldsEntry:
    """Fields of one manager, and the time they last changed."""

    paths: frozenset[Path]
    since: str

    @cached_property
    def tree(self) -> JsonObject:
        """The paths as `managedFields` spells them; for reading only. Most writes change no owner."""
        return rendered(self.paths, frozenset(path for path in self.paths if path[-1].startswith("k:")))


@dataclass(frozen=True, slots=True)
class ManagedFields:
    """Entries of all managers of one object. Replaced, never changed."""

    claims: dict[FieldManager, ManagedFieldsEntry] = field(default_factory=dict)

    def paths(self, manager: FieldManager) -> frozenset[Path]:
        claim = self.claims.get(manager)
        return claim.paths if claim else frozenset()

    def others(self, manager: FieldManager) -> frozenset[Path]:
        """Paths owned by other managers."""
        return frozenset(path for other, claim in self.claims.items() if other != manager for path in claim.paths)

    def with_claim(self, manager: FieldManager, paths: Iterable[Path], now: str) -> "ManagedFields":
        """Copy in which the manager owns exactly these paths; a manager without paths is dropped."""
        wanted = frozenset(paths)
        claims = dict(self.claims)
        before = claims.pop(manager, None)
        if wanted:
            claims[manager] = before if before and before.paths == wanted else ManagedFieldsEntry(wanted, now)
        return ManagedFields(claims)

    def without(self, gone: frozenset[Path], now: str, *, but: FieldManager) -> "ManagedFields":
        """Copy in which every manager but one loses these paths."""
        result = self
        for manager in sorted(self.claims):
            if manager != but and self.claims[manager].paths & gone:
                result = result.with_claim(manager, self.claims[manager].paths - gone, now)
        return result

    def show(self) -> list[JsonObject]:
        """`metadata.managedFields`."""
        return [_entry(manager, self.claims[manager]) for manager in sorted(self.claims)]


def _entry(manager: FieldManager, claim: ManagedFieldsEntry) -> JsonObject:
    entry: JsonObject = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.version,
        "time": claim.since,
        "fieldsType": "FieldsV1",
        "fieldsV1": claim.tree,
    }
    if manager.part:
        entry["subresource"] = manager.part
    return entry


def read_ownership(entries: Iterable[JsonObject]) -> ManagedFields:
    """Entries from `metadata.managedFields` as a writer rewrote it; entries that make no sense are dropped."""
    claims: dict[FieldManager, ManagedFieldsEntry] = {}
    for entry in entries:
        name, operation = entry.get("manager"), entry.get("operation")
        if name and operation in (APPLY, UPDATE) and isinstance(entry.get("fieldsV1"), dict):
            manager = FieldManager(name, operation, entry.get("subresource", ""), entry.get("apiVersion", ""))
            claims[manager] = ManagedFieldsEntry(paths_in(entry["fieldsV1"]), entry.get("time", ""))
    return ManagedFields(claims)


def ownership_of(owners: object, live: JsonObject, schema: MergeSchema, version: str) -> ManagedFields:
    """Entries of an object; an object that was never applied belongs to its creator."""
    if isinstance(owners, ManagedFields):
        return owners
    creator = owners if isinstance(owners, str) and owners else "before-first-apply"
    born = live["metadata"].get("creationTimestamp", "")
    found = frozenset(leaves(live, schema))
    status = frozenset(path for path in found if path[0] == "f:status")
    claims = ManagedFields().with_claim(FieldManager(creator, UPDATE, "", version), found - status, born)
    return claims.with_claim(FieldManager(creator, UPDATE, "status", version), status, born)


def after_update(
    owners: ManagedFields, manager: FieldManager, before: Leaves, after: Leaves, now: str
) -> ManagedFields:
    """Entries after a write that is not an apply: the writer owns what it changes; removed fields have no owner."""
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    removed = frozenset(path for path in before if path not in after)
    if not changed and not removed:
        return owners
    if manager.part == "scale":  # changes owner only if it had one
        changed &= owners.others(manager) | owners.paths(manager)
    taken = owners.without(frozenset(changed) | removed, now, but=manager)
    return taken.with_claim(manager, (owners.paths(manager) | changed) - removed, now)
