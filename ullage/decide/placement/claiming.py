"""GpuClaim of a pod: its device request, or the verdict that the pod may not use the claim. Nodes are not read here.

A claim belongs to one pod of its own namespace: to the pod that holds GPUs by it, else to the oldest pod that names it.
A template belongs to no pod: each pod that names it gets a copy, which belongs to that pod from the beginning. Until
the copy exists the pod asks for what the template says; from then on for what its copy says.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from ullage.model.claim import Claim, DevicePolicy, Exclusivity, copy_key
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.resources import GPU, MILLI
from ullage.model.shape import asking_for
from ullage.model.verdict import Reason, Verdict
from ullage.state.cluster import ClusterState
from ullage.state.snapshot import ClusterSnapshot

POOL_LABEL = "gpu.scheduling/provisioner"
"""Node label with the name of the node's pool."""

NOTHING_UNREADABLE: Mapping[ObjectKey, str] = {}


def claim_key(pod: Pod) -> ObjectKey | None:
    """Key of the claim or template a pod names, if any."""
    name = pod.claim or pod.claim_template
    return ObjectKey(pod.key.namespace, name) if name else None


def claim_of(pod: Pod, state: ClusterState) -> Claim | None:
    """Claim of a pod, if it names one that exists: its copy of a template, else the claim or template it names."""
    key = claim_key(pod)
    if key is None:
        return None
    return copy_of(pod, state) or state.claims.get(key)


def copy_of(pod: Pod, state: ClusterState) -> Claim | None:
    """Copy of a template that was made for this pod, by UID."""
    if pod.claim or not pod.claim_template or not pod.uid:
        return None
    claim = state.claims.get(copy_key(pod.key, pod.uid))
    return claim if claim is not None and claim.pod_uid == pod.uid else None


def with_claim(
    pod: Pod, placements: ClusterSnapshot, unreadable: Mapping[ObjectKey, str] = NOTHING_UNREADABLE
) -> Pod | Verdict:
    """Pod with its claim's device request in its shape, or the verdict that its claim does not allow placing it.

    `unreadable` are claims that exist and break a rule, with what is wrong with each.
    """
    key = claim_key(pod)
    if pod.claim_unnamed:
        return Verdict(Reason.CLAIM_INVALID, f"annotation {pod.claim_unnamed} is empty: it must name a GpuClaim")
    if key is None:
        return pod
    if pod.claim and pod.claim_template:
        return Verdict(Reason.CLAIM_INVALID, "the pod names a claim and a claim template; only one of them can count")
    claim = claim_of(pod, placements.state)
    if claim is None:
        return Verdict(Reason.CLAIM_INVALID, unreadable[key]) if key in unreadable else _missing(pod, key)
    if claim.deleting:
        return Verdict(Reason.CLAIM_MISSING, f"GpuClaim {claim.key} is being deleted")
    owner = owner_of(claim.key, placements) if pod.claim else None
    if owner is not None and owner.key != pod.key:
        return Verdict(Reason.CLAIM_IN_USE, f"GpuClaim {key} belongs to pod {owner.key}")
    contradiction = _contradiction(pod, claim)
    return _asking(pod, claim) if contradiction is None else contradiction


def owner_of(claim: ObjectKey, placements: ClusterSnapshot) -> Pod | None:
    """Pod a claim belongs to: the pod of a copy, else the pod that holds GPUs by it, else the oldest that names it."""
    state = placements.state
    maker = _maker(claim, state)
    if maker is not None:
        holds = maker.key in placements.pods
        return None if maker.phase.over or (maker.deleting and not holds) else maker
    for key in placements.holders(claim):
        pod = state.pods.get(key)
        if pod is not None and claim_key(pod) == claim and not pod.phase.over:
            return pod
    return state.oldest_naming(claim)


def last_user_of(claim: ObjectKey, placements: ClusterSnapshot) -> Pod | None:
    """Pod a claim belongs to, else the latest of the finished pods that used it and still exist."""
    owner = owner_of(claim, placements)
    if owner is not None:
        return owner
    maker = _maker(claim, placements.state)
    if maker is not None:
        return maker if maker.phase.over else None
    return placements.state.last_finished_with(claim)


def _maker(claim: ObjectKey, state: ClusterState) -> Pod | None:
    """Pod a copy was made for, while it exists. A pod of the same name with another UID is not that pod."""
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
