"""Mutation of a new pod before it is stored."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ullage.decide.admission import unclaimed
from ullage.decide.admission.environment import env_change, wanted_env
from ullage.decide.admission.gpus import request_change
from ullage.decide.admission.policy import DEFAULT_SCHEDULER, AdmissionPolicy
from ullage.model.admission import (
    OUTPUTS,
    AddNodeSelector,
    AddTolerations,
    AdmissionAllowed,
    AdmissionContainer,
    AdmissionPod,
    ContainerRole,
    DropAnnotation,
    PodChange,
    SetEnv,
    SetScheduler,
)
from ullage.model.allocation import ALLOCATED
from ullage.model.claim import Claim, DevicePolicy, Exclusivity
from ullage.model.device import GpuNodeKind
from ullage.model.resources import GPU, MILLI
from ullage.state.device_columns import KIND_LABEL

_COUNTED, _LEASED = GpuNodeKind.COUNTED.value.lower(), GpuNodeKind.LEASED.value.lower()


@dataclass(frozen=True, slots=True)
class ClaimLookup:
    """Result of looking up the claim a pod names."""

    claim: Claim | None = None
    trouble: str = ""
    """Reason there is no claim: it does not exist, or its spec makes no sense."""


NO_CLAIM = ClaimLookup()


def new_pod(pod: AdmissionPod, user: str, found: ClaimLookup, policy: AdmissionPolicy) -> AdmissionAllowed:
    """At CREATE. Idempotent: a pod that was mutated before stays as it is."""
    trusted = policy.is_scheduler(user)
    changes: list[PodChange] = [] if trusted else [DropAnnotation(key) for key in OUTPUTS if key in pod.annotations]
    if not pod.claim:
        if trusted:
            return AdmissionAllowed(tuple(changes))
        if policy.is_smart_pod(pod, user):
            return AdmissionAllowed((*changes, *unclaimed.blinded(pod)))
        kept_off = tuple(unclaimed.changes(pod))
        warnings = (unclaimed.warning(pod),) if kept_off and pod.asks_for_gpus else ()
        return AdmissionAllowed((*changes, *kept_off), warnings)
    if pod.scheduler in ("", DEFAULT_SCHEDULER):
        changes.append(SetScheduler(policy.schedulers[0]))
    counted = asks_for_counted(pod, found.claim)
    if KIND_LABEL not in pod.node_selector:
        # On a counted node our env would hide the GPUs; on a leased node a container without env would see all.
        # What a claim says may change later, the pod cannot: so the pod says it itself.
        changes.append(AddNodeSelector(KIND_LABEL, _COUNTED if counted else _LEASED))
    missing = tuple(key for key in _taints(counted, policy) if not {key, ""} & set(pod.tolerated))
    if missing:
        changes.append(AddTolerations(missing))
    if not counted:
        written = pod.annotations if trusted and ALLOCATED in pod.annotations else {}
        wanted = wanted_env(policy.visible_by, {key: written[key] for key in OUTPUTS if key in written})
        changes += filter(None, (env_change(container, wanted) for container in pod.containers))
    if found.claim is not None and (request := request_change(pod.containers, found.claim.ask)):
        changes.append(request)
    return AdmissionAllowed(tuple(changes), tuple(_warnings(pod, found, policy)))


def new_ephemeral(
    pod: AdmissionPod, before: Sequence[AdmissionContainer], found: ClaimLookup, policy: AdmissionPolicy
) -> AdmissionAllowed:
    """At UPDATE of ephemeral containers: those that are new. Those that are there cannot change any more."""
    if not pod.claim or asks_for_counted(pod, found.claim):
        return AdmissionAllowed()
    there = {container.name for container in before}
    wanted = wanted_env(policy.visible_by, {})
    new = [one for one in pod.containers if one.spot.role is ContainerRole.EPHEMERAL and one.name not in there]
    changes: Iterator[SetEnv | None] = (env_change(container, wanted) for container in new)
    return AdmissionAllowed(tuple(change for change in changes if change is not None))


def _taints(counted: bool, policy: AdmissionPolicy) -> Iterator[str]:
    """Taints of GPU nodes: that of leased nodes, and the one that keeps pods without GPUs off.

    The API server's plugin ExtendedResourceToleration adds the second to pods that request the resource by themselves.
    """
    if policy.taint and not counted:
        yield policy.taint
    yield GPU


def asks_for_counted(pod: AdmissionPod, claim: Claim | None) -> bool:
    """True if the pod goes only to counted nodes: the device plugin sets the env there, and ours would override it."""
    written = pod.node_selector.get(KIND_LABEL, dict(claim.node_labels).get(KIND_LABEL, "") if claim else "")
    return written.lower() == _COUNTED


def _warnings(pod: AdmissionPod, found: ClaimLookup, policy: AdmissionPolicy) -> Iterator[str]:
    if found.claim is None:
        yield f"{found.trouble}; {GPU} is not set, and the pod waits until there is one"
    elif contradiction := _contradiction(pod, found.claim):
        yield contradiction
    if pod.scheduler not in ("", DEFAULT_SCHEDULER, *policy.schedulers):
        yield f"schedulerName {pod.scheduler} gives no GPUs by claim; {policy.schedulers[0]} does"


def _contradiction(pod: AdmissionPod, claim: Claim) -> str:
    ask, asked = claim.ask, -(-sum(container.gpus_milli for container in pod.containers) // MILLI)
    exact = ask.policy is DevicePolicy.PREFER_IDS and ask.exclusivity is Exclusivity.EXCLUSIVE
    if not exact or asked <= len(ask.prefer_ids):
        return ""
    return f"the pod requests {asked} {GPU}, and preferIds of GpuClaim {claim.key} names {len(ask.prefer_ids)}"
