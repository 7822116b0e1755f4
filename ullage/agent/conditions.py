"""Conditions of a GpuNodeStatus: could the GPUs be read, are all of them well, and is it settled who chooses them."""

from ullage.agent.poller import PollResult
from ullage.decide.inventory.known_gpus import unwell
from ullage.decide.inventory.node_kind import KindChoice
from ullage.kube.write.gpu import READY, ConditionSpec
from ullage.model.device import GpuNodeKind

ALL_HEALTHY = "AllHealthy"
"""A node status' condition: no GPU has to be kept from pods."""
KIND_SETTLED = "KindSettled"
"""A node status' condition: who chooses the GPUs is decided, and why; False while that is about to change."""


def conditions_of(findings: PollResult, choice: KindChoice) -> tuple[ConditionSpec, ...]:
    """All conditions of the GpuNodeStatus, as of this poll."""
    return _all_healthy(findings), _of_kind(choice), _ready(findings)


def word_of(kind: GpuNodeKind | None) -> str:
    return "" if kind is None else kind.value


def _of_kind(choice: KindChoice) -> ConditionSpec:
    reason = word_of(choice.kind) if choice.settled else f"Maybe{word_of(choice.next)}"
    return ConditionSpec(KIND_SETTLED, choice.settled, reason, choice.why)


def _ready(findings: PollResult) -> ConditionSpec:
    look = findings.look
    if not look.trouble:
        return ConditionSpec(READY, True, "GpusRead", f"{len(findings.known_gpus.items)} GPUs")
    reason = "DriverSilent" if look.silent else "DriverFailed"
    return ConditionSpec(READY, None if look.silent else False, reason, look.trouble)


def _all_healthy(findings: PollResult) -> ConditionSpec:
    wrong = unwell(findings.known_gpus)
    return ConditionSpec(ALL_HEALTHY, not wrong, "SomeUnhealthy" if wrong else "AllHealthy", wrong[:1024])
