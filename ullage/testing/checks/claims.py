"""Invariants of claims and gangs, read back from an API server: statuses are true, NVLink is as asked, gangs are whole.

The expected values are worked out here from pods alone, by other code than the scheduler's own. Each breach is a
sentence.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ullage.kube.objects.gpu import GpuClaim
from ullage.model.allocation import CLAIM, CLAIM_TEMPLATE
from ullage.model.claim import TEMPLATE, ClaimPhase, Exclusivity, TopologyMode
from ullage.model.pod import Phase, Pod
from ullage.testing.checks.placement import PlacementReading, islands_of

_HOLDING = (ClaimPhase.BOUND.value, ClaimPhase.RESERVED.value)
ClaimName = tuple[str, str]
"""Namespace and name."""


def claim_breaches(reading: PlacementReading) -> Iterator[str]:
    """Statuses that do not say what is, and pods that have other GPUs than their claim asks for."""
    users = _users(reading)
    for claim in sorted(reading.claims, key=_name):
        name, using = "/".join(_name(claim)), users.get(_name(claim), ())
        bound = [pod for pod in using if pod.holds_room]
        if len(bound) > 1:
            yield f"claim {name} is used by {' and '.join(str(pod.key) for pod in bound)}"
        for pod in bound:
            yield from _given_otherwise(reading, claim, pod)
        yield from (f"claim {name} {wrong}" for wrong in _untrue(reading, claim, bound, using))


def gang_breaches(reading: PlacementReading) -> Iterator[str]:
    """Gangs of which some members are on nodes, and too few."""
    needed = {(group.metadata.namespace, group.metadata.name): group.spec.min_member for group in reading.groups}
    for gang, members in sorted(gangs(reading).items()):
        sizes = [claim.spec.gang_min_member or 0 for claim in reading.claims if _gang(claim) == gang]
        minimum = needed.get(gang) or max(sizes, default=0)
        there = [pod for pod in members if pod.holds_room or pod.phase is Phase.SUCCEEDED]
        if 0 < len(there) < minimum:
            yield f"gang {'/'.join(gang)} needs {minimum} and has {len(there)} of {len(members)} on nodes"


def gangs(reading: PlacementReading) -> Mapping[ClaimName, Sequence[Pod]]:
    """Pods by the gang their claims say."""
    users = _users(reading)
    found: defaultdict[ClaimName, list[Pod]] = defaultdict(list)
    for claim in reading.claims:
        if claim.spec.gang_ref:
            found[_gang(claim)] += users.get(_name(claim), ())
    return found


def _untrue(reading: PlacementReading, claim: GpuClaim, bound: Sequence[Pod], using: Sequence[Pod]) -> Iterator[str]:
    status = claim.status
    said = (status.phase, status.node_name, status.gpu_ids, status.allocated)
    if bound:
        pod = bound[0]
        allocated = f"{pod.node}:{','.join(map(str, pod.gpu_ids))}" if pod.gpu_ids else ""
        truth = (ClaimPhase.BOUND.value, pod.node, tuple(sorted(pod.gpu_ids)), allocated)
        if said != truth:
            yield f"says {said}, and {pod.key} makes it {truth}"
    elif any(not pod.phase.over for pod in using):
        if status.phase == ClaimPhase.BOUND or (status.phase != ClaimPhase.RESERVED and any(said[1:])):
            yield f"says {said}, and its pod is on no node"
        if not status.phase or not status.message:
            yield "does not say how it stands, and its pod waits"
        if status.phase == ClaimPhase.RESERVED and not _leased(reading, using, status.node_name, status.gpu_ids):
            yield f"says {said}, and no such lease is held for its pod"
    elif status.phase in _HOLDING or any(said[1:]):
        yield f"says {said}, and no pod uses it"
    if status.phase and status.observed_generation != claim.metadata.generation:
        yield f"speaks of generation {status.observed_generation} and is at {claim.metadata.generation}"
    if any(
        (one.status == "True") != (status.phase in _HOLDING) for one in status.conditions if one.type == "Allocated"
    ):
        yield f"is {status.phase}, and its condition Allocated says otherwise"


def _leased(reading: PlacementReading, using: Sequence[Pod], node: str, devices: Sequence[int]) -> bool:
    uids = {pod.uid for pod in using}
    held = {(one.node, one.device) for one in reading.leases if any(hold.uid in uids for hold in one.holds)}
    return {(node, device) for device in devices} <= held


def _given_otherwise(reading: PlacementReading, claim: GpuClaim, pod: Pod) -> Iterator[str]:
    devices, wiring = claim.spec.devices, claim.spec.topology
    if devices.exclusivity != Exclusivity.MIG and len(pod.gpu_ids) < devices.count:
        yield f"{pod.key} has GPU {pod.gpu_ids}, and its claim asks for {devices.count}"
    if devices.exclusivity != Exclusivity.EXCLUSIVE:
        return
    if devices.prefer_ids and set(pod.gpu_ids) != set(devices.prefer_ids):
        yield f"{pod.key} has GPU {pod.gpu_ids}, and its claim asks for {devices.prefer_ids}"
    islands = islands_of(reading, pod)
    if wiring.mode == TopologyMode.REQUIRED and len(islands) > 1:
        yield f"{pod.key} has GPU {pod.gpu_ids} of {pod.node} in {len(islands)} islands, and its claim requires one"
    models = {
        device.model
        for node in reading.inventories
        for device in node.devices
        if node.node == pod.node and device.id in pod.gpu_ids
    }
    if devices.model and models != {devices.model}:
        yield f"{pod.key} has {sorted(models)}, and its claim asks for {devices.model}"


def _users(reading: PlacementReading) -> Mapping[ClaimName, Sequence[Pod]]:
    """Pods by the claim that is theirs: the one they name, or the copy that was made for them."""
    found: defaultdict[ClaimName, list[Pod]] = defaultdict(list)
    for pod in reading.pods:
        if name := reading.note(pod, CLAIM):
            found[pod.key.namespace, name].append(pod)
    pods = {pod.uid: pod for pod in reading.pods if reading.note(pod, CLAIM_TEMPLATE)}
    for claim in reading.claims:
        owners = [one.uid for one in claim.metadata.owner_references if one.kind == "Pod"]
        if claim.metadata.annotations.get(TEMPLATE):
            found[_name(claim)] += [pods[uid] for uid in owners if uid in pods]
    return found


def _name(claim: GpuClaim) -> ClaimName:
    return claim.metadata.namespace, claim.metadata.name


def _gang(claim: GpuClaim) -> ClaimName:
    return claim.metadata.namespace, claim.spec.gang_ref
