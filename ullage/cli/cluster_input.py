"""Cluster input of `plan` and `explain`: manifests, or the cluster of the kubeconfig, which is only read."""

import asyncio
import functools
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.model.lease import LEASE_NAMESPACE
from ullage.model.scoring import DEFAULT_POLICY, LIVE_POLICIES

if TYPE_CHECKING:
    from ullage.decide.explain.planning import PlanInputs
    from ullage.decide.karpenter.facts import KarpenterFacts
    from ullage.errors import Unreadable
    from ullage.kube.client.api import KubeApi
    from ullage.kube.client.resource import Resource
    from ullage.kube.manifests.manifests import KarpenterObject
    from ullage.model.draining import WorkloadReplicas
    from ullage.model.fact_event import ObjectKey
    from ullage.model.provisioner import Provisioner
    from ullage.state.cluster import ClusterState
    from ullage.state.snapshot import ClusterSnapshot


ELECTION_LEASE = "ullage-scheduler"
"""Lease of the election of schedulers; those with another first profile add its name."""
CLOCKS_DIFFER = 15.0
"""Seconds by which our clock may be ahead of the scheduler's."""


@dataclass(frozen=True, slots=True)
class ClusterInput:
    """Cluster to decide on, and the instant to decide for."""

    snapshot: "ClusterSnapshot"
    known: "PlanInputs"
    now: float
    namespace: str
    """Namespace of objects given without one."""
    origin: str
    karpenter: "KarpenterFacts"
    """Smart pods, NodeClaims and NodePools; empty in a cluster without Karpenter."""
    provisioners: "tuple[Provisioner, ...]" = ()
    """Pools of nodes, by name."""
    workloads: "tuple[WorkloadReplicas, ...]" = ()
    """Workload controllers that replace their pods, from the files; a live cluster is not asked for them."""


@dataclass(frozen=True, slots=True)
class ClusterInputChoice:
    """Choice of the cluster input: files, or the connected cluster."""

    files: tuple[str, ...]
    namespace: str | None
    cluster: ClusterChoice

    def load(self) -> ClusterInput:
        """The cluster as it is. Warnings go to standard error."""
        return self._offline() if self.files else asyncio.run(_live(self.namespace, self.cluster))

    def _offline(self) -> ClusterInput:
        from ullage.decide.explain.planning import PlanInputs
        from ullage.kube.manifests.manifests import read_manifests

        stdin = sys.stdin.buffer.read() if "-" in self.files else None
        namespace = self.namespace or "default"
        found = read_manifests(self.files, stdin=stdin, namespace=namespace)
        for warning in found.warnings:
            _warn(warning)
        # Plans are the same whenever they are made: reports are old only beside newer ones.
        newest = max((inventory.reported_at for inventory in found.state.inventories.values()), default=0.0)
        known = PlanInputs(unreadable_claims=found.unreadable_claims)
        snapshot = _snapshot(found.state)
        _hold_in_use(snapshot)
        bought = _karpenter_facts(found.karpenter)
        return ClusterInput(
            snapshot, known, newest, namespace, "the files", bought, found.provisioners, found.workloads
        )


