"""Remedies that make room: a pool that buys, a limit of a pool, pods that end, another node."""

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from ullage.decide.explain.advice import wanted_node
from ullage.decide.explain.proof import copy_of, key_of, prove
from ullage.decide.explain.remedies_of_gpus import GIB
from ullage.decide.explain.remedy import Case, Change, Remedy, patch
from ullage.decide.explain.scale_up import purchase_said
from ullage.decide.gang.membership import gang_of
from ullage.decide.placement.engine import device_ask
from ullage.decide.placement.filters.resources import spoken
from ullage.decide.preemption.for_gangs import preempt_for_gang
from ullage.decide.preemption.preempt import preempt
from ullage.decide.preemption.protection import PreemptionContext
from ullage.decide.provisioning.node_offers import ScaleUpBlocked
from ullage.decide.provisioning.planner import FleetFacts, FleetPlan, plan_fleet
from ullage.decide.provisioning.pool_nodes import machines_of_nodes
from ullage.decide.provisioning.vm_demand import pending_and_vms_in_need
from ullage.decide.scheduling.nominator import BoundGangs
from ullage.model.claim import DeviceRequest, Exclusivity
from ullage.model.device import Device, DeviceHealth, GpuNodeKind, Inventory, MigInstance
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.intents import Preempt
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.provisioner import HOST_LABEL, Provisioner
from ullage.model.refusal import PodScheduledReason
from ullage.model.resources import GPU, MILLI
from ullage.model.units import Bytes
from ullage.model.verdict import CuredBy

_ABOVE_ALL = 2**31 - 1
MOST_NODES_ADDED = 16


def bought(case: Case) -> Iterator[Remedy]:
    """A pool buys a node; or would, but for one limit of it."""
    on_its_way = case.pod.unplaced == PodScheduledReason.FOR_CAPACITY
    if not case.pools or device_ask(case.ready) is None or on_its_way:
        return
    plan = _plan(case)
    chosen = plan.demand.chosen.get(case.pod.key)
    if chosen is not None:
        yield from _by(case, plan, chosen)
        return
    for name, why in plan.demand.unmet.get(case.pod.key, {}).items():
        if isinstance(why, ScaleUpBlocked):
            yield from _unblocked(case, plan.pools[name].provisioner, why)


def _plan(case: Case) -> FleetPlan:
    snapshot = case.assigner.snapshot
    fleet = FleetFacts(provisioners=case.pools, instances=machines_of_nodes(case.pools, snapshot))
    return plan_fleet(case.assigner.engine, fleet, pending_and_vms_in_need(case.assigner), now=case.now)


def _by(case: Case, plan: FleetPlan, name: str) -> Iterator[Remedy]:
    pool = plan.pools[name].provisioner
    if pool.thresholds.recommend_only:
        yield _changed(
            case,
            pool,
            f"let NodeProvisioner {name} buy: it only recommends a node for it",
            {"recommendOnly": False},
            recommend_only=False,
        )
        return
    yield Remedy(
        sentence=purchase_said(plan, name, case.now),
        commands=(f"ullage explain nodeprovisioner/{name}",),
        pools=tuple(case.pools),
    )


def _unblocked(case: Case, pool: Provisioner, why: ScaleUpBlocked) -> Iterator[Remedy]:
    name, limits = pool.name, pool.thresholds
    if why is ScaleUpBlocked.PAUSED:
        yield _changed(case, pool, f"resume NodeProvisioner {name}: it is paused", {"paused": False}, paused=False)
    elif why is ScaleUpBlocked.FULL:
        yield _fewest(case, lambda more: _larger(case, pool, limits.max_size + more))
    elif why is ScaleUpBlocked.BACKED_OFF and pool.back_off is not None:
        failure = f"{pool.back_off.failure.value}{f': {pool.back_off.message}' if pool.back_off.message else ''}"
        yield Remedy(
            sentence=f"wait: NodeProvisioner {name} tries again in {max(0.0, pool.back_off.until - case.now):.0f} s "
            f"({failure})",
            commands=(f"kubectl get nodeprovisioner {name} -o yaml",),
            pools=tuple(replace(one, back_off=None) if one.name == name else one for one in case.pools),
        )


def _larger(case: Case, pool: Provisioner, size: int) -> Remedy:
    said = f"raise maxSize of NodeProvisioner {pool.name} from {pool.thresholds.max_size} to {size}"
    return _changed(case, pool, said, {"maxSize": size}, max_size=size)


