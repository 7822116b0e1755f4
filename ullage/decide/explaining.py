"""One pod, explained: what every node says to it, what came of it, and what would help."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.decide.advice import Advice
from ullage.decide.plan_schedule import told
from ullage.decide.planning import Known, Planner
from ullage.decide.score.policies import DEFAULT_POLICY
from ullage.decide.seat.deciding import Seat
from ullage.decide.seat.grounds import Ground, grounds_of, pod_ground
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.verdict import Reason, Verdict
from ullage.state.placements import Placements


class Outcome(StrEnum):
    """What a pod's verdict is where it is not a `Reason` about the pod itself."""

    FITS = "Fits"
    UNSCHEDULABLE = "Unschedulable"
    BOUND = "Bound"
    FINISHED = "Finished"
    LEAVING = "Leaving"
    """It is being deleted and never got a node."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything there is to say of one pod's place."""

    pod: ObjectKey
    verdict: str
    """An `Outcome`, or the reason that holds on every node."""
    message: str
    nodes: dict[str, Verdict]
    grounds: tuple[Ground, ...]
    steps: tuple[str, ...]


def explain_pod(
    placements: Placements, pod: Pod, known: Known, *, now: float, policy: str = DEFAULT_POLICY
) -> Explanation:
    """Nodes are asked as they are, before anybody else who waits is placed; the message says what the queue changes."""
    planner = Planner(placements, known, now=now, policy=policy)
    if pod.phase.over:
        return _silent(pod, Outcome.FINISHED, f"it has {pod.phase.value.lower()} and holds nothing")
    if pod.node:
        return _bound(planner, pod)
    if pod.deleting:
        return _silent(pod, Outcome.LEAVING, "it is being deleted and gets no node any more")
    ready = planner.assigner.entitled(pod)
    return _barred(planner, pod, ready) if isinstance(ready, Verdict) else _waiting(planner, ready)


def _waiting(planner: Planner, pod: Pod) -> Explanation:
    nodes = _asked(planner, pod)
    found = tuple(grounds_of(nodes))
    fitting = sum(map(bool, nodes.values()))
    if not fitting:
        steps = Advice(planner.assigner.seating, now=planner.now).steps(pod, found)
        why = ", ".join(f"{ground.nodes} {ground.reason}" for ground in found) or "there are no nodes"
        return Explanation(pod.key, Outcome.UNSCHEDULABLE, f"0/{len(nodes)} nodes fit: {why}", nodes, found, steps)
    message = f"{fitting} of {len(nodes)} nodes fit"
    with planner.placements.what_if():
        planner.run(until=pod.key)
        seat = planner.seats.get(pod.key)
        missed = None if seat is not None else _missed(planner, pod)
    if missed is not None:
        why, steps = missed
        return Explanation(pod.key, Outcome.UNSCHEDULABLE, f"{message} as things are; {why}", nodes, found, steps)
    return Explanation(pod.key, Outcome.FITS, f"{message}; it goes to {_spoken(seat)}", nodes, found, ())


def _asked(planner: Planner, pod: Pod) -> dict[str, Verdict]:
    """What every node says, the quota of the pod's namespace included."""
    nodes = planner.assigner.seating.explain(pod, now=planner.now)
    closed = planner.assigner.closed(pod)
    if closed is None:
        return nodes
    detail, rows = planner.assigner.quota_detail(pod), planner.placements.columns.rows
    refused = Verdict(Reason.QUOTA_EXCEEDED, detail)
    return {name: refused if verdict and closed[rows[name]] else verdict for name, verdict in nodes.items()}


def _missed(planner: Planner, pod: Pod) -> tuple[str, tuple[str, ...]]:
    """Why a pod for which there is room gets none, and what would help: others are ahead of it, or its gang is not."""
    steps = next((one.steps for one in told(planner).unschedulable if one.pod == pod.key), ())
    gang = planner.assigner.gang_of(pod)
    _, answer = planner.turned_away[pod.key if gang is None or pod.key in planner.turned_away else gang]
    return (str(answer) if gang is not None else f"with those ahead of it in the queue, {answer}"), steps


def _spoken(seat: Seat | None) -> str:
    if seat is None:
        return "no node"
    gpus = f" with GPU {','.join(map(str, seat.choice.ids))}" if seat.choice is not None and seat.choice.ids else ""
    return f"{seat.node}{gpus}"


def _silent(pod: Pod, word: Outcome, message: str) -> Explanation:
    return Explanation(pod.key, word, message, {}, (), ())


def _bound(planner: Planner, pod: Pod) -> Explanation:
    """Where it is, and what the nodes would say if it looked for a place now."""
    placements = planner.placements
    held = placements.pods.get(pod.key, pod)
    with placements.what_if():
        placements.remove(pod.key)
        nodes = planner.assigner.seating.explain(held, now=planner.now)
    gpus = f" with GPU {','.join(map(str, held.gpu_ids))}" if held.gpu_ids else ""
    counted = " with GPUs its node chose" if not gpus and GPU in dict(held.shape.requests) else ""
    message = f"it is on {pod.node}{gpus}{counted}"
    return Explanation(pod.key, Outcome.BOUND, message, nodes, tuple(grounds_of(nodes)), ())


def _barred(planner: Planner, pod: Pod, verdict: Verdict) -> Explanation:
    """A reason about the pod itself: every node says the same."""
    nodes = dict.fromkeys(sorted(planner.placements.state.nodes), verdict)
    ground = pod_ground(verdict, len(nodes))
    steps = Advice(planner.assigner.seating, now=planner.now).steps(pod, (ground,))
    return Explanation(pod.key, verdict.reason, verdict.detail, nodes, (ground,), steps)
