"""Advice for a pod without a node: next steps derived from its rejections. Nothing is decided here.

The sentence of each reason stands in its ReasonInfo. A step that would only lead to the next refusal is left out: nodes
are filtered again with the rule lifted. Where room is short, the node that lacks least names the amount. Pods whose end
would make room are named as preemption would find them if priority did not matter.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from ullage.decide.explain.rejections import NodeRejections
from ullage.decide.gang.membership import gang_of
from ullage.decide.placement.devices.choose import choose
from ullage.decide.placement.devices.layout import FreeDevices, empty_devices, roomy
from ullage.decide.placement.devices.requirements import gib, suiting
from ullage.decide.placement.engine import device_ask
from ullage.decide.placement.filters.codes import CODE, FITS
from ullage.decide.placement.filters.resources import spoken
from ullage.decide.placement.filters.rule import Lifted
from ullage.decide.placement.reasons import REASON_INFO
from ullage.decide.preemption.candidates import CURABLE
from ullage.decide.preemption.preempt import preempt
from ullage.decide.preemption.protection import PreemptionContext
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.decide.scheduling.nominator import BoundGangs
from ullage.model.claim import DeviceRequest, Exclusivity, TopologyMode
from ullage.model.intents import Preempt
from ullage.model.pod import Pod
from ullage.model.shape import interned
from ullage.model.units import Instant
from ullage.model.verdict import Reason, Verdict

MOST_NODES = 64
"""Nodes searched for the one that lacks least: those with most free GPUs."""
_ABOVE_ALL = 2**31 - 1

CURABLE_OR_FIT = sorted({FITS, *CURABLE})


class Adviser:
    """Next steps for pods refused on one snapshot."""

    def __init__(self, assigner: PodAssigner, *, now: Instant) -> None:
        self._assigner = assigner
        self._engine = assigner.engine
        self._snapshot = assigner.snapshot
        self._now = now
        self._claims: dict[str, list[str]] | None = None
        """Namespaces by the names of their claims, computed on first use."""

    def steps(self, pod: Pod, found: Sequence[NodeRejections], *, endings: bool = True) -> tuple[str, ...]:
        """Next steps, the most promising first. `endings` also searches for pods whose end would make room."""
        over_quota = [rejection for rejection in found if rejection.reason is Reason.QUOTA_EXCEEDED]
        found = over_quota or found  # no other step helps before the quota does
        infos = [
            (REASON_INFO[rejection.reason], rejection) for rejection in found if rejection.reason is not Reason.FITS
        ]
        steps = [self._ending(pod)] if endings and any(info.cure.fewer_pods for info, _ in infos) else []
        steps += [info.advice(self, pod, rejection) for info, rejection in infos]
        return tuple(dict.fromkeys(step for step in steps if step))

    def _ending(self, pod: Pod) -> str:
        """The fewest, least important pods whose end would make room."""
        if gang_of(pod, self._assigner.snapshot.state) is not None:
            return ""  # one seat is of no use to a gang
        around = PreemptionContext(gangs=BoundGangs(self._assigner.snapshot), closed=self._assigner.closed(pod))
        raised = replace(pod, priority=_ABOVE_ALL, preempts=True)
        answer = preempt(self._engine, raised, around, now=self._now)
        if not isinstance(answer, Preempt):
            return ""
        if not answer.victims:
            return f"wait: pods are leaving {answer.node}"
        gone = [self._snapshot.pods[victim.pod] for victim in answer.victims]
        ids = sorted({gpu for victim in gone for gpu in victim.gpu_ids})
        what = f"free GPU {_ids(ids)} on {answer.node}" if ids and device_ask(pod) else f"make room on {answer.node}"
        return f"{what} by ending {' and '.join(str(victim.key) for victim in gone)}"

    def lifting(self, pod: Pod, rejection: NodeRejections, text: str, lifted: Lifted) -> str:
        """The text, with the first node that would fit if a rule were lifted; empty where none would."""
        rows = self._open_with(pod, rejection.reason, lifted)
        if not len(rows):
            return ""
        node = self._snapshot.columns.names[rows[0]]
        detail = self._engine.explain(pod, now=self._now, among=[node])[node].detail
        return text.format(node=node, detail=detail)

    def _open_with(self, pod: Pod, reason: Reason, lifted: Lifted, *, freed: bool = False) -> npt.NDArray[np.intp]:
        """Rows that refuse for this reason and would fit with the rule lifted, or (`freed`) once pods have left."""
        columns = self._snapshot.columns
        refusing = self._engine.codes(pod, now=self._now)[columns.by_name] == CODE[reason]
        shape = replace(lifted(pod.shape), devices=device_ask(pod))
        then = self._engine.codes(replace(pod, shape=interned(shape)), now=self._now)[columns.by_name]
        rows: npt.NDArray[np.intp] = columns.by_name[
            refusing & (np.isin(then, CURABLE_OR_FIT) if freed else then == FITS)
        ]
        return rows

    def elsewhere(self, pod: Pod) -> list[str]:
        """Namespaces that have a claim of the name a pod refers to."""
        if self._claims is None:
            self._claims = {}
            for key in sorted(self._snapshot.state.claims):
                self._claims.setdefault(key.name, []).append(key.namespace)
        return self._claims.get((pod.claim or pod.claim_template).rpartition("/")[2], [])

    def shortage(self, pod: Pod) -> str:
        """Amounts missing on the node that lacks least."""
        columns = self._snapshot.columns
        needs = columns.indexed(pod.shape.requests)
        rows = self._open_with(
            pod, Reason.INSUFFICIENT_RESOURCES, lambda shape: replace(shape, requests=()), freed=True
        )
        if not len(rows) or not needs:
            return ""
        missing = np.array([amount - columns.free[i, rows] for i, amount in needs])
        asked = np.array([amount for _, amount in needs])[:, None]
        lacking = (np.maximum(missing, 0) / np.maximum(asked, 1)).sum(axis=0)
        nearest = np.argsort(lacking, kind="stable")[:MOST_NODES].tolist()
        least = next((place for place in nearest if self._could_serve(pod, int(rows[place]))), None)
        if least is None:
            return ""
        amounts = [
            f"{spoken(name, int(short))} more {name}"
            for (name, _), short in zip(pod.shape.requests, missing[:, least].tolist(), strict=True)
            if short > 0
        ]
        return f"{' and '.join(amounts)} free on {columns.names[rows[least]]}" if amounts else ""

    def _could_serve(self, pod: Pod, row: int) -> bool:
        """True if the GPUs of a node would do if no pod held any."""
        ask, gpus = device_ask(pod), self._engine.devices.of(row)
        return ask is None or gpus is None or not isinstance(choose(empty_devices(gpus.layout), ask), Verdict)

    def larger_node(self, pod: Pod) -> str:
        """Requests that no node can hold; empty where one node can hold them all, and refuses for other reasons."""
        columns = self._snapshot.columns
        requests = list(zip(pod.shape.requests, columns.indexed(pod.shape.requests), strict=True))
        has = [columns.allocatable[index, : columns.size] >= amount for _, (index, amount) in requests]
        if np.logical_and.reduce(has).any():
            return ""
        beyond = [
            f"{spoken(*asked)} {asked[0]}" for (asked, _), enough in zip(requests, has, strict=True) if not enough.any()
        ]
        return f"a node with {' and '.join(beyond or [f'{spoken(*asked)} {asked[0]}' for asked, _ in requests])}"

    def more_gpus(self, pod: Pod) -> str:
        """Number of GPUs missing on the node with most suitable free ones; a larger node, if none has so many."""
        ask = device_ask(pod)
        best: tuple[int, str] | None = None
        for node, gpus in self._gpus_of_refusing(pod, Reason.TOO_FEW_GPUS):
            if ask is not None:
                groups = suiting(gpus.layout, ask).groups
                free = max(((roomy(gpus.free, g.share_milli) & g.devices).bit_count() for g in groups), default=None)
                if free is not None and (best is None or free > best[0]):
                    best = free, node
        if ask is None or best is None:
            return wanted_node(ask)
        return f"{_count(ask.count - best[0], 'more free GPU')} on {best[1]}"

    def gpu_node(self, pod: Pod) -> str:
        """A node whose GPUs would do."""
        return wanted_node(device_ask(pod))

    def larger_island(self, pod: Pod) -> str:
        ask = device_ask(pod)
        if ask is None or ask.exclusivity is Exclusivity.MIG:
            return "ask for one MIG instance, or set topology.mode to Preferred"
        best: tuple[int, str] | None = None
        for node, gpus in self._gpus_of_refusing(pod, Reason.NO_ISLAND_LARGE_ENOUGH):
            for group in suiting(gpus.layout, ask).groups:
                free = roomy(gpus.free, group.share_milli) & group.devices
                for island in gpus.layout.wiring.islands:
                    large = (island & group.devices).bit_count() >= ask.count
                    if large and (best is None or (free & island).bit_count() > best[0]):
                        best = (free & island).bit_count(), node
        if best is None:
            return f"a node with an island of {ask.count} GPUs, or topology.mode Preferred"
        return f"{_count(ask.count - best[0], 'more free GPU')} in one island of {best[1]}"

    def _gpus_of_refusing(self, pod: Pod, reason: Reason) -> Iterable[tuple[str, FreeDevices]]:
        """GPUs of nodes that refuse for this reason, those with most free first, then by name."""
        columns = self._snapshot.columns
        codes = self._engine.codes(pod, now=self._now)
        rows = columns.by_name[codes[columns.by_name] == CODE[reason]]
        free = columns.gpus.free[rows].clip(0).sum(axis=1)
        for row in rows[np.argsort(-free, kind="stable")][:MOST_NODES].tolist():
            gpus = self._engine.devices.of(row)
            if gpus is not None:
                yield columns.names[row], gpus


def wanted_node(ask: DeviceRequest | None) -> str:
    """A node whose GPUs would do."""
    if ask is None:
        return "a node with GPUs"
    model = f" of model {ask.model}" if ask.model else ""
    size = f" with {gib(ask.memory)} each" if ask.memory else ""
    power = f" of {ask.tflops} TFLOPs each" if ask.tflops else ""
    linked = " in one island" if ask.topology is TopologyMode.REQUIRED and ask.count > 1 else ""
    speed = f" at {ask.min_bandwidth} GB/s" if ask.min_bandwidth else ""
    return f"a node with {_count(ask.count, 'GPU')}{model}{size}{power}{linked}{speed}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))
