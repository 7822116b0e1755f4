"""Rules for the metadata of every object, whatever its kind."""

from collections.abc import Callable

from ullage.sim.apiserver.request import names
from ullage.sim.apiserver.request.field_errors import FieldError, forbidden_field, required, wrong
from ullage.sim.apiserver.storage.json_bytes import JsonObject, Randomness

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_MAX_BASE = 58
_STANDARD_FINALIZERS = ("foregroundDeletion", "kubernetes", "orphan")
_ANNOTATIONS_LIMIT = 256 * 1024

NameRule = Callable[[str], tuple[str, ...]]


def generated_name(base: str, random: Randomness) -> str:
    """Random name that is unlikely to be taken."""
    return base[:_MAX_BASE] + "".join(random.choice(_SUFFIX_LETTERS) for _ in range(5))


def new_uid(random: Randomness) -> str:
    """A version 4 UUID from the seed."""
    bits = random.getrandbits(128)
    bits = (bits & ~(0xF << 76)) | (0x4 << 76)
    bits = (bits & ~(0x3 << 62)) | (0x2 << 62)
    digits = f"{bits:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def tidy(metadata: JsonObject) -> JsonObject:
    """As a typed decoder would read it: empty means absent; type and order of members as the server writes them."""
    kept = {key: value for key, value in metadata.items() if value not in (None, "", {}, []) and key != "selfLink"}
    return {key: kept[key] for key in _ORDER if key in kept} | {k: v for k, v in kept.items() if k not in _ORDER}


_FIXED = ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
_ORDER = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip


def check_metadata(metadata: JsonObject, name_rule: NameRule) -> list[FieldError]:
    """Errors of names, labels, annotations, owners and finalizers."""
    found: list[FieldError] = []
    if base := metadata.get("generateName"):
        # The suffix makes a trailing dash harmless, and only that.
        tried = base[:-1] + "a" if base.endswith("-") else base
        found += [wrong("metadata.generateName", base, why) for why in name_rule(tried)]
    if not metadata.get("name"):
        found.append(required("metadata.name", "name or generateName is required"))
    else:
        found += [wrong("metadata.name", metadata["name"], why) for why in name_rule(metadata["name"])]
    found += _check_labels(metadata.get("labels") or {})
    found += _check_annotations(metadata.get("annotations") or {})
    found += _check_owners(metadata.get("ownerReferences") or [])
    return found + _check_finalizers(metadata.get("finalizers") or [])


def _check_labels(labels: JsonObject) -> list[FieldError]:
    return check_labels(labels, "metadata.labels")


def check_labels(labels: JsonObject, field: str) -> list[FieldError]:
    found: list[FieldError] = []
    for key, value in labels.items():
        found += [wrong(field, key, why) for why in names.qualified_name(key)]
        found += [wrong(field, value, why) for why in names.label_value(str(value))]
    return found


def _check_annotations(annotations: JsonObject) -> list[FieldError]:
    found: list[FieldError] = []
    size = 0
    for key, value in annotations.items():
        found += [wrong("metadata.annotations", key, why) for why in names.qualified_name(key.lower())]
        size += len(key) + len(str(value))
    if size > _ANNOTATIONS_LIMIT:
        message = f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes"
        found.append(FieldError("metadata.annotations", "FieldValueTooLong", message))
    return found


def _check_owners(owners: list[JsonObject]) -> list[FieldError]:
    found: list[FieldError] = []
    where = "metadata.ownerReferences"
    for place, owner in enumerate(owners):
        missing = [member for member in ("apiVersion", "kind", "name", "uid") if not owner.get(member)]
        found += [required(f"{where}[{place}].{member}", "must not be empty") for member in missing]
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        first, second = (f"{owner.get('kind')}/{owner.get('name')}" for owner in controllers[:2])
        why = f'Only one reference can have Controller set to true. Found "true" in references for {first} and {second}'
        found.append(wrong(where, owners, why))
    return found


def _check_finalizers(finalizers: list[str]) -> list[FieldError]:
    found: list[FieldError] = []
    for index, name in enumerate(finalizers):
        where = f"metadata.finalizers[{index}]"
        found += [wrong(where, name, why) for why in names.qualified_name(name)]
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            found.append(wrong(where, name, "name is neither a standard finalizer name nor is it fully qualified"))
    return found


def check_metadata_update(new: JsonObject, old: JsonObject) -> list[FieldError]:
    """Errors of changes no writer may make."""
    changed = [member for member in _FIXED if new.get(member) != old.get(member)]
    found = [wrong(f"metadata.{member}", new.get(member, ""), "field is immutable") for member in changed]
    if old.get("deletionTimestamp"):
        added = [name for name in new.get("finalizers") or [] if name not in (old.get("finalizers") or [])]
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            why = "no new finalizers can be added if the object is being deleted, found new finalizers"
            found.append(forbidden_field("metadata.finalizers", f"{why} []string{{{listed}}}"))
    return found