def _changed(case: Case, pool: Provisioner, said: str, spec: dict[str, object], **limits: object) -> Remedy:
    changed = replace(pool, thresholds=replace(pool.thresholds, **limits))
    return Remedy(
        sentence=said,
        commands=(patch("nodeprovisioner", ObjectKey("", pool.name), {"spec": spec}),),
        pools=tuple(changed if one.name == pool.name else one for one in case.pools),
    )


def ended(case: Case) -> Iterator[Remedy]:
    """The fewest, least important pods whose end makes room: budgets are kept, and no other gang is broken.

    A gang needs room for all that are missing at once: freeing one placement of six helps nobody.
    """
    gang = gang_of(case.pod, case.assigner.snapshot.state)
    found = _victims_for_pod(case) if gang is None else _victims_for_gang(case, gang)
    if found is None:
        return
    node, gone = found
    gangs = BoundGangs(case.assigner.snapshot)
    if any(victim.key in gangs for victim in gone):
        return  # a gang that runs is not broken for another pod
    if not gone:
        yield Remedy(sentence=f"wait: pods are leaving {node}")
        return
    ids = sorted({gpu for victim in gone for gpu in victim.gpu_ids})
    nodes = {victim.node for victim in gone}
    what = f"free GPU {','.join(map(str, ids))} on {node}" if ids and device_ask(case.ready) else f"make room on {node}"
    if len(nodes) > 1:
        what = f"make room on {', '.join(sorted(nodes))}"
    yield Remedy(
        sentence=f"{what} by ending {' and '.join(str(victim.key) for victim in gone)}",
        commands=tuple(f"kubectl -n {victim.key.namespace} delete pod {victim.key.name}" for victim in gone),
        changes=case.ending(gone),
    )


def _victims_for_pod(case: Case) -> tuple[str, list[Pod]] | None:
    assigner = case.assigner
    around = PreemptionContext(gangs=BoundGangs(assigner.snapshot), closed=assigner.closed(case.ready))
    answer = preempt(assigner.engine, replace(case.ready, priority=_ABOVE_ALL, preempts=True), around, now=case.now)
    if not isinstance(answer, Preempt):
        return None
    return answer.node, [assigner.snapshot.pods[victim.pod] for victim in answer.victims]


def _victims_for_gang(case: Case, gang: ObjectKey) -> tuple[str, list[Pod]] | None:
    from dataclasses import replace as with_changes

    assigner, ask = case.assigner, case.assigner.gang_ask(gang)
    raised = tuple(replace(pod, priority=_ABOVE_ALL, preempts=True) for pod in ask.pending)
    around = PreemptionContext(gangs=BoundGangs(assigner.snapshot), closed=assigner.quota.closed(ask.pending))
    answer = preempt_for_gang(assigner.engine, with_changes(ask, pending=raised), around, now=case.now)
    if not isinstance(answer, tuple):
        return None
    victims = dict.fromkeys(victim.pod for one in answer for victim in one.victims)
    if not victims:
        return None
    gone = [assigner.snapshot.pods[key] for key in victims]
    return gone[0].node, gone


def more_nodes(case: Case) -> Iterator[Remedy]:
    """The fewest nodes that would take the pod, or what its gang lacks: as the nearest one, with what the pod asks for.

    Pods ahead in the queue take of them, too.
    """
    yield _fewest(case, lambda count: _with_nodes(case, count))


def _fewest(case: Case, remedy: Callable[[int], Remedy]) -> Remedy:
    """The remedy with the least count that works; with the least there is, if none does."""
    below, count = 0, 1
    while not prove(case, remedy(count)).works:
        below, count = count, count * 2
        if count > MOST_NODES_ADDED:
            return remedy(1)
    while count - below > 1:
        middle = (below + count) // 2
        if prove(case, remedy(middle)).works:
            count = middle
        else:
            below = middle
    return remedy(count)


def _with_nodes(case: Case, wanted: int) -> Remedy:
    ask = device_ask(case.ready)
    state = case.assigner.snapshot.state
    changes: list[Change] = []
    names = list(state.nodes)
    for _ in range(wanted):
        name = copy_of(f"another-{case.obstacle.example or 'node'}", names)
        names.append(name)
        node, report = _like(case, name, ask)
        changes += [Added(key_of(name), report)] if report is not None else []
        changes.append(Added(key_of(name), node))
    return Remedy(
        sentence=_wanted(case, ask, wanted),
        commands=("ullage plan scale", "kubectl get nodeprovisioners"),
        changes=tuple(changes),
    )


