"""Remedies for reasons about nodes: cordon, readiness, taints, labels, ports, volumes, spread and affinity."""

import shlex
from collections.abc import Iterator

from msgspec.structs import replace

from ullage.decide.explain.proof import key_of
from ullage.decide.explain.remedies_of_request import create_claim, new_claim
from ullage.decide.explain.remedy import Case, Change, Remedy, clone, patch, recreate
from ullage.decide.placement.filters.node_terms import untolerated
from ullage.decide.placement.filters.resources import spoken
from ullage.model.admission import LEASED_TAINT
from ullage.model.device import Inventory
from ullage.model.draining import DRAINING_TAINT
from ullage.model.fact_event import Added, Updated
from ullage.model.node import Node, Taint
from ullage.model.provisioner import DELETION_TAINT, HOST_LABEL, PROVISIONER_LABEL
from ullage.model.resources import GPU
from ullage.model.shape_terms import Toleration
from ullage.model.volume import PersistentVolume, PersistentVolumeClaim
from ullage.state.node_columns import UNREADY_TAINTS


def uncordoned(case: Case) -> Iterator[Remedy]:
    if case.node is not None:
        yield Remedy(
            sentence=f"uncordon {case.node.name}",
            commands=(f"kubectl describe node {case.node.name}", f"kubectl uncordon {case.node.name}"),
            changes=case.with_node(case.node, unschedulable=False, taints=_others(case.node, "unschedulable")),
        )


def started(case: Case) -> Iterator[Remedy]:
    """The node comes up by itself: as its pool's template says, if it is a pool's."""
    node = case.node
    if node is None:
        return
    pool = next((one for one in case.pools if one.name == node.labels.get(PROVISIONER_LABEL)), None)
    changes: list[Change] = []
    ready = replace(node, ready=True, starting=False, taints=_settled(node))
    if pool is not None and not node.allocatable.get(GPU):
        gpus = pool.template.gpus
        ready = replace(ready, allocatable=node.allocatable | pool.template.resources | {GPU: gpus.count * 1000})
        if node.name not in case.assigner.snapshot.state.inventories:
            report = Inventory(node=node.name, reported_at=case.now, devices=gpus.devices(node.name), kind=gpus.kind)
            changes.append(Added(key_of(node.name), report))
    age = f" since {case.now - node.created:.0f} s" if 0 < node.created < case.now else ""
    yield Remedy(
        sentence=f"wait: {node.name} is starting{age}",
        commands=(f"kubectl describe node {node.name}", f"ullage explain node/{node.name}"),
        changes=(*changes, Updated(key_of(node.name), node, ready)),
    )


def made_ready(case: Case) -> Iterator[Remedy]:
    if case.node is not None:
        yield Remedy(
            sentence=f"bring {case.node.name} back to Ready: its kubelet and its network",
            commands=(f"kubectl describe node {case.node.name}",),
            changes=case.with_node(case.node, ready=True, starting=False, taints=_settled(case.node)),
        )


def _settled(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.taints if taint.key not in UNREADY_TAINTS)


def _others(node: Node, suffix: str) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.taints if not taint.key.endswith(suffix))


def tolerating(case: Case) -> Iterator[Remedy]:
    node = case.node
    taint = None if node is None else untolerated(case.ready.shape, node.taints)
    if node is None or taint is None:
        return
    if taint.key == LEASED_TAINT:
        yield from _on_leased(case, node)
        return
    others = tuple(one for one in node.taints if one != taint)
    if taint.key in (DELETION_TAINT, DRAINING_TAINT) or taint.key in UNREADY_TAINTS:
        marks = "which says that it was not ready" if taint.key in UNREADY_TAINTS else "which marks it for removal"
        yield Remedy(
            sentence=f"keep {node.name}: remove its taint {taint.key}, {marks}",
            commands=(f"kubectl taint node {node.name} {taint.key}-",),
            changes=case.with_node(node, taints=others),
        )
        return
    all_of_them = [one for one in node.taints if untolerated(case.ready.shape, (one,)) is not None]
    more = tuple(Toleration(key=one.key, value=one.value, effect=one.effect) for one in all_of_them)
    said = " and ".join(f"taint {one.key}{f'={one.value}' if one.value else ''}:{one.effect}" for one in all_of_them)
    yield Remedy(
        sentence=f"tolerate {said}, as on {node.name}",
        commands=tuple(
            f"kubectl -n {case.pod.key.namespace} patch pod {case.pod.key.name} --type json -p "
            + shlex.quote(
                f'[{{"op":"add","path":"/spec/tolerations/-","value":{{"key":"{one.key}","operator":"Equal",'
                f'"value":"{one.value}","effect":"{one.effect}"}}}}]'
            )
            for one in all_of_them
        ),
        changes=case.with_shape(tolerations=(*case.pod.shape.tolerations, *more)),
    )


