"""Fleet of a simulated world. Frozen."""

import re
from dataclasses import dataclass

from ullage.kube.client.resource import JsonObject
from ullage.model.provisioner import NodeTemplate
from ullage.sim.world.spec import FleetNode

DEFAULT_GPU_MEMORY = 80 << 30
"""Bytes of GPU memory assumed if none is given. A share of a GPU is a share of its memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedFleet:
    """Nodes at the beginning, and other objects: NodeProvisioners, quotas, budgets, whole Nodes."""

    nodes: tuple[FleetNode, ...] = ()
    objects: tuple[JsonObject, ...] = ()
    templates: tuple[NodeTemplate, ...] = ()
    """Templates of nodes that could be bought."""
    skipped: tuple[str, ...] = ()
    """Rows that were left out, one sentence each."""
    smallest_gpu: int = 0
    """Bytes of the smallest GPU, if known from elsewhere; 0 otherwise."""
    warnings: tuple[str, ...] = ()
    name: str = ""
    """Names of its files, without folders, for reports."""

    @property
    def gpus(self) -> int:
        """GPUs of the nodes at the beginning."""
        return sum(node.template.gpus.count for node in self.nodes)

    @property
    def share_of(self) -> int:
        """Bytes that a share of a GPU is a share of: the memory of the smallest GPU, so that the share fits on every
        GPU.
        """
        if self.smallest_gpu:
            return self.smallest_gpu
        gpus = [*(node.template.gpus for node in self.nodes), *(one.gpus for one in self.templates)]
        return min((one.memory for one in gpus if one.count and one.memory), default=DEFAULT_GPU_MEMORY)


def model_label(model: str) -> str:
    """A model's name as a label can have it."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", model).strip("-._")[:63]


def joined(fleets: list[SimulatedFleet]) -> SimulatedFleet:
    """All fleets as one."""
    return SimulatedFleet(
        nodes=tuple(node for fleet in fleets for node in fleet.nodes),
        objects=tuple(one for fleet in fleets for one in fleet.objects),
        templates=tuple(one for fleet in fleets for one in fleet.templates),
        skipped=tuple(one for fleet in fleets for one in fleet.skipped),
        warnings=tuple(one for fleet in fleets for one in fleet.warnings),
    )
