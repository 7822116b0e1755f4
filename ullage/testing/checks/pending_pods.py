"""Pods that wait though they would fit: the live decisions, made again from scratch on the API server's objects."""

from collections.abc import Iterator

from ullage.control.leases.loop import gpu_leases
from ullage.decide.explain.planning import PlanInputs, SchedulePlanner
from ullage.decide.placement.observed_gpus import account_for_bound, hold_in_use
from ullage.kube.client.api import KubeApi
from ullage.model.fact_event import Added, ObjectKey
from ullage.state.snapshot import ClusterSnapshot
from ullage.watch.sources import read_picture


async def read_fresh(api: KubeApi, lease_namespace: str) -> ClusterSnapshot:
    """Snapshot of the cluster as it is now, with the GPUs that Leases hold for binds under way."""
    placements = ClusterSnapshot(await read_picture(api))
    account_for_bound(placements)
    leases = gpu_leases(lease_namespace)
    for lease in (await api.list(leases.resource, lease_namespace, selection=leases.selection)).items:
        placements.apply(Added(ObjectKey(lease_namespace, lease.metadata.name), leases.read(lease)))
    hold_in_use(placements, sorted(placements.state.inventories))
    return placements


def waiting_for_nothing(placements: ClusterSnapshot, *, now: float) -> Iterator[str]:
    """Pods that would be placed if they were tried now. The snapshot holds them afterwards."""
    planner = SchedulePlanner(placements, PlanInputs(), now=now)
    planner.run()
    for key, seat in planner.seats.items():
        yield f"{key} waits, and would fit on {seat.node}"
