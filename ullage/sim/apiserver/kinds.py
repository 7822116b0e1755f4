"""What a served kind is: its names, its place, and the rules its objects obey (those are in `rules`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from ullage.sim.apiserver import names
from ullage.sim.apiserver.fields import FieldError
from ullage.sim.apiserver.refusal import About
from ullage.sim.apiserver.schema_types import ATOMIC_UNKNOWN, MergeSchema
from ullage.sim.apiserver.shapes import Shape
from ullage.sim.apiserver.wire import JsonObject

FieldReader = Callable[[JsonObject], str]


class Surroundings(Protocol):
    """What admission may look at besides the object itself."""

    def timestamp(self) -> str:
        """Now, as objects spell it."""
        ...

    def find(self, resource: str, key: str) -> JsonObject | None:
        """Another object, for reading only."""
        ...

    def all(self, resource: str) -> list[JsonObject]:
        """All objects of a resource, for reading only."""
        ...


class Rules:
    """How objects of a kind are completed and judged. Stateless; the base has the rules of the plainest kinds."""

    counts_generations = False
    """Is `metadata.generation` kept: 1 on create, one more with every change of anything but metadata and status."""
    unconditional_update = True
    """May a PUT leave out the resourceVersion."""
    create_on_update = False
    """Does a PUT to a name that is not there create it."""
    returns_deleted = False
    """Does a DELETE answer with the object instead of a Status."""
    graceful = False
    """Does deletion wait for somebody to finish."""
    status_resets: tuple[str, ...] = ()
    """Members of metadata that a write to `status` leaves as they are."""
    keeps_status = False
    """Does a create keep the status it was given."""
    default_propagation = ""
    """What happens to dependents where a deletion does not say."""
    collected = True
    """Does the garbage collector look after its dependents: do propagation policies set finalizers."""
    fields: Mapping[str, FieldReader] = {}
    """Field selectors beyond `metadata.name` and `metadata.namespace`."""
    shape: Shape
    """Its fields and their types."""
    schema: MergeSchema = ATOMIC_UNKNOWN
    """How server-side apply merges its fields."""

    def check_name(self, name: str) -> tuple[str, ...]:
        return names.dns_subdomain(name)

    def unknown_fields(self, _obj: JsonObject) -> list[str]:
        """Paths of fields this kind does not have, where that is known."""
        return []

    def default(self, obj: JsonObject) -> None:
        """Fill in what was left out. Runs on every write, before anything else."""

    def admit(self, obj: JsonObject, around: Surroundings) -> None:
        """Look around and complete or refuse a new object. Raises Refusal."""

    def prepare_create(self, obj: JsonObject, around: Surroundings) -> None:
        """Overwrite what the writer may not choose."""

    def prepare_update(self, obj: JsonObject, old: JsonObject) -> None:
        """Overwrite what an update may not change, silently."""

    def prepare_status(self, obj: JsonObject, old: JsonObject) -> None:
        """The same for a write to `status`."""

    def validate(self, _obj: JsonObject) -> list[FieldError]:
        """What is wrong with a new object, metadata aside."""
        return []

    def validate_update(self, obj: JsonObject, _old: JsonObject) -> list[FieldError]:
        return self.validate(obj)

    def validate_status(self, _obj: JsonObject, _old: JsonObject) -> list[FieldError]:
        return []

    def desired(self, obj: JsonObject) -> object:
        """The part whose changes are counted as generations."""
        return obj.get("spec")

    def may_vanish(self, _obj: JsonObject) -> bool:
        """Asked to go and without finalizers: is there nothing else to wait for."""
        return True

    def check_delete(self, obj: JsonObject) -> None:
        """Raises Refusal where this object may not be deleted at all."""

    def mark_deleted(self, _obj: JsonObject, _around: Surroundings) -> JsonObject | None:
        """For kinds that go in their own way: the object as it is while going; None where the common way is taken."""
        return None

    def grace(self, _obj: JsonObject, asked: int | None) -> int:
        """Seconds between being asked to go and going, for graceful kinds."""
        return asked or 0


@dataclass(frozen=True, slots=True, eq=False)
class ScalePaths:
    """Where a scalable kind keeps its replicas and selector; dotted."""

    replicas: str = "spec.replicas"
    status_replicas: str = "status.replicas"
    selector: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One resource in one served version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    rules: Rules
    subresources: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    scale: ScalePaths | None = None
    shelf: str = ""
    """Where its objects lie; versions of one resource share it."""
    inward: Callable[[JsonObject], JsonObject] | None = None
    """From this version to the stored one, where they differ in more than apiVersion."""
    outward: Callable[[JsonObject], JsonObject] | None = None
    stored_version: str = ""
    """apiVersion of the objects on the shelf."""
    verbs: tuple[str, ...] = field(
        default=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    )
    custom: bool = False
    columns: tuple[JsonObject, ...] = ()
    """What a custom kind shows of its objects in tables: its `additionalPrinterColumns`."""

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

    def about(self, name: str = "") -> About:
        """As errors name the resource."""
        return About(self.plural, self.group, name)

    def about_kind(self, name: str) -> About:
        """As errors name the kind: by the group it is stored in."""
        return About(self.kind, self.storage_version.rpartition("/")[0], name)

    def key(self, namespace: str, name: str) -> str:
        return f"{namespace}/{name}" if self.namespaced else name

    def in_version(self, version: str) -> "Kind":
        """The same resource served under another version."""
        return replace(self, version=version, shelf=self.place, stored_version=self.storage_version)
