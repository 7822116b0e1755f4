"""Allocation of GPUs to a pod, as it is written on the pod and on Leases."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

CLAIM = "gpu.scheduling/claim"
CLAIM_TEMPLATE = "gpu.scheduling/claim-template"
ALLOCATED = "gpu.scheduling/allocated"
VISIBLE_DEVICES = "gpu.scheduling/visible-devices"
VISIBLE_INDICES = "gpu.scheduling/visible-indices"
"""Annotation: the same devices by their number on the node (`0,1`); MIG instances, which have none, by UUID."""
MIG_UUID = "MIG-"
"""Prefix of UUIDs of MIG instances."""
SHARE = "gpu.scheduling/share-milli"
"""Annotation: thousandths of each device. Whole devices where it is missing."""

_LONGEST_NAME = 253
_DIGEST_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Allocation:
    """Devices of one node. Written `node-a:0,1`."""

    node: str
    devices: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.node}:{','.join(str(device) for device in self.devices)}"


def parse_allocation(text: str) -> Allocation:
    """Allocation in a pod's annotation. Raises ValueError with the text in it."""
    node, colon, ids = text.rpartition(":")
    devices = ids.split(",") if ids else []
    if not node or not colon or not devices or not all(part.isdecimal() for part in devices):
        raise ValueError(f"{text!r} is not an allocation: expected node:0,1")
    return Allocation(node, tuple(int(part) for part in devices))


def unnamed_claim(annotations: Mapping[str, str]) -> str:
    """Annotation that should name a claim or a template and is empty: a user's mistake, unlike no annotation."""
    return next((key for key in (CLAIM, CLAIM_TEMPLATE) if not annotations.get(key, "-").strip()), "")


def given_instances(visible: str, share: str) -> tuple[str, ...]:
    """MIG instances among the devices a pod's containers see (`VISIBLE_DEVICES`). With a share of 0 all are."""
    seen = [uuid for uuid in visible.split(",") if uuid]
    return tuple(uuid for uuid in seen if share == "0" or uuid.startswith(MIG_UUID))


def lease_name(node: str, device: int) -> str:
    """Name of the Lease of this GPU: `gpu-node-a-0`, or with a digest of the node's name where that is too long."""
    plain = f"gpu-{node}-{device}"
    if len(plain) <= _LONGEST_NAME:
        return plain
    digest = hashlib.sha256(node.encode()).hexdigest()[:_DIGEST_LENGTH]
    kept = node[: _LONGEST_NAME - len(f"gpu--{digest}-{device}")].rstrip("-.")
    return f"gpu-{kept}-{digest}-{device}"
