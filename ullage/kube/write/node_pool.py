"""Our condition on a NodePool, beside those of Karpenter."""

from collections.abc import Sequence

from ullage.kube.client.api import MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.timestamps import write_time
from ullage.model.karpenter import HANDOVER_UNPROTECTED
from ullage.model.units import Instant


def unprotected(message: str, generation: int, now: Instant) -> JsonObject:
    """Condition HandoverUnprotected."""
    return {
        "type": HANDOVER_UNPROTECTED,
        "status": "True",
        "reason": "NoHandoverTaint",
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": write_time(now),
    }


def conditions_patch(node_pool: JsonObject, ours: Sequence[JsonObject]) -> MergePatch | None:
    """Patch of the status that leaves these of our conditions and all others; None if it is so already.

    The list is written as a whole, so the patch is for this version of the NodePool only.
    """
    there = (node_pool.get("status") or {}).get("conditions") or []
    others = [one for one in there if one.get("type") != HANDOVER_UNPROTECTED]
    told = [one for one in there if one.get("type") == HANDOVER_UNPROTECTED and one.get("status") == "True"]
    if len(told) == len(ours) and len(others) + len(told) == len(there):
        return None
    version = {"resourceVersion": node_pool["metadata"]["resourceVersion"]}
    return MergePatch({"metadata": version, "status": {"conditions": [*others, *ours]}})
