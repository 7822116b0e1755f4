"""Providers in use, and their instance lists. Where a list fails, the last one counts.

Times are of the monotonic clock: a wall clock set back would stop lists for as long.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from ullage.clock import Clock
from ullage.cloud.api import CloudError, CloudProvider, ListChangeNotifier, PoolRef
from ullage.errors import UllageError, UserError
from ullage.model.instance import Instance
from ullage.model.pool_sighting import ListHorizon
from ullage.model.provisioner import Provisioner
from ullage.model.units import Seconds, Steady
from ullage.runtime import Wakeup

_log = structlog.get_logger("provisioning")

WHILE_MOVING, AT_REST = 10.0, 60.0
"""Seconds between lists: while instances come or go, and otherwise."""
LIST_PATIENCE = Seconds(5.0)
"""Seconds a plan waits for lists. A slower list goes on concurrently, and the last one counts."""
TROUBLE_AFTER = Seconds(60.0)
"""Seconds without a list after which the failure is written on the pools concerned."""
_AT_ONCE, _NEVER = float("-inf"), float("inf")


class InstanceLists:
    """Providers by name, made when they are first needed, with their last lists."""

    def __init__(self, make: Callable[[str], CloudProvider], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._providers: dict[str, CloudProvider] = {}
        self._listed: dict[str, tuple[float, Sequence[Instance]]] = {}
        self._deleted: dict[str, float] = {}
        """Instances we deleted, which an old list may still have, with the time of deletion."""
        self._moving = True
        self._out_of_date: set[str] = set()
        self._listing: dict[str, tuple[float, asyncio.Task[None]]] = {}
        """Lists under way, with their start times."""
        self._failed: dict[str, tuple[float, str]] = {}
        """Providers whose last list failed: since when, and the error."""
        self._announcing: set[str] = set()
        """Providers that announce changes of their lists."""
        self.wakeup = Wakeup()
        """Set when a provider announced a change, or a slow list has ended. The loop waits for it."""

    def provider(self, name: str) -> CloudProvider:
        """Provider of this name. Raises UserError where there is none, or it cannot be made."""
        if name not in self._providers:
            provider = self._providers[name] = self._made(name)
            if isinstance(provider, ListChangeNotifier):
                self._announcing.add(name)
                provider.listen(lambda: self._announced(name))
        return self._providers[name]

    @property
    def providers(self) -> Mapping[str, CloudProvider]:
        return self._providers

    def deleted(self, instance: str) -> None:
        """Record that an instance is deleted, whatever lists say."""
        self._deleted[instance] = self._clock.steady()
        self.look_again()

    def look_again(self) -> None:
        """Mark all lists out of date: something was bought or deleted."""
        self._out_of_date.update(self._listed)

    def moving(self, moving: bool) -> None:
        """Tell whether instances come or go. It decides how often lists are due."""
        self._moving = moving

    def next_list(self) -> float | None:
        """Instant of the next list, by the monotonic clock; None where none is due by time."""
        return min(
            (due for name in self._listed if name not in self._listing and (due := self._due(name)) != _NEVER),
            default=None,
        )

    async def refresh(self, provisioners: Iterable[Provisioner]) -> dict[str, str]:
        """Get the lists that are due, concurrently. Returns errors by provider: its last list counts then, if any.

        A provider that does not answer delays one plan by at most LIST_PATIENCE, and the next ones not at all.
        """
        by_provider: dict[str, list[PoolRef]] = {}
        for one in provisioners:
            by_provider.setdefault(one.provider, []).append(PoolRef(name=one.name, parameters=one.parameters))
        self._collect()
        now = self._clock.steady()
        for name, pools in sorted(by_provider.items()):
            if name not in self._listing and now >= self._due(name):
                self._listing[name] = now, asyncio.create_task(self._list(name, pools), name=f"list {name}")
        young = [
            task for name, (began, task) in self._listing.items() if name in by_provider and now - began < LIST_PATIENCE
        ]
        if young:
            await asyncio.wait(young, timeout=LIST_PATIENCE)
            self._collect()
        return {name: said for name, (_, said) in self._failed.items() if name in by_provider}

    def trouble(self, name: str) -> str:
        """Error of a provider whose lists have failed for TROUBLE_AFTER; empty otherwise."""
        since, said = self._failed.get(name, (_NEVER, ""))
        return said if self._clock.steady() >= since + TROUBLE_AFTER else ""

    def listed_after(self, name: str, instant: float) -> bool:
        """True if a list of the provider was begun at or after this instant, and answered."""
        return name in self._listed and name not in self._failed and self._listed[name][0] >= instant

    def horizon(self, name: str) -> ListHorizon | None:
        """Time up to which the lists of a provider are known; None where the last one failed, or there is none."""
        if name not in self._listed or name in self._failed:
            return None
        # A provider that announces changes is not listed while it announces none.
        known = name in self._announcing and name not in self._out_of_date and name not in self._listing
        until = self._clock.steady() if known else self._listed[name][0]
        return ListHorizon(until=Steady(until), staleness=Seconds(self.provider(name).staleness))

    def stop(self) -> None:
        """Cancel lists under way. They are not awaited."""
        for _, task in self._listing.values():
            task.cancel()

    def _collect(self) -> None:
        """Remove lists that have ended. Raises what they raised: that is a bug of ours."""
        for name in [name for name, (_, task) in self._listing.items() if task.done()]:
            self._listing.pop(name)[1].result()

    def _announced(self, name: str) -> None:
        self._out_of_date.add(name)
        self.wakeup.set()

    def _due(self, name: str) -> float:
        """Instant at which a provider's list is due. Providers that announce changes are listed when they did."""
        if name not in self._listed or name in self._out_of_date:
            return _AT_ONCE
        if name in self._announcing and name not in self._failed:
            return _NEVER
        return self._listed[name][0] + (WHILE_MOVING if self._moving else AT_REST)

    def _made(self, name: str) -> CloudProvider:
        try:
            return self._make(name)
        except UllageError:
            raise
        except Exception as error:
            raise UserError(f"provider {name!r} cannot be made: {type(error).__name__}: {error}") from error

    async def _list(self, name: str, pools: Sequence[PoolRef]) -> None:
        began = self._clock.steady()
        self._out_of_date.discard(name)  # before the call: a change during the call may be missing from its answer
        try:
            found = await self.provider(name).list(pools)
        except (CloudError, UserError) as error:
            _log.warning("cannot list instances", provider=name, error=str(error))
            self._failed[name] = self._failed.get(name, (began, ""))[0], str(error)
            if name in self._listed:
                self._listed[name] = (self._clock.steady(), self._listed[name][1])
        else:
            self._failed.pop(name, None)
            self._listed[name] = (began, found)
        if self._clock.steady() - began > LIST_PATIENCE:
            self.wakeup.set()  # the plan that began it waits no longer

    def has_listed(self, name: str) -> bool:
        """True if the provider was ever listed. Before that nothing may be decided on its pools."""
        return name in self._listed

    def instances(self) -> list[Instance]:
        """Instances of all providers, without those we deleted."""
        self._forget_deleted()
        return [one for _, found in self._listed.values() for one in found if one.id not in self._deleted]

    def _forget_deleted(self) -> None:
        kept = max((one.staleness for one in self._providers.values()), default=0.0) + AT_REST
        now = self._clock.steady()
        self._deleted = {one: at for one, at in self._deleted.items() if now <= at + kept}
