"""Choose who serves a waiting pod: Karpenter or the NodeProvisioners, by what fits and by the price of one GPU.

Both loops ask here, with the same facts, so that a request is served by one of them and never by both. A choice that
was acted upon stays.
"""

from collections.abc import Iterable

from ullage.decide.karpenter.node_pool_mapping import Chosen
from ullage.decide.placement.devices.gpu_models import is_model, tflops_of
from ullage.model.claim import DeviceRequest
from ullage.model.provisioner import Provisioner
from ullage.model.units import Instant

Price = tuple[bool, float]
"""Order of prices: known ones first, then by the price of one GPU per hour, in millionths."""


def prefers_karpenter(chosen: Chosen, ask: DeviceRequest, provisioners: Iterable[Provisioner], *, now: Instant) -> bool:
    """True if the mapping's GPUs are cheaper than those of every NodeProvisioner that could serve the request.

    A price that is not known comes after every known one. Equal prices are served by the NodeProvisioner, whose nodes
    come without a hand-over. Without a suitable NodeProvisioner the provisioning plan says so, and Karpenter serves.
    """
    theirs = [_price_of(one) for one in provisioners if _may_serve(one, ask, now)]
    mine = (chosen.mapping.price_per_gpu == 0, float(chosen.mapping.price_per_gpu))
    return bool(theirs) and mine < min(theirs)


def _price_of(provisioner: Provisioner) -> Price:
    template = provisioner.template
    return template.price == 0, template.price / max(1, template.gpus.count)


def _may_serve(provisioner: Provisioner, ask: DeviceRequest, now: Instant) -> bool:
    """True if a new node of the provisioner could have the GPUs, and it may buy. Placement is the plan's to check."""
    gpus, limits, back_off = provisioner.template.gpus, provisioner.thresholds, provisioner.back_off
    if limits.paused or limits.recommend_only or (back_off is not None and back_off.until > now):
        return False
    return (
        gpus.count >= ask.count
        and is_model(gpus.model, ask.model)
        and gpus.memory >= ask.memory
        and (tflops_of(gpus.model) or 0) >= ask.tflops
    )
