"""Pods as a user writes them, through the whole way in: read, judged, patched."""

from copy import deepcopy
from typing import Any

import msgspec

from ullage.decide.admit import guard, mutate
from ullage.decide.admit.mutate import Found
from ullage.decide.admit.policy import AdmissionPolicy, VisibleBy
from ullage.kube.admission import json_patch, read_pod
from ullage.kube.objects.admission import ReviewedPod
from ullage.kube.resource import JsonObject
from ullage.model.admission import Admitted, Judgement
from ullage.model.allocation import CLAIM
from ullage.model.claim import Claim, DeviceAsk
from ullage.model.event import ObjectKey
from ullage.sim.apiserver.patching import apply_operations
from ullage.testing.builders import a_pod

POLICY = AdmissionPolicy()
BY_INDEX = AdmissionPolicy(visible_by=VisibleBy.INDEX)
SCHEDULER = POLICY.identities[0]
ALICE = "alice"
MISSING = Found(trouble="GpuClaim team/c is not there")
OURS = {"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}


def a_claim(count: int = 1, **ask: Any) -> Found:
    labels = ask.pop("node_labels", ())
    asked = DeviceAsk(count=count, **ask)
    return Found(Claim(key=ObjectKey("team", "c"), uid="u", generation=1, ask=asked, node_labels=labels))


ONE_GPU = a_claim()


def claiming(**spec: Any) -> JsonObject:
    """A pod with a claim."""
    notes = {CLAIM: "c", **spec.pop("annotations", {})}
    return a_pod("p", annotations=notes, schedulerName="default-scheduler", **spec)


def reviewed(pod: JsonObject) -> ReviewedPod:
    return msgspec.convert(pod, ReviewedPod)


def admit(
    pod: JsonObject, found: Found = ONE_GPU, *, user: str = ALICE, policy: AdmissionPolicy = POLICY
) -> tuple[JsonObject, Admitted]:
    """The pod as it is stored, and what was judged."""
    judgement = mutate.new_pod(read_pod(reviewed(pod), "team"), user, found, policy)
    return apply_operations(deepcopy(pod), json_patch(judgement.changes, reviewed(pod))), judgement


def guarded(
    pod: JsonObject, found: Found = ONE_GPU, *, user: str = ALICE, policy: AdmissionPolicy = POLICY
) -> Judgement:
    """What the guard says of a new pod."""
    return guard.new_pod(read_pod(reviewed(pod), "team"), user, found, policy)


def reference(annotation: str) -> JsonObject:
    """An env value out of an annotation."""
    return {"valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{annotation}']"}}}


def env_of(container: JsonObject) -> list[JsonObject]:
    env: list[JsonObject] = container.get("env", [])
    return env
