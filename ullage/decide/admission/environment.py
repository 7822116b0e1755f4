"""Env a container needs to see exactly its pod's GPUs, and the change that gets it there.

kubelet resolves a reference to an annotation whenever a container starts; the Binding writes the annotation in the
transaction that gives the pod its node. So no container starts before its GPUs are known.
"""

from collections.abc import Sequence

from ullage.decide.admission.policy import DeviceNaming
from ullage.model.admission import AdmissionContainer, Annotations, EnvVar, SetEnv
from ullage.model.allocation import VISIBLE_DEVICES, VISIBLE_INDICES

NVIDIA = "NVIDIA_VISIBLE_DEVICES"
CUDA = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"

_BY_UUID = (EnvVar(NVIDIA, annotation=VISIBLE_DEVICES), EnvVar(CUDA, annotation=VISIBLE_DEVICES))
# Host indices mean something only where the container sees all GPUs, in the host's order.
_BY_INDEX = (
    EnvVar(NVIDIA, value="all"),
    EnvVar(CUDA, annotation=VISIBLE_INDICES),
    EnvVar(ORDER, value="PCI_BUS_ID"),
)


def wanted_env(visible_by: DeviceNaming, written: Annotations) -> tuple[EnvVar, ...]:
    """The variables of every container. Annotations in `written` are known already, and become literals."""
    variables = _BY_INDEX if visible_by is DeviceNaming.INDEX else _BY_UUID
    return tuple(_known(variable, written) for variable in variables)


def _known(variable: EnvVar, written: Annotations) -> EnvVar:
    if variable.annotation is None or variable.annotation not in written:
        return variable
    return EnvVar(variable.name, value=written[variable.annotation])


def has_env(container: AdmissionContainer, wanted: Sequence[EnvVar]) -> bool:
    """Each variable is there, as wanted and only once: where a name is there twice, the last one counts."""
    return all([entry for entry in container.env if entry.name == one.name] == [one] for one in wanted)


def env_change(container: AdmissionContainer, wanted: Sequence[EnvVar]) -> SetEnv | None:
    """Change that makes the container's env right; None if it is right already."""
    if has_env(container, wanted):
        return None
    names = {one.name for one in wanted}
    drop = tuple(place for place, entry in enumerate(container.env) if entry.name in names)
    return SetEnv(container.spot, drop, tuple(wanted))