def _on_leased(case: Case, node: Node) -> Iterator[Remedy]:
    """Pods on leased nodes have a claim, and get the toleration from the webhook."""
    more = Toleration(key=LEASED_TAINT, exists=True)
    tolerations = (*case.pod.shape.tolerations, more)
    if case.claim is not None:
        yield Remedy(
            sentence=f"create {case.pod.key} again while the webhook runs, for {node.name}: the webhook adds the "
            f"toleration of {LEASED_TAINT}",
            commands=("ullage check", *recreate(case.pod, "nothing")),
            changes=case.with_shape(tolerations=tolerations),
        )
        return
    claim = new_claim(case, case.pod.key.name)
    yield Remedy(
        sentence=f"name a GpuClaim in the annotation gpu.scheduling/claim: {node.name} gives its GPUs by claims only",
        commands=(create_claim(claim), *recreate(case.pod, "annotation gpu.scheduling/claim")),
        changes=(
            Added(claim.key, claim),
            *case.with_pod(claim=claim.key.name, shape=clone(case.pod.shape, tolerations=tolerations)),
        ),
    )


def labelled(case: Case) -> Iterator[Remedy]:
    """The pod asks for fewer labels, or the node gets them. A host name is no label to give to another node."""
    node, claim = case.node, case.claim
    if node is None:
        return
    missing = [(key, value) for key, value in case.ready.shape.node_selector if node.labels.get(key) != value]
    of_claim = [] if claim is None else [pair for pair in missing if pair not in case.pod.shape.node_selector]
    own = [pair for pair in missing if pair in case.pod.shape.node_selector]
    said = ", ".join(f"{key}={value}" for key, value in missing)
    changes: list[Change] = []
    commands: list[str] = []
    if of_claim and claim is not None:
        labels = tuple(pair for pair in claim.node_labels if pair not in of_claim)
        pool = "" if any(key == PROVISIONER_LABEL for key, _ in of_claim) else claim.pool
        changes.append(Updated(claim.key, claim, replace(claim, node_labels=labels, pool=pool)))
        commands.append(f"kubectl -n {claim.key.namespace} edit gpuclaim {claim.key.name}")
    if own or not missing:
        selector = tuple(pair for pair in case.pod.shape.node_selector if pair not in own)
        affinity = case.pod.shape.node_affinity if missing else None
        changes += case.with_shape(node_selector=selector, node_affinity=affinity)
        commands += recreate(case.pod, "spec.nodeSelector" if missing else "spec.affinity.nodeAffinity")
    what = f"no longer ask for {said}" if missing else "relax the required node affinity"
    absent = [value for key, value in missing if key == HOST_LABEL and value not in _names(case)]
    aside = f": there is no node {absent[0]}" if absent else f": {node.name} would take it"
    yield Remedy(sentence=what + aside, commands=tuple(commands), changes=tuple(changes))
    if missing and not any(key in (HOST_LABEL, PROVISIONER_LABEL) for key, _ in missing):
        yield Remedy(
            sentence=f"label {node.name} {said}",
            commands=(f"kubectl label node {node.name} --overwrite {said.replace(', ', ' ')}",),
            changes=case.with_node(node, labels=node.labels | dict(missing)),
        )


def _names(case: Case) -> set[str]:
    return {node.labels.get(HOST_LABEL, name) for name, node in case.assigner.snapshot.state.nodes.items()}


def unnamed(case: Case) -> Iterator[Remedy]:
    yield case.asking_pod(
        f"leave spec.nodeName out: there is no node {case.pod.shape.node_name}", "spec.nodeName", node_name=""
    )


def without_host_port(case: Case) -> Iterator[Remedy]:
    ports = ", ".join(str(port.port) for port in case.pod.shape.host_ports)
    yield case.asking_pod(f"leave hostPort {ports} out, or use another", "hostPort", host_ports=())


