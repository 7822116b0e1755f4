"""Smart pod of a group of requests: names, labels, annotations, precise requests and placement rules."""

import hashlib
import re
from collections.abc import Sequence

import msgspec

from ullage.decide.karpenter.batching import RequestGroup
from ullage.decide.karpenter.policy import KarpenterPolicy
from ullage.model.admission import LEASED_TAINT
from ullage.model.device import KIND_LABEL
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import CreateSmartPod
from ullage.model.karpenter import (
    ATTEMPTS,
    CLEANUP_AFTER,
    COMPONENT_LABEL,
    CREATED_BY,
    GPU_TAINT,
    HANDOVER,
    INSTANCE_TYPE_LABEL,
    MODEL_LABEL,
    NODE_POOL_LABEL,
    ORIGINAL_REQUEST,
    POOL_LABEL,
    PURPOSE,
    REQUEST_LABEL,
    SMART_SCHEDULER,
    STATE_LABEL,
    TRIGGER_LABEL,
    CapacityRequest,
    OriginalRequest,
)
from ullage.model.lifecycles import SmartPodState
from ullage.model.resources import GPU, MILLI, total
from ullage.model.selector import Operator, Requirement
from ullage.model.shape_terms import NodeTerm, Pairs, Toleration

PREFIX = "smart-gpu-scheduler"
LONGEST_NAME = 63
LONGEST_REQUEST = 16 * 1024
LEAST_CPU = 100
COPIED = ("cpu", "memory", "ephemeral-storage")
"""Resources of the waiting pods that are copied to the smart pod, in addition to GPUs."""
NO_SCHEDULE = "NoSchedule"
_ANY_MODEL = "any"
_HASH = 10


def sanitised(text: str, longest: int) -> str:
    """Reduce a text to a part of a name or label value: lower case letters, digits, dashes, no dash at either end."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return plain[:longest].rstrip("-")


def label_value(text: str) -> str:
    """Return the raw text if it is a valid label value, else the sanitised text with a hash of the raw text."""
    if re.fullmatch(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", text):
        return text
    tail = digest(text)
    return f"{sanitised(text, LONGEST_NAME - len(tail) - 1)}-{tail}".lstrip("-")


def digest(*parts: object) -> str:
    """Short stable hash of the parts."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:_HASH]


def pod_name(model: str, request_id: str) -> str:
    """Name `smart-gpu-scheduler-<gpu-model>-<hash>`, at most 63 characters, the same for the same request."""
    room = LONGEST_NAME - len(PREFIX) - len(request_id) - 2
    middle = sanitised(model, room) or _ANY_MODEL
    return f"{PREFIX}-{middle}-{request_id}"


def create_smart_pod(group: RequestGroup, policy: KarpenterPolicy, *, why: str) -> CreateSmartPod:
    """Intent that creates the smart pod of a group."""
    mapping, model = group.mapping, group.requests[0].ask.model or group.mapping.gpu_model
    labels = {
        COMPONENT_LABEL: SMART_SCHEDULER,
        MODEL_LABEL: label_value(model),
        POOL_LABEL: label_value(mapping.name),
        TRIGGER_LABEL: "gpu-scaling",
        STATE_LABEL: SmartPodState.PENDING.value,
        REQUEST_LABEL: group.id,
    }
    annotations = {
        CREATED_BY: "intelligent-scheduling-controller",
        PURPOSE: "trigger-karpenter-scaling",
        CLEANUP_AFTER: "node-ready",
        ORIGINAL_REQUEST: _original(group),
        ATTEMPTS: str(group.attempts),
    }
    return CreateSmartPod(
        key=ObjectKey(policy.namespace, pod_name(model, group.id)),
        request=group.id,
        labels=tuple(sorted(labels.items())),
        annotations=tuple(sorted(annotations.items())),
        requests=resources(group),
        node_selector=_selector(group),
        node_affinity=_affinity(group),
        tolerations=_tolerations(group.requests),
        image=policy.image,
        priority_class=policy.priority_class,
        active_deadline=policy.longest_run(in_gang=group.requests[0].gang is not None),
        pods=tuple(one.pod for one in group.requests),
        why=why,
        for_vm=group.requests[0].vm_nodes is not None,
    )


