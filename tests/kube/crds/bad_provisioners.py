"""NodeProvisioners that must be refused: what is wrong with each, and the field the message must name."""

import copy
from typing import Any

import pytest

from tests.kube.crds.bad_objects import Bad
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import NODE_PROVISIONERS

LEFT_OUT = object()

SOUND: JsonObject = {
    "provider": {"name": "simulated"},
    "template": {"resources": {"cpu": "96", "memory": "1Ti"}, "gpus": {"model": "H100", "count": 8}},
    "maxSize": 10,
}


def with_fields(changes: dict[str, Any], sound: JsonObject = SOUND) -> JsonObject:
    """A copy with fields, named by their paths, replaced or left out."""
    spec = copy.deepcopy(sound)
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = spec
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is LEFT_OUT:
            place.pop(last, None)
        else:
            place[last] = value
    return spec


def bad(changes: dict[str, Any], field: str, says: str, *, id: str) -> Any:  # noqa: A002 - as pytest.param spells it
    return pytest.param(Bad(with_fields(changes), f"spec.{field}", says, NODE_PROVISIONERS), id=id)


def taint(**said: str) -> dict[str, Any]:
    return {"template.taints": [{"key": "team", "effect": "NoSchedule"} | said]}


BY_SCHEMA = [
    bad({"maxSize": LEFT_OUT}, "maxSize", "Required value", id="no-maximum"),
    bad({"maxSize": 0}, "maxSize", "greater than or equal to 1", id="no-nodes"),
    bad({"maxSize": 5001}, "maxSize", "less than or equal to 5000", id="more-nodes-than-a-cluster-has"),
    bad({"minSize": -1}, "minSize", "greater than or equal to 0", id="fewer-than-no-nodes"),
    bad({"minGPUUtilizationPercent": 101}, "minGPUUtilizationPercent", "less than or equal to 100", id="too-much"),
    bad({"minUnutilizedGPUNodes": -1}, "minUnutilizedGPUNodes", "greater than or equal to 0", id="negative-buffer"),
    bad({"scaleDownDelay": "10 minutes"}, "scaleDownDelay", "should match", id="delay-in-words"),
    bad({"scaleUpBatch": "5"}, "scaleUpBatch", "should match", id="window-without-unit"),
    bad({"bootDeadline": "-1m"}, "bootDeadline", "should match", id="deadline-in-the-past"),
    bad({"paused": "yes"}, "paused", "must be of type boolean", id="paused-in-words"),
    bad({"provider": LEFT_OUT}, "provider", "Required value", id="no-provider"),
    bad({"provider": {}}, "provider.name", "Required value", id="provider-without-name"),
    bad({"template": LEFT_OUT}, "template", "Required value", id="no-template"),
    bad({"template.gpus": LEFT_OUT}, "template.gpus", "Required value", id="no-gpus"),
    bad({"template.gpus.model": LEFT_OUT}, "template.gpus.model", "Required value", id="no-model"),
    bad({"template.gpus.count": 0}, "template.gpus.count", "greater than or equal to 1", id="zero-gpus"),
    bad({"template.gpus.count": 17}, "template.gpus.count", "less than or equal to 16", id="more-gpus-than-a-node-has"),
    bad({"template.gpus.kind": "Rented"}, "template.gpus.kind", "Unsupported value", id="unknown-kind"),
    bad({"template.resources": LEFT_OUT}, "template.resources", "Required value", id="no-resources"),
    bad({"template.resources.cpu": "many"}, "template.resources.cpu", "should match", id="cpu-in-words"),
    bad({"template.capacityType": "Reserved"}, "template.capacityType", "Unsupported value", id="unknown-capacity"),
    bad({"template.pricePerHour": "$5"}, "template.pricePerHour", "should match", id="price-with-currency"),
    bad({"template.pricePerHour": -5}, "template.pricePerHour", "greater than or equal to 0", id="negative-price"),
    bad({"template.zones": ["a", "a"]}, "template.zones", "Duplicate value", id="a-zone-twice"),
    bad({"template.labels": {"tier": "a b"}}, "template.labels.tier", "should match", id="label-value-with-a-space"),
    bad({"consolidation.policy": "Always"}, "consolidation.policy", "Unsupported value", id="unknown-consolidation"),
    bad({"consolidation.unneededTime": "soon"}, "consolidation.unneededTime", "should match", id="unneeded-in-words"),
    bad(
        {"consolidation.utilizationThresholdPercent": 101},
        "consolidation.utilizationThresholdPercent",
        "less than or equal to 100",
        id="more-than-all-in-use",
    ),
    bad(taint(effect="NoBind"), "template.taints[0].effect", "Unsupported value", id="unknown-effect"),
]
"""Any API server refuses these."""

BY_RULE = [
    bad({"minSize": 11}, "minSize", "must not be above maxSize", id="minimum-above-maximum"),
    bad({"minUnutilizedGPUNodes": 11}, "minUnutilizedGPUNodes", "must not be above maxSize", id="buffer-above-maximum"),
    bad({"template.gpus.islands": 3}, "template.gpus.islands", "must divide count", id="unequal-islands"),
    bad({"template.labels": {"a tier": "a"}}, "template.labels", "must be keys of labels", id="label-key-with-a-space"),
    bad(
        {"template.labels": {"gpu.scheduling/provisioner": "me"}},
        "template.labels",
        "is set on every node of the pool",
        id="our-own-label",
    ),
    bad({"template.resources": {"cpu": 1}}, "template.resources", "must say cpu and memory", id="no-memory"),
    bad(
        {"template.resources": {"cpu": 1, "memory": 1, "nvidia.com/gpu": 8}},
        "template.resources",
        "is said in gpus.count",
        id="gpus-said-twice",
    ),
    bad(taint(key="a key"), "template.taints[0].key", "must be the key of a taint", id="taint-key-with-a-space"),
    bad(taint(key="gpu.scheduling/deletion-time"), "template.taints[0].key", "is set by", id="our-own-taint"),
    bad(taint(key="gpu.scheduling/draining"), "template.taints[0].key", "is set by", id="our-own-draining-taint"),
    bad(
        {"consolidation": {"maxScaleDownParallelism": 5, "maxDrainParallelism": 6}},
        "consolidation.maxDrainParallelism",
        "must not be more than maxScaleDownParallelism",
        id="more-drains-than-removals",
    ),
    bad(
        {"consolidation": {"maxDrainParallelism": 11}},
        "consolidation.maxDrainParallelism",
        "must not be more than maxScaleDownParallelism",
        id="more-drains-than-are-usual-in-all",
    ),
    bad(
        {"consolidation": {"maxEmptyBulkDelete": 3, "maxDrainParallelism": 4}},
        "consolidation.maxDrainParallelism",
        "must not be more than maxScaleDownParallelism",
        id="more-drains-than-removals-by-the-old-name",
    ),
    bad(
        {"consolidation": {"maxEmptyBulkDelete": 3, "maxScaleDownParallelism": 3}},
        "consolidation.maxEmptyBulkDelete",
        "is an old name",
        id="both-names-of-one-limit",
    ),
]
"""Those with rules between fields refuse these, too."""
