"""GPUs that ResourceClaims hold, by node. The snapshot has them as one pod per node, so that no pod is placed on them.

Which GPU a device is, its ResourceSlice says by UUID: a driver's numbers are not ours. A device nobody can name may be
any GPU of its node, so all of them are held.
"""

from collections.abc import Iterable, Mapping

from ullage.model.device import MOST_DEVICES, Inventory
from ullage.model.dra import AllocatedDevice, ResourceClaim, ResourceSlice, WithheldGpu
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Phase, Pod
from ullage.model.resources import GPU, MILLI
from ullage.model.shape import Shape, interned
from ullage.model.units import Instant
from ullage.state.forking import Forkable

NAMESPACE = "\nresourceclaims"
"""Namespace no pod can be in."""

ABOVE_ALL = (1 << 31) - 1
"""Priority no pod has: such holders are never preempted."""

_ANY = tuple(range(MOST_DEVICES))


class DraAllocations(Forkable):
    """Devices held by ResourceClaims, by node and claim."""

    def __init__(self, claims: Iterable[ResourceClaim] = (), slices: Iterable[ResourceSlice] = ()) -> None:
        self._held: dict[str, dict[ObjectKey, tuple[AllocatedDevice, ...]]] = {}
        self._gpus: dict[tuple[str, str], str] = {}
        self._names: dict[str, dict[tuple[str, str], bool]] = {}
        """Names of a GPU by its UUID: each by pool, and True if it is only a part."""
        for one in slices:
            self.renew_slice(None, one)
        for claim in claims:
            self.renew(None, claim)

    @property
    def nodes(self) -> list[str]:
        """Nodes with devices that are held, in order."""
        return sorted(self._held)

    def on(self, node: str, inventory: Inventory | None) -> dict[ObjectKey, tuple[int, ...]]:
        """Claims that hold GPUs of this node, with those GPUs; all GPUs where a device cannot be identified."""
        held = self._held.get(node, {})
        return {claim: self._ids(held[claim], inventory) for claim in sorted(held)}

    def renew(self, old: ResourceClaim | None, new: ResourceClaim | None) -> list[str]:
        """A claim has changed. Returns the nodes on which something is different, in order."""
        if old is not None:
            self._take(old)
        if new is not None:
            self._put(new)
        return sorted({device.node for claim in (old, new) if claim is not None for device in claim.devices})

    def renew_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> list[str]:
        """A slice has changed. Returns the nodes on which devices of its pool are held, in order."""
        if old is not None:
            for name, uuid in old.gpus:
                self._gpus.pop((old.pool, name), None)
                self._names.get(uuid, {}).pop((old.pool, name), None)
        if new is not None:
            self._gpus |= {(new.pool, name): uuid for name, uuid in new.gpus}
            for name, uuid in new.gpus:
                self._names.setdefault(uuid, {})[new.pool, name] = name in new.parts
        pools = {one.pool for one in (old, new) if one is not None}
        return [node for node in self.nodes if any(device.pool in pools for device in self._devices(node))]

    def withheld(self, ids: Iterable[int], inventory: Inventory | None) -> tuple[WithheldGpu, ...]:
        """Names by which DRA drivers could allocate these GPUs of ours. Empty where no driver publishes them."""
        if not self._names or inventory is None:
            return ()
        uuids = {device.id: device.uuid for device in inventory.devices}
        found = []
        for gpu in ids:
            names = self._names.get(uuids.get(gpu, ""), {})
            whole = sorted(name for name, part in names.items() if not part) or sorted(names)
            if whole:
                found.append(WithheldGpu(gpu, tuple(whole)))
        return tuple(found)

    def holder(self, node: str, inventory: Inventory | None) -> Pod | None:
        """Pod that stands for all that is held on a node. It counts one GPU for each that is held in part or whole."""
        devices = self._devices(node)
        if not devices:
            return None
        gpus = {self._gpus.get((device.pool, device.name), device.name) for device in devices}
        return Pod(
            key=holder_key(node),
            uid=f"{NAMESPACE}/{node}",
            created=Instant(0.0),
            node=node,
            phase=Phase.RUNNING,
            deleting=False,
            gated=False,
            scheduler="",
            priority=ABOVE_ALL,
            labels={},
            shape=interned(Shape(requests=((GPU, len(gpus) * MILLI),))),
            owner=None,
            gpu_ids=self._ids(devices, inventory),
        )

    def _put(self, claim: ResourceClaim) -> None:
        for device in claim.devices:
            here = self._held.setdefault(device.node, {})
            here[claim.key] = (*here.get(claim.key, ()), device)

    def _take(self, claim: ResourceClaim) -> None:
        for device in claim.devices:
            here = self._held.get(device.node, {})
            here.pop(claim.key, None)
            if not here:
                self._held.pop(device.node, None)

    def _devices(self, node: str) -> list[AllocatedDevice]:
        return [device for devices in self._held.get(node, {}).values() for device in devices]

    def _ids(self, devices: Iterable[AllocatedDevice], inventory: Inventory | None) -> tuple[int, ...]:
        ids: Mapping[str, int] = {} if inventory is None else {one.uuid: one.id for one in inventory.devices}
        found = {ids.get(self._gpus.get((device.pool, device.name), "")) for device in devices}
        return _ANY if None in found else tuple(sorted(gpu for gpu in found if gpu is not None))


def holder_key(node: str) -> ObjectKey:
    """Return the key of the node's holder pod in the snapshot."""
    return ObjectKey(NAMESPACE, node)
