"""Registry of served kinds, and resolution of request paths."""

from collections.abc import Iterable
from dataclasses import dataclass

from ullage.sim.apiserver.kinds.kind import ServedKind
from ullage.sim.apiserver.request.status_errors import no_such_resource, not_found


class NoSuchPath(Exception):
    """Not a path of any served group: the server answers with plain text."""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """Target of a request path. Without a name: the collection."""

    kind: ServedKind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class KindRegistry:
    """Served kinds by group, version and plural. Custom kinds are added and removed."""

    def __init__(self, kinds: Iterable[ServedKind]) -> None:
        self._kinds: dict[tuple[str, str, str], ServedKind] = {}
        self._versions: dict[tuple[str, str], int] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: ServedKind) -> None:
        self.remove(kind)
        self._kinds[kind.group, kind.version, kind.plural] = kind
        self._versions[kind.group, kind.version] = self._versions.get((kind.group, kind.version), 0) + 1

    def remove(self, kind: ServedKind) -> None:
        if self._kinds.pop((kind.group, kind.version, kind.plural), None) is None:
            return
        self._versions[kind.group, kind.version] -= 1
        if not self._versions[kind.group, kind.version]:
            del self._versions[kind.group, kind.version]

    def kinds(self) -> list[ServedKind]:
        """All kinds, in a fixed order."""
        return [self._kinds[key] for key in sorted(self._kinds)]

    def groups(self) -> dict[str, list[str]]:
        """Served versions of each group, the preferred one first."""
        found: dict[str, list[str]] = {}
        for group, version in sorted(self._versions):
            found.setdefault(group, []).append(version)
        for versions in found.values():
            versions.sort(key=_preference)
        return found

    def find(self, group: str, version: str, plural: str) -> ServedKind | None:
        return self._kinds.get((group, version, plural))

    def resolve(self, path: str) -> RequestTarget:
        """Raises NoSuchPath for unknown groups, StatusError for unknown resources of known ones."""
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            raise NoSuchPath(path)
        if (group, version) not in self._versions:
            raise NoSuchPath(path)
        return self._within(group, version, rest)

    def _within(self, group: str, version: str, rest: list[str]) -> RequestTarget:
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and self._names_resource(group, version, rest):
            namespace, rest = rest[1], rest[2:]
        kind = self._kinds.get((group, version, rest[0]))
        if kind is None or len(rest) > 3 or (namespace and not kind.namespaced):
            raise NoSuchPath(rest[0]) if self._only_custom(group) else no_such_resource()
        name, subresource = (*rest[1:], "", "")[:2]
        if subresource and subresource not in kind.subresources:
            raise not_found(kind.about(name)) if kind.custom else no_such_resource()
        if kind.namespaced and name and not namespace:
            raise no_such_resource()
        return RequestTarget(kind, namespace, name, subresource)

    def _only_custom(self, group: str) -> bool:
        return all(kind.custom for (found, _, _), kind in self._kinds.items() if found == group)

    def _names_resource(self, group: str, version: str, rest: list[str]) -> bool:
        """`namespaces/x/pods` is a place; `namespaces/x/status` is an object's part."""
        return (group, version, rest[2]) in self._kinds or not (group == "" and rest[2] in ("status", "finalize"))


def _preference(version: str) -> tuple[int, int, int, str]:
    """v2 before v1 before v1beta2 before v1alpha1 before anything else."""
    digits = version[1:]
    if version.startswith("v") and digits.isdigit():
        return (0, -int(digits), 0, "")
    for rank, stage in ((1, "beta"), (2, "alpha")):
        major, found, minor = digits.partition(stage)
        if version.startswith("v") and found and major.isdigit() and minor.isdigit():
            return (rank, -int(major), -int(minor), "")
    return (3, 0, 0, version)
