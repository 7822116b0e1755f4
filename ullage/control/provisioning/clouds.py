"""The providers in use, and what they list. A list that cannot be had is the last one there was."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from ullage.clock import Clock
from ullage.cloud.api import Announcing, CloudError, CloudProvider, PoolRef
from ullage.errors import UserError
from ullage.model.instance import Instance
from ullage.model.provisioner import Provisioner

_log = structlog.get_logger("provisioning")

WHILE_MOVING, AT_REST = 10.0, 60.0
"""Seconds between lists: while something comes or goes, and otherwise."""
_AT_ONCE, _NEVER = float("-inf"), float("inf")


class Clouds:
    """Providers by name, made when they are first needed."""

    def __init__(self, make: Callable[[str], CloudProvider], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._providers: dict[str, CloudProvider] = {}
        self._listed: dict[str, tuple[float, Sequence[Instance]]] = {}
        self._deleted: dict[str, float] = {}
        """Instances we deleted, which an old list may still have."""
        self._moving = True
        self._out_of_date: set[str] = set()
        self._failed: set[str] = set()
        """Providers whose last list could not be had."""
        self._announcing: set[str] = set()
        """Providers that say when their list has changed."""
        self.on_change: Callable[[], None] = lambda: None
        """Told when one of them did."""

    def provider(self, name: str) -> CloudProvider:
        """Raises UserError where there is none of that name, or it cannot be made."""
        if name not in self._providers:
            provider = self._providers[name] = self._make(name)
            if isinstance(provider, Announcing):
                self._announcing.add(name)
                provider.listen(lambda: self._announced(name))
        return self._providers[name]

    @property
    def providers(self) -> Mapping[str, CloudProvider]:
        return self._providers

    def deleted(self, instance: str) -> None:
        """It is gone, whatever lists say."""
        self._deleted[instance] = self._clock.now()
        self.look_again()

    def look_again(self) -> None:
        """Something was bought or deleted: lists are out of date."""
        self._out_of_date.update(self._listed)

    def moving(self, moving: bool) -> None:
        """Whether anything comes or goes."""
        self._moving = moving

    def next_list(self) -> float | None:
        """When lists are to be had again."""
        return min((due for name in self._listed if (due := self._due(name)) != _NEVER), default=None)

    async def refresh(self, provisioners: Iterable[Provisioner]) -> dict[str, str]:
        """Have lists that are due. Returns what is wrong, by provider: then its last list counts, if there is one."""
        wrong: dict[str, str] = {}
        by_provider: dict[str, list[PoolRef]] = {}
        for one in provisioners:
            by_provider.setdefault(one.provider, []).append(PoolRef(name=one.name, parameters=one.parameters))
        for name, pools in sorted(by_provider.items()):
            error = await self._list(name, pools)
            if error:
                wrong[name] = error
        return wrong

    def _announced(self, name: str) -> None:
        self._out_of_date.add(name)
        self.on_change()

    def _due(self, name: str) -> float:
        """When the list of a provider is to be had again. Those that tell of changes are asked when they did."""
        if name not in self._listed or name in self._out_of_date:
            return _AT_ONCE
        if name in self._announcing and name not in self._failed:
            return _NEVER
        return self._listed[name][0] + (WHILE_MOVING if self._moving else AT_REST)

    async def _list(self, name: str, pools: Sequence[PoolRef]) -> str:
        now = self._clock.now()
        if now < self._due(name):
            return ""
        self._out_of_date.discard(name)  # before the call: what changes while it is under way may not be in it
        try:
            found = await self.provider(name).list(pools)
        except (CloudError, UserError) as error:
            _log.warning("cannot list instances", provider=name, error=str(error))
            self._failed.add(name)
            if name in self._listed:
                self._listed[name] = (now, self._listed[name][1])
            return str(error)
        self._failed.discard(name)
        self._listed[name] = (now, found)
        return ""

    def has_listed(self, name: str) -> bool:
        """Whether anything is known of a provider's instances. Before that nothing may be decided on its pools."""
        return name in self._listed

    def instances(self) -> list[Instance]:
        """Of all providers, without those we deleted."""
        self._forget_deleted()
        return [one for _, found in self._listed.values() for one in found if one.id not in self._deleted]

    def _forget_deleted(self) -> None:
        kept = max((one.staleness for one in self._providers.values()), default=0.0) + AT_REST
        now = self._clock.now()
        self._deleted = {one: at for one, at in self._deleted.items() if now <= at + kept}