def scene_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds `-f`, `--namespace`, `--kubeconfig` and `--context`, which come as `where`; and `--policy`."""

    @functools.wraps(command)
    def chosen(
        *, files: tuple[str, ...], namespace: str | None, kubeconfig: str | None, context: str | None, **rest: Any
    ) -> None:
        command(where=ClusterInputChoice(files, namespace, ClusterChoice.of(kubeconfig, context)), **rest)

    what = "Manifests instead of the cluster: YAML or JSON, a folder of them, or - for standard input; may be repeated."
    options = (
        click.option("--filename", "-f", "files", multiple=True, metavar="FILE", help=what),
        click.option(
            "--namespace", "-n", help="Namespace of what says none. Default: that of the context; with -f, default."
        ),
        click.option(
            "--policy",
            type=click.Choice(LIVE_POLICIES),
            default=DEFAULT_POLICY.value,
            show_default=True,
            help="How GPUs are packed.",
        ),
    )
    with_options = cluster_options(chosen)
    for option in reversed(options):
        with_options = option(with_options)
    return with_options


async def _live(namespace: str | None, choice: ClusterChoice) -> ClusterInput:
    from ullage.clock import WallClock
    from ullage.decide.explain.planning import PlanInputs
    from ullage.kube.auth.connect import find_access
    from ullage.watch.sources import read_cluster

    access = find_access(choice.kubeconfig, choice.context)
    unreadable = _Unreadable()
    async with choice.connected() as api:
        state = await read_cluster(api, unreadable.take)
        snapshot = _snapshot(state)
        await _hold_leased(api, snapshot)
        _hold_in_use(snapshot)
        pools = await _provisioners(api)
        bought = await _karpenter(api)
        leading, nobody = await scheduler_leaders(api, WallClock().now())
    served = leading | {pod.scheduler for pod in snapshot.pods.values() if pod.gpu_ids} if leading else frozenset()
    known, now = (
        PlanInputs(unreadable_claims=unreadable.claims, schedulers=served, nobody_leads=nobody),
        WallClock().now(),
    )
    return ClusterInput(snapshot, known, now, namespace or access.namespace, "the cluster", bought, pools)


def _karpenter_facts(found: "Iterable[KarpenterObject]" = ()) -> "KarpenterFacts":
    from ullage.decide.karpenter.facts import KarpenterFacts
    from ullage.model.fact_event import Added, ObjectKey
    from ullage.model.karpenter import SmartPod

    facts = KarpenterFacts()
    for one in found:
        key = one.key if isinstance(one, SmartPod) else ObjectKey("", one.name)
        facts.apply(Added(key, one))
    return facts


async def _karpenter(api: "KubeApi") -> "KarpenterFacts":
    """Smart pods, NodeClaims and NodePools, where the cluster has Karpenter and we may see them."""
    from ullage.errors import Forbidden, NotFound
    from ullage.kube.client.api import ListSelector
    from ullage.kube.client.resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS
    from ullage.kube.read.karpenter import read_handover_node, read_node_claim, read_node_pool, read_smart_pod
    from ullage.model.karpenter import COMPONENT_LABEL, REQUEST_LABEL, SMART_SCHEDULER

    smart = ListSelector(labels=f"{COMPONENT_LABEL}={SMART_SCHEDULER}")
    bought = ListSelector(labels=REQUEST_LABEL)
    try:
        return _karpenter_facts(
            (
                *map(read_node_claim, (await api.list(NODE_CLAIMS)).items),
                *map(read_node_pool, (await api.list(NODE_POOLS)).items),
                *map(read_smart_pod, (await api.list(PODS, selection=smart)).items),
                *map(read_handover_node, (await api.list(NODES, selection=bought)).items),
            )
        )
    except NotFound:
        return _karpenter_facts()
    except Forbidden as error:
        _warn(f"{error.message}; Karpenter's NodeClaims are left out")
        return _karpenter_facts()


async def _provisioners(api: "KubeApi") -> "tuple[Provisioner, ...]":
    """Pools of nodes, where the cluster has any and we may see them."""
    from ullage.errors import Forbidden, NotFound, Unreadable
    from ullage.kube.client.resources import NODE_PROVISIONERS
    from ullage.kube.read.provisioner import read_provisioner

    found: dict[str, Provisioner] = {}
    try:
        for raw in (await api.list(NODE_PROVISIONERS)).items:
            try:
                found[raw.metadata.name] = read_provisioner(raw)
            except Unreadable as error:
                _warn(f"{error.message}; it is left out")
    except (Forbidden, NotFound):
        return ()
    return tuple(found[name] for name in sorted(found))


async def scheduler_leaders(api: "KubeApi", now: float) -> tuple[frozenset[str], str]:
    """Names of our schedulers by the Leases of their elections, and why none of them leads; empty where one does.

    Where no Lease can be seen nothing is said: the scheduler may have its Leases elsewhere.
    """
    from ullage.errors import Forbidden
    from ullage.kube.client.resources import LEASES
    from ullage.kube.read.leases import OTHER_LEASES
    from ullage.kube.timestamps import read_time
    from ullage.model.scoring import DEFAULT_SCHEDULER

    try:
        found = (await api.list(LEASES, LEASE_NAMESPACE, selection=OTHER_LEASES)).items
    except Forbidden:
        return frozenset(), ""
    ours = [one for one in found if one.metadata.name.startswith(ELECTION_LEASE)]
    names = {one.metadata.name.removeprefix(ELECTION_LEASE).lstrip("-") or DEFAULT_SCHEDULER for one in ours}
    held = [one.spec for one in ours if one.spec.holder_identity and one.spec.renew_time]
    ages = [(now - read_time(spec.renew_time), spec.lease_duration_seconds or 15) for spec in held]
    if not ours or any(age <= lasts + CLOCKS_DIFFER for age, lasts in ages):
        return frozenset(names), ""
    late = f"was renewed {min(ages)[0]:.0f} s ago and lasts {min(ages)[1]} s" if ages else "is held by nobody"
    return frozenset(names), f"Lease {ours[0].metadata.name} in namespace {LEASE_NAMESPACE} {late}"


class _Unreadable:
    """Objects that make no sense. A bad claim concerns the pods that name it; of all others there is a warning."""

    def __init__(self) -> None:
        self.claims: dict[ObjectKey, str] = {}

    def take(self, resource: "Resource[Any]", key: "ObjectKey", error: "Unreadable") -> None:
        from ullage.kube.client.resources import GPU_CLAIMS

        _warn(f"{error.message}; it is left out")
        if resource.id == GPU_CLAIMS.id:
            self.claims[key] = error.message


async def _hold_leased(api: "KubeApi", snapshot: "ClusterSnapshot") -> None:
    """Hold GPUs that Leases give to pods the snapshot does not account for."""
    from ullage.control.leases.loop import gpu_leases
    from ullage.errors import Forbidden
    from ullage.model.fact_event import Added, ObjectKey

    leases = gpu_leases(LEASE_NAMESPACE)
    try:
        found = (await api.list(leases.resource, LEASE_NAMESPACE, selection=leases.selection)).items
    except Forbidden as error:
        _warn(f"{error.message}; GPUs of pods that are being bound right now may be planned with")
        return
    for lease in found:
        snapshot.apply(Added(ObjectKey(LEASE_NAMESPACE, lease.metadata.name), leases.read(lease)))


def _snapshot(state: "ClusterState") -> "ClusterSnapshot":
    from ullage.decide.placement.observed_gpus import account_for_bound
    from ullage.state.snapshot import ClusterSnapshot

    snapshot = ClusterSnapshot(state)
    unknown = account_for_bound(snapshot)
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        named = ", ".join(map(str, unknown[:3]))
        _warn(
            f"{named}{more}: no word on which GPUs they have; they are counted, and any GPU of their node may be named"
        )
    return snapshot


def _hold_in_use(snapshot: "ClusterSnapshot") -> None:
    """Hold GPUs in use by processes of no known pod. Last, so that GPUs held already are not held again."""
    from ullage.decide.placement.observed_gpus import hold_in_use

    hold_in_use(snapshot, sorted(snapshot.state.inventories))


def _warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)