def resources(group: RequestGroup) -> tuple[tuple[str, int], ...]:
    """Resources the node must have: GPUs, and the sum of the waiting pods' other requests."""
    needed = total({name: amount for name, amount in one.requests if name in COPIED} for one in group.requests)
    needed["cpu"] = max(needed.get("cpu", 0), LEAST_CPU)
    if group.mapping.memory_from_vram:
        needed["memory"] = max(needed.get("memory", 0), group.gpus * group.mapping.gpu_memory * MILLI)
    if group.gpus:
        needed[GPU] = group.gpus * MILLI
    return tuple(sorted(needed.items()))


def _selector(group: RequestGroup) -> Pairs:
    """Labels of the node. The node's agent writes its kind after the boot: Karpenter would not know the label."""
    chosen = {key: value for key, value in group.requests[0].node_selector if key != KIND_LABEL}
    chosen |= group.mapping.labels
    chosen[NODE_POOL_LABEL] = group.mapping.node_pool
    chosen[REQUEST_LABEL] = group.id
    return tuple(sorted(chosen.items()))


def _affinity(group: RequestGroup) -> tuple[NodeTerm, ...] | None:
    """Node affinity terms of the pods and their volumes, each with the instance types of the mapping."""
    terms = _known_terms(group.requests[0].node_affinity)
    if not group.mapping.instance_types:
        return terms
    pinned = Requirement(INSTANCE_TYPE_LABEL, Operator.IN, group.mapping.instance_types)
    return tuple(NodeTerm(labels=(*term.labels, pinned), fields=term.fields) for term in (terms or (NodeTerm(),)))


def _known_terms(terms: tuple[NodeTerm, ...] | None) -> tuple[NodeTerm, ...] | None:
    """Terms without the node's kind, which its agent writes later. A term of nothing else admits every node."""
    if terms is None:
        return None
    kept = []
    for term in terms:
        labels = tuple(one for one in term.labels if one.key != KIND_LABEL)
        if term.labels and not labels and not term.fields:
            return None
        kept.append(NodeTerm(labels=labels, fields=term.fields))
    return tuple(kept)


def _tolerations(requests: Sequence[CapacityRequest]) -> tuple[Toleration, ...]:
    ours = (
        Toleration(key=GPU_TAINT, effect=NO_SCHEDULE, exists=True),
        Toleration(key=HANDOVER, effect=NO_SCHEDULE, exists=True),
        Toleration(key=LEASED_TAINT, effect=NO_SCHEDULE, exists=True),
    )
    found = {*requests[0].tolerations, *ours}
    return tuple(sorted(found, key=lambda t: (t.key, t.effect, t.value, t.exists)))


def _original(group: RequestGroup) -> str:
    """Original request, kept on the smart pod for a restart. If it is too long, affinity and reason are left out."""
    first = group.requests[0]
    kept = OriginalRequest(
        id=group.id,
        mapping=group.mapping.name,
        pods=tuple(one.pod for one in group.requests),
        gpu_model=first.ask.model,
        gpu_count=group.gpus,
        reason=first.why,
        vram=first.ask.memory,
        tflops=first.ask.tflops,
        asks=tuple(one.ask for one in group.requests),
        gang=first.gang,
        gang_size=first.gang_size,
        node_affinity=first.node_affinity,
        fingerprint=group.need,
        exhausted=group.exhausted,
        for_vm=first.vm_nodes is not None,
    )
    text = msgspec.json.encode(kept)
    if len(text) > LONGEST_REQUEST:
        text = msgspec.json.encode(msgspec.structs.replace(kept, node_affinity=None, reason=""))
    return text.decode()
