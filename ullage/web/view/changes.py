"""Changes that no Event of ours announces: nodes that come or go, GPUs that break, pools and quotas that somebody
changed. Pure: facts in, changes out.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from ullage.config.declaration import camel
from ullage.kube.client.resources import GPU_QUOTAS, NODE_PROVISIONERS
from ullage.model.device import DeviceHealth, Inventory
from ullage.model.fact_event import Added, Deleted, FactEvent, Synced, Updated
from ullage.model.node import Node
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.model.quota import Quota
from ullage.web.history.records import Change, ChangeSource
from ullage.web.view.decisions import ShownDecision
from ullage.web.view.pools import PoolView

_MOST_PENDING = 2000
"""Changes between two patches, at most."""

_Said = tuple[ChangeSource, str, str, str, str, bool]
"""Source, reason, kind, name, note, and whether it is a warning."""


class ChangeNotes:
    """Changes since they were last taken. Their time is that of the taking: informers deliver without one."""

    def __init__(self) -> None:
        self._said: list[_Said] = []
        self._synced: set[str] = set()
        self._since: float | None = None
        self._unsaid = 0

    def observe(self, event: FactEvent[Any]) -> None:
        """Take one event of an informer."""
        if isinstance(event, Synced):
            self._synced.add(event.source)
            return
        for one in self._of(event):
            if len(self._said) < _MOST_PENDING:
                self._said.append(one)
            else:
                self._unsaid += 1

    def taken(self, *, now: float, synced: bool) -> list[Change]:
        """Changes since the last call; none of what came before the cluster was read whole."""
        said, self._said = self._said, []
        unsaid, self._unsaid = self._unsaid, 0
        if self._since is None:
            self._since = now if synced else None
            return []
        found = [
            Change(at=now, source=source, reason=reason, kind=kind, about=about, note=note, warning=warning)
            for source, reason, kind, about, note, warning in said
        ]
        if unsaid:
            note = f"{unsaid} more changes at the same moment are not kept"
            found.append(Change(at=now, source=ChangeSource.DASHBOARD, reason="ChangesLeftOut", note=note))
        return found

    def _of(self, event: FactEvent[Any]) -> Iterator[_Said]:
        match event:
            case Added(new=Node() as node) if self._since is not None and node.created > self._since - 60:
                yield ChangeSource.NODE, "NodeAdded", "Node", node.name, f"came{_of_pool(node)}", False
            case Deleted(old=Node() as node):
                yield ChangeSource.NODE, "NodeDeleted", "Node", node.name, f"is gone{_of_pool(node)}", False
            case Updated(old=Node() as old, new=Node() as new):
                yield from _node_changes(old, new)
            case Updated(old=Inventory() as old, new=Inventory() as new):
                yield from _gpu_changes(old, new)
            case Updated(old=PoolView() as old, new=PoolView() as new):
                yield from _set(_POOL, new.facts.name, "Changed", ", ".join(_pool_fields(old, new)))
            case Updated(old=Quota() as old, new=Quota() as new):
                yield from _set(_QUOTA, str(new.key), "Changed", ", ".join(_differences(old.limits, new.limits)))
            case Added() | Deleted():
                yield from self._settings(event)

    def _settings(self, event: Added[Any] | Deleted[Any]) -> Iterator[_Said]:
        """Pools and quotas that somebody created or deleted; those of the first list were there before."""
        made = isinstance(event, Added)
        fact = event.new if isinstance(event, Added) else event.old
        word, note = ("Created", "was created") if made else ("Deleted", "was deleted")
        if isinstance(fact, PoolView) and not (made and NODE_PROVISIONERS.id not in self._synced):
            yield from _set(_POOL, fact.facts.name, word, note)
        elif isinstance(fact, Quota) and not (made and GPU_QUOTAS.id not in self._synced):
            yield from _set(_QUOTA, str(fact.key), word, note)


_POOL, _QUOTA = ("Pool", NODE_PROVISIONERS.kind), ("Quota", GPU_QUOTAS.kind)


def _set(what: tuple[str, str], name: str, word: str, note: str) -> Iterator[_Said]:
    if note:
        yield ChangeSource.SETTINGS, f"{what[0]}{word}", what[1], name, note, False


def as_change(decision: ShownDecision) -> Change:
    """A decision as a record."""
    return Change(
        at=decision.at,
        source=ChangeSource.DECISION,
        reason=decision.reason,
        kind=decision.kind,
        about=decision.about,
        note=decision.note,
        warning=decision.warning,
        by=decision.by,
        count=decision.count,
        first=decision.first,
        key=decision.key,
    )


def _of_pool(node: Node) -> str:
    pool = node.labels.get(PROVISIONER_LABEL, "")
    return f", of pool {pool}" if pool else ""


def _node_changes(old: Node, new: Node) -> Iterator[_Said]:
    if old.ready != new.ready:
        word, note = ("NodeReady", "is ready") if new.ready else ("NodeNotReady", "is not ready")
        yield ChangeSource.NODE, word, "Node", new.name, note, not new.ready
    if old.unschedulable != new.unschedulable:
        word, note = ("NodeCordoned", "was cordoned") if new.unschedulable else ("NodeUncordoned", "takes pods again")
        yield ChangeSource.NODE, word, "Node", new.name, note, False


def _gpu_changes(before: Inventory, after: Inventory) -> Iterator[_Said]:
    if before.devices == after.devices:
        return
    was = {device.id: device.health is DeviceHealth.HEALTHY for device in before.devices}
    now = {device.id: device.health is DeviceHealth.HEALTHY for device in after.devices}
    broken = sorted(gpu for gpu, well in now.items() if not well and was.get(gpu, True))
    mended = sorted(gpu for gpu, well in now.items() if well and not was.get(gpu, True))
    if broken:
        yield ChangeSource.GPU, "GpuUnhealthy", "Node", after.node, f"GPU {_listed(broken)} unhealthy", True
    if mended:
        yield ChangeSource.GPU, "GpuHealthy", "Node", after.node, f"GPU {_listed(mended)} healthy again", False
    if len(was) != len(now):
        yield ChangeSource.GPU, "GpuCountChanged", "Node", after.node, f"GPUs {len(was)} → {len(now)}", True


def _listed(gpus: list[int]) -> str:
    return ", ".join(map(str, gpus))


def _pool_fields(old: PoolView, new: PoolView) -> Iterator[str]:
    was, now = old.facts, new.facts
    yield from _differences(was.thresholds, now.thresholds)
    yield from _differences(was.consolidation, now.consolidation)
    yield from _differences(was.template.gpus, now.template.gpus)
    yield from _differences(was.template, now.template, but=("gpus",))
    if (was.provider, was.parameters) != (now.provider, now.parameters):
        yield "provider"


def _differences(old: msgspec.Struct, new: msgspec.Struct, but: tuple[str, ...] = ()) -> Iterator[str]:
    """`maxSize 4 → 8` for every field that differs. Long values are only named."""
    for name in old.__struct_fields__:
        was, now = getattr(old, name), getattr(new, name)
        if was == now or name in but:
            continue
        plain = all(one is None or isinstance(one, str | int | float) for one in (was, now))
        yield f"{camel(name)} {_plain(was)} → {_plain(now)}" if plain else camel(name)


def _plain(value: object) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
