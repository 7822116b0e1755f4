"""What is not let in: pods that pass the scheduler by, and annotations written by those who may not."""

from collections.abc import Iterable

from ullage.decide.admit.environment import has_env, wanted_env
from ullage.decide.admit.mutate import Found, asks_for_counted
from ullage.decide.admit.policy import AdmissionPolicy, VisibleBy
from ullage.model.admission import (
    AS_IT_IS,
    INPUTS,
    OUTPUTS,
    Annotations,
    AskedPod,
    Judgement,
    Objection,
    Refused,
    Role,
)
from ullage.model.allocation import CLAIM, CLAIM_TEMPLATE


def new_pod(pod: AskedPod, user: str, found: Found, policy: AdmissionPolicy) -> Judgement:
    """At CREATE, after everybody has changed what they change."""
    if foreign := _foreign(pod.annotations, {}, user, policy):
        return foreign
    if all(pod.annotations.get(key) for key in INPUTS):
        words = f"{pod.key} names a claim in {CLAIM} and in {CLAIM_TEMPLATE}; only one of them can count"
        return Refused(Objection.TWO_CLAIMS, words)
    if not pod.claim or policy.is_scheduler(user):
        return AS_IT_IS
    if pod.node:
        words = f"{pod.key} has a claim, so the scheduler chooses its node; leave out spec.nodeName ({pod.node})"
        return Refused(Objection.NODE_CHOSEN, words)
    if asks_for_counted(pod, found.claim):
        return AS_IT_IS
    # Any way of showing GPUs will do: replicas may have different settings while they are being changed.
    shown = [wanted_env(visible_by, {}) for visible_by in VisibleBy]
    running = [container for container in pod.containers if container.spot.role is not Role.EPHEMERAL]
    if any(all(has_env(container, wanted) for container in running) for wanted in shown):
        return AS_IT_IS
    words = f"{pod.key} has a claim, and its containers would not see its GPUs; is the mutating webhook registered?"
    return Refused(Objection.ENV_MISSING, words)


def changed_pod(new: Annotations, old: Annotations, user: str, policy: AdmissionPolicy) -> Judgement:
    """At UPDATE of a pod, by whatever part of it."""
    if foreign := _foreign(new, old, user, policy):
        return foreign
    fixed = _differing(INPUTS, new, old)
    if not fixed or policy.is_scheduler(user):
        return AS_IT_IS
    words = f"{', '.join(fixed)} cannot change once the pod is there: its containers could not follow; make a new pod"
    return Refused(Objection.CLAIM_FIXED, words)


def binding(annotations: Annotations, user: str, policy: AdmissionPolicy) -> Judgement:
    """At CREATE of a Binding: its annotations are merged into the pod."""
    return _foreign(annotations, {}, user, policy) or AS_IT_IS


def _foreign(new: Annotations, old: Annotations, user: str, policy: AdmissionPolicy) -> Refused | None:
    written = _differing(OUTPUTS, new, old)
    if not written or policy.is_scheduler(user):
        return None
    return Refused(Objection.FOREIGN_OUTPUT, f"only the scheduler writes {', '.join(written)}; {user!r} is not it")


def _differing(keys: Iterable[str], new: Annotations, old: Annotations) -> list[str]:
    return [key for key in keys if new.get(key) != old.get(key)]
