"""PreFilter: checks of the pod before nodes are filtered. GpuClaim of a pod, and reasons that hold on every node.

A claim belongs to one pod of its own namespace: to the pod that holds GPUs by it, else to the oldest pod that names it.
A template belongs to no pod: each pod that names it gets a copy, which belongs to that pod from the beginning. Until
the copy exists the pod asks for what the template says; from then on for what its copy says.

A refusal is permanent if only a changed request or a larger node could help: the claim itself is invalid, or no
existing node could take the pod even if empty. This can end: a changed claim, or a larger node that joins, makes it an
ordinary refusal. A missing claim or PodGroup can be created, taken resources can be freed, gates can be removed.
"""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from ullage.decide.placement.filters.rule import NodeRejections, ReasonInfo, RejectionAdviser, claim_named_by, says
from ullage.model.claim import Claim, ClaimInUse, DevicePolicy, Exclusivity, copy_key
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.resources import GPU, MILLI
from ullage.model.shape import asking_for
from ullage.model.verdict import ClusterEvent, Cure, CuredBy, Reason, Verdict
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


def claim_in_use(pod: Pod, state: ClusterState) -> ClaimInUse | None:
    """Claim by which a pod is placed: its own, or its copy of a template. A template itself is in use by nobody."""
    claim = state.claims.get(ObjectKey(pod.key.namespace, pod.claim)) if pod.claim else copy_of(pod, state)
    return None if claim is None else ClaimInUse(claim.key, claim.uid, claim.protected)


