"""Files, folders and standard input to documents: YAML or JSON, each with the place it was found at. Nothing is read
into them here."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from ullage.errors import UserError

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"

if TYPE_CHECKING:
    from yaml import SafeLoader as _Loader
else:
    # The one in C is ten times as fast, and not everywhere.
    _Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _PlainLoader(_Loader):
    """Times stay texts: Kubernetes' are."""


_PlainLoader.yaml_implicit_resolvers = {
    first: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:timestamp"]
    for first, entries in _Loader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class ManifestDocument:
    """One document of a manifest, or one item of a List in it. Prints as its place: file, document number, item."""

    source: str
    number: int
    body: Any
    inside: str = ""

    def item(self, index: int, body: Any) -> "ManifestDocument":
        """An entry of a List in here."""
        return replace(self, body=body, inside=f"{self.inside}, items[{index}]")

    def __str__(self) -> str:
        return f"{self.source}: document {self.number}{self.inside}"


def documents(paths: Sequence[str], stdin: bytes | None = None) -> Iterator[ManifestDocument]:
    """All documents of these, in order; empty ones are counted and left out. Raises UserError."""
    for path in paths:
        if path == STDIN:
            yield from _parsed("standard input", stdin or b"")
        else:
            for file in _files(Path(path)):
                yield from _parsed(str(file), _read(file))


def _files(path: Path) -> list[Path]:
    """The file, or the manifests in a folder by name; folders below it are not looked into, as by kubectl."""
    if not path.is_dir():
        return [path]
    found = sorted(one for one in path.iterdir() if one.suffix in SUFFIXES and one.is_file())
    if not found:
        raise UserError(f"{path}: no {', '.join(SUFFIXES)} files in this folder; name a file or another folder")
    return found


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UserError(f"{file}: {(error.strerror or 'cannot be read').lower()}; check the path after -f") from error


def _parsed(source: str, text: bytes) -> Iterator[ManifestDocument]:
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{source}: is not UTF-8 text (byte {error.start}); give YAML or JSON") from error
    bodies = _json(decoded) if decoded.lstrip()[:1] == "{" else None
    found = False
    for number, body in enumerate(_yaml(source, decoded) if bodies is None else bodies, start=1):
        if body is not None:
            found = True
            yield ManifestDocument(source, number, body)
    if not found:
        raise UserError(f"{source}: is empty; give Kubernetes manifests")


def _json(text: str) -> list[Any] | None:
    """One object after another; None where it is not JSON: YAML may begin with a brace, too."""
    try:
        return [msgspec.json.decode(text)]
    except msgspec.DecodeError:
        pass
    decoder, found, at = json.JSONDecoder(), [], 0
    while text := text[at:].lstrip():
        try:
            body, at = decoder.raw_decode(text)
        except ValueError:
            return None
        found.append(body)
    return found


def _yaml(source: str, text: str) -> Iterator[Any]:
    number = 1
    try:
        for body in yaml.load_all(text, _PlainLoader):
            yield body
            number += 1
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise UserError(f"{source}: document {number} is not YAML{where}: {error.problem or error.context}") from error
    except RecursionError as error:
        raise UserError(f"{source}: document {number} is not YAML anybody writes: it is nested too deep") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{source}: document {number} is not YAML: {error}") from error
