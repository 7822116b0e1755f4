"""Stage two: the next step of a pool towards its size. One kind of action per loop: each loop is one sentence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ullage.decide.pool.evaluate import Evaluation, removal_order
from ullage.model.pool_action import Deprovision, Doom, PoolAction, Provision, Spare
from ullage.model.provisioner import PoolNode, Provisioner, token_of


class StepKind(StrEnum):
    """What a loop does to a pool. The closed list: it labels the metric and the status."""

    NOTHING = "Nothing"
    RELEASE = "Release"
    """Instances that never became nodes are given up."""
    SPARE = "Spare"
    PROVISION = "Provision"
    DEPROVISION = "Deprovision"
    DOOM = "Doom"


@dataclass(frozen=True, slots=True, kw_only=True)
class Buy:
    """How the nodes the demand needs may be bought."""

    not_before: float = 0.0
    """Until then pods of the same burst may still come."""
    zone: str = ""
    count: int | None = None
    """How many of them in this zone; all of them if not said."""
    least: int = 0
    """Fewer are of no use: a gang waits for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Actions of one kind, and when to ask again even if nothing happens."""

    kind: StepKind
    actions: tuple[PoolAction, ...] = ()
    why: str = ""
    wake_at: float | None = None
    recommended: bool = False
    """Not to be done: only told."""


@dataclass(frozen=True, slots=True)
class _Pool:
    provisioner: Provisioner
    nodes: Sequence[PoolNode]
    evaluation: Evaluation
    buy: Buy
    now: float

    @property
    def surplus(self) -> int:
        """Nodes that are to go. Where nodes are drained, that is for whoever drains to say."""
        if self.provisioner.consolidation.drains:
            return 0
        return max(0, self.evaluation.current - self.evaluation.keep)

    @property
    def going(self) -> list[PoolNode]:
        """Tainted and empty, the next to go first."""
        doomed = [node for node in self.nodes if node.doomed and node.empty and not node.lost]
        return sorted(doomed, key=lambda node: (node.delete_after, node.name))

    @property
    def backed_off(self) -> bool:
        back_off = self.provisioner.back_off
        return back_off is not None and back_off.until > self.now


_Rule = Callable[[_Pool], tuple[PoolAction, ...]]


def next_step(
    provisioner: Provisioner,
    nodes: Sequence[PoolNode],
    evaluation: Evaluation,
    *,
    now: float,
    buy: Buy = Buy(),  # noqa: B008 - frozen
) -> Step:
    """The first kind of action that applies, and all actions of that kind."""
    if provisioner.thresholds.paused:
        return Step(kind=StepKind.NOTHING, why="paused")
    pool = _Pool(provisioner, nodes, evaluation, buy, now)
    for kind, rule in _RULES:
        if actions := rule(pool):
            return Step(
                kind=kind,
                actions=actions,
                why=evaluation.why,
                wake_at=_wake_at(pool),
                recommended=provisioner.thresholds.recommend_only,
            )
    return Step(kind=StepKind.NOTHING, why=evaluation.why, wake_at=_wake_at(pool))


def _release_what_never_came(pool: _Pool) -> tuple[PoolAction, ...]:
    deadline = pool.provisioner.thresholds.boot_deadline
    return tuple(
        Deprovision(
            node=node.name if node.registered else "",
            instance=node.instance,
            why=f"no usable node came of it in {deadline:g} s",
            lost=True,
        )
        for node in sorted(pool.nodes, key=lambda node: node.name)
        if node.lost
    )


def _ask_again(pool: _Pool) -> tuple[PoolAction, ...]:
    open_one, provisioner = pool.provisioner.purchase, pool.provisioner
    if open_one is None or pool.backed_off:
        return ()
    return (
        Provision(
            provisioner=provisioner.name,
            count=open_one.count,
            least=open_one.least,
            serial=open_one.serial,
            token=token_of(provisioner, open_one.serial),
            zone=open_one.zone,
            why="asked for before, and the answer was lost",
            again=True,
        ),
    )


def _spare(pool: _Pool) -> tuple[PoolAction, ...]:
    occupied = [node for node in pool.nodes if node.doomed and not node.empty and not node.lost]
    excess = pool.going[pool.surplus :]
    in_use = [Spare(node=node.name, why="a pod is on it or will be") for node in sorted(occupied, key=_name)]
    return (*in_use, *(Spare(node=node.name, why=pool.evaluation.why) for node in sorted(excess, key=_name)))


def _provision(pool: _Pool) -> tuple[PoolAction, ...]:
    evaluation, provisioner = pool.evaluation, pool.provisioner
    if provisioner.purchase is not None or pool.backed_off:
        return ()
    buy, count = pool.buy, evaluation.fresh
    if pool.now < buy.not_before:
        missing = provisioner.thresholds.min_size - evaluation.current
        buy, count = Buy(), max(0, min(count, missing))
    elif buy.count is not None:
        count = min(count, buy.count)
    if not count or count < buy.least:
        return ()
    serial = provisioner.purchases
    return (
        Provision(
            provisioner=provisioner.name,
            count=count,
            least=buy.least,
            serial=serial,
            token=token_of(provisioner, serial),
            zone=buy.zone,
            why=evaluation.why,
        ),
    )


def _deprovision(pool: _Pool) -> tuple[PoolAction, ...]:
    due = [node for node in pool.going[: pool.surplus] if node.instance and (node.delete_after or 0.0) <= pool.now]
    return tuple(
        Deprovision(node=node.name, instance=node.instance, why="empty, and its deletion time has passed")
        for node in due
    )


def _doom(pool: _Pool) -> tuple[PoolAction, ...]:
    more = pool.surplus - len(pool.going)
    if more <= 0:
        return ()
    candidates = [
        node
        for node in sorted(pool.nodes, key=removal_order)
        if node.empty
        and node.registered
        and node.instance  # what nobody could delete is not tainted to be
        and not (node.doomed or node.draining or node.coming or node.lost or node.protected)
    ]
    moment = pool.now + pool.provisioner.thresholds.scale_down_delay
    return tuple(Doom(node=node.name, delete_after=moment, why=pool.evaluation.why) for node in candidates[:more])


_RULES: tuple[tuple[StepKind, _Rule], ...] = (
    (StepKind.RELEASE, _release_what_never_came),
    (StepKind.PROVISION, _ask_again),
    (StepKind.SPARE, _spare),
    (StepKind.PROVISION, _provision),
    (StepKind.DEPROVISION, _deprovision),
    (StepKind.DOOM, _doom),
)
"""In this order: what is lost is known first, taints go before anything is bought, and buying before shrinking."""


def _wake_at(pool: _Pool) -> float | None:
    deadline, back_off = pool.provisioner.thresholds.boot_deadline, pool.provisioner.back_off
    moments = [node.delete_after for node in pool.going if node.delete_after is not None]
    moments += [node.since + deadline for node in pool.nodes if node.coming and not node.lost]
    if pool.evaluation.fresh:
        moments.append(pool.buy.not_before)
    if back_off is not None:
        moments.append(back_off.until)
    return min((moment for moment in moments if moment > pool.now), default=None)


def _name(node: PoolNode) -> str:
    return node.name
