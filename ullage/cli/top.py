"""`ullage top`: fleet, GPUs, waste, queue and drains, live in the terminal. Only reads."""

import asyncio
import secrets
import sys
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.model.lease import LEASE_NAMESPACE

if TYPE_CHECKING:
    from ullage.web.view.patch import PageSection

MOST_PENDING, MOST_NODES = 12, 10

EXAMPLES = """\b
Examples:
  ullage top
  ullage top --once
  ullage top --context staging --every 5
"""


@click.command("top", epilog=EXAMPLES)
@click.option("--once", is_flag=True, help="Print once and end. So it is too where the output is no terminal.")
@click.option(
    "--every", type=click.FloatRange(min=0.2), default=1.0, show_default=True, help="Seconds between two looks."
)
@click.option("--namespace", default=LEASE_NAMESPACE, show_default=True, help="Where the Leases of GPUs are kept.")
@cluster_options
def command(once: bool, every: float, namespace: str, kubeconfig: str | None, context: str | None) -> None:
    """Show the fleet, its GPUs, what stands idle, who waits and why, and which nodes go. Ctrl-C ends it.

    The same figures as the dashboard has, kept up to date by watches.
    """
    from ullage.cli.process import until_stopped

    choice = ClusterChoice.of(kubeconfig, context)
    asyncio.run(until_stopped(_showing(choice, namespace, None if once or not sys.stdout.isatty() else every)))


async def _showing(choice: ClusterChoice, namespace: str, every: float | None) -> None:
    from ullage.clock import WallClock
    from ullage.web.live import LiveView, follow_cluster

    async with choice.connected() as api:
        await api.discover()
        view = LiveView(WallClock(), title=choice.context or "cluster")
        following = asyncio.ensure_future(
            follow_cluster(api, view, seed=secrets.randbits(32), lease_namespace=namespace)
        )
        try:
            shown = TopScreen()
            while not shown.synced or view.model.behind:
                if following.done():
                    await following
                await asyncio.sleep(0.05)
                shown.take(view.patch().sections)
            if every is None:
                await asyncio.sleep(0.2)  # Leases and pools come a moment after nodes and pods
                shown.take(view.patch().sections)
                click.echo("\n".join(shown.lines(view.clock.now())))
                return
            await _live(shown, view, following, every)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def _live(shown: "TopScreen", view: Any, following: "asyncio.Future[None]", every: float) -> None:
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False, screen=True) as screen:
        while not following.done():
            shown.take(view.patch().sections)
            screen.update(Text("\n".join(shown.lines(view.clock.now()))), refresh=True)
            await asyncio.sleep(every)
    await following


class TopScreen:
    """Rows of the dashboard's model, as lines."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {}

    @property
    def synced(self) -> bool:
        """True if nodes and pods have been read once."""
        return any(one.synced for one in self._rows.get("about", {}).values())

    def take(self, sections: "dict[PageSection, dict[str, Any]]") -> None:
        """Apply a patch."""
        for section, rows in sections.items():
            kept = self._rows.setdefault(str(section), {})
            for key, row in rows.items():
                if row is None:
                    kept.pop(key, None)
                else:
                    kept[key] = row

    def lines(self, now: float) -> list[str]:
        """The whole screen."""
        return [*self._totals(), "", *self._pools(), "", *self._pending(now), "", *self._going(now), *self._trouble()]

    def _totals(self) -> list[str]:
        for one in self._rows.get("totals", {}).values():
            used = f"{100 * one.allocated / one.gpus:.0f} %" if one.gpus else "-"
            lines = [
                f"nodes {one.nodes}   GPUs {one.gpus}   given out {one.allocated:g} ({used})   idle {one.idle:g}"
                f"   broken {one.broken}",
                f"waiting {one.pending} pods for {one.pending_gpus} GPUs",
            ]
            if one.price:
                money = next((about.currency for about in self._rows.get("about", {}).values()), "")
                lines.append(f"price {money}{one.price:,.2f} per hour, of it idle {money}{one.waste:,.2f}")
            return lines
        return ["no nodes"]

    def _pools(self) -> list[str]:
        from ullage.cli.table import aligned

        rows = sorted(self._rows.get("pools", {}).values(), key=lambda one: str(one.name))
        head = ("POOL", "NODES", "TARGET", "COMING", "USED", "BLOCKED", "LAST DECISION")
        cells = [
            (
                one.name,
                _number(one.current),
                _number(one.target),
                _number(one.coming),
                "-" if one.utilization is None else f"{one.utilization} %",
                one.blocked or "-",
                one.why or one.decision or "-",
            )
            for one in rows
        ]
        return aligned([head, *cells]) if cells else ["no pools"]

    def _pending(self, now: float) -> list[str]:
        from ullage.cli.table import aligned

        rows = sorted(self._rows.get("pending", {}).values(), key=lambda one: (-one.priority, one.since, one.pod))
        if not rows:
            return ["nobody waits"]
        cells = [
            (one.pod, one.asks, _age(now - one.since), one.reason or "-", one.message or "-")
            for one in rows[:MOST_PENDING]
        ]
        more = [f"and {len(rows) - MOST_PENDING} more"] if len(rows) > MOST_PENDING else []
        return [*aligned([("WAITS", "ASKS", "SINCE", "REASON", "WHY"), *cells]), *more]

    def _going(self, now: float) -> list[str]:
        from ullage.cli.table import aligned

        rows = [one for one in self._rows.get("nodes", {}).values() if one.draining_since or one.deletion_time]
        rows.sort(key=lambda one: str(one.name))
        if not rows:
            return ["no node goes"]
        cells = [
            (
                one.name,
                "drains" if one.draining_since else "tainted",
                _age(now - one.draining_since) if one.draining_since else f"in {_age(one.deletion_time - now)}",
                f"{one.pods} pods",
            )
            for one in rows[:MOST_NODES]
        ]
        return aligned([("GOES", "STEP", "WHEN", "LEFT"), *cells])

    def _trouble(self) -> list[str]:
        said = [one.trouble for one in self._rows.get("about", {}).values() if one.trouble]
        return ["", *(f"not up to date: {one}" for one in said)] if said else []


def _number(amount: int | None) -> str:
    return "-" if amount is None else str(amount)


def _age(seconds: float) -> str:
    """Time in the largest unit that fits: 42s, 5m, 3h, 2d."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"
