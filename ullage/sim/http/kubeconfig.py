"""The kubeconfig file of a served cluster: readable by its owner only, and removed with the cluster."""

import base64
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

from ullage.errors import UserError

_NAME = "ullage"


def config_text(url: str, *, token: str = "", trusted: bytes | None = None) -> str:
    """One cluster, one user, one context."""
    cluster: dict[str, str] = {"server": url}
    if trusted is not None:
        cluster["certificate-authority-data"] = base64.b64encode(trusted).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": _NAME,
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"token": token} if token else {}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}],
    }
    return yaml.safe_dump(config, sort_keys=False)


@contextmanager
def written(text: str, path: Path | None) -> Iterator[Path]:
    """The file, during the block: where it is wanted, or in a private folder. Raises UserError."""
    folder = None
    if path is None:
        folder = Path(tempfile.mkdtemp(prefix="ullage-"))
        path = folder / "kubeconfig"
    try:
        _write_private(path, text)
        yield path
    finally:
        with suppress(FileNotFoundError):
            path.unlink()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _write_private(path: Path, text: str) -> None:
    """Write a new file with mode 0600 from its creation on; a file of the same name is replaced."""
    try:
        with suppress(FileNotFoundError):
            path.unlink()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError as error:
        raise UserError(f"cannot write the kubeconfig {path}: {error.strerror}") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
