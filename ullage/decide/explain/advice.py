"""Advice for a pod without a node: next steps derived from its rejections. Nothing is decided here.

Each reason has a sentence of its own. A step that would only lead to the next refusal is left out: nodes are filtered
again with the rule lifted. Where room is short, the node that lacks least names the amount. Pods whose end would make
room are named as preemption would find them if priority did not matter.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from ullage.decide.explain.rejections import NodeRejections
from ullage.decide.placement.devices.board import FreeDevices, empty_board, roomy
from ullage.decide.placement.devices.choosing import choose
from ullage.decide.placement.devices.requirements import gib, suiting
from ullage.decide.placement.engine import PlacementEngine, device_ask
from ullage.decide.placement.filters.codes import CODE, FITS
from ullage.decide.placement.filters.node import NOT_READY, UNSCHEDULABLE
from ullage.decide.placement.filters.resources import spoken
from ullage.decide.preemption.candidates import CURABLE
from ullage.decide.preemption.preempt import preempt
from ullage.decide.preemption.protection import PreemptionContext
from ullage.model.action import Preempt
from ullage.model.admission import LEASED_TAINT
from ullage.model.claim import DevicePolicy, DeviceRequest, Exclusivity, TopologyMode
from ullage.model.pod import Pod
from ullage.model.shape import Shape, interned
from ullage.model.shape_terms import Toleration
from ullage.model.verdict import CURES, Reason, Verdict

MOST_NODES = 64
"""Nodes searched for the one that lacks least: those with most free GPUs."""
_ABOVE_ALL = 2**31 - 1

CURABLE_OR_FIT = sorted({FITS, *CURABLE})

Step = Callable[["Adviser", Pod, NodeRejections], str]
Lifted = Callable[[Shape], Shape]
"""A shape without one of its rules."""


class Adviser:
    """Next steps for pods refused on one snapshot."""

    def __init__(self, seating: PlacementEngine, *, now: float) -> None:
        self._seating = seating
        self._placements = seating.placements
        self._now = now
        self._claims: dict[str, list[str]] | None = None
        """Namespaces by the names of their claims, computed on first use."""

    def steps(self, pod: Pod, found: Sequence[NodeRejections], *, endings: bool = True) -> tuple[str, ...]:
        """Next steps, the most promising first. `endings` also searches for pods whose end would make room."""
        over_quota = [ground for ground in found if ground.reason is Reason.QUOTA_EXCEEDED]
        found = over_quota or found  # no other step helps before the quota does
        steps = [self._ending(pod)] if endings and any(CURES[ground.reason].fewer_pods for ground in found) else []
        steps += [STEPS[ground.reason](self, pod, ground) for ground in found]
        return tuple(dict.fromkeys(step for step in steps if step))

    def _ending(self, pod: Pod) -> str:
        """The fewest, least important pods whose end would make room."""
        answer = preempt(
            self._seating, replace(pod, priority=_ABOVE_ALL, preempts=True), PreemptionContext(), now=self._now
        )
        if not isinstance(answer, Preempt):
            return ""
        if not answer.victims:
            return f"wait: pods are leaving {answer.node}"
        gone = [self._placements.pods[victim.pod] for victim in answer.victims]
        ids = sorted({gpu for victim in gone for gpu in victim.gpu_ids})
        what = f"free GPU {_ids(ids)} on {answer.node}" if ids and device_ask(pod) else f"make room on {answer.node}"
        return f"{what} by ending {' and '.join(str(victim.key) for victim in gone)}"

    def lifting(self, pod: Pod, ground: NodeRejections, text: str, lifted: "Lifted") -> str:
        """The text, with the first node that would fit if a rule were lifted; empty where none would."""
        rows = self._open_with(pod, ground.reason, lifted)
        if not len(rows):
            return ""
        node = self._placements.columns.names[rows[0]]
        detail = self._seating.explain(pod, now=self._now, among=[node])[node].detail
        return text.format(node=node, detail=detail)

    def _open_with(self, pod: Pod, reason: Reason, lifted: "Lifted", *, freed: bool = False) -> npt.NDArray[np.intp]:
        """Rows that refuse for this reason and would fit with the rule lifted, or (`freed`) once pods have left."""
        columns = self._placements.columns
        refusing = self._seating.codes(pod, now=self._now)[columns.by_name] == CODE[reason]
        shape = replace(lifted(pod.shape), devices=device_ask(pod))
        then = self._seating.codes(replace(pod, shape=interned(shape)), now=self._now)[columns.by_name]
        rows: npt.NDArray[np.intp] = columns.by_name[
            refusing & (np.isin(then, CURABLE_OR_FIT) if freed else then == FITS)
        ]
        return rows

    def elsewhere(self, pod: Pod) -> list[str]:
        """Namespaces that have a claim of the name a pod refers to."""
        if self._claims is None:
            self._claims = {}
            for key in sorted(self._placements.state.claims):
                self._claims.setdefault(key.name, []).append(key.namespace)
        return self._claims.get((pod.claim or pod.claim_template).rpartition("/")[2], [])

    def shortage(self, pod: Pod, _ground: NodeRejections) -> str:
        """Amounts missing on the node that lacks least."""
        columns = self._placements.columns
        needs = columns.indexed(pod.shape.requests)
        rows = self._open_with(
            pod, Reason.INSUFFICIENT_RESOURCES, lambda shape: replace(shape, requests=()), freed=True
        )
        if not len(rows) or not needs:
            return ""
        missing = np.array([amount - (columns.allocatable[i, rows] - columns.used[i, rows]) for i, amount in needs])
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
        ask, board = device_ask(pod), self._seating.boards.of(row)
        return ask is None or board is None or not isinstance(choose(empty_board(board.layout), ask), Verdict)

    def larger_node(self, pod: Pod, _ground: NodeRejections) -> str:
        """Requests that no node can hold; empty where one node can hold them all, and refuses for other reasons."""
        columns = self._placements.columns
        requests = list(zip(pod.shape.requests, columns.indexed(pod.shape.requests), strict=True))
        has = [columns.allocatable[index, : columns.size] >= amount for _, (index, amount) in requests]
        if np.logical_and.reduce(has).any():
            return ""
        beyond = [
            f"{spoken(*asked)} {asked[0]}" for (asked, _), enough in zip(requests, has, strict=True) if not enough.any()
        ]
        return f"a node with {' and '.join(beyond or [f'{spoken(*asked)} {asked[0]}' for asked, _ in requests])}"

    def more_gpus(self, pod: Pod, _ground: NodeRejections) -> str:
        """Number of GPUs missing on the node with most suitable free ones; a larger node, if none has so many."""
        ask = device_ask(pod)
        best: tuple[int, str] | None = None
        for node, board in self._boards(pod, Reason.TOO_FEW_GPUS):
            if ask is not None:
                groups = suiting(board.layout, ask).groups
                free = max(((roomy(board.free, g.share_milli) & g.devices).bit_count() for g in groups), default=None)
                if free is not None and (best is None or free > best[0]):
                    best = free, node
        if ask is None or best is None:
            return wanted_node(ask)
        return f"{_count(ask.count - best[0], 'more free GPU')} on {best[1]}"

    def larger_island(self, pod: Pod, _ground: NodeRejections) -> str:
        ask = device_ask(pod)
        if ask is None or ask.exclusivity is Exclusivity.MIG:
            return "ask for one MIG instance, or set topology.mode to Preferred"
        best: tuple[int, str] | None = None
        for node, board in self._boards(pod, Reason.NO_ISLAND_LARGE_ENOUGH):
            for group in suiting(board.layout, ask).groups:
                free = roomy(board.free, group.share_milli) & group.devices
                for island in board.layout.wiring.islands:
                    large = (island & group.devices).bit_count() >= ask.count
                    if large and (best is None or (free & island).bit_count() > best[0]):
                        best = (free & island).bit_count(), node
        if best is None:
            return f"a node with an island of {ask.count} GPUs, or topology.mode Preferred"
        return f"{_count(ask.count - best[0], 'more free GPU')} in one island of {best[1]}"

    def _boards(self, pod: Pod, reason: Reason) -> Iterable[tuple[str, FreeDevices]]:
        """GPUs of nodes that refuse for this reason, those with most free first, then by name."""
        columns = self._placements.columns
        codes = self._seating.codes(pod, now=self._now)
        rows = columns.by_name[codes[columns.by_name] == CODE[reason]]
        free = columns.gpus.free[rows].clip(0).sum(axis=1)
        for row in rows[np.argsort(-free, kind="stable")][:MOST_NODES].tolist():
            board = self._seating.boards.of(row)
            if board is not None:
                yield columns.names[row], board


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


def _gpu_node(_: Adviser, pod: Pod, __: NodeRejections) -> str:
    return wanted_node(device_ask(pod))


def _labelled_node(advice: Adviser, pod: Pod, ground: NodeRejections) -> str:
    wanted = ", ".join(f"{key}={value}" for key, value in pod.shape.node_selector)
    near = advice.lifting(pod, ground, "; {node} would fit with it", _anywhere)
    return f"a node with {wanted}{near}" if wanted else f"a node the pod's node affinity accepts{near}"


def _claim_to_make(advice: Adviser, pod: Pod, _: NodeRejections) -> str:
    name = (pod.claim or pod.claim_template).rpartition("/")[2]
    others = [namespace for namespace in advice.elsewhere(pod) if namespace != pod.key.namespace]
    aside = f"; the one in namespace {others[0]} is of no use to it" if others else ""
    return f"create GpuClaim {pod.key.namespace}/{name}, or correct the pod's annotation{aside}"


def _claim_to_correct(_: Adviser, pod: Pod, __: NodeRejections) -> str:
    if pod.claim and pod.claim_template:
        return f"remove one of the two annotations of {pod.key}"
    return f"correct GpuClaim {_named(pod)}, or the request of {pod.key}"


def _tolerating(taint: str = "") -> Lifted:
    """Add a toleration of one taint, or of every taint."""
    more = Toleration(key=taint, exists=True)
    return lambda shape: replace(shape, tolerations=(*shape.tolerations, more))


def _taint(advice: Adviser, pod: Pod, ground: NodeRejections) -> str:
    """No pod tolerates the taint of leased nodes by itself: pods there have a claim, and see their GPUs only."""
    if LEASED_TAINT not in advice.lifting(pod, ground, "{detail}", _tolerating()):
        return advice.lifting(pod, ground, "tolerate {detail}, as on {node}", _tolerating())
    if pod.claim or pod.claim_template:
        return advice.lifting(
            pod, ground, f"create {pod.key} again while the webhook runs, for {{node}}", _tolerating()
        )
    text = "name a GpuClaim in the annotation gpu.scheduling/claim: {node} gives its GPUs by claims only"
    return advice.lifting(pod, ground, text, _tolerating())


def _anywhere(shape: Shape) -> Shape:
    return replace(shape, node_selector=(), node_affinity=None)


def _lifts(text: str, lifted: Lifted) -> Step:
    return lambda advice, pod, ground: advice.lifting(pod, ground, text, lifted)


def _other_ids(_: Adviser, pod: Pod, ground: NodeRejections) -> str:
    ask = device_ask(pod)
    ids = _ids(ask.prefer_ids) if ask is not None and ask.policy is DevicePolicy.PREFER_IDS else ""
    return f"other preferIds than {ids}, or policy contiguous: {ground.detail} on {ground.example}"


def _share(_: Adviser, pod: Pod, ground: NodeRejections) -> str:
    ask = device_ask(pod)
    size = gib(ask.memory) if ask is not None and ask.memory else "a share that large"
    return f"a GPU with {size} free for sharing: {ground.detail}"


def _instance(_: Adviser, pod: Pod, __: NodeRejections) -> str:
    ask = device_ask(pod)
    return f"a free MIG instance with {gib(ask.memory)}" if ask is not None else ""


def _says(text: str) -> Step:
    """A sentence with the node and the detail filled in."""
    return lambda _, pod, ground: text.format(node=ground.example, detail=ground.detail, pod=pod.key, claim=_named(pod))


def _named(pod: Pod) -> str:
    return f"{pod.key.namespace}/{pod.claim or pod.claim_template}"


STEPS: Mapping[Reason, Step] = {
    Reason.FITS: _says(""),
    Reason.NOT_THE_NODE_NAMED: _says("bring the node it names: {detail}"),
    Reason.NODE_UNSCHEDULABLE: _lifts("uncordon {node}", _tolerating(UNSCHEDULABLE.key)),
    Reason.NODE_NOT_READY: _lifts("bring {node} back to Ready", _tolerating(NOT_READY.key)),
    Reason.TAINT_NOT_TOLERATED: _taint,
    Reason.NODE_SELECTOR_MISMATCH: _labelled_node,
    Reason.HOST_PORT_TAKEN: _says("another host port: {detail}"),
    Reason.NODE_TOO_SMALL: Adviser.larger_node,
    Reason.TOO_MANY_PODS: _says("room for one more pod on {node}: {detail}"),
    Reason.INSUFFICIENT_RESOURCES: Adviser.shortage,
    Reason.VOLUME_NOT_READY: _says("make its volumes ready: {detail}"),
    Reason.VOLUME_ELSEWHERE: _says("a node that reaches its volumes: on {node}, {detail}"),
    Reason.VOLUME_IN_USE: _says("end the pod that has its volume: {detail}"),
    Reason.SPREAD_KEY_MISSING: _says("label {node}: {detail}"),
    Reason.SPREAD_TOO_UNEVEN: _says("room where fewer pods of its kind are, or a larger maxSkew: {detail}"),
    Reason.POD_AFFINITY_UNMET: _says("place the pods it wants near first: {detail}"),
    Reason.POD_ANTI_AFFINITY: _says("a node without the pods it avoids: {detail}"),
    Reason.EXISTING_ANTI_AFFINITY: _says("a node without the pods that avoid it: {detail}"),
    Reason.NO_GPUS: _gpu_node,
    Reason.INVENTORY_STALE: _says("start the GPU agent of {node} again: {detail}"),
    Reason.GPU_MODEL_MISMATCH: _gpu_node,
    Reason.GPU_MEMORY_TOO_SMALL: _gpu_node,
    Reason.GPUS_UNHEALTHY: _says("repair the GPUs of {node}: {detail}"),
    Reason.TOO_FEW_GPUS: Adviser.more_gpus,
    Reason.PREFERRED_GPUS_TAKEN: _other_ids,
    Reason.NO_ROOM_FOR_SHARE: _share,
    Reason.NO_MIG_INSTANCE: _instance,
    Reason.NO_ISLAND_LARGE_ENOUGH: Adviser.larger_island,
    Reason.BANDWIDTH_TOO_LOW: _gpu_node,
    Reason.SCHEDULING_GATED: _says("remove spec.schedulingGates of {pod}"),
    Reason.RESOURCE_CLAIMS: _says(
        "name the default scheduler in {pod}, or ask for GPUs by gpu.scheduling/claim instead of spec.resourceClaims"
    ),
    Reason.CLAIM_MISSING: _claim_to_make,
    Reason.CLAIM_INVALID: _claim_to_correct,
    Reason.CLAIM_IN_USE: _says("give {pod} a claim of its own, or name {claim} in gpu.scheduling/claim-template"),
    Reason.GANG_SIZE_UNKNOWN: _says("create the PodGroup, or set spec.gangMinMember of GpuClaim {claim}"),
    Reason.QUOTA_EXCEEDED: _says("a larger GpuQuota, or ending pods of its namespace: {detail}"),
    Reason.GANG_INCOMPLETE: _says("room for the whole gang, or its other members: {detail}"),
}
"""Every reason has its step."""
