"""Admission chain of the simulated API server: the step in which a real API server calls its admission webhooks.

Here is only the interface. `ServerContext.gate` holds the chain; by default it admits everything.
"""

from dataclasses import dataclass
from typing import Protocol

from ullage.sim.apiserver.storage.json_bytes import JsonObject

CREATE, UPDATE = "CREATE", "UPDATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionAttempt:
    """A state of an object that is about to be stored."""

    group: str
    plural: str
    part: str = ""
    """The subresource it is written through."""
    operation: str
    namespace: str
    name: str
    user: str
    obj: JsonObject
    """With all defaults filled in."""
    old: JsonObject | None = None


class AdmissionChain(Protocol):
    """Called twice, as webhooks are: before the object is validated by the rules of its kind, and after."""

    def changed(self, arrival: AdmissionAttempt) -> JsonObject:
        """The object to store; the same one if nothing changes. Raises StatusError."""
        ...

    def check(self, arrival: AdmissionAttempt) -> None:
        """Raises StatusError if the object is denied."""
        ...


class AlwaysAdmit:
    """Admits every object unchanged."""

    def changed(self, arrival: AdmissionAttempt) -> JsonObject:
        return arrival.obj

    def check(self, arrival: AdmissionAttempt) -> None:  # noqa: ARG002 - everybody may
        return None
