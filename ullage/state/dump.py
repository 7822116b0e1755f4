"""The picture as JSON and back, without loss: what `ullage dump` writes and a replay starts from."""

import msgspec

from ullage.model.budget import Budget
from ullage.model.event import Appeared, ObjectKey, Synced
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.state.cluster import ClusterState

FORMAT = 1


class Dump(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A picture at one moment. Sorted, so that two dumps of one state are equal to the byte."""

    format: int
    taken_at: float
    synced: tuple[str, ...]
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    budgets: tuple[Budget, ...]


def dump(state: ClusterState, *, now: float) -> bytes:
    """The state as JSON."""
    picture = Dump(
        format=FORMAT,
        taken_at=now,
        synced=tuple(sorted(state.synced)),
        nodes=tuple(state.nodes[name] for name in sorted(state.nodes)),
        pods=tuple(state.pods[key] for key in sorted(state.pods)),
        budgets=tuple(state.budgets[key] for key in sorted(state.budgets)),
    )
    return msgspec.json.format(msgspec.json.encode(picture, order="deterministic"), indent=2)


def load(text: bytes) -> tuple[ClusterState, float]:
    """The state that was dumped and its moment. Raises ValueError that names the bad field."""
    try:
        picture = msgspec.json.decode(text, type=Dump)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a dump: {error}") from error
    if picture.format != FORMAT:
        raise ValueError(f"not a dump of format {FORMAT}: format is {picture.format}")
    state = ClusterState()
    for node in picture.nodes:
        state.apply(Appeared(ObjectKey("", node.name), node))
    for pod in picture.pods:
        state.apply(Appeared(pod.key, pod))
    for budget in picture.budgets:
        state.apply(Appeared(budget.key, budget))
    for source in picture.synced:
        state.apply(Synced(source))
    return state, picture.taken_at
