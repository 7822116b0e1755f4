"""Audit log of an API server: which user asked for what, and whether it was allowed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    """One request for an object, as the authorizer saw it."""

    user: str
    verb: str
    group: str
    resource: str
    """With its subresource: `pods/binding`."""
    namespace: str
    name: str
    allowed: bool
    code: int
    """HTTP status of the answer; 0 if there was none."""


def read_audit(log: Path) -> Iterator[AuditedRequest]:
    """Requests for objects, in the order of their answers. A line that is still being written is left out."""
    if not log.exists():
        return
    with log.open() as lines:
        for line in lines:
            if line.endswith("\n") and (found := _read(json.loads(line))) is not None:
                yield found


def _read(entry: dict[str, Any]) -> AuditedRequest | None:
    about = entry.get("objectRef")
    if about is None or "resource" not in about:
        return None
    resource = about["resource"] + (f"/{about['subresource']}" if about.get("subresource") else "")
    return AuditedRequest(
        user=entry["user"].get("username", ""),
        verb=entry["verb"],
        group=about.get("apiGroup", ""),
        resource=resource,
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        allowed=(entry.get("annotations") or {}).get("authorization.k8s.io/decision") != "forbid",
        code=(entry.get("responseStatus") or {}).get("code", 0),
    )
