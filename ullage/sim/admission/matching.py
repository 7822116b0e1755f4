"""Writes the webhook is called for: the CEL match conditions of `kube.webhooks`, as Python for a server without them.

A test holds both to the same names. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ullage.kube.admission.confinement import asks_for_gpus, tolerates_leased
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS, PODS
from ullage.kube.objects.admission import ReviewedPod
from ullage.model.admission import INPUTS, OUTPUTS
from ullage.sim.apiserver.request.admission import CREATE, UPDATE, AdmissionAttempt

_OURS = "gpu.scheduling/"
_GUARDED = (*OUTPUTS, *INPUTS)


@dataclass(frozen=True, slots=True)
class WebhookRule:
    """One webhook of a configuration: the writes it is called for."""

    name: str
    group: str
    operations: tuple[str, ...]
    resources: tuple[str, ...]
    """`pods`, or with the part: `pods/status`."""
    concerns: Callable[[AdmissionAttempt], bool]
    spares_scheduler: bool = False
    """True if writes of the scheduler's own identity are not reviewed."""

    def is_asked(self, arrival: AdmissionAttempt, identities: Sequence[str]) -> bool:
        """True if the API server would call this webhook."""
        written = f"{arrival.plural}/{arrival.part}" if arrival.part else arrival.plural
        return (
            arrival.group == self.group
            and arrival.operation in self.operations
            and written in self.resources
            and not (self.spares_scheduler and arrival.user in identities)
            and self.concerns(arrival)
        )


def _has_ours(arrival: AdmissionAttempt) -> bool:
    return any(key.startswith(_OURS) for key in _notes(arrival.obj))


def _guarded_differ(arrival: AdmissionAttempt) -> bool:
    new, old = _notes(arrival.obj), _notes(arrival.old)
    return any(new.get(key) != old.get(key) for key in _GUARDED)


def _spec_is_new(arrival: AdmissionAttempt) -> bool:
    return arrival.old is None or arrival.obj.get("spec") != arrival.old.get("spec")


def _notes(obj: JsonObject | None) -> Mapping[str, str]:
    found: Mapping[str, str] = ((obj or {}).get("metadata") or {}).get("annotations") or {}
    return found


_NEW_POD, _EPHEMERAL = PODS.plural, f"{PODS.plural}/ephemeralcontainers"


def _unclaimed(arrival: AdmissionAttempt) -> bool:
    pod = _reviewed(arrival.obj)
    return tolerates_leased(pod.spec) and not any(key in INPUTS for key in _notes(arrival.obj))


def _asks_unclaimed(arrival: AdmissionAttempt) -> bool:
    return _unclaimed(arrival) and asks_for_gpus(_reviewed(arrival.obj))


def _stands_by(arrival: AdmissionAttempt) -> bool:
    return _unclaimed(arrival) and not asks_for_gpus(_reviewed(arrival.obj))


def _tolerates_now(arrival: AdmissionAttempt) -> bool:
    return _unclaimed(arrival) and not tolerates_leased(_reviewed(arrival.old or {}).spec)


def _reviewed(obj: JsonObject) -> ReviewedPod:
    return msgspec.convert(obj, ReviewedPod)


MUTATING: Sequence[WebhookRule] = (
    WebhookRule("pods.gpu.scheduling", "", (CREATE,), (_NEW_POD,), _has_ours),
    WebhookRule("pods.gpu.scheduling", "", (UPDATE,), (_EPHEMERAL,), _has_ours),
    WebhookRule("unclaimed-pods.gpu.scheduling", "", (CREATE,), (_NEW_POD,), _asks_unclaimed),
    WebhookRule("bystanders.gpu.scheduling", "", (CREATE,), (_NEW_POD,), _stands_by),
)

GUARDING: Sequence[WebhookRule] = (
    WebhookRule("new-pods.gpu.scheduling", "", (CREATE,), (_NEW_POD,), _has_ours),
    WebhookRule("unclaimed-pods.gpu.scheduling", "", (CREATE,), (_NEW_POD,), _asks_unclaimed),
    WebhookRule("tolerating-pods.gpu.scheduling", "", (UPDATE,), (_NEW_POD,), _tolerates_now),
    WebhookRule(
        "changed-pods.gpu.scheduling",
        "",
        (UPDATE,),
        (_NEW_POD, f"{PODS.plural}/status", _EPHEMERAL),
        _guarded_differ,
        spares_scheduler=True,
    ),
    WebhookRule(
        "bindings.gpu.scheduling",
        "",
        (CREATE,),
        (f"{PODS.plural}/binding", "bindings"),
        _has_ours,
        spares_scheduler=True,
    ),
    WebhookRule(
        "claims.gpu.scheduling",
        GPU_CLAIMS.group,
        (CREATE, UPDATE),
        (GPU_CLAIMS.plural,),
        _spec_is_new,
        spares_scheduler=True,
    ),
)
