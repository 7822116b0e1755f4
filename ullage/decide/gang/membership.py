"""Membership of gangs: the gang a pod belongs to, the pods of a gang, and the size it needs. Read from the state."""

from ullage.decide.placement.prefilter import claim_of
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.state.cluster import ClusterState


def gang_of(pod: Pod, state: ClusterState) -> ObjectKey | None:
    """The gang that a pod's claim names."""
    claim = claim_of(pod, state)
    return ObjectKey(pod.key.namespace, claim.gang) if claim is not None and claim.gang else None


def gang_size(gang: ObjectKey, state: ClusterState) -> int:
    """Members the gang needs at least: by its PodGroup, else by its claims; 0 where neither says."""
    group = state.groups.get(gang)
    return group.min_member if group is not None else state.gang_size(gang)


def gang_members(gang: ObjectKey, state: ClusterState) -> list[Pod]:
    """Every pod of a gang, by name."""
    found: dict[ObjectKey, Pod] = {}
    for claim in state.claims_of_gang(gang):
        copied_for = state.pods.get(ObjectKey(claim.key.namespace, claim.pod)) if claim.pod else None
        named_by = (*state.pods_naming(claim.key), *state.pods_from_template(claim.key))
        for pod in named_by if copied_for is None else (*named_by, copied_for):
            if pod.key not in found and gang_of(pod, state) == gang:
                found[pod.key] = pod
    return [found[key] for key in sorted(found)]
