"""GPU use against Leases: processes of pods that do not hold the GPU, and holders whose GPU is idle."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ullage.model.pod import Pod
from ullage.model.units import Instant


@dataclass(frozen=True, slots=True, order=True)
class UnleasedProcess:
    """A process on a GPU that its pod does not hold, or that is in no pod at all."""

    device: int
    pid: int
    pod: str = ""
    """Uid of the process' pod; empty for a process of the host."""


Occupants = Mapping[int, Mapping[int, str]]
"""Process ids by GPU id, each with the uid of its pod; empty for a process of the host."""

Rights = Mapping[int, Collection[str]]
"""Uids of the pods that may use a GPU, by GPU id."""


def rights_of(pods: Collection[Pod]) -> dict[int, tuple[str, ...]]:
    """Uids of the pods that hold each GPU, by the allocations on the pods of a node."""
    found: dict[int, tuple[str, ...]] = {}
    for pod in sorted(pods, key=lambda pod: pod.uid):
        for gpu in pod.gpu_ids:
            found[gpu] = (*found.get(gpu, ()), pod.uid)
    return found


def unleased(occupants: Occupants, rights: Rights) -> tuple[UnleasedProcess, ...]:
    """Unleased processes, in order of GPU and process."""
    return tuple(
        sorted(
            UnleasedProcess(gpu, pid, pod)
            for gpu, processes in occupants.items()
            for pid, pod in processes.items()
            if not pod or pod not in rights.get(gpu, ())
        )
    )


@dataclass(frozen=True, slots=True)
class GpuTenancy:
    """A GPU that pods hold."""

    holders: tuple[str, ...]
    idle_since: Instant
    """Instant at which it was last seen to compute, or was given to its holders."""


def tenancies(
    before: Mapping[int, GpuTenancy], rights: Rights, utilisation: Mapping[int, int | None], *, now: Instant
) -> dict[int, GpuTenancy]:
    """Held GPUs that report their utilisation, each with the instant since which its holders have left it idle."""
    found = {}
    for gpu, uids in sorted(rights.items()):
        busy, holders = utilisation.get(gpu), tuple(sorted(uids))
        if busy is None or not holders:
            continue
        known = before.get(gpu)
        goes_on = known is not None and known.holders == holders and not busy
        found[gpu] = known if known is not None and goes_on else GpuTenancy(holders, now)
    return found
