"""Pods that wait though they would fit: the live decisions, made again from scratch on the API server's objects."""

from collections.abc import Iterator

from ullage.control.leases.loop import gpu_leases
from ullage.decide.explain.planning import PlanInputs, SchedulePlanner
from ullage.decide.placement.observed_gpus import account_for_bound, hold_in_use
from ullage.kube.client.api import KubeApi
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot
from ullage.watch.sources import read_cluster


async def read_fresh(api: KubeApi, lease_namespace: str) -> ClusterSnapshot:
    """Snapshot of the cluster as it is now, with the GPUs that Leases hold for binds under way."""
    snapshot = ClusterSnapshot(await read_cluster(api))
    account_for_bound(snapshot)
    leases = gpu_leases(lease_namespace)
    for lease in (await api.list(leases.resource, lease_namespace, selection=leases.selection)).items:
        snapshot.apply(Added(ObjectKey(lease_namespace, lease.metadata.name), leases.read(lease)))
    hold_in_use(snapshot, sorted(snapshot.state.inventories))
    return snapshot


def waiting_for_nothing(snapshot: ClusterSnapshot, *, now: float) -> Iterator[str]:
    """Pods that would be placed if they were tried now. The snapshot holds them afterwards."""
    planner = SchedulePlanner(snapshot, PlanInputs(), now=Instant(now))
    planner.run()
    for key, placement in planner.placements.items():
        yield f"{key} waits, and would fit on {placement.node}"
