"""Faults by users who delete and edit what they see. Each function begins one and returns its end."""

from collections.abc import Callable, Mapping
from contextlib import suppress

from ullage.errors import ApiError
from ullage.kube.client.resources import (
    BUDGETS,
    GPU_CLAIMS,
    LEASES,
    NODE_PROVISIONERS,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
)
from ullage.sim.chaos.guest_faults import End, bare, nothing
from ullage.sim.chaos.story import ChaosFault, FaultKind
from ullage.sim.world.world import World


def _delete_pod(world: World, fault: ChaosFault) -> End | None:
    pods = world.observers.mirror.pods
    if not pods:
        return None
    key = fault.one_of(sorted(pods))
    at_once = fault.kind is FaultKind.FORCE_DELETE_POD
    world.hand.delete(bare(PODS, key.name, key.namespace), at_once=at_once)
    return nothing


def _delete_claim(world: World, fault: ChaosFault) -> End | None:
    claims = world.observers.mirror.claims
    if not claims:
        return None
    key = fault.one_of(sorted(claims))
    world.hand.delete(bare(GPU_CLAIMS, key.name, key.namespace))
    return nothing


def _edit_claim(world: World, fault: ChaosFault) -> End | None:
    """Change the size of a claim, and let it go to any node. A claim in use is refused: the next one is tried."""
    claims = sorted(world.observers.mirror.claims)
    first = fault.pick % max(1, len(claims))
    for key in (*claims[first:], *claims[:first]):
        spec = {"devices": {"count": 1 + fault.pick % 3}, "selector": None}
        try:
            world.hand.merge(GPU_CLAIMS, key.name, {"spec": spec}, key.namespace)
        except ApiError:
            continue
        return nothing
    return None


def _delete_lease(world: World, fault: ChaosFault) -> End | None:
    leases = world.observers.mirror.leases
    if not leases:
        return None
    namespace = world.spec.settings.scheduling.lease_namespace
    world.hand.delete(bare(LEASES, fault.one_of(sorted(leases)), namespace))
    return nothing


def _edit_lease(world: World, fault: ChaosFault) -> End | None:
    leases = world.observers.mirror.leases
    if not leases:
        return None
    namespace = world.spec.settings.scheduling.lease_namespace
    holder = {"spec": {"holderIdentity": f"nobody-{fault.pick}"}}
    world.hand.merge(LEASES, fault.one_of(sorted(leases)), holder, namespace)
    return nothing


def _edit_budget(world: World, fault: ChaosFault) -> End | None:
    hand = world.hand
    budgets = sorted((one["metadata"]["namespace"], one["metadata"]["name"]) for one in hand.all_of(BUDGETS))
    if not budgets:
        return None
    namespace, name = fault.one_of(budgets)

    def allow(pods: int) -> None:
        with suppress(ApiError):  # its Deployment may be gone, and it with it
            hand.merge(BUDGETS, name, {"spec": {"maxUnavailable": pods}}, namespace)

    allow(0)
    return lambda: allow(1)


def _edit_annotations(world: World, fault: ChaosFault) -> End | None:
    nodes = sorted(world.observers.mirror.nodes)
    if not nodes:
        return None
    world.hand.merge(NODES, fault.one_of(nodes), {"metadata": {"annotations": None}})
    return nothing


def _delete_reservation(world: World, fault: ChaosFault) -> End | None:
    ours = [one["metadata"] for one in world.hand.all_of(RESOURCE_CLAIMS[0])]
    if not ours:
        return None
    meta = fault.one_of(sorted(ours, key=lambda one: str(one["name"])))
    world.hand.merge(RESOURCE_CLAIMS[0], meta["name"], {"metadata": {"finalizers": None}}, meta["namespace"])
    world.hand.delete(bare(RESOURCE_CLAIMS[0], meta["name"], meta["namespace"]))
    return nothing


def _delete_node(world: World, fault: ChaosFault) -> End | None:
    pooled = sorted(name for name, node in world.observers.mirror.nodes.items() if node.pool)
    if not pooled:
        return None
    world.hand.delete(bare(NODES, fault.one_of(pooled)))
    return nothing


def _untaint(world: World, fault: ChaosFault) -> End | None:
    nodes = sorted(world.observers.mirror.nodes)
    if not nodes:
        return None
    world.hand.merge(NODES, fault.one_of(nodes), {"spec": {"taints": None}})
    return nothing


def _edit_provisioner(world: World, fault: ChaosFault) -> End | None:
    pools = sorted(str(one["metadata"]["name"]) for one in world.hand.all_of(NODE_PROVISIONERS))
    if not pools:
        return None
    name = fault.one_of(pools)
    world.hand.merge(NODE_PROVISIONERS, name, {"spec": {"maxSize": 1 + fault.pick % 3, "minSize": 0}})
    return nothing


USER_FAULTS: Mapping[FaultKind, Callable[[World, ChaosFault], End | None]] = {
    FaultKind.DELETE_POD: _delete_pod,
    FaultKind.FORCE_DELETE_POD: _delete_pod,
    FaultKind.DELETE_CLAIM: _delete_claim,
    FaultKind.EDIT_CLAIM: _edit_claim,
    FaultKind.DELETE_LEASE: _delete_lease,
    FaultKind.EDIT_LEASE: _edit_lease,
    FaultKind.DELETE_RESERVATION: _delete_reservation,
    FaultKind.DELETE_NODE: _delete_node,
    FaultKind.UNTAINT_NODE: _untaint,
    FaultKind.EDIT_ANNOTATIONS: _edit_annotations,
    FaultKind.EDIT_BUDGET: _edit_budget,
    FaultKind.EDIT_PROVISIONER: _edit_provisioner,
}