def near_volumes(case: Case) -> Iterator[Remedy]:
    """A node with the labels that the pod's volumes are bound to."""
    state = case.assigner.snapshot.state
    labels: dict[str, str] = {}
    for use in case.pod.shape.claims:
        known = state.volume_claims.get(use.claim)
        volume = None if known is None else state.volumes.get(known.volume)
        if volume is None:
            continue
        labels |= {key: places[0] for key, places in volume.zones}
        terms = volume.node_affinity or ()
        labels |= {one.key: one.values[0] for term in terms[:1] for one in term.labels if one.values}
    if not labels:
        return
    name = copy_of(f"another-{case.obstacle.example or 'node'}", state.nodes)
    node, report = _like(case, name, device_ask(case.ready))
    there = replace(node, labels=node.labels | labels)
    said = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
    yield Remedy(
        sentence=f"another node where its volume can be reached: {said}",
        commands=(f"kubectl get nodes -l {said.replace(', ', ',')}", "kubectl get nodeprovisioners"),
        changes=(*((Added(key_of(name), report),) if report is not None else ()), Added(key_of(name), there)),
    )


def _wanted(case: Case, ask: DeviceRequest | None, count: int) -> str:
    like = case.obstacle.example
    unknown = ask is not None and like not in case.assigner.snapshot.state.inventories
    if case.obstacle.cured_by is not CuredBy.OTHER_NODES and like and not unknown:
        return f"another node like {like}" if count == 1 else f"{count} more nodes like {like}"
    amounts = " and ".join(f"{spoken(*asked)} {asked[0]}" for asked in case.ready.shape.requests)
    one = f"a node with {amounts or 'what it asks for'}" if ask is None else wanted_node(ask)
    return one if count == 1 else f"{count} more nodes, each {one.removeprefix('a node ')}"


def _like(case: Case, name: str, ask: DeviceRequest | None) -> tuple[Node, Inventory | None]:
    """A node like the nearest, empty, healthy and open, with at least what the pod asks for."""
    near, shape = case.node, case.ready.shape
    offered = {"cpu": 8000, "pods": 110_000, "memory": 64 * GIB * MILLI} if near is None else dict(near.allocatable)
    for resource, amount in shape.requests:
        offered[resource] = max(offered.get(resource, 0), amount)
    labels = ({} if near is None else dict(near.labels)) | {HOST_LABEL: name} | dict(shape.node_selector)
    taints = (
        ()
        if near is None
        else tuple(one for one in near.taints if any(each.tolerates(one) for each in shape.tolerations))
    )
    report = None if ask is None else _report(case, name, ask, offered)
    if report is not None and report.kind is GpuNodeKind.LEASED:
        offered[GPU] = max(offered.get(GPU, 0), len(report.devices) * MILLI)
    node = Node(
        name=name,
        uid=f"new-{name}",
        created=case.now,
        ready=True,
        unschedulable=False,
        labels=labels,
        taints=taints,
        allocatable=offered,
    )
    return node, report


def _report(case: Case, name: str, ask: DeviceRequest, offered: dict[str, int]) -> Inventory:
    near = case.assigner.snapshot.state.inventories.get(case.obstacle.example)
    known: Sequence[Device] = () if near is None else near.devices
    first = known[0] if known else None
    count = max(
        len(known), ask.count, *(identity + 1 for identity in ask.prefer_ids or (0,)), offered.get(GPU, 0) // MILLI
    )
    model = ask.model.split("|")[0] if ask.model else (first.model if first is not None else "GPU")
    memory = max(ask.memory, first.memory if first is not None else 80 * GIB)
    mig = ask.exclusivity is Exclusivity.MIG
    devices = tuple(
        Device(
            id=gpu,
            uuid=f"GPU-{name}-{gpu}",
            model=model,
            memory=Bytes(memory),
            health=DeviceHealth.HEALTHY,
            island="all",
            bandwidth=max(ask.min_bandwidth, first.bandwidth if first is not None else 0),
            peers=tuple(other for other in range(count) if other != gpu),
            mig=(MigInstance(f"MIG-{name}-{gpu}", "as asked", Bytes(ask.memory or memory)),) if mig else (),
        )
        for gpu in range(min(count, 16))
    )
    return Inventory(node=name, reported_at=case.now, devices=devices)
