"""Served kinds: names, storage and rules. The rules of each kind are in `rules`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from ullage.sim.apiserver.merge.merge_schema import ATOMIC_UNKNOWN, MergeSchema
from ullage.sim.apiserver.request import names
from ullage.sim.apiserver.request.field_errors import FieldError
from ullage.sim.apiserver.request.status_errors import StatusSubject
from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.types.shapes import ObjectSchema

FieldReader = Callable[[JsonObject], str]


class AdmissionContext(Protocol):
    """Surroundings admission may read besides the object itself."""

    def timestamp(self) -> str:
        """Now, as objects spell it."""
        ...

    def find(self, resource: str, key: str) -> JsonObject | None:
        """Another object, for reading only."""
        ...

    def all(self, resource: str) -> list[JsonObject]:
        """All objects of a resource, for reading only."""
        ...


class KindRules:
    """Defaults, admission and validation of one kind. Stateless; the base has the rules of the plainest kinds."""

    counts_generations = False
    """True if `metadata.generation` counts: 1 on create, one more per change of anything but metadata and status."""
    unconditional_update = True
    """True if a PUT may leave out the resourceVersion."""
    create_on_update = False
    """True if a PUT to a name that does not exist creates the object."""
    returns_deleted = False
    """True if a DELETE answers with the object instead of a Status."""
    graceful = False
    """True if deletion waits for a component to finish, as pods wait for their kubelet."""
    status_resets: tuple[str, ...] = ()
    """Members of metadata that a write to `status` leaves as they are."""
    keeps_status = False
    """True if a create keeps the status it was given."""
    default_propagation = ""
    """Propagation policy for dependents where a deletion names none."""
    collected = True
    """True if the garbage collector handles its dependents: propagation policies then set finalizers."""
    fields: Mapping[str, FieldReader] = {}
    """Field selectors beyond `metadata.name` and `metadata.namespace`."""
    shape: ObjectSchema
    """Its fields and their types."""
    schema: MergeSchema = ATOMIC_UNKNOWN
    """Merge schema for server-side apply."""

    def check_name(self, name: str) -> tuple[str, ...]:
        return names.dns_subdomain(name)

    def unknown_fields(self, _obj: JsonObject) -> list[str]:
        """Paths of fields this kind does not have, where that is known."""
        return []

    def default(self, obj: JsonObject) -> None:
        """Fill in defaults. Runs on every write, before anything else."""

    def admit(self, obj: JsonObject, around: AdmissionContext) -> None:
        """Complete or refuse a new object, with a look at its surroundings. Raises StatusError."""

    def prepare_create(self, obj: JsonObject, around: AdmissionContext) -> None:
        """Overwrite fields the writer may not choose."""

    def prepare_update(self, obj: JsonObject, old: JsonObject) -> None:
        """Overwrite fields an update may not change, silently."""

    def prepare_status(self, obj: JsonObject, old: JsonObject) -> None:
        """Overwrite fields a write to `status` may not change, silently."""

    def validate(self, _obj: JsonObject) -> list[FieldError]:
        """Errors of a new object, metadata aside."""
        return []

    def validate_update(self, obj: JsonObject, _old: JsonObject) -> list[FieldError]:
        return self.validate(obj)

    def validate_status(self, _obj: JsonObject, _old: JsonObject) -> list[FieldError]:
        return []

    def desired(self, obj: JsonObject) -> object:
        """The part whose changes are counted as generations."""
        return obj.get("spec")

    def may_vanish(self, _obj: JsonObject) -> bool:
        """True if a deleted object without finalizers has nothing else to wait for."""
        return True

    def check_delete(self, obj: JsonObject) -> None:
        """Raises StatusError if this object may not be deleted at all."""

    def mark_deleted(self, _obj: JsonObject, _around: AdmissionContext) -> JsonObject | None:
        """State of the object while it is being deleted, for kinds with their own deletion; None for the common one."""
        return None

    def grace_period(self, _obj: JsonObject, asked: int | None) -> int:
        """Seconds from deletion request to removal, for graceful kinds."""
        return asked or 0


@dataclass(frozen=True, slots=True, eq=False)
class ScalePaths:
    """Dotted paths of replicas and selector in a scalable kind."""

    replicas: str = "spec.replicas"
    status_replicas: str = "status.replicas"
    selector: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ServedKind:
    """One resource in one served version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    rules: KindRules
    subresources: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    scale: ScalePaths | None = None
    shelf: str = ""
    """Storage table of its objects; versions of one resource share it. Empty for the kind's own id."""
    inward: Callable[[JsonObject], JsonObject] | None = None
    """From this version to the stored one, where they differ in more than apiVersion."""
    outward: Callable[[JsonObject], JsonObject] | None = None
    stored_version: str = ""
    """apiVersion of the stored objects."""
    verbs: tuple[str, ...] = field(
        default=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    )
    custom: bool = False
    columns: tuple[JsonObject, ...] = ()
    """Table columns of a custom kind: its `additionalPrinterColumns`."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def id(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def place(self) -> str:
        return self.shelf or self.id

    @property
    def storage_version(self) -> str:
        return self.stored_version or self.api_version

    def about(self, name: str = "") -> StatusSubject:
        """Subject of an error, by resource."""
        return StatusSubject(self.plural, self.group, name)

    def about_kind(self, name: str) -> StatusSubject:
        """Subject of an error, by kind: with the group it is stored in."""
        return StatusSubject(self.kind, self.storage_version.rpartition("/")[0], name)

    def key(self, namespace: str, name: str) -> str:
        return f"{namespace}/{name}" if self.namespaced else name

    def in_version(self, version: str) -> "ServedKind":
        """The same resource served under another version."""
        return replace(self, version=version, shelf=self.place, stored_version=self.storage_version)
