"""The door new states of objects come through: where a real API server would call its admission webhooks.

Here is only the seam. Who stands at the door is put into `World.gate`; by default it is open.
"""

from dataclasses import dataclass
from typing import Protocol

from ullage.sim.apiserver.wire import JsonObject

CREATE, UPDATE = "CREATE", "UPDATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
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


class Gate(Protocol):
    """Asked twice, as webhooks are: before the object is judged by the rules of its kind, and after."""

    def changed(self, arrival: Arrival) -> JsonObject:
        """The object as it shall come in; the same one where nothing changes. Raises Refusal."""
        ...

    def check(self, arrival: Arrival) -> None:
        """Raises Refusal where it may not come in."""
        ...


class OpenGate:
    """Everything comes in as it is."""

    def changed(self, arrival: Arrival) -> JsonObject:
        return arrival.obj

    def check(self, arrival: Arrival) -> None:  # noqa: ARG002 - everybody may
        return None
