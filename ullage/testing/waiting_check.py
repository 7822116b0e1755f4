"""Whether somebody waits who need not: the live decisions, made once more from scratch on what the API server holds."""

from collections.abc import Iterator

from ullage.control.lease_sweeper import gpu_leases
from ullage.decide.accounting import account_for_bound
from ullage.decide.planning import Known, Planner
from ullage.kube.api import KubeApi
from ullage.model.event import Appeared, ObjectKey
from ullage.state.foreign import ForeignHolds
from ullage.state.placements import Placements
from ullage.watch.picture import read_picture


async def read_fresh(api: KubeApi, lease_namespace: str) -> Placements:
    """The cluster as it is now, with what Leases say is being given away."""
    placements = Placements(await read_picture(api))
    account_for_bound(placements)
    holds, leases = ForeignHolds(placements), gpu_leases(lease_namespace)
    for pod in placements.state.pods.values():
        holds.pod_heard(pod, gone=False)
    for lease in (await api.list(leases.resource, lease_namespace, selection=leases.selection)).items:
        holds.apply(Appeared(ObjectKey(lease_namespace, lease.metadata.name), leases.read(lease)))
    return placements


def waiting_for_nothing(placements: Placements, *, now: float) -> Iterator[str]:
    """Pods that would get a place at once, were they only asked. The placements hold them afterwards."""
    planner = Planner(placements, Known(), now=now)
    planner.run()
    for key, seat in planner.seats.items():
        yield f"{key} waits, and would fit on {seat.node}"
