"""Pod conditions as the API server itself writes them."""

from ullage.sim.apiserver.storage.json_bytes import JsonObject


def set_condition(status: JsonObject, condition: JsonObject, now: str) -> None:
    """Add or replace a condition; its transition time changes only with its status."""
    conditions = status.setdefault("conditions", [])
    written = {"lastProbeTime": None, "lastTransitionTime": now, **condition}
    for index, present in enumerate(conditions):
        if present.get("type") == condition["type"]:
            if present.get("status") == condition["status"]:
                written["lastTransitionTime"] = present.get("lastTransitionTime")
            conditions[index] = written
            return
    conditions.append(written)
