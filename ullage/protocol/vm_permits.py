"""Permit messages between vm-agent and scheduler: JSON on the wire, versions, order of checks, error texts. No I/O.

Versions 1 and 2 count whole cores and memory slots, and are told the compute unit. Version 7 counts in quantities and
brings its own. Meaning of a message: `decide.vms.permit`; docs/vms.md, Protocol.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ullage.model.fact_event import ObjectKey
from ullage.model.quantity import bytes_text, cores_text, quantity
from ullage.model.vm import VmAmounts, VmRefusal

PORT = 10299
STATE_PORT = 10298
MAX_BODY = 1024
VERSIONS = (1, 2, 7)
SLOTS_VERSIONS = (1, 2)
_NAMES = {1: "v1.0", 2: "v1.1", 3: "v2.0", 4: "v2.1", 5: "v3.0", 6: "v4.0", 7: "v5.0"}
_NEWEST = max(_NAMES)
_NEEDED = "v1.0 to v1.1 or v5.0"
_METRICS = {1: ("loadAvg1M", "loadAvg5M"), 2: ("loadAvg1M", "loadAvg5M"), 7: ("loadAvg1M",)}
_UINT16, _UINT32, _INT64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 63) - 1
_LARGEST = 1e300
_CORE = 1000

_TEXTS: Mapping[VmRefusal, tuple[int, str]] = {
    VmRefusal.METHOD_NOT_POST: (400, "must be POST"),
    VmRefusal.BAD_JSON: (400, "bad JSON"),
    VmRefusal.VERSION_INVALID: (400, "Invalid protocol version <invalid: zero>"),
    VmRefusal.VERSION_MISMATCH: (400, f"Protocol version mismatch: Need {_NEEDED} but got {{}}"),
    VmRefusal.METRICS_MISSING: (400, "nil metrics not supported for protocol version {}"),
    VmRefusal.UNIT_ZERO: (400, "computeUnit fields must be non-zero: {}"),
    VmRefusal.METRICS_INCOMPLETE: (400, "metrics field {} is missing"),
    VmRefusal.POD_NOT_FOUND: (404, "pod not found"),
    VmRefusal.POD_NOT_PLACED: (404, "pod's node is unknown"),
    VmRefusal.POD_ON_OTHER_NODE: (403, "pod is not on the agent's node"),
    VmRefusal.POD_NOT_A_VM: (400, "pod is not associated with a VM"),
    VmRefusal.UNIT_NOT_IN_SLOTS: (400, "computeUnit is not divisible by VM memory slot size: {}"),
    VmRefusal.MIGRATING: (400, "cannot change resources: agent has already been informed that pod is migrating"),
    VmRefusal.UNIT_MISMATCH: (400, "requested resources {} do not divide cleanly by previous compute unit {}"),
    VmRefusal.WRITE_FAILED: (500, "failed to write the approval"),
    VmRefusal.INTERNAL: (500, "request handler panicked"),
}


class WireAmounts(msgspec.Struct, frozen=True, gc=False):
    """Amounts as a message says them: thousandths of a core; memory in slots (versions 1-2) or bytes (7)."""

    cpu: int
    memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitMessage:
    """A request of an agent."""

    version: int
    pod: ObjectKey
    resources: WireAmounts
    unit: WireAmounts | None = None
    """Version 7 only."""
    last_permit: WireAmounts | None = None
    load1: float | None = None
    """Load averages; None without metrics."""
    load5: float | None = None

    @property
    def in_slots(self) -> bool:
        return self.version in SLOTS_VERSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitAnswer:
    """A permit, in the ledger's units."""

    granted: VmAmounts
    answered_unit: VmAmounts | None = None
    """The compute unit (versions 1-2)."""
    migrate: bool = False


@dataclass(frozen=True, slots=True)
class Rejection:
    """An HTTP error: plain text."""

    reason: VmRefusal
    status: int
    text: str


class BadAnswer(ValueError):
    """An answer that cannot be read."""


class _Bad(Exception):
    """The body is not a message."""


def version_name(version: int) -> str:
    return _NAMES.get(version) or f"<unknown = {_NAMES[_NEWEST]} + {version - _NEWEST}>"


