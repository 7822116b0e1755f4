"""Next step of a pool towards its size, the second stage of a decision. One kind of intent per step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ullage.decide.provisioning.pool_node_state import check_steps
from ullage.decide.provisioning.pool_nodes import rejoin_time
from ullage.decide.provisioning.pool_size import PoolSize, removal_order, why_bought
from ullage.model.intents import PoolIntent, ScaleUp, TaintForDeletion, TerminateInstance, Untaint
from ullage.model.provisioner import PoolNode, Provisioner, token_of
from ullage.model.units import Instant, Seconds, after


class PoolStepKind(StrEnum):
    """Kind of a pool's step. Closed list: it labels the metric and the status."""

    NO_ACTION = "NoAction"
    RELEASE_INSTANCES = "ReleaseInstances"
    """Instances that failed to register are given up."""
    UNTAINT = "Untaint"
    SCALE_UP = "ScaleUp"
    TERMINATE_INSTANCE = "TerminateInstance"
    TAINT_FOR_DELETION = "TaintForDeletion"


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseTerms:
    """Terms on which the nodes of the demand may be bought."""

    not_before: Instant = Instant(0.0)
    """Instant until which pods of the same burst may still come."""
    zone: str = ""
    count: int | None = None
    """Number of nodes in this zone; None for all of them."""
    least: int = 0
    """Smallest useful number: a gang waits for them."""
    pending: int = 0
    """Number of pods they are for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStep:
    """Intents of one kind, and the instant of the next decision if no event comes first."""

    kind: PoolStepKind
    actions: tuple[PoolIntent, ...] = ()
    why: str = ""
    wake_at: Instant | None = None
    recommended: bool = False
    """Only reported, not performed."""


@dataclass(frozen=True, slots=True)
class _Pool:
    provisioner: Provisioner
    nodes: Sequence[PoolNode]
    evaluation: PoolSize
    buy: PurchaseTerms
    now: Instant
    deletes_at: Instant = Instant(0.0)

    @property
    def surplus(self) -> int:
        """Number of nodes to remove. 0 with policy Drain: the drain loop decides there."""
        if self.provisioner.consolidation.drains:
            return 0
        return max(0, self.evaluation.current - self.evaluation.keep)

    @property
    def going(self) -> list[PoolNode]:
        """Empty nodes marked for deletion, the next to be deleted first. Nobody can keep one without an instance."""
        marked_for_deletion = [
            node for node in self.nodes if node.marked_for_deletion and node.empty and not node.failed_to_register
        ]
        return sorted(marked_for_deletion, key=lambda node: (not node.unlisted, node.goes_at, node.name))

    @property
    def backed_off(self) -> bool:
        back_off = self.provisioner.back_off
        return back_off is not None and back_off.until > self.now


_Rule = Callable[[_Pool], tuple[PoolIntent, ...]]


def next_step(
    provisioner: Provisioner,
    nodes: Sequence[PoolNode],
    evaluation: PoolSize,
    *,
    now: Instant,
    buy: PurchaseTerms = PurchaseTerms(),  # noqa: B008 - frozen
    deletes_at: Instant = Instant(0.0),
) -> PoolStep:
    """First kind of intent that applies, with all intents of that kind.

    `deletes_at`: instant before which the cloud is not asked to delete anything.
    """
    if provisioner.thresholds.paused:
        return PoolStep(kind=PoolStepKind.NO_ACTION, why="paused")
    pool = _Pool(provisioner, nodes, evaluation, buy, now, deletes_at)
    for kind, rule in _RULES:
        if actions := rule(pool):
            check_steps(actions, nodes)
            return PoolStep(
                kind=kind,
                actions=actions,
                why=actions[0].why,
                wake_at=_wake_at(pool),
                recommended=provisioner.thresholds.recommend_only,
            )
    return PoolStep(kind=PoolStepKind.NO_ACTION, why=_why_nothing(pool), wake_at=_wake_at(pool))


def _why_nothing(pool: _Pool) -> str:
    back_off = pool.provisioner.back_off
    if back_off is None or not pool.backed_off or not pool.evaluation.fresh:
        return pool.evaluation.why
    return f"{pool.evaluation.why}; in back-off: {back_off.failure.value}"


def _release_what_never_came(pool: _Pool) -> tuple[PoolIntent, ...]:
    if pool.now < pool.deletes_at:
        return ()
    return tuple(
        TerminateInstance(
            node=node.name if node.registered else "",
            instance=node.instance,
            why=_why_lost(node, pool.provisioner.thresholds.boot_deadline),
            lost=True,
            departed=node.departed,
        )
        for node in sorted(pool.nodes, key=lambda node: node.name)
        # A Node without an instance cannot be released, and must not keep the pool from anything else.
        if node.failed_to_register and node.instance
    )


def _why_lost(node: PoolNode, deadline: Seconds) -> str:
    if node.departed:
        return f"the Node of instance {node.instance} is gone, and none came back within {rejoin_time(deadline):g} s"
    return f"instance {node.instance} did not register as a node with GPUs within bootDeadline ({deadline:g} s)"


def _ask_again(pool: _Pool) -> tuple[PoolIntent, ...]:
    open_one, provisioner = pool.provisioner.purchase, pool.provisioner
    if open_one is None or pool.backed_off:
        return ()
    return (
        ScaleUp(
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


def _untaint(pool: _Pool) -> tuple[PoolIntent, ...]:
    # A Node without an instance runs nothing: its machine may be deleted, and only the Node is still to go.
    occupied = [
        node
        for node in pool.nodes
        if node.marked_for_deletion and node.instance and not node.empty and not node.failed_to_register
    ]
    excess = [node for node in pool.going[pool.surplus :] if node.instance]
    in_use = [Untaint(node=node.name, why="a pod is on it or will be") for node in sorted(occupied, key=_name)]
    return (*in_use, *(Untaint(node=node.name, why=pool.evaluation.why_keep) for node in sorted(excess, key=_name)))


def _provision(pool: _Pool) -> tuple[PoolIntent, ...]:
    evaluation, provisioner = pool.evaluation, pool.provisioner
    if provisioner.purchase is not None or pool.backed_off:
        return ()
    buy, count = pool.buy, evaluation.fresh
    missing = max(0, provisioner.thresholds.min_size - evaluation.current)
    if pool.now < buy.not_before:
        buy, count = PurchaseTerms(), min(count, missing)
    elif buy.count is not None:
        count = min(count, buy.count)
    if not count or count < buy.least:
        return ()
    serial = provisioner.purchases
    return (
        ScaleUp(
            provisioner=provisioner.name,
            count=count,
            least=buy.least,
            serial=serial,
            token=token_of(provisioner, serial),
            zone=buy.zone,
            why=why_bought(count, missing, buy.pending, provisioner.thresholds),
        ),
    )


def _deprovision(pool: _Pool) -> tuple[PoolIntent, ...]:
    if pool.now < pool.deletes_at:
        return ()
    due = [node for node in pool.going[: pool.surplus] if node.instance and node.goes_at <= pool.now]
    why = "empty, and its deletion time has passed"
    return tuple(TerminateInstance(node=node.name, instance=node.instance, why=why) for node in due)


def _delete_left_behind(pool: _Pool) -> tuple[PoolIntent, ...]:
    # The cloud is asked nothing for a Node whose instance is gone: it goes whatever the size, and during a back-off.
    return tuple(
        TerminateInstance(
            node=node.name,
            instance="",
            why="its deletion time has passed, and the cloud has no instance of it any more",
            gone=True,
        )
        for node in pool.going
        if _is_gone(node, pool.now) and not (node.draining or node.protected)
    )


def _is_gone(node: PoolNode, now: Instant) -> bool:
    """True if the cloud has had no instance of a due node for so long that there is none."""
    return node.unlisted and node.given_up_at is not None and max(node.given_up_at, node.goes_at) <= now


def _taint(pool: _Pool) -> tuple[PoolIntent, ...]:
    more = pool.surplus - len(pool.going)
    if more <= 0:
        return ()
    candidates = [
        node
        for node in sorted(pool.nodes, key=removal_order)
        if node.empty
        and node.registered
        and node.instance  # a node without a known instance cannot be deleted
        and not (
            node.marked_for_deletion or node.draining or node.upcoming or node.failed_to_register or node.protected
        )
    ]
    at = pool.now + pool.provisioner.thresholds.scale_down_delay
    return tuple(
        TaintForDeletion(node=node.name, delete_after=Instant(at), why=pool.evaluation.why_keep)
        for node in candidates[:more]
    )


_RULES: tuple[tuple[PoolStepKind, _Rule], ...] = (
    (PoolStepKind.RELEASE_INSTANCES, _release_what_never_came),
    (PoolStepKind.SCALE_UP, _ask_again),
    (PoolStepKind.UNTAINT, _untaint),
    (PoolStepKind.SCALE_UP, _provision),
    (PoolStepKind.TERMINATE_INSTANCE, _deprovision),
    (PoolStepKind.TAINT_FOR_DELETION, _taint),
    (PoolStepKind.TERMINATE_INSTANCE, _delete_left_behind),
)
"""Order of the rules: failed instances are given up first, untainting precedes buying, buying precedes shrinking. Nodes
without an instance come last: one that cannot be deleted keeps the pool from nothing."""


def _wake_at(pool: _Pool) -> Instant | None:
    deadline, back_off = pool.provisioner.thresholds.boot_deadline, pool.provisioner.back_off
    instants = [pool.deletes_at, *(node.goes_at for node in pool.going)]
    instants += [after(node.since, deadline) for node in pool.nodes if node.upcoming and not node.failed_to_register]
    instants += [node.given_up_at for node in pool.nodes if node.given_up_at is not None]
    if pool.evaluation.fresh:
        instants.append(pool.buy.not_before)
    if back_off is not None:
        instants.append(back_off.until)
    return min((at for at in instants if pool.now < at < float("inf")), default=None)


def _name(node: PoolNode) -> str:
    return node.name
