"""GPUs that ResourceClaims hold, by node: put into the placements as one pod a node, so that nobody is offered them.

A driver's `gpu-3` is GPU 3, and so is any part of it (`gpu-3-mig-1g10gb-0`). A device that cannot be told apart may be
any GPU of its node: all of them are held.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ullage.model.device import MOST_DEVICES
from ullage.model.device_claim import DeviceClaim
from ullage.model.event import ObjectKey
from ullage.model.pod import Phase, Pod
from ullage.model.resources import GPU, MILLI
from ullage.model.shape import Shape, interned

NAMESPACE = "\nresourceclaims"
"""One no pod can be in."""

ABOVE_ALL = (1 << 31) - 1
"""A priority nobody has: such holders are never preempted."""

_NUMBERED = re.compile(r"gpu-(?P<number>[0-9]+)(?:-.*)?")


def gpus_of(device: str) -> tuple[int, ...]:
    """The GPUs a device of DRA may be."""
    said = _NUMBERED.fullmatch(device)
    known = said is not None and int(said["number"]) < MOST_DEVICES
    return (int(said["number"]),) if said is not None and known else tuple(range(MOST_DEVICES))


class DeviceClaims:
    """What is held where."""

    def __init__(self, claims: Iterable[DeviceClaim] = ()) -> None:
        self._on_node: dict[str, dict[ObjectKey, tuple[int, ...]]] = {}
        for claim in claims:
            self.renew(None, claim)

    @property
    def nodes(self) -> list[str]:
        """Those with devices that are held, in order."""
        return sorted(self._on_node)

    def on(self, node: str) -> Mapping[ObjectKey, tuple[int, ...]]:
        """Claims that hold GPUs of this node, with the GPUs."""
        return MappingProxyType(self._on_node.get(node, {}))

    def renew(self, old: DeviceClaim | None, new: DeviceClaim | None) -> list[str]:
        """A claim has changed. Returns the nodes on which something is different, in order."""
        if old is not None:
            self._take(old)
        if new is not None:
            self._put(new)
        return sorted({device.node for claim in (old, new) if claim is not None for device in claim.devices})

    def _take(self, claim: DeviceClaim) -> None:
        for device in claim.devices:
            held = self._on_node.get(device.node, {})
            held.pop(claim.key, None)
            if not held:
                self._on_node.pop(device.node, None)

    def _put(self, claim: DeviceClaim) -> None:
        for device in claim.devices:
            held = self._on_node.setdefault(device.node, {})
            held[claim.key] = tuple(sorted({*held.get(claim.key, ()), *gpus_of(device.name)}))

    def holder(self, node: str) -> Pod | None:
        """Whoever stands for all that is held on a node."""
        held = self._on_node.get(node)
        if not held:
            return None
        ids = tuple(sorted({gpu for gpus in held.values() for gpu in gpus}))
        return Pod(
            key=holder_key(node),
            uid=f"{NAMESPACE}/{node}",
            created=0.0,
            node=node,
            phase=Phase.RUNNING,
            deleting=False,
            gated=False,
            scheduler="",
            priority=ABOVE_ALL,
            labels={},
            shape=interned(Shape(requests=((GPU, len(ids) * MILLI),))),
            owner=None,
            gpu_ids=ids,
        )


def holder_key(node: str) -> ObjectKey:
    """Where that pod is found in the placements."""
    return ObjectKey(NAMESPACE, node)
