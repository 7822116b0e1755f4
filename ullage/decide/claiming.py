"""What a pod asks for through its GpuClaim, or why it may not ask at all. No node is looked at.

A claim belongs to one pod of its own namespace: to the one that holds GPUs by it, else to the oldest that names it. A
template belongs to nobody: each pod that names it gets a copy, which is its own from the beginning. Until the copy is
there the pod asks for what the template says; from then on for what its copy says.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from ullage.model.claim import Claim, DevicePolicy, Exclusivity, copy_key
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.resources import GPU, MILLI
from ullage.model.shape import asking_for
from ullage.model.verdict import Reason, Verdict
from ullage.state.cluster import ClusterState
from ullage.state.placements import Placements

POOL_LABEL = "gpu.scheduling/provisioner"
"""Which pool a node is of."""

NOTHING_UNREADABLE: Mapping[ObjectKey, str] = {}


def claim_key(pod: Pod) -> ObjectKey | None:
    """The claim or template a pod names, if any."""
    name = pod.claim or pod.claim_template
    return ObjectKey(pod.key.namespace, name) if name else None


def claim_of(pod: Pod, state: ClusterState) -> Claim | None:
    """The claim of a pod, if it names one and that is there: its copy of a template, or the template itself."""
    key = claim_key(pod)
    if key is None:
        return None
    return copy_of(pod, state) or state.claims.get(key)


def copy_of(pod: Pod, state: ClusterState) -> Claim | None:
    """The copy of a template that was made for this very pod."""
    if pod.claim or not pod.claim_template or not pod.uid:
        return None
    claim = state.claims.get(copy_key(pod.key, pod.uid))
    return claim if claim is not None and claim.pod_uid == pod.uid else None


def with_claim(
    pod: Pod, placements: Placements, unreadable: Mapping[ObjectKey, str] = NOTHING_UNREADABLE
) -> Pod | Verdict:
    """The pod as it is to be placed, or why its claim does not let it.

    `unreadable` are claims that are there and break a rule, with what is wrong with each.
    """
    key = claim_key(pod)
    if key is None:
        return pod
    if pod.claim and pod.claim_template:
        return Verdict(Reason.CLAIM_INVALID, "the pod names a claim and a claim template; only one of them can count")
    claim = claim_of(pod, placements.state)
    if claim is None:
        return Verdict(Reason.CLAIM_INVALID, unreadable[key]) if key in unreadable else _missing(pod, key)
    owner = owner_of(claim.key, placements) if pod.claim else None
    if owner is not None and owner.key != pod.key:
        return Verdict(Reason.CLAIM_IN_USE, f"GpuClaim {key} belongs to pod {owner.key}")
    contradiction = _contradiction(pod, claim)
    return _asking(pod, claim) if contradiction is None else contradiction


def owner_of(claim: ObjectKey, placements: Placements) -> Pod | None:
    """The one pod a claim belongs to."""
    maker = _maker(claim, placements.state)
    naming = [maker] if maker is not None else placements.state.pods_naming(claim)
    naming = [pod for pod in naming if not pod.phase.over]
    holding = [pod for pod in naming if pod.key in placements.pods]
    waiting = [pod for pod in naming if not pod.deleting]
    return min(holding or waiting, key=age_order, default=None)


def last_user_of(claim: ObjectKey, placements: Placements) -> Pod | None:
    """The pod a claim belongs to, else the latest of those that have finished with it and are still there."""
    owner = owner_of(claim, placements)
    if owner is not None:
        return owner
    maker = _maker(claim, placements.state)
    users = placements.state.pods_naming(claim) if maker is None else [maker]
    return max((pod for pod in users if pod.phase.over), key=age_order, default=None)


def age_order(pod: Pod) -> tuple[bool, float, ObjectKey]:
    """Oldest first. A pod that does not say when it was made has not been made yet."""
    return not pod.created, pod.created, pod.key


def _maker(claim: ObjectKey, state: ClusterState) -> Pod | None:
    """The pod a copy was made for, while it is there. A pod that has its name is not yet that pod."""
    copy = state.claims.get(claim)
    if copy is None or not copy.pod_uid:
        return None
    pod = state.pods.get(ObjectKey(claim.namespace, copy.pod))
    return pod if pod is not None and copy_of(pod, state) is copy else None


def _missing(pod: Pod, key: ObjectKey) -> Verdict:
    namespace, slash, name = key.name.partition("/")
    if slash:
        detail = f"GpuClaim {namespace}/{name} is named, and a pod can only use claims of its own namespace"
        return Verdict(Reason.CLAIM_MISSING, f"{detail}, {pod.key.namespace}")
    return Verdict(Reason.CLAIM_MISSING, f"GpuClaim {key} is not there")


def _contradiction(pod: Pod, claim: Claim) -> Verdict | None:
    requested = -(-dict(pod.shape.requests).get(GPU, 0) // MILLI)
    ids = len(claim.ask.prefer_ids)
    exact = claim.ask.policy is DevicePolicy.PREFER_IDS and claim.ask.exclusivity is Exclusivity.EXCLUSIVE
    if not exact or requested <= ids:
        return None
    return Verdict(
        Reason.CLAIM_INVALID,
        f"the pod requests {requested} {GPU}, and spec.devices.preferIds of {claim.key} names {ids}",
    )


def _asking(pod: Pod, claim: Claim) -> Pod:
    pool = ((POOL_LABEL, claim.pool),) if claim.pool else ()
    return replace(pod, shape=asking_for(pod.shape, claim.ask, (*claim.node_labels, *pool)))
