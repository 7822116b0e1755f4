"""Which writes the webhook is asked about: what `kube.webhooks` says in CEL, for a server that has no CEL at its door.

A test holds both to the same names. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ullage.kube.resource import JsonObject
from ullage.kube.resources import GPU_CLAIMS, PODS
from ullage.model.admission import INPUTS, OUTPUTS
from ullage.sim.apiserver.gate import CREATE, UPDATE, Arrival

_OURS = "gpu.scheduling/"
_GUARDED = (*OUTPUTS, *INPUTS)


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of a configuration: what it is called about."""

    name: str
    group: str
    operations: tuple[str, ...]
    resources: tuple[str, ...]
    """`pods`, or with the part: `pods/status`."""
    concerns: Callable[[Arrival], bool]
    spares_scheduler: bool = False
    """Writes of the scheduler's own identity are not asked about."""

    def is_asked(self, arrival: Arrival, identities: Sequence[str]) -> bool:
        """Whether the API server would call it."""
        written = f"{arrival.plural}/{arrival.part}" if arrival.part else arrival.plural
        return (
            arrival.group == self.group
            and arrival.operation in self.operations
            and written in self.resources
            and not (self.spares_scheduler and arrival.user in identities)
            and self.concerns(arrival)
        )


def _has_ours(arrival: Arrival) -> bool:
    return any(key.startswith(_OURS) for key in _notes(arrival.obj))


def _guarded_differ(arrival: Arrival) -> bool:
    new, old = _notes(arrival.obj), _notes(arrival.old)
    return any(new.get(key) != old.get(key) for key in _GUARDED)


def _spec_is_new(arrival: Arrival) -> bool:
    return arrival.old is None or arrival.obj.get("spec") != arrival.old.get("spec")


def _notes(obj: JsonObject | None) -> Mapping[str, str]:
    found: Mapping[str, str] = ((obj or {}).get("metadata") or {}).get("annotations") or {}
    return found


_NEW_POD, _EPHEMERAL = PODS.plural, f"{PODS.plural}/ephemeralcontainers"

MUTATING: Sequence[Hook] = (
    Hook("pods.gpu.scheduling", "", (CREATE,), (_NEW_POD,), _has_ours),
    Hook("pods.gpu.scheduling", "", (UPDATE,), (_EPHEMERAL,), _has_ours),
)

GUARDING: Sequence[Hook] = (
    Hook("new-pods.gpu.scheduling", "", (CREATE,), (_NEW_POD,), _has_ours),
    Hook(
        "changed-pods.gpu.scheduling",
        "",
        (UPDATE,),
        (_NEW_POD, f"{PODS.plural}/status", _EPHEMERAL),
        _guarded_differ,
        spares_scheduler=True,
    ),
    Hook(
        "bindings.gpu.scheduling",
        "",
        (CREATE,),
        (f"{PODS.plural}/binding", "bindings"),
        _has_ours,
        spares_scheduler=True,
    ),
    Hook(
        "claims.gpu.scheduling",
        GPU_CLAIMS.group,
        (CREATE, UPDATE),
        (GPU_CLAIMS.plural,),
        _spec_is_new,
        spares_scheduler=True,
    ),
)
