"""Boards in a line, and what a patient reader of the rules would choose on them."""

from itertools import combinations

from ullage.decide.placement.devices.gpu_models import is_model, tflops_of
from ullage.decide.placement.devices.layout import FreeDevices, empty_devices, layout_of
from ullage.model.claim import DevicePolicy, DeviceRequest, Exclusivity, TopologyMode
from ullage.model.device import MILLI_GPU, Device, DeviceHealth, Inventory
from ullage.model.verdict import Reason
from ullage.testing.facts import device_fact, inventory_fact

GIB = 1 << 30
H100 = "NVIDIA H100 80GB HBM3"


def a_device(gpu: int, island: str = "", **facts: object) -> Device:
    """A healthy H100."""
    return device_fact(gpu, island=island, **{"model": H100, "bandwidth": 450, **facts})


def an_inventory(*devices: Device) -> Inventory:
    return inventory_fact("node-a", *devices)


def a_board(*devices: Device, free: tuple[int, ...] | None = None) -> FreeDevices:
    """Everything free unless told otherwise."""
    gpus = empty_devices(layout_of(an_inventory(*devices)))
    return gpus if free is None else FreeDevices(gpus.layout, free, gpus.free_instances)


def islands(*sizes: int, free: str = "") -> FreeDevices:
    """H100s in islands of these sizes; `free` shows free GPUs as `#` and taken ones as `.`."""
    names = [f"island-{number}" for number, size in enumerate(sizes) for _ in range(size)]
    devices = [a_device(gpu, name) for gpu, name in enumerate(names)]
    shown = free.replace(" ", "")
    return a_board(*devices, free=tuple(MILLI_GPU * (mark == "#") for mark in shown) if shown else None)


def by_the_book(devices: list[Device], free: tuple[int, ...], ask: DeviceRequest) -> tuple[int, ...] | Reason:
    """The rules for whole GPUs and shares, applied by trying every set of devices; slow and plain."""
    if not devices:
        return Reason.NO_GPUS
    if ask.policy is DevicePolicy.PREFER_IDS:
        present = {device.id for device in devices}
        if len(set(ask.prefer_ids)) != ask.count or not set(ask.prefer_ids) <= present:
            return Reason.PREFERRED_GPUS_TAKEN
        devices = [device for device in devices if device.id in ask.prefer_ids]
    everything = sorted(devices, key=lambda device: device.id)
    models = sorted({device.model for device in devices})
    groups = [[device for device in everything if device.model == model] for model in models]
    groups.sort(key=lambda group: _capability(group, ask))
    shared = ask.exclusivity is Exclusivity.SHARED
    mixing = not ask.model and not ask.tflops and ask.topology is TopologyMode.IGNORE and not shared
    answers = [_from_alike(group, everything, free, ask) for group in groups]
    if mixing:
        answers = [answer for answer in answers if isinstance(answer, tuple)]
        answers.append(_from_alike(everything, everything, free, ask))
    chosen = [answer for answer in answers if isinstance(answer, tuple)]
    if chosen:
        content = [ids for ids, satisfied in chosen if satisfied]
        return content[0] if content else chosen[0][0]
    order = list(Reason)
    return max((answer for answer in answers if isinstance(answer, Reason)), key=order.index)


def _capability(group: list[Device], ask: DeviceRequest) -> tuple[int, int, str]:
    usable = [
        device.memory for device in group if device.memory >= ask.memory and device.health is DeviceHealth.HEALTHY
    ]
    return (min(usable, default=0), tflops_of(group[0].model) or 0, group[0].model)


def _from_alike(
    group: list[Device], everything: list[Device], free: tuple[int, ...], ask: DeviceRequest
) -> tuple[tuple[int, ...], bool] | Reason:
    known = tflops_of(group[0].model)
    if not is_model(group[0].model, ask.model) and ask.model:
        return Reason.GPU_MODEL_MISMATCH
    if ask.tflops and (known is None or known < ask.tflops):
        return Reason.GPU_MODEL_MISMATCH
    group = [device for device in group if device.memory >= ask.memory]
    if not group:
        return Reason.GPU_MEMORY_TOO_SMALL
    if len(group) < ask.count:
        return Reason.TOO_FEW_GPUS
    shared = ask.exclusivity is Exclusivity.SHARED
    share = _share(ask, min(device.memory for device in group), known) if shared else MILLI_GPU
    healthy = [device for device in group if device.health is DeviceHealth.HEALTHY]
    if len(healthy) < ask.count:
        return Reason.GPUS_UNHEALTHY
    open_ = [device for device in healthy if free[device.id] >= share]
    if len(open_) < ask.count:
        if ask.policy is DevicePolicy.PREFER_IDS:
            return Reason.PREFERRED_GPUS_TAKEN
        return Reason.NO_ROOM_FOR_SHARE if shared else Reason.TOO_FEW_GPUS
    sets = list(combinations(open_, ask.count))
    if ask.topology is TopologyMode.REQUIRED:
        inside = [chosen for chosen in sets if len(_touched(chosen)) == 1]
        linked = [chosen for chosen in inside if _linked(chosen, everything, ask)]
        if not linked:
            return Reason.BANDWIDTH_TOO_LOW if inside else Reason.NO_ISLAND_LARGE_ENOUGH
        sets = linked
    best = min(sets, key=lambda chosen: _rank(chosen, open_, everything, free, ask, share))
    careless = ask.topology is TopologyMode.IGNORE or ask.policy is DevicePolicy.SPREAD
    return tuple(device.id for device in best), careless or _linked(best, everything, ask)


def _share(ask: DeviceRequest, memory: int, tflops: int | None) -> int:
    parts = [MILLI_GPU * ask.memory / memory, MILLI_GPU * ask.tflops / (tflops or 1)]
    rounded = max(int(part) + (part > int(part)) for part in parts)
    return rounded or MILLI_GPU


def _island(device: Device) -> str:
    return device.island or f"alone-{device.id}"


def _touched(chosen: tuple[Device, ...]) -> set[str]:
    return {_island(device) for device in chosen}


def _linked(chosen: tuple[Device, ...], everything: list[Device], ask: DeviceRequest) -> bool:
    if len(_touched(chosen)) > 1:
        return False
    members = [device for device in everything if _island(device) == _island(chosen[0])]
    return len(chosen) == 1 or min(device.bandwidth for device in members) >= ask.min_bandwidth


def _rank(
    chosen: tuple[Device, ...],
    open_: list[Device],
    everything: list[Device],
    free: tuple[int, ...],
    ask: DeviceRequest,
    share: int,
) -> tuple[object, ...]:
    ids = [device.id for device in chosen]
    names = sorted({_island(device) for device in everything})
    opened = sum(free[gpu] for gpu in ids) if share < MILLI_GPU else 0
    if ask.policy is DevicePolicy.SPREAD:
        evenness = sum(sum(_island(device) == name for device in chosen) ** 2 for name in names)
        return (-len(_touched(chosen)), evenness, -opened, ids)
    left = sorted((sum(_island(d) == name and d.id not in ids for d in open_) for name in names), reverse=True)
    runs = sum(gpu - 1 not in ids for gpu in ids)
    preferred = ask.topology is TopologyMode.PREFERRED and not _linked(chosen, everything, ask)
    return (preferred, len(_touched(chosen)), opened, runs, [-size for size in left], ids)
