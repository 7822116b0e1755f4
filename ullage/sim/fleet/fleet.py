"""A fleet as a world is told of it. Frozen."""

import re
from dataclasses import dataclass

from ullage.kube.resource import JsonObject
from ullage.model.provisioner import NodeTemplate
from ullage.sim.world.spec import FleetNode

DEFAULT_GPU_MEMORY = 80 << 30
"""Bytes of a GPU nobody says the memory of: parts of GPUs are parts of their memory."""
MODEL_LABEL = "nvidia.com/gpu.product"
"""On nodes: pods that take one of several models ask for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Nodes that are there, and objects: NodeProvisioners, quotas, budgets, whole Nodes."""

    nodes: tuple[FleetNode, ...] = ()
    objects: tuple[JsonObject, ...] = ()
    templates: tuple[NodeTemplate, ...] = ()
    """What more could be bought."""
    skipped: tuple[str, ...] = ()
    """Rows that were left out, each as a sentence."""
    smallest_gpu: int = 0
    """Bytes, where it is known otherwise."""
    warnings: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """Of the nodes that are there."""
        return sum(node.template.gpus.count for node in self.nodes)

    @property
    def share_of(self) -> int:
        """Bytes a part of a GPU is measured by: the memory of the smallest GPU, so that it fits on all of them."""
        if self.smallest_gpu:
            return self.smallest_gpu
        gpus = [*(node.template.gpus for node in self.nodes), *(one.gpus for one in self.templates)]
        return min((one.memory for one in gpus if one.count and one.memory), default=DEFAULT_GPU_MEMORY)


def model_label(model: str) -> str:
    """A model's name as a label can have it."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", model).strip("-._")[:63]


def joined(fleets: list[Fleet]) -> Fleet:
    """All of them as one."""
    return Fleet(
        nodes=tuple(node for fleet in fleets for node in fleet.nodes),
        objects=tuple(one for fleet in fleets for one in fleet.objects),
        templates=tuple(one for fleet in fleets for one in fleet.templates),
        skipped=tuple(one for fleet in fleets for one in fleet.skipped),
        warnings=tuple(one for fleet in fleets for one in fleet.warnings),
    )
