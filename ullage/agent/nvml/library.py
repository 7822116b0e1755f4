"""NVML itself: loading, starting, and telling its errors apart. `nvidia-ml-py` is imported only here, when needed."""

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

from ullage.errors import UserError

T = TypeVar("T")

Nvml = Any
"""The module `pynvml`; it has no types."""
Handle = Any
"""A GPU or a MIG instance, as NVML knows it."""

_INSTEAD = "or simulate GPUs with --simulate 8xH100-SXM"


def load() -> Nvml:
    """The module `pynvml`. Raises UserError where it is not installed."""
    try:
        return importlib.import_module("pynvml")
    except ModuleNotFoundError:
        raise UserError(f"nvidia-ml-py is not installed; install ullage[agent], {_INSTEAD}") from None


def start(nvml: Nvml) -> str:
    """Start NVML; returns the driver's version. Raises UserError where no driver works."""
    try:
        nvml.nvmlInit()
        return str(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError as error:
        raise UserError(_no_driver(nvml, error)) from error


def _no_driver(nvml: Nvml, error: Any) -> str:
    if error.value in (nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_FUNCTION_NOT_FOUND):
        return f"libnvidia-ml.so.1 is not there; run the agent where the NVIDIA driver is installed, {_INSTEAD}"
    if error.value == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return f"the NVIDIA driver is not loaded; load it (nvidia-smi says more), {_INSTEAD}"
    return f"the NVIDIA driver does not start ({error}); look at nvidia-smi and dmesg, {_INSTEAD}"


def optional(nvml: Nvml, ask: Callable[..., T], *about: Any) -> T | None:
    """Call `ask`; None where the GPU or the driver does not know the answer. Every other error is raised."""
    unknown = (
        nvml.NVML_ERROR_NOT_SUPPORTED,
        nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        nvml.NVML_ERROR_NOT_FOUND,
        nvml.NVML_ERROR_INVALID_ARGUMENT,
        nvml.NVML_ERROR_NO_PERMISSION,
        nvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED,
    )
    try:
        return ask(*about)
    except nvml.NVMLError as error:
        if error.value in unknown:
            return None
        raise


def text(value: str | bytes) -> str:
    """Decode a string: older versions of the library return bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
