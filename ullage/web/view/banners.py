"""Banners: what on-call should know at a glance, from the rows of pools and nodes, and from NodePools. Pure."""

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum

from ullage.model.karpenter import HANDOVER_UNPROTECTED, NodePool, Tristate
from ullage.web.view.rows import BannerRow, GpuCell, NodeRow, PoolRow

STUCK_SECONDS = 900.0
"""Seconds after which a drain that has not ended is called stuck."""
NAMED = 3
"""Nodes named in a banner."""


class BannerKind(StrEnum):
    """Kinds of banners."""

    POOL_AT_MAXIMUM = "PoolAtMaximum"
    POOL_IN_BACKOFF = "PoolInBackoff"
    AGENTS_SILENT = "AgentsSilent"
    GPUS_UNHEALTHY = "GpusUnhealthy"
    DRAIN_STUCK = "DrainStuck"
    HANDOVER_UNPROTECTED = HANDOVER_UNPROTECTED


def banners(
    pools: Iterable[PoolRow],
    nodes: Iterable[NodeRow],
    wanted: Collection[str],
    *,
    now: float,
    node_pools: Iterable[NodePool] = (),
) -> list[BannerRow]:
    """Banners, the worst first, then by kind and name. `wanted` are pools whose new node would take a waiting pod."""
    rows = list(nodes)
    found = [*_of_pools(pools, wanted, now), *_of_nodes(rows, now), *_of_node_pools(node_pools)]
    return sorted(found, key=lambda one: (not one.bad, one.kind, one.about))


def _of_pools(pools: Iterable[PoolRow], wanted: Collection[str], now: float) -> Iterator[BannerRow]:
    for pool in pools:
        if pool.blocked and (pool.blocked_until or 0.0) > now:
            yield BannerRow(
                kind=BannerKind.POOL_IN_BACKOFF,
                about=pool.name,
                sentence=f"Pool {pool.name} buys nothing for now: {pool.blocked}",
                action=f"ullage explain nodeprovisioner/{pool.name}",
                bad=pool.name in wanted,
            )
        elif pool.name in wanted and at_maximum(pool):
            yield BannerRow(
                kind=BannerKind.POOL_AT_MAXIMUM,
                about=pool.name,
                sentence=f"Pool {pool.name} is at its maximum of {pool.most} nodes, and pods wait that it could serve",
                action=f"ullage explain nodeprovisioner/{pool.name}",
            )


def at_maximum(pool: PoolRow) -> bool:
    """True if the pool has as many nodes as it may have."""
    return pool.current is not None and pool.current >= pool.most


def _of_nodes(rows: list[NodeRow], now: float) -> Iterator[BannerRow]:
    silent = sorted(row.name for row in rows if row.stale)
    if silent:
        yield BannerRow(
            kind=BannerKind.AGENTS_SILENT,
            about=_named(silent),
            sentence=f"{_agents(len(silent))} silent: {_named(silent)} take no GPU pods",
            action="kubectl -n ullage-system get pods -l app.kubernetes.io/component=agent -o wide",
            bad=True,
        )
    ill = sorted(row.name for row in rows if GpuCell.UNHEALTHY in row.states)
    if ill:
        gpus = sum(row.states.count(GpuCell.UNHEALTHY) for row in rows)
        yield BannerRow(
            kind=BannerKind.GPUS_UNHEALTHY,
            about=_named(ill),
            sentence=f"{gpus} {'GPU is' if gpus == 1 else 'GPUs are'} unhealthy on {_named(ill)}",
            action=f"ullage explain node/{ill[0]}",
            bad=True,
        )
    for row in sorted(rows, key=lambda one: one.name):
        if row.draining_since and now - row.draining_since > STUCK_SECONDS:
            yield BannerRow(
                kind=BannerKind.DRAIN_STUCK,
                about=row.name,
                sentence=f"Node {row.name} has been draining for more than {STUCK_SECONDS / 60:.0f} minutes",
                action=f"ullage explain node/{row.name}",
            )


def _of_node_pools(node_pools: Iterable[NodePool]) -> Iterator[BannerRow]:
    for pool in node_pools:
        if pool.unprotected.status is Tristate.TRUE:
            yield BannerRow(
                kind=BannerKind.HANDOVER_UNPROTECTED,
                about=pool.name,
                sentence=f"NodePool {pool.name}: {pool.unprotected.message}",
                action=f"kubectl edit nodepool {pool.name}",
            )


def _agents(count: int) -> str:
    return "1 agent is" if count == 1 else f"{count} agents are"


def _named(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
