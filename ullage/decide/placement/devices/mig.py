"""Choice of MIG instances: the smallest free instances with enough memory.

A claim for several gets instances of one profile on GPUs of one model. They are not linked to each other, so a claim
that requires one island can have only one.
"""

from itertools import groupby
from typing import NamedTuple

from ullage.decide.placement.devices.choice import DeviceChoice
from ullage.decide.placement.devices.gpu_models import is_model, tflops_of
from ullage.decide.placement.devices.layout import DeviceLayout, FreeDevices, Mask, MigPartition
from ullage.decide.placement.devices.requirements import capable, furthest, gib, preferred
from ullage.model.claim import DevicePolicy, DeviceRequest, TopologyMode
from ullage.model.units import Bytes, Milli
from ullage.model.verdict import Reason, Verdict


class _Kind(NamedTuple):
    """Kind of interchangeable instances; sorts the smallest first."""

    memory: Bytes
    slices: int
    profile: str
    model: str


def choose_instances(gpus: FreeDevices, ask: DeviceRequest) -> DeviceChoice | Verdict:
    """Smallest instances that suit, on few devices (on many with SPREAD), or the verdict for none."""
    among = preferred(gpus.layout, ask)
    suited = among if isinstance(among, Verdict) else _suited(gpus.layout, ask, among)
    if isinstance(suited, Verdict):
        return suited
    free = [place for place in suited if gpus.free_instances >> place & 1]
    if ask.count > 1 and ask.topology is TopologyMode.REQUIRED and len(free) >= ask.count:
        return Verdict(Reason.NO_ISLAND_LARGE_ENOUGH, "MIG instances are not linked to each other")
    instances = gpus.layout.instances
    by_kind = sorted((_kind(gpus.layout, instances[place]), place) for place in free)
    for _, alike in groupby(by_kind, key=lambda entry: entry[0]):
        taken = _take([instances[place] for _, place in alike], ask)
        if taken:
            return _choice(taken, ask)
    reason = Reason.PREFERRED_GPUS_TAKEN if ask.policy is DevicePolicy.PREFER_IDS else Reason.NO_MIG_INSTANCE
    return Verdict(reason, f"{ask.count} of one profile asked, {len(free)} of {len(suited)} that suit are free")


def _suited(layout: DeviceLayout, ask: DeviceRequest, among: Mask) -> list[int] | Verdict:
    """Places of the instances that suit, free or not."""
    split = [place for place, instance in enumerate(layout.instances) if among >> instance.device & 1]
    if not split:
        return Verdict(Reason.NO_MIG_INSTANCE, "no GPU here is split by MIG")
    refusals = {place: _incapable(layout, ask, layout.instances[place]) for place in split}
    strong = [place for place, refusal in refusals.items() if refusal is None]
    if not strong:
        return furthest([refusal for refusal in refusals.values() if refusal is not None])
    large = [place for place in strong if layout.instances[place].memory >= ask.memory]
    if not large:
        most = max(layout.instances[place].memory for place in strong)
        detail = f"{gib(ask.memory)} asked, the largest instance has {gib(most)}"
        return Verdict(Reason.GPU_MEMORY_TOO_SMALL, detail)
    healthy = [place for place in large if layout.healthy >> layout.instances[place].device & 1]
    if len(healthy) < ask.count <= len(large):
        return Verdict(Reason.GPUS_UNHEALTHY, f"{ask.count} instances asked, {len(healthy)} are on healthy GPUs")
    return healthy


def _incapable(layout: DeviceLayout, ask: DeviceRequest, instance: MigPartition) -> Verdict | None:
    model = layout.models[instance.device]
    refusal = capable(ask, model)
    if refusal is not None or not ask.tflops:
        return refusal
    # A MIG-capable GPU is cut in seven slices of computing power, the A30 in four.
    power = (tflops_of(model) or 0) * _slices(instance.profile) // (4 if is_model(model, "A30") else 7)
    if power < ask.tflops:
        return Verdict(
            Reason.GPU_MODEL_MISMATCH, f"{ask.tflops} TFLOPs asked, {instance.profile} of {model} has {power}"
        )
    return None


def _kind(layout: DeviceLayout, instance: MigPartition) -> _Kind:
    return _Kind(instance.memory, _slices(instance.profile), instance.profile, layout.models[instance.device])


def _slices(profile: str) -> int:
    """Slices of computing power of a profile: 3 for `3g.40gb`, with or without a prefix."""
    count = profile.lower().removeprefix("mig").lstrip(" -").partition("g")[0]
    return int(count) if count.isdecimal() else 0


def _take(alike: list[MigPartition], ask: DeviceRequest) -> list[MigPartition]:
    """Take `count` of these free instances, or none of them."""
    on_device: dict[int, list[MigPartition]] = {}
    for instance in alike:
        on_device.setdefault(instance.device, []).append(instance)
    if len(alike) < ask.count:
        return []
    if ask.policy is DevicePolicy.PREFER_IDS:
        return [on_device[gpu][0] for gpu in sorted(ask.prefer_ids)] if len(on_device) == ask.count else []
    if ask.policy is DevicePolicy.SPREAD:
        rounds = sorted((turn, gpu) for gpu, held in on_device.items() for turn in range(len(held)))[: ask.count]
        return [on_device[gpu][turn] for turn, gpu in sorted(rounds, key=lambda entry: (entry[1], entry[0]))]
    taken: list[MigPartition] = []
    while len(taken) < ask.count:
        missing = ask.count - len(taken)
        # The fullest device that holds all that is missing; if none does, the emptiest.
        gpu = min(on_device, key=lambda gpu: (_shortfall(len(on_device[gpu]), missing), gpu))
        taken += on_device.pop(gpu)[:missing]
    return sorted(taken, key=alike.index)


def _shortfall(held: int, missing: int) -> tuple[int, int]:
    return (max(missing - held, 0), held)


def _choice(taken: list[MigPartition], ask: DeviceRequest) -> DeviceChoice:
    careless = ask.topology is TopologyMode.IGNORE or ask.policy is DevicePolicy.SPREAD
    return DeviceChoice(
        ids=tuple(instance.device for instance in taken),
        islands=len({instance.device for instance in taken}),
        satisfied=careless or ask.count == 1,
        share_milli=Milli(0),
        instances=tuple(instance.uuid for instance in taken),
    )
