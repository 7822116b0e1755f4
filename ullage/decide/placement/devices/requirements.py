"""Devices of a layout that suit a request, free or not: by model, computing power, memory and health.

Answers depend only on layout and request, and are cached by both.
"""

from dataclasses import dataclass
from functools import lru_cache

from ullage.decide.placement.devices.gpu_models import is_model, tflops_of
from ullage.decide.placement.devices.layout import DeviceLayout, Mask, bits, ids_in
from ullage.decide.placement.devices.subsets import DevicePicker, SubsetRule, picker_for
from ullage.model.claim import DevicePolicy, DeviceRequest, Exclusivity, TopologyMode
from ullage.model.device import MILLI_GPU, MOST_DEVICES
from ullage.model.resources import GPU, MILLI
from ullage.model.shape import Shape
from ullage.model.units import Bytes, Milli
from ullage.model.verdict import Reason, Verdict

_ORDER = {reason: place for place, reason in enumerate(Reason)}
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class SuitableDevices:
    """Devices a claim may mix, and the thousandths it takes of each."""

    devices: Mask
    share_milli: Milli
    picker: DevicePicker


@dataclass(frozen=True, slots=True)
class SuitableGroups:
    """Groups of devices in the order they are tried, the least capable model first; and the refusal of the rest."""

    groups: tuple[SuitableDevices, ...]
    refusal: Verdict | None


def furthest(refusals: list[Verdict]) -> Verdict:
    """Refusal by the latest rule in the order of `Reason`: what is left to cure. The last of equals."""
    return max(reversed(refusals), key=lambda verdict: _ORDER[verdict.reason])


def mixes_models(ask: DeviceRequest) -> bool:
    """True if the request may get whole GPUs of different models: it names no model or TFLOPs and ignores topology."""
    return (
        not ask.model
        and not ask.tflops
        and ask.topology is TopologyMode.IGNORE
        and ask.exclusivity is Exclusivity.EXCLUSIVE
    )


def preferred(layout: DeviceLayout, ask: DeviceRequest) -> Mask | Verdict:
    """Devices a request may use: those it names, else all present."""
    if not layout.present:
        return Verdict(Reason.NO_GPUS, "the node reports no GPUs")
    if ask.policy is not DevicePolicy.PREFER_IDS:
        return layout.present
    if len(set(ask.prefer_ids)) != ask.count:
        return Verdict(Reason.PREFERRED_GPUS_TAKEN, f"{ask.count} GPUs asked, {len(set(ask.prefer_ids))} ids preferred")
    absent = [gpu for gpu in ask.prefer_ids if not (0 <= gpu < MOST_DEVICES and layout.present >> gpu & 1)]
    if absent:
        return Verdict(Reason.PREFERRED_GPUS_TAKEN, f"the node has no GPU {listed(absent)}")
    return bits(ask.prefer_ids)


@lru_cache(maxsize=8192)
def suiting(layout: DeviceLayout, ask: DeviceRequest) -> SuitableGroups:
    """Groups of devices that suit a request for whole or shared GPUs."""
    among = preferred(layout, ask)
    if isinstance(among, Verdict):
        return SuitableGroups((), among)
    if mixes_models(ask):
        return _of_any_model(layout, ask, among)
    groups, refusals = _by_model(layout, ask, among)
    return SuitableGroups(groups, furthest(refusals) if refusals else None)


def capable(ask: DeviceRequest, model: str) -> Verdict | None:
    """Refusal of GPUs of this model; None if they suit as far as their name tells."""
    if not is_model(model, ask.model):
        return Verdict(Reason.GPU_MODEL_MISMATCH, f"{ask.model} asked, the GPUs are {model or 'of no known model'}")
    if not ask.tflops:
        return None
    known = tflops_of(model)
    if known is None:
        return Verdict(Reason.GPU_MODEL_MISMATCH, f"{ask.tflops} TFLOPs asked, and how many {model!r} has is not known")
    if known < ask.tflops:
        return Verdict(Reason.GPU_MODEL_MISMATCH, f"{ask.tflops} TFLOPs asked, {model} has {known}")
    return None


