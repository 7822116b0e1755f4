"""Arguments of the EC2 calls that make a purchase. Pure: a request in, the arguments of a call out.

Parameters of a pool:

* `launchTemplate`: name or id; required. It defines how the instance boots and joins the cluster.
* `launchTemplateVersion`: `$Default` by default.
* `instanceTypes`: separated by commas, the most wanted first; by default that of the launch template.
* `subnets`: separated by commas; `zone:subnet` where purchases may be bound to a zone.
* `purchase`: `Fleet` (CreateFleet, default) or `Run` (RunInstances: one type and one subnet).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.cloud.api import CreateRequest, PoolRef, RequestRejected
from ullage.model.provisioner import PROVISIONER_LABEL, CapacityType

CLUSTER_TAG = "gpu.scheduling/cluster"
POOL_TAG = PROVISIONER_LABEL
TOKEN_TAG = "gpu.scheduling/token"

Arguments = dict[str, Any]


def tags(request: CreateRequest, cluster: str) -> list[Mapping[str, str]]:
    """Tags by which instances are found again: cluster, pool and token of the purchase."""
    said = {
        CLUSTER_TAG: cluster,
        POOL_TAG: request.pool.name,
        TOKEN_TAG: request.token,
        "Name": f"{cluster}-{request.pool.name}",
    }
    return [{"Key": key, "Value": value} for key, value in sorted(said.items())]


def is_fleet(pool: PoolRef) -> bool:
    """True if the pool is bought with CreateFleet, False for RunInstances. Raises RequestRejected for anything else."""
    how = pool.parameters.get("purchase", "Fleet")
    if how not in ("Fleet", "Run"):
        raise RequestRejected(f"pool {pool.name}: provider parameter purchase is {how!r}; say Fleet or Run")
    return how == "Fleet"


def fleet_arguments(request: CreateRequest, cluster: str) -> Arguments:
    """Arguments of CreateFleet: an instant fleet, which is complete when it has answered."""
    spot = request.template.capacity_type is CapacityType.SPOT
    options: Arguments = {"AllocationStrategy": "price-capacity-optimized" if spot else "lowest-price"}
    if request.least > 1:
        options |= {"MinTargetCapacity": request.least, "SingleInstanceType": True}
    config: Arguments = {"LaunchTemplateSpecification": _launch_template(request.pool)}
    if overrides := _overrides(request):
        config["Overrides"] = overrides
    return {
        "Type": "instant",
        "ClientToken": request.token,
        "LaunchTemplateConfigs": [config],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": request.count,
            "DefaultTargetCapacityType": "spot" if spot else "on-demand",
        },
        "SpotOptions" if spot else "OnDemandOptions": options,
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": tags(request, cluster)},
            {"ResourceType": "fleet", "Tags": tags(request, cluster)},
        ],
    }


def run_arguments(request: CreateRequest, cluster: str) -> Arguments:
    """Arguments of RunInstances: as many as are available between `least` and `count`."""
    arguments: Arguments = {
        "ClientToken": request.token,
        "LaunchTemplate": _launch_template(request.pool),
        "MinCount": max(1, request.least),
        "MaxCount": request.count,
        "TagSpecifications": [{"ResourceType": "instance", "Tags": tags(request, cluster)}],
    }
    for override in _overrides(request)[:1]:
        if "AvailabilityZone" in override:
            arguments["Placement"] = {"AvailabilityZone": override["AvailabilityZone"]}
        arguments |= {key: override[key] for key in ("InstanceType", "SubnetId") if key in override}
    if request.template.capacity_type is CapacityType.SPOT:
        arguments["InstanceMarketOptions"] = {
            "MarketType": "spot",
            "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"},
        }
    return arguments


def words(text: str) -> list[str]:
    """Parts of a text between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _launch_template(pool: PoolRef) -> Arguments:
    name = pool.parameters.get("launchTemplate", "")
    if not name:
        raise RequestRejected(f"pool {pool.name}: provider parameter launchTemplate is not set")
    key = "LaunchTemplateId" if name.startswith("lt-") else "LaunchTemplateName"
    return {key: name, "Version": pool.parameters.get("launchTemplateVersion", "$Default")}


def _overrides(request: CreateRequest) -> list[Arguments]:
    """Every wanted instance type in every suitable subnet or zone."""
    types: Sequence[str] = words(request.pool.parameters.get("instanceTypes", "")) or [""]
    places = _places(request)
    found = [({"InstanceType": name} if name else {}) | place for name in types for place in places]
    return [override for override in found if override]


def _places(request: CreateRequest) -> list[Arguments]:
    pairs = [part.rpartition(":") for part in words(request.pool.parameters.get("subnets", ""))]
    if not request.zone:
        return [{"SubnetId": subnet} for _, _, subnet in pairs] or [{}]
    inside = [{"SubnetId": subnet} for zone, _, subnet in pairs if zone == request.zone]
    if pairs and not inside:
        raise RequestRejected(f"pool {request.pool.name}: provider parameter subnets has none in zone {request.zone}")
    return inside or [{"AvailabilityZone": request.zone}]
