"""Write and remove the draining taint and the soft taint on nodes. The drain loop decides which and when."""

from collections.abc import Callable

from msgspec.structs import replace

from ullage.errors import NotFound
from ullage.kube.client.api import KubeApi
from ullage.kube.client.edit import edit
from ullage.kube.client.resources import NODES
from ullage.kube.objects.node import KubeNode, KubeTaint
from ullage.model.draining import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.model.provisioner import is_kept


class NodeTaints:
    """Writes through one API. A node that is gone, or has another uid by now, is not written. Raises ApiError."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def begin(self, node: str, uid: str, now: float) -> KubeNode | None:
        """Add the draining taint. Returns the node as it is then, None if it is gone. A node its owner keeps gets none.

        A draining taint that is there stays as it is: an earlier process began the removal.
        """
        taint = KubeTaint(key=DRAINING_TAINT, value=str(int(now)), effect="NoSchedule")
        return await self._edit(
            node, uid, lambda found: found if is_kept(found.metadata.annotations) else _with(found, taint)
        )

    async def release(self, node: str, uid: str, *, still_candidate: bool) -> KubeNode | None:
        """Remove the draining taint, and the soft taint with its timer unless the node is still a candidate."""
        keys = (DRAINING_TAINT,) if still_candidate else (DRAINING_TAINT, CANDIDATE_TAINT)
        return await self._edit(node, uid, lambda found: _without(found, *keys))

    async def leave_to_owner(self, node: str, uid: str) -> KubeNode | None:
        """Cordon an empty node and remove our taints, in one write."""
        return await self._edit(node, uid, lambda found: _cordoned(_without(found, DRAINING_TAINT, CANDIDATE_TAINT)))

    async def mark(self, node: str, uid: str, since: float) -> KubeNode | None:
        """Write the soft taint with the time the node became a candidate."""
        taint = KubeTaint(key=CANDIDATE_TAINT, value=str(int(since)), effect="PreferNoSchedule")
        return await self._edit(node, uid, lambda found: _with(_without(found, CANDIDATE_TAINT, but=taint), taint))

    async def unmark(self, node: str, uid: str) -> KubeNode | None:
        """Remove the soft taint."""
        return await self._edit(node, uid, lambda found: _without(found, CANDIDATE_TAINT))

    async def _edit(self, name: str, uid: str, change: Callable[[KubeNode], KubeNode]) -> KubeNode | None:
        try:
            found = await edit(
                self._api, NODES, name, "", lambda found: change(found) if found.metadata.uid == uid else found
            )
        except NotFound:
            return None
        return found if found.metadata.uid == uid else None


def _with(node: KubeNode, taint: KubeTaint) -> KubeNode:
    if any(one.key == taint.key for one in node.spec.taints):
        return node
    return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint)))


def _without(node: KubeNode, *keys: str, but: KubeTaint | None = None) -> KubeNode:
    kept = tuple(one for one in node.spec.taints if one.key not in keys or _same(one, but))
    return replace(node, spec=replace(node.spec, taints=kept))


def _same(one: KubeTaint, other: KubeTaint | None) -> bool:
    return other is not None and (one.key, one.value, one.effect) == (other.key, other.value, other.effect)


def _cordoned(node: KubeNode) -> KubeNode:
    return replace(node, spec=replace(node.spec, unschedulable=True))
