"""Our taints on nodes, put on and taken off. Which ones, and when, is decided elsewhere."""

from collections.abc import Callable

from msgspec.structs import replace

from ullage.errors import NotFound
from ullage.kube.api import KubeApi
from ullage.kube.edit import edit
from ullage.kube.objects.node import Node, Taint
from ullage.kube.resources import NODES
from ullage.model.drain import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.model.provisioner import KEEP_ANNOTATION


class DrainTaints:
    """Writes through one API. A node that is gone, or is another one by now, is left alone. Raises ApiError."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def begin(self, node: str, uid: str, now: float) -> Node | None:
        """Keep new pods off a node: the node as it is then, None if it is gone. One its owner keeps is not tainted.

        A taint that is there stays as it is: somebody else has begun.
        """
        taint = Taint(key=DRAINING_TAINT, value=str(int(now)), effect="NoSchedule")
        return await self._edit(node, uid, lambda found: found if is_kept(found) else _with(found, taint))

    async def let_go(self, node: str, uid: str, *, still_candidate: bool) -> Node | None:
        """The node takes pods again. With its soft taint goes its timer."""
        keys = (DRAINING_TAINT,) if still_candidate else (DRAINING_TAINT, CANDIDATE_TAINT)
        return await self._edit(node, uid, lambda found: _without(found, *keys))

    async def leave_to_owner(self, node: str, uid: str) -> Node | None:
        """The node is empty: cordon it and take our taints off, in one write."""
        return await self._edit(node, uid, lambda found: _cordoned(_without(found, DRAINING_TAINT, CANDIDATE_TAINT)))

    async def mark(self, node: str, uid: str, since: float) -> Node | None:
        """Say since when a node is a candidate."""
        taint = Taint(key=CANDIDATE_TAINT, value=str(int(since)), effect="PreferNoSchedule")
        return await self._edit(node, uid, lambda found: _with(_without(found, CANDIDATE_TAINT, but=taint), taint))

    async def unmark(self, node: str, uid: str) -> Node | None:
        """It is a candidate no longer."""
        return await self._edit(node, uid, lambda found: _without(found, CANDIDATE_TAINT))

    async def _edit(self, name: str, uid: str, change: Callable[[Node], Node]) -> Node | None:
        try:
            found = await edit(
                self._api, NODES, name, "", lambda found: change(found) if found.metadata.uid == uid else found
            )
        except NotFound:
            return None
        return found if found.metadata.uid == uid else None


def is_kept(node: Node) -> bool:
    """Its owner says that it is not to be removed."""
    return node.metadata.annotations.get(KEEP_ANNOTATION) == "true"


def _with(node: Node, taint: Taint) -> Node:
    if any(one.key == taint.key for one in node.spec.taints):
        return node
    return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint)))


def _without(node: Node, *keys: str, but: Taint | None = None) -> Node:
    kept = tuple(one for one in node.spec.taints if one.key not in keys or _same(one, but))
    return replace(node, spec=replace(node.spec, taints=kept))


def _same(one: Taint, other: Taint | None) -> bool:
    return other is not None and (one.key, one.value, one.effect) == (other.key, other.value, other.effect)


def _cordoned(node: Node) -> Node:
    return replace(node, spec=replace(node.spec, unschedulable=True))
