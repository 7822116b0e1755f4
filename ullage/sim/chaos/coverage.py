"""Coverage of faults: how often each fault met each place where a process calls out."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ullage.kube.client.transport import Request

CLOUD = "cloud"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(slots=True)
class FaultCoverage:
    """Calls by call site, and faults by call site and kind. A call site is a process, a verb and a resource."""

    calls: Counter[str] = field(default_factory=Counter)
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    injected: Counter[str] = field(default_factory=Counter)
    """Faults of stories that found a target, by kind."""
    unguarded: list[str] = field(default_factory=list)
    """Requests that delete a GPU's Lease and do not say which version of it they mean."""

    def add(self, other: "FaultCoverage") -> None:
        self.calls.update(other.calls)
        self.faults.update(other.faults)
        self.injected.update(other.injected)

    def missing(self, least: int, kinds: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, str, int]]:
        """Pairs of call site and fault that met fewer than `least` times. `kinds`: faults possible by verb."""
        for site in sorted(self.calls):
            for kind in kinds.get(verb_of(site), ()):
                if (found := self.faults[site, kind]) < least:
                    yield site, kind, found


def is_unguarded(request: Request) -> bool:
    """True if a request deletes the Lease of a GPU whoever holds it by the time it arrives."""
    lease = request.method == "DELETE" and "/leases/gpu-" in request.path
    return lease and b"resourceVersion" not in (request.body or b"")


def call_site(process: str, request: Request) -> str:
    """Place of a call: `scheduler create pods/binding`."""
    parts = [part for part in request.path.split("/") if part]
    parts = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    plural = parts[0] if parts else "discovery"
    named = len(parts) > 1
    verb = _VERBS.get(request.method, "")
    if not verb:
        watching = request.query.get("watch", "").lower() in ("true", "1")
        verb = "watch" if watching else "get" if named else "list"
    subresource = f"/{parts[2]}" if len(parts) > 2 else ""
    return f"{process} {verb} {plural}{subresource}"


def verb_of(site: str) -> str:
    """Verb of a call site."""
    return site.split(" ")[1]