def rejection(reason: VmRefusal, *details: object) -> Rejection:
    """The answer to a message refused for `reason`. Details fill the places in its text, in their order."""
    status, text = _TEXTS[reason]
    return Rejection(reason, status, text.format(*details))


def unit_mismatch(message: PermitMessage, answered_unit: VmAmounts, memory_slot: int) -> Rejection:
    """Amounts that are no whole number of the compute unit last told. Versions 1-2 only."""
    return rejection(
        VmRefusal.UNIT_MISMATCH,
        _spoken(message.resources.cpu, message.resources.memory),
        _spoken(answered_unit.cpu, answered_unit.memory // memory_slot),
    )


def read_request(method: str, body: bytes) -> PermitMessage | Rejection:
    """The message in an HTTP request, or the first check it fails."""
    if method != "POST":
        return rejection(VmRefusal.METHOD_NOT_POST)
    try:
        fields = _decoded(body)
        version = _whole(fields.get("protoVersion", 0), _UINT32)
        # Which fields are read depends on the version, so a version that is not served is refused before them.
        if version == 0:
            return rejection(VmRefusal.VERSION_INVALID)
        if version not in VERSIONS:
            return rejection(VmRefusal.VERSION_MISMATCH, version_name(version))
        return _checked(_message(version, fields), fields)
    except _Bad:
        return rejection(VmRefusal.BAD_JSON)


def ledger_units(message: PermitMessage, memory_slot: int) -> "MessageAmounts | Rejection":
    """The amounts of a message in the ledger's units, by the slot size of its VM."""
    if message.unit is not None and message.unit.memory % memory_slot:
        return rejection(
            VmRefusal.UNIT_NOT_IN_SLOTS, f"{_memory(message.unit.memory)} is no multiple of {_memory(memory_slot)}"
        )
    scale = memory_slot if message.in_slots else 1
    return MessageAmounts(
        wanted=_scaled(message.resources, scale),
        unit=None if message.unit is None else _scaled(message.unit, scale),
        last_permit=None if message.last_permit is None else _scaled(message.last_permit, scale),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAmounts:
    wanted: VmAmounts
    unit: VmAmounts | None
    last_permit: VmAmounts | None


def write_request(message: PermitMessage) -> bytes:
    """The body an agent sends."""
    metrics = None if message.load1 is None else {"loadAvg1M": message.load1}
    if metrics is not None and message.in_slots:
        metrics["loadAvg5M"] = message.load5 if message.load5 is not None else message.load1 or 0.0
    body: dict[str, Any] = {
        "protoVersion": message.version,
        "pod": {"namespace": message.pod.namespace, "name": message.pod.name},
        "resources": _written(message.resources, message.in_slots),
        "metrics": metrics,
    }
    if message.unit is not None:
        body["computeUnit"] = _written(message.unit, message.in_slots)
        last = message.last_permit
        body["lastPermit"] = None if last is None else _written(last, message.in_slots)
    return msgspec.json.encode(body)


def write_answer(message: PermitMessage, answer: PermitAnswer, memory_slot: int) -> bytes:
    """The body of a permit, as the version of the request wants it."""
    scale = memory_slot if message.in_slots else 1
    body: dict[str, Any] = {"permit": _written(_on_the_wire(answer.granted, scale), message.in_slots)}
    if answer.migrate:
        body["migrate"] = {}
    if answer.answered_unit is not None:
        body["resourceUnit"] = _written(_on_the_wire(answer.answered_unit, scale), message.in_slots)
    return msgspec.json.encode(body)


def read_answer(message: PermitMessage, body: bytes, memory_slot: int) -> PermitAnswer:
    """The permit in an answer to `message`. Raises BadAnswer."""
    scale = memory_slot if message.in_slots else 1
    try:
        fields = _decoded(body)
        answered_unit = None
        if message.in_slots:
            answered_unit = _scaled(_amounts(fields.get("resourceUnit"), in_slots=True), scale)
        return PermitAnswer(
            granted=_scaled(_amounts(fields.get("permit"), in_slots=message.in_slots), scale),
            answered_unit=answered_unit,
            migrate=fields.get("migrate") is not None,
        )
    except _Bad as bad:
        raise BadAnswer("the scheduler's answer is not a permit") from bad


def _message(version: int, fields: Mapping[str, Any]) -> PermitMessage:
    pod = _object(fields.get("pod"))
    metrics = _object(fields.get("metrics"))
    in_slots = version in SLOTS_VERSIONS
    last = fields.get("lastPermit")
    return PermitMessage(
        version=version,
        pod=ObjectKey(_text(pod.get("namespace", "")), _text(pod.get("name", ""))),
        resources=_amounts(fields.get("resources"), in_slots=in_slots),
        unit=None if in_slots else _amounts(fields.get("computeUnit"), in_slots=False),
        last_permit=None if in_slots or last is None else _amounts(last, in_slots=False),
        load1=_number(metrics.get("loadAvg1M")),
        load5=_number(metrics.get("loadAvg5M")),
    )


def _checked(message: PermitMessage, fields: Mapping[str, Any]) -> PermitMessage | Rejection:
    metrics = fields.get("metrics")
    if metrics is None and message.version == 1:
        return rejection(VmRefusal.METRICS_MISSING, version_name(message.version))
    if message.unit is not None and not (message.unit.cpu and message.unit.memory):
        return rejection(VmRefusal.UNIT_ZERO, f"{_cpu(message.unit.cpu)} CPU and {_memory(message.unit.memory)}")
    if metrics is not None:
        for name in _METRICS[message.version]:
            if metrics.get(name) is None:
                return rejection(VmRefusal.METRICS_INCOMPLETE, name)
    return message


def _decoded(body: bytes) -> Mapping[str, Any]:
    if len(body) > MAX_BODY:
        raise _Bad
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _Bad from error
    if not isinstance(decoded, dict):
        raise _Bad
    return decoded


def _object(raw: Any) -> Mapping[str, Any]:
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise _Bad
    return raw


def _amounts(raw: Any, *, in_slots: bool) -> WireAmounts:
    fields = _object(raw)
    cpu, memory = fields.get("vCPUs", 0), fields.get("mem", 0)
    if in_slots:
        return WireAmounts(_whole(cpu, _UINT16) * _CORE, _whole(memory, _UINT16))
    return WireAmounts(_quantity(cpu, _CORE), _quantity(memory, 1))


def _whole(raw: Any, most: int) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int) or not 0 <= raw <= most:
        raise _Bad
    return raw


def _quantity(raw: Any, scale: int) -> int:
    """A quantity in whole units of 1/scale, rounded up as Kubernetes does."""
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise _Bad
    try:
        exact = quantity(raw) * scale
    except ValueError as error:
        raise _Bad from error
    if not 0 <= exact <= _INT64:
        raise _Bad
    whole = int(exact)
    return whole + 1 if exact > whole else whole


def _number(raw: Any) -> float | None:
    if raw is None:
        return None
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not abs(raw) <= _LARGEST:
        raise _Bad
    return float(raw)


def _text(raw: Any) -> str:
    if not isinstance(raw, str):
        raise _Bad
    return raw


def _scaled(amounts: WireAmounts, scale: int) -> VmAmounts:
    return VmAmounts(amounts.cpu, amounts.memory * scale)


def _on_the_wire(amounts: VmAmounts, scale: int) -> WireAmounts:
    return WireAmounts(amounts.cpu, amounts.memory // scale)


def _written(amounts: WireAmounts, in_slots: bool) -> dict[str, Any]:
    if in_slots:
        return {"vCPUs": amounts.cpu // _CORE, "mem": amounts.memory}
    return {"vCPUs": _cpu(amounts.cpu), "mem": _memory(amounts.memory)}


def _cpu(milli: int) -> int | str:
    return milli // _CORE if milli % _CORE == 0 else cores_text(milli)


def _memory(size: int) -> int | str:
    return size if size < 1 << 10 else bytes_text(size)


def _spoken(cpu: int, slots: int) -> str:
    return f"{{VCPU:{_cpu(cpu)} Mem:{slots}}}"
