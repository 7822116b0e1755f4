"""What a namespace may hold, asked before one of its pods holds anything.

`gpus` and `byModel` count whole GPUs, `sharesMilli` parts of GPUs: shares, and of MIG instances the part of the GPU's
memory they take. Whole GPUs count whether a claim asked for them or a plain request did: a limit that a pod escapes by
not claiming would limit nobody. A quota names models as claims do, so `H100` counts every product of that name.

Asked twice: of all nodes before a seat is looked for (`closed`), so that a pod that takes any model still gets one its
namespace has room for; and of the seat itself (`verdict`), when it is known exactly what would be held.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from ullage.decide.claiming import claim_of
from ullage.decide.devices.choice import Choice
from ullage.decide.devices.products import is_model
from ullage.decide.devices.suiting import capable, share_of
from ullage.decide.fit.codes import CODE, Codes
from ullage.decide.seat.deciding import Seat, device_ask
from ullage.model.claim import DeviceAsk, Exclusivity
from ullage.model.device import MILLI_GPU, Device
from ullage.model.pod import Pod
from ullage.model.quota import Limits, Usage, strictest
from ullage.model.resources import GPU, MILLI
from ullage.model.verdict import Reason, Verdict
from ullage.state.placements import Placements

_EXCEEDED = CODE[Reason.QUOTA_EXCEEDED]

_WHOLE, _PARTS = "\n gpus", "\n shares"
"""Names no product has."""

Product = tuple[str, int]
"""A model, and the memory of such a GPU."""


def quota_verdict(limits: Limits, used: Usage, more: Usage) -> Verdict:
    """Whether a namespace that holds `used` may hold `more` beside it."""
    if more.gpus and limits.gpus is not None and used.gpus + more.gpus > limits.gpus:
        return _exceeded("GPUs", used.gpus, more.gpus, limits.gpus)
    for model, most in limits.by_model:
        wanted, held = _of_model(more, model), _of_model(used, model)
        if wanted and held + wanted > most:
            return _exceeded(f"{model} GPUs", held, wanted, most)
    if more.shares and limits.shares is not None and used.shares + more.shares > limits.shares:
        return _exceeded("thousandths of shared GPUs", used.shares, more.shares, limits.shares)
    return Verdict(Reason.FITS)


def together(usages: Iterable[Usage]) -> Usage:
    """What is held by all of these: the members of a gang, the pods of a node."""
    gpus = shares = 0
    by_model: dict[str, int] = {}
    for usage in usages:
        gpus += usage.gpus
        shares += usage.shares
        for model, count in usage.by_model:
            by_model[model] = by_model.get(model, 0) + count
    return Usage(gpus=gpus, by_model=tuple(sorted(by_model.items())), shares=shares)


def least_taken(ask: DeviceAsk, model: str = "", memory: int = 0) -> Usage:
    """The least an ask takes on GPUs of this product; of any product where none is named."""
    if ask.exclusivity is Exclusivity.EXCLUSIVE:
        return Usage(gpus=ask.count, by_model=((model or ask.model, ask.count),) if model or ask.model else ())
    if ask.exclusivity is Exclusivity.MIG:
        return Usage(shares=ask.count * _part(ask.memory, memory))
    return Usage(shares=ask.count * (share_of(ask, memory, model) if memory else 1))


class QuotaTable:
    """What namespaces hold, kept by row and repaired where rows changed. Pods on unknown nodes hold nothing."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements
        self._version = -1
        self._on_row: dict[int, dict[str, Usage]] = {}
        self._totals: dict[str, Counter[str]] = {}
        """Of a namespace: products by name, and the two sums."""
        self._kinds: dict[tuple[Product, ...], int] = {}
        self._kind_of: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        """For each row the number of what its GPUs are."""

    def limits(self, namespace: str) -> Limits | None:
        """The strictest of its quotas; None if it has none."""
        quotas = self._placements.state.quotas
        own = [quotas[key].limits for key in sorted(quotas) if key.namespace == namespace]
        return strictest(own) if own else None

    def usage(self, namespace: str) -> Usage:
        """What the pods of a namespace hold, heard of or intended."""
        self._repair()
        held = self._totals.get(namespace, Counter())
        models = sorted((name, count) for name, count in held.items() if count and name not in (_WHOLE, _PARTS))
        return Usage(gpus=held[_WHOLE], by_model=tuple(models), shares=held[_PARTS])

    def closed(self, pods: Iterable[Pod]) -> Codes | None:
        """For each row whether the quota refuses pods of one namespace, all together, there; None if it never does.

        A row is closed if none of its products will do: what a seat would really take is asked with `verdict`.
        """
        if not self._placements.state.quotas:
            return None
        asking = [(pod.key.namespace, ask) for pod in pods if (ask := device_ask(pod)) is not None]
        limits = self.limits(asking[0][0]) if asking else None
        if limits is None:
            return None
        used, asks = self.usage(asking[0][0]), [ask for _, ask in asking]
        shut = [
            not any(
                quota_verdict(limits, used, together(least_taken(ask, *product) for ask in asks))
                for product in _suitable(products, asks)
            )
            for products in self._kinds
        ]
        if not any(shut):
            return None
        code_of_kind = np.where(shut, np.uint8(_EXCEEDED), np.uint8(0))
        return code_of_kind[self._kind_of[: self._placements.columns.size]]

    def verdict(self, seated: Iterable[tuple[Pod, Seat]]) -> Verdict:
        """Whether a namespace may hold these seats of its pods, all together, beside what it holds."""
        if not self._placements.state.quotas:
            return Verdict(Reason.FITS)
        several = list(seated)
        limits = self.limits(several[0][0].key.namespace) if several else None
        if limits is None:
            return Verdict(Reason.FITS)
        more = together(self.taken(pod, seat) for pod, seat in several)
        return quota_verdict(limits, self.usage(several[0][0].key.namespace), more)

    def taken(self, pod: Pod, seat: Seat) -> Usage:
        """What a pod would hold with this seat."""
        ask = device_ask(pod)
        if ask is None:
            return Usage()
        choice = seat.choice
        if choice is None or not choice.ids:
            return _counted(ask.count, self._devices(seat.node))
        return _held(ask.exclusivity, choice, self._devices(seat.node))

    def _holds(self, pod: Pod) -> Usage:
        """What a placed pod holds."""
        devices = self._devices(pod.node)
        if pod.gpu_ids:
            choice = Choice(
                ids=pod.gpu_ids,
                islands=0,
                satisfied=True,
                share_milli=pod.gpu_share,
                instances=pod.gpu_instances,
            )
            return _held(self._exclusivity(pod), choice, devices)
        requested = dict(pod.shape.requests).get(GPU, 0)
        return _counted(-(-requested // MILLI), devices) if requested else Usage()

    def _exclusivity(self, pod: Pod) -> Exclusivity:
        """What its claim says; where that is not known, what it holds tells."""
        if pod.gpu_instances:
            return Exclusivity.MIG
        claim = claim_of(pod, self._placements.state)
        ask = pod.shape.devices if claim is None else claim.ask
        if ask is not None and ask.exclusivity is not Exclusivity.MIG:
            return ask.exclusivity
        return Exclusivity.EXCLUSIVE if pod.gpu_share == MILLI_GPU else Exclusivity.SHARED

    def _repair(self) -> None:
        columns = self._placements.columns
        changed = columns.changed.since(self._version) if self._version >= 0 else None
        if len(self._kind_of) < columns.size:
            self._kind_of = np.resize(self._kind_of, columns.capacity)
            changed = None
        for row in range(columns.size) if changed is None else changed:
            name = columns.names[row]
            self._kind_of[row] = self._kinds.setdefault(self._products(name), len(self._kinds))
            held: dict[str, list[Usage]] = {}
            for pod in self._placements.pods_on(name).values() if name else ():
                held.setdefault(pod.key.namespace, []).append(self._holds(pod))
            self._count(self._on_row.get(row, {}), -1)
            self._on_row[row] = {namespace: together(usages) for namespace, usages in held.items()}
            self._count(self._on_row[row], +1)
        self._version = columns.changed.version

    def _count(self, on_row: Mapping[str, Usage], sign: int) -> None:
        for namespace, usage in on_row.items():
            total = self._totals.setdefault(namespace, Counter())
            total[_WHOLE] += sign * usage.gpus
            total[_PARTS] += sign * usage.shares
            for model, count in usage.by_model:
                total[model] += sign * count

    def _devices(self, node: str) -> Mapping[int, Device]:
        inventory = self._placements.state.inventories.get(node)
        return {} if inventory is None else {device.id: device for device in inventory.devices}

    def _products(self, node: str) -> tuple[Product, ...]:
        return tuple(sorted({(device.model, device.memory) for device in self._devices(node).values()}))


def _suitable(products: tuple[Product, ...], asks: list[DeviceAsk]) -> list[Product]:
    """Products that would do for all, as far as their names tell; an unnamed one where nothing is known or would do."""
    fit = [product for product in products if all(capable(ask, product[0]) is None for ask in asks)]
    return fit or [("", 0)]


def _held(exclusivity: Exclusivity, choice: Choice, devices: Mapping[int, Device]) -> Usage:
    if exclusivity is Exclusivity.SHARED:
        return Usage(shares=choice.share_milli * len(choice.ids))
    if exclusivity is Exclusivity.MIG:
        slices = {piece.uuid: _part(piece.memory, one.memory) for one in devices.values() for piece in one.mig}
        return Usage(shares=sum(slices.get(uuid, MILLI_GPU) for uuid in choice.instances))
    models = [devices[gpu].model for gpu in choice.ids if gpu in devices]
    return Usage(gpus=len(choice.ids), by_model=tuple(sorted((model, models.count(model)) for model in set(models))))


def _counted(count: int, devices: Mapping[int, Device]) -> Usage:
    """GPUs a device plugin chooses: their model is known where the node has only one."""
    models = {device.model for device in devices.values()}
    return Usage(gpus=count, by_model=((models.pop(), count),) if len(models) == 1 else ())


def _part(memory: int, of: int) -> int:
    """Thousandths, rounded up; the least there is where the whole is not known."""
    return -(-MILLI_GPU * memory // of) if of else 1


def _of_model(usage: Usage, model: str) -> int:
    return sum(count for product, count in usage.by_model if is_model(product, model))


def _exceeded(what: str, used: int, more: int, most: int) -> Verdict:
    return Verdict(Reason.QUOTA_EXCEEDED, f"{more} {what} asked, {used} of {most} are held")