def smaller(case: Case) -> Iterator[Remedy]:
    """The pod asks for what the largest nodes have."""
    node = case.node
    if node is None:
        return
    shape, claim = case.pod.shape, case.claim
    beyond = [(name, amount) for name, amount in case.ready.shape.requests if amount > node.allocatable.get(name, 0)]
    fields = ", ".join(f"{spoken(name, node.allocatable.get(name, 0))} {name}" for name, _ in beyond)
    requests = tuple(
        (name, min(amount, node.allocatable.get(name, 0))) for name, amount in shape.requests if name in dict(beyond)
    )
    kept = tuple((name, amount) for name, amount in shape.requests if name not in dict(beyond))
    new = tuple(sorted((*kept, *((name, amount) for name, amount in requests if amount))))
    changes: list[Change] = [*case.with_shape(requests=new)]
    commands = list(recreate(case.pod, "resources"))
    gpus = node.allocatable.get(GPU, 0) // 1000
    if claim is not None and GPU in dict(beyond):
        if not gpus:
            return
        changes.append(Updated(claim.key, claim, replace(claim, ask=replace(claim.ask, count=gpus))))
        commands = [patch("gpuclaim", claim.key, {"spec": {"devices": {"count": gpus}}})]
    yield Remedy(
        sentence=f"ask for at most {fields}: that is what {node.name}, the largest node that would do, has",
        commands=tuple(commands),
        changes=tuple(changes),
    )


def bounded(case: Case) -> Iterator[Remedy]:
    yield case.asking_pod(
        f"give every container of {case.pod.key} requests or limits of cpu and memory", "resources", unbounded=False
    )


def with_ready_volumes(case: Case) -> Iterator[Remedy]:
    """Each claim that is not usable is there, and bound to a volume that every node reaches."""
    state, storage = case.assigner.snapshot.state, case.assigner.snapshot.storage
    changes: list[Change] = []
    said: list[str] = []
    for use in case.pod.shape.claims:
        known = state.volume_claims.get(use.claim)
        if known is not None and known.bound and any(one.name == known.volume for one in storage.volumes()):
            continue
        volume = PersistentVolume(name=f"new-{use.claim.name}", labels={}, claim_ref=use.claim)
        uid = f"new-{use.claim.name}" if known is None else known.uid
        owner = use.owner if known is None else known.owner
        new = PersistentVolumeClaim(key=use.claim, uid=uid, owner=owner, volume=volume.name, bound=True)
        changes.append(Added(key_of(volume.name), volume))
        changes.append(Added(use.claim, new) if known is None else Updated(use.claim, known, new))
        what = "create" if known is None else "have a volume made for"
        said.append(f"{what} PersistentVolumeClaim {use.claim}")
    if said:
        namespace = case.pod.key.namespace
        yield Remedy(
            sentence=f"{' and '.join(said)}: see its storage class and provisioner",
            commands=(f"kubectl -n {namespace} get pvc", f"kubectl -n {namespace} describe pvc {_first(case)}"),
            changes=tuple(changes),
        )


def _first(case: Case) -> str:
    return next((use.claim.name for use in case.pod.shape.claims), "")


def with_spread_label(case: Case) -> Iterator[Remedy]:
    node = case.node
    if node is None:
        return
    nodes = case.assigner.snapshot.state.nodes.values()
    keys = [one.topology_key for one in case.pod.shape.spread if one.topology_key not in node.labels and one.hard]
    labels = {
        key: next((other.labels[key] for other in nodes if key in other.labels), "a") for key in dict.fromkeys(keys)
    }
    said = " ".join(f"{key}={value}" for key, value in labels.items())
    yield Remedy(
        sentence=f"label {node.name} with what its spread constraint names: {', '.join(labels)}",
        commands=(f"kubectl label node {node.name} {said}",),
        changes=case.with_node(node, labels=node.labels | labels),
    )
    yield from softly_spread(case)


def softly_spread(case: Case) -> Iterator[Remedy]:
    soft = tuple(replace(one, hard=False) for one in case.pod.shape.spread)
    yield case.asking_pod(
        "set whenUnsatisfiable: ScheduleAnyway in its topologySpreadConstraints, or a larger maxSkew",
        "topologySpreadConstraints",
        spread=soft,
    )


def preferring_near(case: Case) -> Iterator[Remedy]:
    yield case.asking_pod(
        "prefer instead of require in spec.affinity.podAffinity, or start the pods it must be near first",
        "spec.affinity.podAffinity",
        near=(),
    )


def preferring_away(case: Case) -> Iterator[Remedy]:
    yield case.asking_pod(
        "prefer instead of require in spec.affinity.podAntiAffinity", "spec.affinity.podAntiAffinity", away=()
    )