def share_of(ask: DeviceRequest, memory: Bytes, model: str) -> Milli:
    """Thousandths of a device one share takes. A share without a size is a whole GPU: nothing is overcommitted."""
    by_memory = -(-MILLI_GPU * ask.memory // memory) if memory else 0
    tflops = tflops_of(model)
    by_tflops = -(-MILLI_GPU * ask.tflops // tflops) if tflops else 0
    return Milli(max(by_memory, by_tflops)) or MILLI_GPU


def _by_model(
    layout: DeviceLayout, ask: DeviceRequest, among: Mask
) -> tuple[tuple[SuitableDevices, ...], list[Verdict]]:
    groups: list[tuple[tuple[int, int, str], SuitableDevices]] = []
    refusals: list[Verdict] = []
    for model in sorted({layout.models[gpu] for gpu in ids_in(among)}):
        devices = bits(gpu for gpu in ids_in(among) if layout.models[gpu] == model)
        refusal = capable(ask, model)
        group = _of_devices(layout, ask, devices) if refusal is None else refusal
        if isinstance(group, Verdict):
            refusals.append(group)
        else:
            memory = min(layout.memory[gpu] for gpu in ids_in(group.devices))
            groups.append(((memory, tflops_of(model) or 0, model), group))
    return tuple(group for _, group in sorted(groups, key=lambda entry: entry[0])), refusals


def _of_any_model(layout: DeviceLayout, ask: DeviceRequest, among: Mask) -> SuitableGroups:
    """Groups of one model each, then one group of all models; the refusal is that of all devices together."""
    alike, _ = _by_model(layout, ask, among)
    mixed = _of_devices(layout, ask, among)
    return SuitableGroups(alike, mixed) if isinstance(mixed, Verdict) else SuitableGroups((*alike, mixed), None)


def _of_devices(layout: DeviceLayout, ask: DeviceRequest, devices: Mask) -> SuitableDevices | Verdict:
    large = bits(gpu for gpu in ids_in(devices) if layout.memory[gpu] >= ask.memory)
    if not large:
        most = max(layout.memory[gpu] for gpu in ids_in(devices))
        return Verdict(Reason.GPU_MEMORY_TOO_SMALL, f"{gib(ask.memory)} asked, the largest GPU has {gib(most)}")
    share = MILLI_GPU
    if ask.exclusivity is Exclusivity.SHARED:
        smallest = min(ids_in(large), key=lambda gpu: (layout.memory[gpu], gpu))
        share = share_of(ask, Bytes(layout.memory[smallest]), layout.models[smallest])
    return _enough(layout, ask, large, share)


def _enough(layout: DeviceLayout, ask: DeviceRequest, devices: Mask, share: Milli) -> SuitableDevices | Verdict:
    whole = devices & ~layout.partitioned
    if whole.bit_count() < ask.count:
        split = (devices & layout.partitioned).bit_count()
        aside = f" and {split} split by MIG" if split else ""
        return Verdict(Reason.TOO_FEW_GPUS, f"{ask.count} asked, the node has {whole.bit_count()} that suit{aside}")
    healthy = whole & layout.healthy
    if healthy.bit_count() < ask.count:
        ill = listed(ids_in(whole & ~layout.healthy))
        return Verdict(Reason.GPUS_UNHEALTHY, f"{ask.count} asked, {healthy.bit_count()} healthy: GPU {ill} is not")
    rule = SubsetRule(ask.count, ask.policy, ask.topology, ask.min_bandwidth)
    return SuitableDevices(healthy, share, picker_for(layout.wiring, rule))


def listed(ids: tuple[int, ...] | list[int]) -> str:
    return ", ".join(str(gpu) for gpu in ids)


def gib(amount: int) -> str:
    return f"{amount / _GIB:.1f} GiB"


def ask_of(shape: Shape) -> DeviceRequest | None:
    """Device request of a shape: its claim's, or whole GPUs as many as it requests; None without GPUs."""
    if shape.devices is not None:
        return shape.devices
    requested = dict(shape.requests).get(GPU, 0)
    return DeviceRequest(count=-(-requested // MILLI)) if requested else None
