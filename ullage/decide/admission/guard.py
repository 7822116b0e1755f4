"""Admission denials: pods that bypass the scheduler, and guarded annotations written by users who may not."""

from collections.abc import Iterable

from ullage.decide.admission import unclaimed
from ullage.decide.admission.environment import has_env, wanted_env
from ullage.decide.admission.mutate import asks_for_counted
from ullage.decide.admission.policy import AdmissionPolicy, DeviceNaming
from ullage.model.admission import (
    AS_IT_IS,
    INPUTS,
    OUTPUTS,
    AdmissionDenied,
    AdmissionPod,
    Annotations,
    ContainerRole,
    DenialReason,
    Judgement,
)
from ullage.model.allocation import CLAIM, CLAIM_TEMPLATE, unnamed_claim


def new_pod(pod: AdmissionPod, user: str, policy: AdmissionPolicy) -> Judgement:
    """At CREATE, after all mutating webhooks."""
    if foreign := _foreign(pod.annotations, {}, user, policy):
        return foreign
    if all(pod.annotations.get(key) for key in INPUTS):
        words = f"{pod.key} names a claim in {CLAIM} and in {CLAIM_TEMPLATE}; only one of them can count"
        return AdmissionDenied(DenialReason.TWO_CLAIMS, words)
    if empty := unnamed_claim(pod.annotations):
        words = f"{pod.key} has the annotation {empty} and no name in it; name a GpuClaim, or leave it out"
        return AdmissionDenied(DenialReason.CLAIM_UNNAMED, words)
    if policy.is_scheduler(user) or (not pod.claim and policy.is_smart_pod(pod, user)):
        return AS_IT_IS
    if not pod.claim:
        return unclaimed.refusal(pod) or AS_IT_IS
    if pod.node:
        words = f"{pod.key} has a claim, so the scheduler chooses its node; leave out spec.nodeName ({pod.node})"
        return AdmissionDenied(DenialReason.NODE_CHOSEN, words)
    if asks_for_counted(pod, None):  # by its own word: what a claim says may change
        return AS_IT_IS
    if pod.loopholes and policy.visible_by is DeviceNaming.UUID and not policy.unconfined:
        words = f"{pod.key} has a claim, and could reach GPUs of others by {', '.join(pod.loopholes)}"
        return AdmissionDenied(DenialReason.UNCONFINED, words)
    # Any way of showing GPUs will do: replicas may have different settings while they are being changed.
    shown = [wanted_env(visible_by, {}) for visible_by in DeviceNaming]
    running = [container for container in pod.containers if container.spot.role is not ContainerRole.EPHEMERAL]
    if any(all(has_env(container, wanted) for container in running) for wanted in shown):
        return AS_IT_IS
    words = f"{pod.key} has a claim, and its containers would not see its GPUs; is the mutating webhook registered?"
    return AdmissionDenied(DenialReason.ENV_MISSING, words)


def tolerating_pod(pod: AdmissionPod, user: str, policy: AdmissionPolicy) -> Judgement:
    """At UPDATE of a pod that tolerates the taint of leased nodes from now on: its containers cannot follow."""
    if pod.claim or pod.keeps_off_leased or policy.is_scheduler(user):
        return AS_IT_IS
    words = f"{pod.key} names no claim, so it cannot begin to tolerate {policy.taint}; make a new pod with a claim"
    return AdmissionDenied(DenialReason.LEASED_TOLERATED, words)


def changed_pod(new: Annotations, old: Annotations, user: str, policy: AdmissionPolicy) -> Judgement:
    """At UPDATE of a pod, through any subresource."""
    if foreign := _foreign(new, old, user, policy):
        return foreign
    fixed = _differing(INPUTS, new, old)
    if not fixed or policy.is_scheduler(user):
        return AS_IT_IS
    words = f"{', '.join(fixed)} cannot change once the pod is there: its containers could not follow; make a new pod"
    return AdmissionDenied(DenialReason.CLAIM_FIXED, words)


def binding(annotations: Annotations, user: str, policy: AdmissionPolicy) -> Judgement:
    """At CREATE of a Binding: its annotations are merged into the pod."""
    return _foreign(annotations, {}, user, policy) or AS_IT_IS


def _foreign(new: Annotations, old: Annotations, user: str, policy: AdmissionPolicy) -> AdmissionDenied | None:
    written = _differing(OUTPUTS, new, old)
    if not written or policy.is_scheduler(user):
        return None
    return AdmissionDenied(
        DenialReason.FOREIGN_OUTPUT, f"only the scheduler writes {', '.join(written)}; {user!r} is not it"
    )


def _differing(keys: Iterable[str], new: Annotations, old: Annotations) -> list[str]:
    return [key for key in keys if new.get(key) != old.get(key)]
