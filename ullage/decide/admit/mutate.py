"""What a new pod is changed to before it is stored."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ullage.decide.admit.environment import env_change, wanted_env
from ullage.decide.admit.gpus import request_change
from ullage.decide.admit.policy import DEFAULT_SCHEDULER, AdmissionPolicy
from ullage.model.admission import (
    OUTPUTS,
    Admitted,
    AskedContainer,
    AskedPod,
    DropAnnotation,
    PodChange,
    Role,
    SelectNodes,
    SetEnv,
    SetScheduler,
    Tolerate,
)
from ullage.model.allocation import ALLOCATED
from ullage.model.claim import Claim, DevicePolicy, Exclusivity
from ullage.model.device import GpuNodeKind
from ullage.model.resources import GPU, MILLI
from ullage.state.gpus import KIND_LABEL

_COUNTED, _LEASED = GpuNodeKind.COUNTED.value.lower(), GpuNodeKind.LEASED.value.lower()


@dataclass(frozen=True, slots=True)
class Found:
    """The claim a pod names, as far as it is known."""

    claim: Claim | None = None
    trouble: str = ""
    """Why there is none: it is not there, or makes no sense."""


NO_CLAIM = Found()


def new_pod(pod: AskedPod, user: str, found: Found, policy: AdmissionPolicy) -> Admitted:
    """At CREATE. What is here the second time is as it should be, and stays."""
    trusted = policy.is_scheduler(user)
    changes: list[PodChange] = [] if trusted else [DropAnnotation(key) for key in OUTPUTS if key in pod.annotations]
    if not pod.claim:
        return Admitted(tuple(changes))
    if pod.scheduler in ("", DEFAULT_SCHEDULER):
        changes.append(SetScheduler(policy.schedulers[0]))
    if policy.taint and not {policy.taint, ""} & set(pod.tolerated):
        changes.append(Tolerate(policy.taint))
    if not asks_for_counted(pod, found.claim):
        if not _says_which_kind(pod, found.claim):
            changes.append(
                SelectNodes(KIND_LABEL, _LEASED)
            )  # where a device plugin chooses, our env would hide its GPUs
        written = pod.annotations if trusted and ALLOCATED in pod.annotations else {}
        wanted = wanted_env(policy.visible_by, {key: written[key] for key in OUTPUTS if key in written})
        changes += filter(None, (env_change(container, wanted) for container in pod.containers))
    if found.claim is not None and (request := request_change(pod.containers, found.claim.ask)):
        changes.append(request)
    return Admitted(tuple(changes), tuple(_warnings(pod, found, policy)))


def new_ephemeral(pod: AskedPod, before: Sequence[AskedContainer], found: Found, policy: AdmissionPolicy) -> Admitted:
    """At UPDATE of ephemeral containers: those that are new. Those that are there cannot change any more."""
    if not pod.claim or asks_for_counted(pod, found.claim):
        return Admitted()
    there = {container.name for container in before}
    wanted = wanted_env(policy.visible_by, {})
    new = [one for one in pod.containers if one.spot.role is Role.EPHEMERAL and one.name not in there]
    changes: Iterator[SetEnv | None] = (env_change(container, wanted) for container in new)
    return Admitted(tuple(change for change in changes if change is not None))


def asks_for_counted(pod: AskedPod, claim: Claim | None) -> bool:
    """Whether the pod only goes where a device plugin chooses: the plugin sets the env, and ours would win over it."""
    asked = {pod.node_selector.get(KIND_LABEL, ""), dict(claim.node_labels).get(KIND_LABEL, "") if claim else ""}
    return any(kind.lower() == _COUNTED for kind in asked)


def _says_which_kind(pod: AskedPod, claim: Claim | None) -> bool:
    return KIND_LABEL in pod.node_selector or (claim is not None and KIND_LABEL in dict(claim.node_labels))


def _warnings(pod: AskedPod, found: Found, policy: AdmissionPolicy) -> Iterator[str]:
    if found.claim is None:
        yield f"{found.trouble}; {GPU} is not set, and the pod waits until there is one"
    elif contradiction := _contradiction(pod, found.claim):
        yield contradiction
    if pod.scheduler not in ("", DEFAULT_SCHEDULER, *policy.schedulers):
        yield f"schedulerName {pod.scheduler} gives no GPUs by claim; {policy.schedulers[0]} does"


def _contradiction(pod: AskedPod, claim: Claim) -> str:
    ask, asked = claim.ask, -(-sum(container.gpus_milli for container in pod.containers) // MILLI)
    exact = ask.policy is DevicePolicy.PREFER_IDS and ask.exclusivity is Exclusivity.EXCLUSIVE
    if not exact or asked <= len(ask.prefer_ids):
        return ""
    return f"the pod requests {asked} {GPU}, and preferIds of GpuClaim {claim.key} names {len(ask.prefer_ids)}"
