"""Who is on which GPU, held against who may be: strangers, and holders who do nothing."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ullage.model.pod import Pod


@dataclass(frozen=True, slots=True, order=True)
class Stray:
    """A process on a GPU that was not given to its pod, or that is in no pod at all."""

    device: int
    pid: int
    pod: str = ""
    """The uid; empty for a process of the host."""


Occupants = Mapping[int, Mapping[int, str]]
"""By GPU id: process ids, each with the uid of its pod or nothing."""

Rights = Mapping[int, Collection[str]]
"""By GPU id: uids of the pods that may use it."""


def rights_of(pods: Collection[Pod]) -> dict[int, tuple[str, ...]]:
    """What the allocations on the pods of a node say."""
    found: dict[int, tuple[str, ...]] = {}
    for pod in sorted(pods, key=lambda pod: pod.uid):
        for gpu in pod.gpu_ids:
            found[gpu] = (*found.get(gpu, ()), pod.uid)
    return found


def strays(occupants: Occupants, rights: Rights) -> tuple[Stray, ...]:
    """In order of GPU and process."""
    return tuple(
        sorted(
            Stray(gpu, pid, pod)
            for gpu, processes in occupants.items()
            for pid, pod in processes.items()
            if not pod or pod not in rights.get(gpu, ())
        )
    )


@dataclass(frozen=True, slots=True)
class Tenancy:
    """A GPU that somebody holds."""

    holders: tuple[str, ...]
    idle_since: float
    """When it was last seen to compute, or was given to them."""


def tenancies(
    before: Mapping[int, Tenancy], rights: Rights, utilisation: Mapping[int, int | None], *, now: float
) -> dict[int, Tenancy]:
    """Held GPUs that say how busy they are, each with how long it has been idle for the same holders."""
    found = {}
    for gpu, uids in sorted(rights.items()):
        busy, holders = utilisation.get(gpu), tuple(sorted(uids))
        if busy is None or not holders:
            continue
        known = before.get(gpu)
        goes_on = known is not None and known.holders == holders and not busy
        found[gpu] = known if known is not None and goes_on else Tenancy(holders, now)
    return found
