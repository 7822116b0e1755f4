"""Objects of our kinds that must be refused: what is wrong with each, and the field the message must name."""

from dataclasses import dataclass
from typing import Any

import pytest

from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import GPU_CLAIMS, GPU_NODE_STATUSES, GPU_QUOTAS


@dataclass(frozen=True)
class Bad:
    """`says` is part of what the API server says."""

    spec: Any
    field: str
    says: str
    resource: Resource[Any] = GPU_CLAIMS

    def body(self, name: str) -> JsonObject:
        return {"metadata": {"name": name}} | ({} if self.spec is None else {"spec": self.spec})


def devices(**asked: Any) -> JsonObject:
    return {"devices": asked}


def claim(spec: Any, field: str, says: str, *, id: str) -> Any:  # noqa: A002 - as pytest.param spells it
    return pytest.param(Bad(spec, field, says), id=id)


CLAIMS = [
    claim(None, "spec", "Required value", id="no-spec"),
    claim(devices(count=0), "spec.devices.count", "greater than or equal to 1", id="no-gpus"),
    claim(devices(count=-3), "spec.devices.count", "greater than or equal to 1", id="fewer-than-no-gpus"),
    claim(devices(count=17), "spec.devices.count", "no node has more than 16 GPUs", id="more-than-any-node-has"),
    claim(devices(count="2"), "spec.devices.count", "must be of type integer", id="count-in-words"),
    claim(devices(policy="Contiguous"), "spec.devices.policy", 'supported values: "contiguous"', id="unknown-policy"),
    claim(devices(policy=""), "spec.devices.policy", "Unsupported value", id="empty-policy"),
    claim(
        devices(policy="preferIds"),
        "spec.devices.preferIds",
        "policy preferIds needs the ids of the GPUs to take",
        id="prefer-ids-without-ids",
    ),
    claim(
        devices(count=2, preferIds=[0, 1]),
        "spec.devices.preferIds",
        "only with policy preferIds",
        id="ids-with-another-policy",
    ),
    claim(
        devices(count=3, policy="preferIds", preferIds=[0, 1]),
        "spec.devices.preferIds",
        "must name exactly as many GPUs as count",
        id="fewer-ids-than-asked-for",
    ),
    claim(
        devices(count=2, policy="preferIds", preferIds=[1, 1]),
        "spec.devices.preferIds",
        "Duplicate value: 1",
        id="the-same-id-twice",
    ),
    claim(
        devices(policy="preferIds", preferIds=[-1]),
        "spec.devices.preferIds[0]",
        "greater than or equal to 0",
        id="negative-id",
    ),
    claim(
        devices(policy="preferIds", preferIds=[16]),
        "spec.devices.preferIds[0]",
        "less than or equal to 15",
        id="id-no-node-has",
    ),
    claim(devices(exclusivity="MPS"), "spec.devices.exclusivity", "Unsupported value", id="unknown-exclusivity"),
    claim(
        devices(exclusivity="Shared"),
        "spec.devices.memory",
        "exclusivity Shared needs memory or tflops",
        id="a-share-of-no-size",
    ),
    claim(
        devices(exclusivity="MIG", tflops=100),
        "spec.devices.memory",
        "exclusivity MIG needs memory",
        id="a-mig-instance-of-no-size",
    ),
    claim(devices(memory="40 GB"), "spec.devices.memory", "should match", id="memory-that-is-no-quantity"),
    claim(devices(memory="500m"), "spec.devices.memory", "should match", id="half-a-byte"),
    claim(devices(memory="1e9999999"), "spec.devices.memory", "should match", id="memory-beyond-measure"),
    claim(devices(memory="-1Gi"), "spec.devices.memory", "should match", id="negative-memory-in-words"),
    claim(devices(memory=-1), "spec.devices.memory", "greater than or equal to 1", id="negative-memory"),
    claim(devices(memory="0.0Gi"), "spec.devices.memory", "must be more than 0", id="no-memory"),
    claim(devices(memory=True), "spec.devices.memory", "must be of type integer,string", id="memory-of-a-wrong-type"),
    claim(devices(tflops=0), "spec.devices.tflops", "greater than or equal to 1", id="no-tflops"),
    claim(devices(model="x" * 129), "spec.devices.model", "may not be more than 128", id="endless-model"),
    claim({"topology": {"mode": "required"}}, "spec.topology.mode", "Unsupported value", id="unknown-mode"),
    claim(
        {"topology": {"minBandwidthGBps": -1}},
        "spec.topology.minBandwidthGBps",
        "greater than or equal to 0",
        id="negative-bandwidth",
    ),
    claim({"gangMinMember": 4}, "spec.gangRef", "gangMinMember needs gangRef", id="size-of-no-gang"),
    claim(
        {"gangRef": "g", "gangMinMember": 0},
        "spec.gangMinMember",
        "greater than or equal to 1",
        id="gang-of-nobody",
    ),
    claim({"gangRef": "My Gang"}, "spec.gangRef", "should match", id="gang-that-is-no-name"),
    claim({"pool": "-"}, "spec.pool", "should match", id="pool-that-is-no-name"),
    claim(
        {"selector": {"matchLabels": {"zone": "a b"}}},
        "spec.selector.matchLabels.zone",
        "should match",
        id="label-value-with-a-space",
    ),
    claim(
        {"selector": {"matchLabels": {"a zone": "a"}}},
        "spec.selector.matchLabels",
        "must be keys of labels",
        id="label-key-with-a-space",
    ),
]

QUOTAS = [
    pytest.param(Bad({}, "spec", "must limit something", GPU_QUOTAS), id="quota-without-limit"),
    pytest.param(Bad({"gpus": -1}, "spec.gpus", "greater than or equal to 0", GPU_QUOTAS), id="negative-quota"),
    pytest.param(
        Bad({"byModel": {"H100": -1}}, "spec.byModel.H100", "greater than or equal to 0", GPU_QUOTAS),
        id="negative-quota-of-a-model",
    ),
]

NODES = [
    pytest.param(
        Bad({"nodeName": "another-node"}, "spec.nodeName", "must be the name of this object", GPU_NODE_STATUSES),
        id="status-of-another-node",
    ),
    pytest.param(Bad({}, "spec.nodeName", "Required value", GPU_NODE_STATUSES), id="status-of-no-node"),
]