def with_claim(
    pod: Pod, snapshot: ClusterSnapshot, unreadable: Mapping[ObjectKey, str] = NOTHING_UNREADABLE
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
    claim = claim_of(pod, snapshot.state)
    if claim is None:
        return Verdict(Reason.CLAIM_INVALID, unreadable[key]) if key in unreadable else _missing(pod, key)
    if claim.deleting:
        return Verdict(Reason.CLAIM_MISSING, f"GpuClaim {claim.key} is being deleted")
    owner = owner_of(claim.key, snapshot) if pod.claim else None
    if owner is not None and owner.key != pod.key:
        return Verdict(Reason.CLAIM_IN_USE, f"GpuClaim {key} belongs to pod {owner.key}")
    contradiction = _contradiction(pod, claim)
    return _asking(pod, claim) if contradiction is None else contradiction


def owner_of(claim: ObjectKey, snapshot: ClusterSnapshot) -> Pod | None:
    """Pod a claim belongs to: the pod of a copy, else the pod that holds GPUs by it, else the oldest that names it."""
    state = snapshot.state
    maker = _maker(claim, state)
    if maker is not None:
        holds = maker.key in snapshot.pods
        return None if maker.phase.over or (maker.deleting and not holds) else maker
    for key in snapshot.holders(claim):
        pod = state.pods.get(key)
        if pod is not None and claim_key(pod) == claim and not pod.phase.over:
            return pod
    return state.oldest_naming(claim)


def last_user_of(claim: ObjectKey, snapshot: ClusterSnapshot) -> Pod | None:
    """Pod a claim belongs to, else the latest of the finished pods that used it and still exist."""
    owner = owner_of(claim, snapshot)
    if owner is not None:
        return owner
    maker = _maker(claim, snapshot.state)
    if maker is not None:
        return maker if maker.phase.over else None
    return snapshot.state.last_finished_with(claim)


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


def permanent_reason(pod: Pod, reasons: Collection[Reason], snapshot: ClusterSnapshot) -> Reason | None:
    """Permanent reason of a refusal, if it has one. It is the reason to report, however many nodes gave another.

    `pod` is the pod as it was to be placed, with what its claim asks for. `reasons` are the reasons of all nodes.
    """
    if Reason.CLAIM_INVALID in reasons:
        return Reason.CLAIM_INVALID
    too_large = Reason.NODE_TOO_SMALL in reasons and is_too_large(pod, snapshot)
    return Reason.NODE_TOO_SMALL if too_large else None


def is_permanent(pod: Pod, reasons: Collection[Reason], snapshot: ClusterSnapshot) -> bool:
    """True if one of the reasons is permanent."""
    return permanent_reason(pod, reasons, snapshot) is not None


def is_too_large(pod: Pod, snapshot: ClusterSnapshot) -> bool:
    """True if no node has enough allocatable for the pod, whatever runs there. False while no node is known."""
    columns = snapshot.columns
    needs = columns.needs(pod.shape.requests)
    offers = columns.alive[: columns.size].copy()
    if not offers.any():
        return False  # nothing is known of nodes: the first may be large enough
    for index, amount in needs:
        offers &= columns.allocatable[index, : columns.size] >= amount
    return not offers.any()


def _claim_to_make(adviser: RejectionAdviser, pod: Pod, _: NodeRejections) -> str:
    name = (pod.claim or pod.claim_template).rpartition("/")[2]
    others = [namespace for namespace in adviser.elsewhere(pod) if namespace != pod.key.namespace]
    aside = f"; the one in namespace {others[0]} is of no use to it" if others else ""
    return f"create GpuClaim {pod.key.namespace}/{name}, or correct the pod's annotation{aside}"


def _claim_to_correct(_: RejectionAdviser, pod: Pod, __: NodeRejections) -> str:
    if pod.claim and pod.claim_template:
        return f"remove one of the two annotations of {pod.key}"
    return f"correct GpuClaim {claim_named_by(pod)}, or the request of {pod.key}"


def _wakes_on(*events: ClusterEvent) -> Cure:
    """Cure of a reason about the pod: no node helps, neither a new one nor an emptied one."""
    return Cure(False, False, frozenset(events))


POD_REASONS = (
    ReasonInfo(
        reason=Reason.SCHEDULING_GATED,
        cure=_wakes_on(),
        words="The pod has scheduling gates.",
        advice=says("remove spec.schedulingGates of {pod}"),
    ),
    ReasonInfo(
        reason=Reason.RESOURCE_CLAIMS,
        cure=_wakes_on(),
        words="The pod asks for devices by ResourceClaim: kube-scheduler allocates those.",
        advice=says(
            "name the default scheduler in {pod}, "
            "or ask for GPUs by gpu.scheduling/claim instead of spec.resourceClaims"
        ),
    ),
    ReasonInfo(
        reason=Reason.CLAIM_MISSING,
        cure=_wakes_on(ClusterEvent.CLAIM_CHANGED),
        words="The GpuClaim or template that the pod names does not exist.",
        advice=_claim_to_make,
    ),
    ReasonInfo(
        reason=Reason.CLAIM_INVALID,
        cure=_wakes_on(ClusterEvent.CLAIM_CHANGED),
        words="The GpuClaim breaks a rule, or contradicts the pod.",
        advice=_claim_to_correct,
    ),
    ReasonInfo(
        reason=Reason.CLAIM_IN_USE,
        cure=_wakes_on(ClusterEvent.CLAIM_CHANGED, ClusterEvent.POD_LEFT),
        words="The GpuClaim belongs to another pod.",
        advice=says("give {pod} a claim of its own, or name {claim} in gpu.scheduling/claim-template"),
    ),
    ReasonInfo(
        reason=Reason.VM_MISSING,
        cure=_wakes_on(ClusterEvent.VM_CHANGED),
        words="The VirtualMachine that the pod's label names does not exist.",
        advice=says("create the VirtualMachine that label vm.neon.tech/name of {pod} names, or correct the label"),
    ),
    ReasonInfo(
        reason=Reason.VM_AMOUNTS_INVALID,
        cure=_wakes_on(ClusterEvent.VM_CHANGED),
        words="An amount of the pod's VirtualMachine is 0, its minimum is above its maximum, or its use is outside.",
        advice=says("correct the VirtualMachine: {detail}"),
    ),
    ReasonInfo(
        reason=Reason.VM_SLOT_SIZE_MISMATCH,
        cure=_wakes_on(ClusterEvent.VM_CHANGED),
        words="The memory slots of the pod's VirtualMachine have another size than the VM configuration says.",
        advice=says("recreate the VirtualMachine with the slot size of the nodes: {detail}"),
    ),
    ReasonInfo(
        reason=Reason.GANG_SIZE_UNKNOWN,
        cure=_wakes_on(ClusterEvent.CLAIM_CHANGED, ClusterEvent.GANG_CHANGED),
        words="Neither a PodGroup nor a GpuClaim says how many members the pod's gang needs.",
        advice=says("create the PodGroup, or set spec.gangMinMember of GpuClaim {claim}"),
    ),
    ReasonInfo(
        reason=Reason.QUOTA_EXCEEDED,
        cure=_wakes_on(ClusterEvent.POD_LEFT, ClusterEvent.QUOTA_CHANGED),
        words="The GpuQuota of the pod's namespace allows no more GPUs of the models that fit.",
        advice=says("a larger GpuQuota, or ending pods of its namespace: {detail}"),
        headline="the GpuQuota of its namespace is used up",
        nearness=CuredBy.LIMIT,
    ),
    ReasonInfo(
        reason=Reason.GANG_INCOMPLETE,
        cure=_wakes_on(ClusterEvent.GANG_CHANGED),
        words="Fewer members of the pod's gang exist, or can be placed together, than it needs.",
        advice=says("room for the whole gang, or its other members: {detail}"),
        headline="its gang does not fit as a whole",
        nearness=CuredBy.ROOM,
    ),
)
"""Reasons about the pod itself: they hold on every node."""
