"""GpuQuota of namespaces, checked before a pod is placed.

`gpus` and `byModel` count whole GPUs, `sharesMilli` parts of GPUs: shares, and of MIG instances the part of the GPU's
memory they take. Whole GPUs count whether a claim asked for them or a plain request did: a limit that a pod escapes by
not claiming would limit no pod. A quota names models as claims do, so `H100` counts every product of that name.

Checked twice: over all rows before placement (`closed`), so that a pod that takes any model still gets a model its
namespace has room for; and on the placement itself (`verdict`), when it is known exactly what would be held.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.devices.choice import DeviceChoice
from ullage.decide.placement.devices.gpu_models import ALTERNATIVES, is_model
from ullage.decide.placement.devices.requirements import ask_of, capable, share_of
from ullage.decide.placement.filters.codes import CODE, Codes
from ullage.decide.placement.prefilter import claim_of
from ullage.model.claim import DeviceRequest, Exclusivity
from ullage.model.device import MILLI_GPU, Device
from ullage.model.pod import Pod
from ullage.model.quota import QuotaLimits, QuotaUsage, strictest
from ullage.model.resources import GPU, MILLI
from ullage.model.stepper import Stepper
from ullage.model.units import Bytes, Seconds
from ullage.model.verdict import Reason, Verdict
from ullage.state.snapshot import ClusterSnapshot

if TYPE_CHECKING:  # the engine has a table
    from ullage.decide.placement.engine import Placement

_EXCEEDED = CODE[Reason.QUOTA_EXCEEDED]

_WHOLE, _PARTS = "\n gpus", "\n shares"
"""Keys of the two sums among product names; no product has such a name."""

ROWS_PER_STEP = 50
"""Rows counted in one step of a warm-up."""

Product = tuple[str, Bytes]
"""A model, and the memory of such a GPU."""


def quota_verdict(limits: QuotaLimits, used: QuotaUsage, more: QuotaUsage) -> Verdict:
    """Verdict on a namespace that holds `used` and asks for `more` beside it."""
    if more.gpus and limits.gpus is not None and used.gpus + more.gpus > limits.gpus:
        return _exceeded("GPUs", used.gpus, more.gpus, limits.gpus)
    for model, most in limits.by_model:
        wanted, held = _of_model(more, model), _of_model(used, model)
        if wanted and held + wanted > most:
            return _exceeded(f"{model} GPUs", held, wanted, most)
    if more.shares and limits.shares is not None and used.shares + more.shares > limits.shares:
        return _exceeded("thousandths of shared GPUs", used.shares, more.shares, limits.shares)
    return Verdict(Reason.FITS)


def together(usages: Iterable[QuotaUsage]) -> QuotaUsage:
    """Sum of usages: of the members of a gang, or of the pods of a node."""
    gpus = shares = 0
    by_model: dict[str, int] = {}
    for usage in usages:
        gpus += usage.gpus
        shares += usage.shares
        for model, count in usage.by_model:
            by_model[model] = by_model.get(model, 0) + count
    return QuotaUsage(gpus=gpus, by_model=tuple(sorted(by_model.items())), shares=shares)


def least_taken(ask: DeviceRequest, model: str = "", memory: Bytes = Bytes(0)) -> QuotaUsage:
    """Least usage of a device request on GPUs of this product; on any product if none is named."""
    if ask.exclusivity is Exclusivity.EXCLUSIVE:
        named = model or ("" if ALTERNATIVES in ask.model else ask.model)  # one of several may be allowed
        return QuotaUsage(gpus=ask.count, by_model=((named, ask.count),) if named else ())
    if ask.exclusivity is Exclusivity.MIG:
        return QuotaUsage(shares=ask.count * _part(ask.memory, memory))
    return QuotaUsage(shares=ask.count * (share_of(ask, memory, model) if memory else 1))


class QuotaTable:
    """GPU usage by namespace, kept by row and repaired where rows changed. Pods on unknown nodes hold nothing."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._version = -1
        self._on_row: dict[int, dict[str, QuotaUsage]] = {}
        self._totals: dict[str, Counter[str]] = {}
        """By namespace: GPUs by product name, and the sums of whole GPUs and of shares."""
        self._kinds: dict[tuple[Product, ...], int] = {}
        self._kind_of: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        """By row: the number of its set of GPU products in `_kinds`."""

    def fork_for(self, snapshot: ClusterSnapshot) -> "QuotaTable":
        """Return a copy for the forked snapshot."""
        twin = copy(self)
        twin._snapshot, twin._on_row = snapshot, self._on_row.copy()
        twin._totals = {namespace: total.copy() for namespace, total in self._totals.items()}
        twin._kinds, twin._kind_of = self._kinds.copy(), self._kind_of.copy()
        return twin

    def warm_up(self) -> Stepper[None]:
        """Count what the first question would, in steps, if any namespace has a quota."""
        if not self._snapshot.state.quotas:
            return
        columns, began = self._snapshot.columns, self._snapshot.columns.changed.version
        rows = self._outdated()
        for done, row in enumerate(rows, start=1):
            self._count_row(row)
            if done % ROWS_PER_STEP == 0:
                yield Seconds(0.0)
                if len(self._kind_of) < columns.size:
                    return  # nodes came meanwhile: all rows are counted with the next question
        self._version = began

    def limits(self, namespace: str) -> QuotaLimits | None:
        """Strictest limits of the namespace's quotas; None if it has none."""
        quotas = self._snapshot.state.quotas
        own = [quotas[key].limits for key in sorted(quotas) if key.namespace == namespace]
        return strictest(own) if own else None

    def usage(self, namespace: str) -> QuotaUsage:
        """Usage of the pods of a namespace, observed or assumed."""
        self._repair()
        held = self._totals.get(namespace, Counter())
        models = sorted((name, count) for name, count in held.items() if count and name not in (_WHOLE, _PARTS))
        return QuotaUsage(gpus=held[_WHOLE], by_model=tuple(models), shares=held[_PARTS])

    def closed(self, pods: Iterable[Pod]) -> Codes | None:
        """Codes of rows where the quota refuses these pods of one namespace, all together; None if it refuses no row.

        A row is closed if the quota allows none of its products. `verdict` checks what a placement really takes.
        """
        if not self._snapshot.state.quotas:
            return None
        asking = [(pod.key.namespace, ask) for pod in pods if (ask := ask_of(pod.shape)) is not None]
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
        return code_of_kind[self._kind_of[: self._snapshot.columns.size]]

    def verdict(self, placed: Iterable[tuple[Pod, "Placement"]]) -> Verdict:
        """Verdict on these placements of pods of one namespace, all together, beside what the namespace holds."""
        if not self._snapshot.state.quotas:
            return Verdict(Reason.FITS)
        several = list(placed)
        limits = self.limits(several[0][0].key.namespace) if several else None
        if limits is None:
            return Verdict(Reason.FITS)
        more = together(self.taken(pod, placement) for pod, placement in several)
        return quota_verdict(limits, self.usage(several[0][0].key.namespace), more)

    def taken(self, pod: Pod, placement: "Placement") -> QuotaUsage:
        """Usage of a pod with this placement."""
        ask = ask_of(pod.shape)
        if ask is None:
            return QuotaUsage()
        choice = placement.choice
        if choice is None or not choice.ids:
            return _counted(ask.count, self._devices(placement.node))
        return _held(ask.exclusivity, choice, self._devices(placement.node))

    def _holds(self, pod: Pod) -> QuotaUsage:
        """Usage of a placed pod."""
        devices = self._devices(pod.node)
        if pod.gpu_ids:
            choice = DeviceChoice(
                ids=pod.gpu_ids,
                islands=0,
                satisfied=True,
                share_milli=pod.gpu_share,
                instances=pod.gpu_instances,
            )
            return _held(self._exclusivity(pod), choice, devices)
        requested = dict(pod.shape.requests).get(GPU, 0)
        return _counted(-(-requested // MILLI), devices) if requested else QuotaUsage()

    def _exclusivity(self, pod: Pod) -> Exclusivity:
        """Exclusivity of a pod's GPUs: MIG if it holds instances, else its claim's, else from the share it holds."""
        if pod.gpu_instances:
            return Exclusivity.MIG
        claim = claim_of(pod, self._snapshot.state)
        ask = pod.shape.devices if claim is None else claim.ask
        if ask is not None and ask.exclusivity is not Exclusivity.MIG:
            return ask.exclusivity
        return Exclusivity.EXCLUSIVE if pod.gpu_share == MILLI_GPU else Exclusivity.SHARED

    def _repair(self) -> None:
        for row in self._outdated():
            self._count_row(row)
        self._version = self._snapshot.columns.changed.version

    def _outdated(self) -> Sequence[int]:
        """Rows that changed since they were counted."""
        columns = self._snapshot.columns
        changed = columns.changed.since(self._version) if self._version >= 0 else None
        if len(self._kind_of) < columns.size:
            self._kind_of = np.resize(self._kind_of, columns.capacity)  # rows beyond the old ones changed, too
        return range(columns.size) if changed is None else changed

    def _count_row(self, row: int) -> None:
        name = self._snapshot.columns.names[row]
        self._kind_of[row] = self._kinds.setdefault(self._products(name), len(self._kinds))
        held: dict[str, list[QuotaUsage]] = {}
        for pod in self._snapshot.pods_on(name).values() if name else ():
            held.setdefault(pod.key.namespace, []).append(self._holds(pod))
        self._count(self._on_row.get(row, {}), -1)
        self._on_row[row] = {namespace: together(usages) for namespace, usages in held.items()}
        self._count(self._on_row[row], +1)

    def _count(self, on_row: Mapping[str, QuotaUsage], sign: int) -> None:
        for namespace, usage in on_row.items():
            total = self._totals.setdefault(namespace, Counter())
            total[_WHOLE] += sign * usage.gpus
            total[_PARTS] += sign * usage.shares
            for model, count in usage.by_model:
                total[model] += sign * count

    def _devices(self, node: str) -> Mapping[int, Device]:
        inventory = self._snapshot.state.inventories.get(node)
        return {} if inventory is None else {device.id: device for device in inventory.devices}

    def _products(self, node: str) -> tuple[Product, ...]:
        return tuple(sorted({(device.model, device.memory) for device in self._devices(node).values()}))


def _suitable(products: tuple[Product, ...], asks: list[DeviceRequest]) -> list[Product]:
    """Products whose names suit all device requests; one unnamed product if none is known or suits."""
    fit = [product for product in products if all(capable(ask, product[0]) is None for ask in asks)]
    return fit or [("", Bytes(0))]


def _held(exclusivity: Exclusivity, choice: DeviceChoice, devices: Mapping[int, Device]) -> QuotaUsage:
    if exclusivity is Exclusivity.SHARED:
        return QuotaUsage(shares=choice.share_milli * len(choice.ids))
    if exclusivity is Exclusivity.MIG:
        slices = {piece.uuid: _part(piece.memory, one.memory) for one in devices.values() for piece in one.mig}
        return QuotaUsage(shares=sum(slices.get(uuid, MILLI_GPU) for uuid in choice.instances))
    models = [devices[gpu].model for gpu in choice.ids if gpu in devices]
    return QuotaUsage(
        gpus=len(choice.ids), by_model=tuple(sorted((model, models.count(model)) for model in set(models)))
    )


def _counted(count: int, devices: Mapping[int, Device]) -> QuotaUsage:
    """Usage of GPUs that a device plugin chooses: the model is known only if the node has a single one."""
    models = {device.model for device in devices.values()}
    return QuotaUsage(gpus=count, by_model=((models.pop(), count),) if len(models) == 1 else ())


def _part(memory: Bytes, of: int) -> int:
    """Part in thousandths, rounded up; 1 if the whole is not known."""
    return -(-MILLI_GPU * memory // of) if of else 1


def _of_model(usage: QuotaUsage, model: str) -> int:
    return sum(count for product, count in usage.by_model if is_model(product, model))


def _exceeded(what: str, used: int, more: int, most: int) -> Verdict:
    return Verdict(Reason.QUOTA_EXCEEDED, f"{more} {what} asked, {used} of {most} are held")
