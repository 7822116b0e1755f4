"""Generator of `builtin.txt`: the built-in types, from the Go types that Kubernetes publishes as modules.

`python -m ullage.sim.apiserver.types.generate [--check]`. Needs Go; modules are found by name and version, and
downloaded where Go's cache does not have them. Struct tags give names, numbers and patch strategies; markers in
comments give merge types, enums, defaults and what is required.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ullage.sim.apiserver.release import RELEASE

HERE = Path(__file__).parent
TABLE = HERE / "builtin.txt"
MODULES_VERSION = f"v0.{RELEASE.removeprefix('1.')}"
"""Of the Go modules that Kubernetes publishes with a release."""
PACKAGES: Mapping[str, tuple[str, str]] = {
    "admissionregistration.v1": ("k8s.io/api", "admissionregistration/v1"),
    "apiextensions.v1": ("k8s.io/apiextensions-apiserver", "pkg/apis/apiextensions/v1"),
    "apps.v1": ("k8s.io/api", "apps/v1"),
    "authentication.v1": ("k8s.io/api", "authentication/v1"),
    "authorization.v1": ("k8s.io/api", "authorization/v1"),
    "autoscaling.v1": ("k8s.io/api", "autoscaling/v1"),
    "batch.v1": ("k8s.io/api", "batch/v1"),
    "coordination.v1": ("k8s.io/api", "coordination/v1"),
    "core.v1": ("k8s.io/api", "core/v1"),
    "events.v1": ("k8s.io/api", "events/v1"),
    "meta.v1": ("k8s.io/apimachinery", "pkg/apis/meta/v1"),
    "policy.v1": ("k8s.io/api", "policy/v1"),
    "rbac.v1": ("k8s.io/api", "rbac/v1"),
    "resource.v1": ("k8s.io/api", "resource/v1"),
    "scheduling.v1": ("k8s.io/api", "scheduling/v1"),
    "scheduling.v1alpha3": ("k8s.io/api", "scheduling/v1alpha3"),
    "storage.v1": ("k8s.io/api", "storage/v1"),
}
ROOTS = {
    "admissionregistration.v1": "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
    "apiextensions.v1": "CustomResourceDefinition",
    "apps.v1": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "authentication.v1": "SelfSubjectReview TokenReview",
    "authorization.v1": "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    "autoscaling.v1": "Scale",
    "batch.v1": "Job",
    "coordination.v1": "Lease",
    "core.v1": "Binding ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod "
    "ResourceQuota Secret Service ServiceAccount",
    "events.v1": "Event",
    "meta.v1": "DeleteOptions Status",
    "policy.v1": "Eviction PodDisruptionBudget",
    "rbac.v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "resource.v1": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
    "scheduling.v1": "PriorityClass",
    "storage.v1": "CSINode StorageClass",
}
"""Kinds the simulated server has. All types below them are in the table, too."""
SCALARS = {
    "bool": "bool",
    "string": "string",
    "int": "int32",
    "int32": "int32",
    "int64": "int64",
    "float64": "double",
    "[]byte": "bytes",
    "meta.v1.Time": "time",
    "meta.v1.MicroTime": "microtime",
    "meta.v1.FieldsV1": "fields",
    "resource.Quantity": "quantity",
    "intstr.IntOrString": "intOrString",
    "runtime.RawExtension": "object",
    "types.UID": "string",
    "types.NodeName": "string",
    "apiextensions.v1.JSON": "json",
    "apiextensions.v1.JSONSchemaPropsOrBool": "schemaOrBool",
    "apiextensions.v1.JSONSchemaPropsOrArray": "schemaOrArray",
    "apiextensions.v1.JSONSchemaPropsOrStringArray": "schemaOrStrings",
}
_EMBEDDED_META = "meta.v1.TypeMeta"


@dataclass(frozen=True)
class Declarations:
    """Type declarations by package and name."""

    packages: Mapping[str, Mapping[str, Any]]

    def find(self, name: str) -> Mapping[str, Any] | None:
        package, _, kind = name.rpartition(".")
        return self._types.get(package, {}).get(kind)

    def is_struct(self, name: str) -> bool:
        found = self.find(name) if name else None
        return found is not None and bool(found["struct"])

    def default(self, text: str, package: str) -> str:
        """Value of a `+default` marker; empty for one that is the zero value, or no text."""
        if reference := re.fullmatch(r"ref\((\w+)\)", text):
            return str(self.packages[package]["values"][reference[1]])
        return str(json.loads(text)) if text.startswith('"') else ""

    def constants(self, name: str) -> list[str]:
        package, _, kind = name.rpartition(".")
        return sorted(set(self.packages[package]["constants"].get(kind, ())))

    @cached_property
    def _types(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        return {name: {one["name"]: one for one in found["types"]} for name, found in self.packages.items()}

    def qualified(self, text: str, package: str) -> str:
        """Name of a type as `text` spells it inside of `package`: `v1.ObjectMeta` is meta.v1.ObjectMeta."""
        if text in SCALARS or text.startswith(("[]", "map[")):
            return text
        alias, dot, kind = text.rpartition(".")
        if not dot:
            return f"{package}.{kind}"
        path = self.packages[package]["imports"].get(alias, "")
        for name, (module, folder) in PACKAGES.items():
            if path == f"{module}/{folder}":
                return f"{name}.{kind}"
        return text


def table() -> str:
    """The whole table."""
    declarations = Declarations(_declarations())
    waiting = [f"{package}.{kind}" for package, kinds in ROOTS.items() for kind in kinds.split()]
    blocks: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        if name in blocks:
            continue
        rows = list(_rows(name, declarations))
        blocks[name] = "\n".join([_head(name, declarations), *(row for row, _ in rows)])
        waiting += [below for _, below in rows if declarations.is_struct(below)]
    return "\n".join(blocks[name] for name in sorted(blocks)) + "\n"


def _declarations() -> Mapping[str, Mapping[str, Any]]:
    modules = sorted({module for module, _ in PACKAGES.values()})
    command = ("go", "mod", "download", "-json", *(f"{module}@{MODULES_VERSION}" for module in modules))
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    decoder, rest, folders = json.JSONDecoder(), done.stdout.strip(), {}
    while rest:
        one, end = decoder.raw_decode(rest)
        folders[one["Path"]] = one["Dir"]
        rest = rest[end:].strip()
    paths = {name: str(Path(folders[module]) / folder) for name, (module, folder) in PACKAGES.items()}
    run = ("go", "run", str(HERE / "declarations.go"), *paths.values())
    found = json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    return {name: found[path] for name, path in paths.items()}


def _head(name: str, declarations: Declarations) -> str:
    found = declarations.find(name)
    if found is None:
        raise LookupError(name)
    words = [name]
    if _markers(found["doc"]).get("structType") == "atomic":
        words.append("atomic")
    if any(one["embedded"] and _is_type_meta(one, name, declarations) for one in found["fields"]):
        words.append("typed")
    return " ".join(words)


def _is_type_meta(field: Mapping[str, Any], owner: str, declarations: Declarations) -> bool:
    return declarations.qualified(field["type"], owner.rpartition(".")[0]) == _EMBEDDED_META


def _rows(name: str, declarations: Declarations, above: str = "") -> Iterator[tuple[str, str]]:
    """Lines of the fields of a type, each with the type below it, in the order of their declaration."""
    found = declarations.find(name)
    package = name.rpartition(".")[0]
    for field in () if found is None else found["fields"]:
        tags = _tags(field["tag"])
        said, *options = tags.get("json", "").split(",")
        if field["embedded"] and (not said or "inline" in options):
            if not _is_type_meta(field, name, declarations):
                inner = declarations.qualified(field["type"], package)
                number = _number(tags)
                yield from _rows(inner, declarations, f"{above}{number}." if number != "0" else above)
            continue
        if said in ("", "-"):
            continue
        kind, below = _kind(field["type"], package, declarations)
        number = _number(tags)
        words = [said, f"{above}{number}" if number != "0" else "0", kind]
        yield " " + " ".join([*words, *_properties(field, options, below, package, declarations)]), below


def _properties(
    field: Mapping[str, Any], options: Sequence[str], below: str, package: str, declarations: Declarations
) -> Iterator[str]:
    markers, tags = _markers(field["doc"]), _tags(field["tag"])
    left_out = "omitempty" in options or "omitzero" in options
    if "required" in markers or ("optional" not in markers and not left_out):
        yield "required"
    if not left_out:
        yield "kept"
    if field["type"].startswith("*"):
        yield "pointer"
    merge = markers.get("listType") or markers.get("mapType") or markers.get("structType")
    if merge == "map":
        yield f"keys={','.join(_all_markers(field['doc'], 'listMapKey'))}"
    elif merge in ("atomic", "set"):
        yield merge
    if "patchStrategy" in tags:
        yield f"patch={tags['patchStrategy']}"
    if "patchMergeKey" in tags:
        yield f"by={tags['patchMergeKey']}"
    named = declarations.find(below) if below else None
    if (
        named is not None
        and "enum" in _markers(named["doc"])
        and not field["type"].lstrip("*").startswith(("[]", "map"))
    ):
        yield f"enum={'|'.join(declarations.constants(below))}"
    if default := declarations.default(markers.get("default", ""), package):
        yield f"default={default}"


def _kind(text: str, package: str, declarations: Declarations) -> tuple[str, str]:
    """Type of a field as the table spells it, and the name of the declared type it comes from."""
    text = text.lstrip("*")
    if text in SCALARS:
        return SCALARS[text], ""
    if text.startswith("[]"):
        inner, below = _kind(text[2:], package, declarations)
        return f"[]{inner}", below
    if text.startswith("map["):
        inner, below = _kind(text.partition("]")[2], package, declarations)
        return f"map:{inner}", below
    name = declarations.qualified(text, package)
    if name in SCALARS:
        return SCALARS[name], ""
    found = declarations.find(name)
    if found is None:
        raise LookupError(f"{text} in {package}")
    if found["struct"]:
        return name, name
    inner, _ = _kind(found["type"], name.rpartition(".")[0], declarations)
    below = _kind(found["type"], name.rpartition(".")[0], declarations)[1]
    return inner, below or name


def _tags(text: str) -> dict[str, str]:
    return dict(re.findall(r'(\w+):"([^"]*)"', text))


def _number(tags: Mapping[str, str]) -> str:
    parts = tags.get("protobuf", "").split(",")
    return parts[1] if len(parts) > 1 else "0"


def _markers(doc: str) -> dict[str, str]:
    found = (line.removeprefix("+") for line in doc.splitlines() if line.startswith("+"))
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in found)}


def _all_markers(doc: str, name: str) -> list[str]:
    return [line.partition("=")[2].strip() for line in doc.splitlines() if line.startswith(f"+{name}=")]


def main(arguments: Sequence[str]) -> int:
    """Write the table, or with `--check` compare it. Returns the exit code."""
    made = table()
    if "--check" not in arguments:
        TABLE.write_text(made, encoding="utf-8")
        return 0
    if TABLE.read_text(encoding="utf-8") == made:
        return 0
    sys.stderr.write(f"{TABLE.name} is not as the Go types of {MODULES_VERSION} are; run this module without --check\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
