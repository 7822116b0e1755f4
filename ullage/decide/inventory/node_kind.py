"""Node kind: leased (exact GPUs are ours to give), counted (a device plugin chooses) or DRA (a DRA driver serves it).

Where the operator sets no kind, evidence on the node decides. That a plugin or driver is *gone* is believed late: a
plugin that restarts is absent for a while, and a node that is leased meanwhile gives its GPUs a second time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ullage.model.device import GpuNodeKind
from ullage.model.pod import Pod
from ullage.model.units import Seconds, Steady

GONE_AFTER = Seconds(600.0)
"""Seconds without evidence of a plugin or driver until it is believed to be gone.

kubelet itself forgets the devices of a plugin only after five minutes.
"""
NEVER_CAME_AFTER = Seconds(60.0)
"""The same, where there never was evidence of one: plugins that start with the node need a moment."""

_VENDOR = "nvidia.com/"


class NodeKindMode(StrEnum):
    """The operator's setting."""

    LEASED = "leased"
    COUNTED = "counted"
    AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvidence:
    """Evidence for one kind or another, as of now."""

    plugin: bool | None = None
    """True if kubelet says that a device plugin manages the GPUs; None where kubelet cannot be asked."""
    dra: bool = False
    """A DRA driver publishes GPUs of this node."""
    label: str = ""
    """Kind label of the Node, written by an agent or by the buyer of the node."""
    advertised: bool = False
    """The Node advertises a number of GPUs."""
    leased_pods: int = 0
    """Pods of this node with GPUs leased by us."""
    other_pods: int = 0
    """Pods of this node with GPUs not leased by us."""


@dataclass(frozen=True, slots=True)
class KindChoice:
    """Kind of the node and its reason; `next` is the kind it gets if the evidence stays."""

    kind: GpuNodeKind | None = None
    """None while it is not settled: then the Node is left as it is."""
    why: str = ""
    next: GpuNodeKind | None = None
    since: Steady = Steady(0.0)
    """Time of the steady clock from which the evidence has been for `next` without a break."""

    @property
    def settled(self) -> bool:
        return self.kind is not None and self.next is None


def choose_kind(mode: NodeKindMode, before: KindChoice, seen: NodeEvidence, *, now: Steady) -> KindChoice:
    """Decide from new evidence. `before` is the previous choice; `KindChoice()` if there was none."""
    if mode is not NodeKindMode.AUTO:
        asked = GpuNodeKind.LEASED if mode is NodeKindMode.LEASED else GpuNodeKind.COUNTED
        return KindChoice(asked, f"--mode {mode.value}")
    kind = before.kind or _written(seen)
    found, why = _found(kind, seen)
    if found is kind:
        return KindChoice(kind, why)
    since = before.since if before.next is found else now
    if blocked := _blocked(kind, found, seen):
        return KindChoice(kind, blocked, found, since)
    patience = _patience(kind, found)
    if now - since < patience:
        return KindChoice(kind, f"{why}; believed in {since + patience - now:.0f} s", found, since)
    return KindChoice(found, why)


def _written(seen: NodeEvidence) -> GpuNodeKind | None:
    return {kind.value.lower(): kind for kind in GpuNodeKind}.get(seen.label)


def _found(kind: GpuNodeKind | None, seen: NodeEvidence) -> tuple[GpuNodeKind, str]:
    if seen.plugin:
        return GpuNodeKind.COUNTED, "a device plugin manages the GPUs"
    if seen.dra:
        return GpuNodeKind.DRA, "a DRA driver publishes the GPUs"
    if seen.plugin is None and kind is not None:
        return kind, "kubelet cannot be asked: as it was"
    if seen.plugin is None and seen.advertised:
        return GpuNodeKind.COUNTED, "kubelet cannot be asked, and the node says how many GPUs it has"
    return GpuNodeKind.LEASED, "neither a device plugin nor a DRA driver is there"


def _blocked(kind: GpuNodeKind | None, found: GpuNodeKind, seen: NodeEvidence) -> str:
    """Reason that the change has to wait for pods: no GPU is given by us and by others at once. Empty if none."""
    if kind is GpuNodeKind.LEASED and seen.leased_pods:
        return f"{seen.leased_pods} pods with leased GPUs run here; {found.value} when they are gone"
    if found is GpuNodeKind.LEASED and seen.other_pods:
        return f"{seen.other_pods} pods with GPUs of others run here; {found.value} when they are gone"
    return ""


def _patience(kind: GpuNodeKind | None, found: GpuNodeKind) -> Seconds:
    if found is not GpuNodeKind.LEASED:
        return Seconds(0.0)
    return NEVER_CAME_AFTER if kind is None else GONE_AFTER


def gpu_pods(pods: Iterable[Pod], given: Iterable[str] = ()) -> tuple[int, int]:
    """Numbers of pods with GPUs leased by us, and with GPUs not leased by us. `given`: uids a device plugin served."""
    here = [pod for pod in pods if not pod.phase.over]
    theirs = set(given)
    ours = sum(bool(pod.gpu_ids) for pod in here)
    others = sum(not pod.gpu_ids and (pod.uid in theirs or _asks(pod)) for pod in here)
    return ours, others


def _asks(pod: Pod) -> bool:
    return bool(pod.device_claims) or any(name.startswith(_VENDOR) and amount for name, amount in pod.shape.requests)
