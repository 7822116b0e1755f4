"""Where `plan` and `explain` get the cluster from: manifests, or the cluster of the kubeconfig, which is only read."""

import asyncio
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster import ClusterChoice, cluster_options

if TYPE_CHECKING:
    from ullage.decide.planning import Known
    from ullage.errors import Unreadable
    from ullage.kube.api import KubeApi
    from ullage.kube.resource import Resource
    from ullage.model.drain import Workload
    from ullage.model.event import ObjectKey
    from ullage.model.provisioner import Provisioner
    from ullage.state.cluster import ClusterState
    from ullage.state.placements import Placements

LEASE_NAMESPACE = "ullage-system"
POLICY_NAMES = ("fragmentation", "best-fit", "packing", "spread")


@dataclass(frozen=True, slots=True)
class Scene:
    """What is decided on, and the moment it is decided for."""

    placements: "Placements"
    known: "Known"
    now: float
    namespace: str
    """The one meant where none is said."""
    origin: str
    provisioners: "tuple[Provisioner, ...]" = ()
    """Pools of nodes, by name."""
    workloads: "tuple[Workload, ...]" = ()
    """Controllers that make pods again, as far as the files have them; the cluster is not asked for them."""


@dataclass(frozen=True, slots=True)
class SceneChoice:
    """Which cluster is meant: these files, or the one that is connected to."""

    files: tuple[str, ...]
    namespace: str | None
    cluster: ClusterChoice

    def load(self) -> Scene:
        """The cluster as it is. Warnings go to standard error."""
        return self._offline() if self.files else asyncio.run(_live(self.namespace, self.cluster))

    def _offline(self) -> Scene:
        from ullage.decide.planning import Known
        from ullage.kube.manifests import read_manifests

        stdin = sys.stdin.buffer.read() if "-" in self.files else None
        namespace = self.namespace or "default"
        found = read_manifests(self.files, stdin=stdin, namespace=namespace)
        for warning in found.warnings:
            _warn(warning)
        # Plans are the same whenever they are made: reports are old only beside newer ones.
        newest = max((inventory.reported_at for inventory in found.state.inventories.values()), default=0.0)
        known = Known(unreadable_claims=found.unreadable_claims)
        placements = _placements(found.state)
        return Scene(placements, known, newest, namespace, "the files", found.provisioners, found.workloads)


def scene_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds `-f`, `--namespace`, `--kubeconfig` and `--context`, which come as `where`; and `--policy`."""

    @functools.wraps(command)
    def chosen(
        *, files: tuple[str, ...], namespace: str | None, kubeconfig: str | None, context: str | None, **rest: Any
    ) -> None:
        command(where=SceneChoice(files, namespace, ClusterChoice.of(kubeconfig, context)), **rest)

    what = "Manifests instead of the cluster: YAML or JSON, a folder of them, or - for standard input; may be repeated."
    options = (
        click.option("--filename", "-f", "files", multiple=True, metavar="FILE", help=what),
        click.option(
            "--namespace", "-n", help="Namespace of what says none. Default: that of the context; with -f, default."
        ),
        click.option(
            "--policy",
            type=click.Choice(POLICY_NAMES),
            default="fragmentation",
            show_default=True,
            help="How GPUs are packed.",
        ),
    )
    with_options = cluster_options(chosen)
    for option in reversed(options):
        with_options = option(with_options)
    return with_options


async def _live(namespace: str | None, choice: ClusterChoice) -> Scene:
    from ullage.clock import WallClock
    from ullage.decide.planning import Known
    from ullage.kube.connect import find_access
    from ullage.watch.picture import read_picture

    access = find_access(choice.kubeconfig, choice.context)
    unreadable = _Unreadable()
    async with choice.connected() as api:
        state = await read_picture(api, unreadable.take)
        placements = _placements(state)
        await _hold_leased(api, placements)
        pools = await _provisioners(api)
    known = Known(unreadable_claims=unreadable.claims)
    return Scene(placements, known, WallClock().now(), namespace or access.namespace, "the cluster", pools)


async def _provisioners(api: "KubeApi") -> "tuple[Provisioner, ...]":
    """Pools of nodes, where the cluster has any and we may see them."""
    from ullage.errors import Forbidden, NotFound, Unreadable
    from ullage.kube.provisioner_read import read_provisioner
    from ullage.kube.resources import NODE_PROVISIONERS

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


class _Unreadable:
    """Objects that make no sense. A bad claim concerns the pods that name it; of all others there is a warning."""

    def __init__(self) -> None:
        self.claims: dict[ObjectKey, str] = {}

    def take(self, resource: "Resource[Any]", key: "ObjectKey", error: "Unreadable") -> None:
        from ullage.kube.resources import GPU_CLAIMS

        _warn(f"{error.message}; it is left out")
        if resource.id == GPU_CLAIMS.id:
            self.claims[key] = error.message


async def _hold_leased(api: "KubeApi", placements: "Placements") -> None:
    """GPUs whose Leases say that somebody is about to have them."""
    from ullage.control.lease_sweeper import gpu_leases
    from ullage.errors import Forbidden
    from ullage.model.event import Appeared, ObjectKey
    from ullage.state.foreign import ForeignHolds

    leases = gpu_leases(LEASE_NAMESPACE)
    holds = ForeignHolds(placements)
    for pod in placements.state.pods.values():
        holds.pod_heard(pod, gone=False)
    try:
        found = (await api.list(leases.resource, LEASE_NAMESPACE, selection=leases.selection)).items
    except Forbidden as error:
        _warn(f"{error.message}; GPUs of pods that are being bound right now may be planned with")
        return
    for lease in found:
        holds.apply(Appeared(ObjectKey(LEASE_NAMESPACE, lease.metadata.name), leases.read(lease)))


def _placements(state: "ClusterState") -> "Placements":
    from ullage.decide.accounting import account_for_bound
    from ullage.state.placements import Placements

    placements = Placements(state)
    unknown = account_for_bound(placements)
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        named = ", ".join(map(str, unknown[:3]))
        _warn(
            f"{named}{more}: no word on which GPUs they have; they are counted, and any GPU of their node may be named"
        )
    return placements


def _warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)
