"""Who chooses the GPUs of a node: we, or its device plugin."""

from enum import StrEnum

from ullage.model.device import GpuNodeKind


class Mode(StrEnum):
    """What the operator wants."""

    LEASED = "leased"
    COUNTED = "counted"
    AUTO = "auto"


def kind_of(mode: Mode, *, plugin: bool | None, label: str, advertised: bool) -> GpuNodeKind:
    """`plugin`: does kubelet say that a device plugin manages the GPUs; None where it cannot be asked.

    Then the label an agent wrote earlier stays, and a node that advertises GPUs without one has a plugin.
    """
    if mode is not Mode.AUTO:
        return GpuNodeKind.LEASED if mode is Mode.LEASED else GpuNodeKind.COUNTED
    if plugin is not None:
        return GpuNodeKind.COUNTED if plugin else GpuNodeKind.LEASED
    written = {kind.value.lower(): kind for kind in GpuNodeKind}.get(label)
    return written or (GpuNodeKind.COUNTED if advertised else GpuNodeKind.LEASED)
