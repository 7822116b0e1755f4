"""kubeconfig files: read, merged by kubectl's rules, and checked. Opens no connection.

Every error names the file, the field and the next step.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import yaml

from ullage.errors import UserError

T = TypeVar("T")


class _Kebab(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """kubeconfig spells most of its fields with dashes."""


class ClusterEntry(_Kebab, frozen=True, kw_only=True):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: list[dict[str, Any]] = []


class ExecEnv(msgspec.Struct, frozen=True):
    name: str
    value: str


class ExecEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Command, arguments and environment of a credential plugin."""

    api_version: str
    command: str
    args: list[str] = []
    env: list[ExecEnv] = []
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class UserEntry(_Kebab, frozen=True, kw_only=True):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    as_user: str = msgspec.field(name="as", default="")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}
    exec_: ExecEntry | None = msgspec.field(name="exec", default=None)
    auth_provider: dict[str, Any] | None = None


class ContextEntry(_Kebab, frozen=True, kw_only=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: ClusterEntry


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: UserEntry


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: ContextEntry


class _File(_Kebab, frozen=True, kw_only=True):
    current_context: str = ""
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []


@dataclass(frozen=True, slots=True)
class NamedEntry(Generic[T]):
    """One named entry with its file, to which its paths are relative."""

    name: str
    value: T
    file: Path

    def beside(self, path: str) -> Path:
        """Resolve a path relative to this file."""
        return self.file.parent / Path(path).expanduser()


@dataclass(slots=True)
class Kubeconfig:
    """Several files merged. For each name, the entry of the first file that has it is used unmerged."""

    files: tuple[Path, ...] = ()
    current_context: str = ""
    clusters: dict[str, NamedEntry[ClusterEntry]] = field(default_factory=dict)
    users: dict[str, NamedEntry[UserEntry]] = field(default_factory=dict)
    contexts: dict[str, NamedEntry[ContextEntry]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChosenContext:
    """A context with its cluster and its user."""

    context: NamedEntry[ContextEntry]
    cluster: NamedEntry[ClusterEntry]
    user: NamedEntry[UserEntry]


def load(paths: Sequence[Path]) -> Kubeconfig:
    """Read and merge the files. Raises UserError for a file that cannot be read."""
    merged = Kubeconfig(files=tuple(paths))
    for path in paths:
        content = _read(path)
        merged.current_context = merged.current_context or content.current_context
        _add(merged.clusters, ((one.name, one.cluster) for one in content.clusters), path, "clusters")
        _add(merged.users, ((one.name, one.user) for one in content.users), path, "users")
        _add(merged.contexts, ((one.name, one.context) for one in content.contexts), path, "contexts")
    return merged


def choose(config: Kubeconfig, context: str | None) -> ChosenContext:
    """Return a context, the current one if none is named, with its cluster and user. Raises UserError."""
    files = os.pathsep.join(str(path) for path in config.files)
    name = context or config.current_context
    if not name:
        hint = f"name one with --context ({_names(config.contexts)})" if config.contexts else "it has no contexts"
        raise UserError(f"kubeconfig {files}: current-context is not set; {hint}")
    if name not in config.contexts:
        raise UserError(f"kubeconfig {files}: there is no context {name!r}; it has {_names(config.contexts)}")
    chosen = config.contexts[name]
    cluster, user = chosen.value.cluster, chosen.value.user
    if cluster not in config.clusters:
        raise UserError(
            f"kubeconfig {chosen.file}: context {name!r} names cluster {cluster!r}, "
            f"which is not in clusters; it has {_names(config.clusters)}"
        )
    if user and user not in config.users:
        raise UserError(
            f"kubeconfig {chosen.file}: context {name!r} names user {user!r}, "
            f"which is not in users; it has {_names(config.users)}"
        )
    nobody = NamedEntry("", UserEntry(), chosen.file)
    return ChosenContext(chosen, config.clusters[cluster], config.users.get(user, nobody))


def _read(path: Path) -> _File:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UserError(f"kubeconfig {path} does not exist; give another with --kubeconfig or KUBECONFIG") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"kubeconfig {path} cannot be read ({error}); check the file and its permissions") from error
    try:
        content = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise UserError(f"kubeconfig {path} is not YAML{where}: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise UserError(f"kubeconfig {path} is not YAML: {' '.join(str(error).split())}") from error
    try:
        return msgspec.convert(_without_nulls(content) or {}, _File)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        where = place.strip("`").removeprefix("$").lstrip(".") or "the file"
        raise UserError(f"kubeconfig {path}: {where}: {problem[:1].lower() + problem[1:]}; correct the file") from error


def _without_nulls(value: Any) -> Any:
    """Drop nulls: `users: null` and `users:` mean that the field is not set."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value if inner is not None]
    return value


def _add(known: dict[str, NamedEntry[T]], entries: Iterable[tuple[str, T]], path: Path, section: str) -> None:
    seen: set[str] = set()
    for name, value in entries:
        if name in seen:
            raise UserError(f"kubeconfig {path}: {section} has two entries named {name!r}; remove one")
        seen.add(name)
        known.setdefault(name, NamedEntry(name, value, path))


def _names(entries: dict[str, NamedEntry[T]]) -> str:
    return ", ".join(sorted(entries)) or "none"
