"""What a pod asks for through its GpuClaim, or why it may not ask at all. No node is looked at.

A claim belongs to one pod of its own namespace: to the one that holds GPUs by it, else to the oldest that names it. A
template belongs to nobody: each pod that names it asks for the same.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from ullage.model.claim import Claim, DevicePolicy, Exclusivity
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
    """The claim or template of a pod, if it names one and that is there."""
    key = claim_key(pod)
    return None if key is None else state.claims.get(key)


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
    if key in unreadable:
        return Verdict(Reason.CLAIM_INVALID, unreadable[key])
    claim = placements.state.claims.get(key)
    if claim is None:
        return _missing(pod, key)
    owner = owner_of(claim.key, placements) if pod.claim else None
    if owner is not None and owner.key != pod.key:
        return Verdict(Reason.CLAIM_IN_USE, f"GpuClaim {key} belongs to pod {owner.key}")
    contradiction = _contradiction(pod, claim)
    return _asking(pod, claim) if contradiction is None else contradiction


def owner_of(claim: ObjectKey, placements: Placements) -> Pod | None:
    """The one pod a claim belongs to."""
    naming = [pod for pod in placements.state.pods_naming(claim) if not pod.phase.over]
    holding = [pod for pod in naming if pod.key in placements.pods]
    waiting = [pod for pod in naming if not pod.deleting]
    return min(holding or waiting, key=age_order, default=None)


def age_order(pod: Pod) -> tuple[bool, float, ObjectKey]:
    """Oldest first. A pod that does not say when it was made has not been made yet."""
    return not pod.created, pod.created, pod.key


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
