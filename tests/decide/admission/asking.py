"""Pods as a user writes them, through the whole way in: read, judged, patched."""

from copy import deepcopy
from typing import Any

import msgspec

from ullage.decide.admission import guard, mutate
from ullage.decide.admission.mutate import ClaimLookup
from ullage.decide.admission.policy import AdmissionPolicy, DeviceNaming
from ullage.kube.admission.reviews import json_patch, read_pod
from ullage.kube.client.resource import JsonObject
from ullage.kube.objects.admission import ReviewedPod
from ullage.model.admission import AdmissionAllowed, Judgement
from ullage.model.allocation import CLAIM
from ullage.model.claim import Claim, DeviceRequest
from ullage.model.fact_event import ObjectKey
from ullage.sim.apiserver.merge.json_patches import apply_operations
from ullage.testing.builders import a_pod

POLICY = AdmissionPolicy()
BY_INDEX = AdmissionPolicy(visible_by=DeviceNaming.INDEX)
SCHEDULER = POLICY.identities[0]
ALICE = "alice"
MISSING = ClaimLookup(trouble="GpuClaim team/c is not there")
OURS = {"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}


def a_claim(count: int = 1, **ask: Any) -> ClaimLookup:
    labels = ask.pop("node_labels", ())
    asked = DeviceRequest(count=count, **ask)
    return ClaimLookup(Claim(key=ObjectKey("team", "c"), uid="u", generation=1, ask=asked, node_labels=labels))


ONE_GPU = a_claim()


def claiming(**spec: Any) -> JsonObject:
    """A pod with a claim."""
    notes = {CLAIM: "c", **spec.pop("annotations", {})}
    return a_pod("p", annotations=notes, schedulerName="default-scheduler", **spec)


def reviewed(pod: JsonObject) -> ReviewedPod:
    return msgspec.convert(pod, ReviewedPod)


def admit(
    pod: JsonObject, found: ClaimLookup = ONE_GPU, *, user: str = ALICE, policy: AdmissionPolicy = POLICY
) -> tuple[JsonObject, AdmissionAllowed]:
    """The pod as it is stored, and what was judged."""
    judgement = mutate.new_pod(read_pod(reviewed(pod), "team"), user, found, policy)
    return apply_operations(deepcopy(pod), json_patch(judgement.changes, reviewed(pod))), judgement


def guarded(pod: JsonObject, *, user: str = ALICE, policy: AdmissionPolicy = POLICY) -> Judgement:
    """What the guard says of a new pod."""
    return guard.new_pod(read_pod(reviewed(pod), "team"), user, policy)


def reference(annotation: str) -> JsonObject:
    """An env value out of an annotation."""
    return {"valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{annotation}']"}}}


def env_of(container: JsonObject) -> list[JsonObject]:
    env: list[JsonObject] = container.get("env", [])
    return env
