"""Device choice on one node: exact device ids, or the verdict for none.

Rules are evaluated in the order of `Reason`. Among models that suit, the least capable is tried first, so that a pod
which names no model does not take the GPUs another pod needs.
"""

from ullage.decide.placement.devices.choice import DeviceChoice
from ullage.decide.placement.devices.layout import FreeDevices, Mask, ids_in, roomy
from ullage.decide.placement.devices.mig import choose_instances
from ullage.decide.placement.devices.requirements import SuitableDevices, furthest, listed, suiting
from ullage.decide.placement.devices.subsets import PickedDevices
from ullage.model.claim import DevicePolicy, DeviceRequest, Exclusivity, TopologyMode
from ullage.model.device import MILLI_GPU
from ullage.model.verdict import Reason, Verdict


def choose(gpus: FreeDevices, ask: DeviceRequest, leaning: int | None = None) -> DeviceChoice | Verdict:
    """Devices of this node for the request, or the verdict for none.

    `leaning` is the device a score found best for a single share; it is taken if it suits and has room.
    """
    if ask.exclusivity is Exclusivity.MIG:
        return choose_instances(gpus, ask)
    suits = suiting(gpus.layout, ask)
    refusals: list[Verdict] = [suits.refusal] if suits.refusal is not None else []
    second_best: DeviceChoice | None = None
    for group in suits.groups:
        choice = _from_group(gpus, ask, group, leaning)
        if isinstance(choice, Verdict):
            refusals.append(choice)
        elif choice.satisfied:
            return choice
        else:
            second_best = second_best or choice
    return second_best or furthest(refusals)


def _from_group(
    gpus: FreeDevices, ask: DeviceRequest, group: SuitableDevices, leaning: int | None
) -> DeviceChoice | Verdict:
    free = roomy(gpus.free, group.share_milli) & group.devices
    if free.bit_count() < ask.count:
        return _refused(ask, group, free)
    if group.share_milli == MILLI_GPU:
        picked = group.picker.pick(free)
    elif leaning is not None and ask.count == 1 and free >> leaning & 1:
        picked = PickedDevices(1 << leaning, 1, linked=True)
    else:
        picked = group.picker.pick_part(free, gpus.free)
    if isinstance(picked, Reason):
        return Verdict(picked, _why_apart(ask, free))
    # A claim that asks to be spread is satisfied by being spread.
    careless = ask.topology is TopologyMode.IGNORE or ask.policy is DevicePolicy.SPREAD
    return DeviceChoice(
        ids=ids_in(picked.devices),
        islands=picked.islands,
        satisfied=careless or picked.linked,
        share_milli=group.share_milli,
    )


def _refused(ask: DeviceRequest, group: SuitableDevices, free: Mask) -> Verdict:
    if ask.policy is DevicePolicy.PREFER_IDS:
        return Verdict(Reason.PREFERRED_GPUS_TAKEN, f"GPU {listed(ids_in(group.devices & ~free))} is not free")
    if ask.exclusivity is Exclusivity.SHARED:
        room = f"{group.share_milli} thousandths of each of {ask.count} asked"
        return Verdict(Reason.NO_ROOM_FOR_SHARE, f"{room}, {free.bit_count()} have that much free")
    return Verdict(
        Reason.TOO_FEW_GPUS, f"{ask.count} asked, {free.bit_count()} of {group.devices.bit_count()} that suit are free"
    )


def _why_apart(ask: DeviceRequest, free: Mask) -> str:
    speed = f" at {ask.min_bandwidth} GB/s" if ask.min_bandwidth else ""
    return f"{ask.count} asked in one island{speed}, GPU {listed(ids_in(free))} is free"
