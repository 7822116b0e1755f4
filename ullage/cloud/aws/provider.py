"""EC2 as a CloudProvider. boto3 blocks, so calls run in threads. The caller retries, with the same token."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from ullage.clock import Clock
from ullage.cloud.api import (
    CloudError,
    CreateRequest,
    CreateResult,
    NoCapacity,
    OutcomeUnknown,
    PoolRef,
    RequestRejected,
)
from ullage.cloud.aws.calls import CLUSTER_TAG, POOL_TAG, TOKEN_TAG, fleet_arguments, is_fleet, run_arguments, words
from ullage.cloud.aws.errors import ALREADY_GONE, NOT_FOUND, error_of
from ullage.errors import UserError
from ullage.model.instance import Instance, InstanceState
from ullage.model.provisioner import GpuTemplate, NodeTemplate
from ullage.model.resources import MILLI

_STATES: Mapping[str, InstanceState] = {
    "pending": InstanceState.PENDING,
    "running": InstanceState.RUNNING,
    "stopping": InstanceState.STOPPING,
    "stopped": InstanceState.STOPPING,
    "shutting-down": InstanceState.STOPPING,
}
_ID = re.compile(r"i-[0-9a-f]{8,17}")
_MOST_AT_ONCE = 500
"""Instances named in one call."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsSettings:
    """Cluster, region and endpoint of the EC2 client. Credentials are found by boto3."""

    cluster: str
    """Value of the tag that identifies this cluster's instances."""
    region: str = ""
    endpoint: str = ""
    """Alternative address of EC2, such as that of a test double."""
    seconds: float = 60.0
    """Read timeout of a call, in seconds."""


class AwsProvider:
    """EC2 in one region of one account."""

    name = "aws"
    staleness = 30.0
    """DescribeInstances is eventually consistent. AWS gives no bound; this value has a margin."""

    def __init__(self, settings: AwsSettings, clock: Clock) -> None:
        if not settings.cluster:
            raise UserError("provider aws: cluster is not set; give the name instances are tagged with")
        self._settings = settings
        self._clock = clock
        self._botocore_errors = _imported("botocore.exceptions")
        config = _imported("botocore.config").Config(
            connect_timeout=10, read_timeout=settings.seconds, retries={"total_max_attempts": 1}
        )
        where: dict[str, Any] = {"config": config}
        if settings.region:
            where["region_name"] = settings.region
        if settings.endpoint:
            where["endpoint_url"] = settings.endpoint
        try:
            self._ec2: Any = _imported("boto3").client("ec2", **where)
        except self._botocore_errors.BotoCoreError as error:
            raise UserError(f"provider aws: {error}") from error

    async def create(self, request: CreateRequest) -> CreateResult:
        if is_fleet(request.pool):
            created = await self._create_fleet(request)
        else:
            created = await self._run_instances(request)
        if created.shortfall is not None and len(created.instances) < max(1, request.least):
            # A fleet may have fewer instances than its minimum: then all of them are deleted.
            await self.delete([one.id for one in created.instances])
            raise created.shortfall
        return created

    async def delete(self, ids: Sequence[str]) -> None:
        known = [one for one in dict.fromkeys(ids) if _ID.fullmatch(one)]
        for begin in range(0, len(known), _MOST_AT_ONCE):
            await self._terminate(known[begin : begin + _MOST_AT_ONCE])

    async def list(self, pools: Sequence[PoolRef]) -> Sequence[Instance]:  # noqa: ARG002 - tags find all of them
        filters = [
            {"Name": f"tag:{CLUSTER_TAG}", "Values": [self._settings.cluster]},
            {"Name": "instance-state-name", "Values": sorted(_STATES)},
        ]

        def pages() -> Sequence[Any]:
            return tuple(self._ec2.get_paginator("describe_instances").paginate(Filters=filters))

        found = await self._call("describe instances", pages)
        raw = [one for page in found for reservation in page["Reservations"] for one in reservation["Instances"]]
        return sorted((_instance(one) for one in raw), key=lambda one: (one.since, one.id))

    async def templates(self, pool: PoolRef) -> Sequence[NodeTemplate]:
        """Templates of the pool's instance types that have GPUs. They give capacity; kubelet reserves a part of it."""
        types = words(pool.parameters.get("instanceTypes", ""))
        if not types:
            return ()
        answer = await self._call(
            "describe instance types", lambda: self._ec2.describe_instance_types(InstanceTypes=types)
        )
        by_name = {one["InstanceType"]: one for one in answer["InstanceTypes"]}
        return [_template(by_name[name]) for name in types if by_name.get(name, {}).get("GpuInfo", {}).get("Gpus")]

    async def run(self) -> None:
        """No background work: EC2 boots the instances."""

    async def close(self) -> None:
        await asyncio.to_thread(self._ec2.close)

    async def _create_fleet(self, request: CreateRequest) -> CreateResult:
        arguments = fleet_arguments(request, self._settings.cluster)
        answer = await self._call("create fleet", lambda: self._ec2.create_fleet(**arguments))
        ids = [one for group in answer.get("Instances") or () for one in group.get("InstanceIds") or ()]
        shortfall: CloudError | None = None
        if len(ids) < request.count:
            errors = [
                error_of(one.get("ErrorCode", ""), one.get("ErrorMessage", "")) for one in answer.get("Errors") or ()
            ]
            shortfall = errors[0] if errors else NoCapacity(f"{len(ids)} of {request.count} were made")
        return CreateResult(tuple(self._made(request, ids)), shortfall)

    async def _run_instances(self, request: CreateRequest) -> CreateResult:
        arguments = run_arguments(request, self._settings.cluster)
        try:
            answer = await self._call("run instances", lambda: self._ec2.run_instances(**arguments))
        except _AlreadyGone:
            return CreateResult(())
        ids = [one["InstanceId"] for one in answer["Instances"]]
        few = NoCapacity(f"{len(ids)} of {request.count} were made") if len(ids) < request.count else None
        return CreateResult(tuple(self._made(request, ids)), few)

    def _made(self, request: CreateRequest, ids: Sequence[str]) -> Sequence[Instance]:
        """Instances that may not be listed yet. Unknown fields are left out."""
        return [
            Instance(
                id=one,
                pool=request.pool.name,
                since=self._clock.now(),
                state=InstanceState.PENDING,
                token=request.token,
                zone=request.zone,
            )
            for one in ids
        ]

    async def _terminate(self, ids: Sequence[str]) -> None:
        """Terminate instances. An unknown id fails the whole call, so it is left out and the call repeated."""
        left = list(ids)
        while left:
            try:
                await self._call("terminate instances", partial(self._ec2.terminate_instances, InstanceIds=left))
            except _NotThere as gone:
                kept = [one for one in left if one not in gone.ids]
                if len(kept) == len(left):
                    raise
                left = kept
            else:
                return

    async def _call(self, what: str, call: Callable[[], Any]) -> Any:
        errors = self._botocore_errors
        try:
            return await asyncio.to_thread(call)
        except errors.ClientError as error:
            said = error.response.get("Error", {})
            code, message = said.get("Code", ""), said.get("Message", "")
            if code == ALREADY_GONE:
                raise _AlreadyGone(message) from error
            if code == NOT_FOUND:
                raise _NotThere(message) from error
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            found = error_of(code, message, status=status)
            raise type(found)(f"{what}: {found.message}") from error
        except (errors.HTTPClientError, errors.ConnectionError, errors.IncompleteReadError) as error:
            raise OutcomeUnknown(f"{what}: {error}") from error
        except errors.BotoCoreError as error:
            raise RequestRejected(f"{what}: {error}") from error


class _AlreadyGone(RequestRejected):
    """Purchase of which an instance has been terminated."""


class _NotThere(RequestRejected):
    """Instances that EC2 does not know."""

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(_ID.findall(self.message))


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise UserError("provider aws needs boto3: pip install 'ullage[aws]'") from error


def _instance(raw: Mapping[str, Any]) -> Instance:
    tags = {tag["Key"]: tag["Value"] for tag in raw.get("Tags") or ()}
    zone = raw.get("Placement", {}).get("AvailabilityZone", "")
    return Instance(
        id=raw["InstanceId"],
        pool=tags.get(POOL_TAG, ""),
        since=raw["LaunchTime"].timestamp(),
        state=_STATES.get(raw["State"]["Name"], InstanceState.STOPPING),
        token=tags.get(TOKEN_TAG, ""),
        node=raw.get("PrivateDnsName") or "",
        provider_id=f"aws:///{zone}/{raw['InstanceId']}",
        zone=zone,
    )


def _template(raw: Mapping[str, Any]) -> NodeTemplate:
    gpus = raw["GpuInfo"]["Gpus"][0]
    return NodeTemplate(
        gpus=GpuTemplate(
            model=gpus["Name"], count=gpus["Count"], memory=gpus.get("MemoryInfo", {}).get("SizeInMiB", 0) * MIB
        ),
        labels={"node.kubernetes.io/instance-type": raw["InstanceType"]},
        resources={
            "cpu": raw["VCpuInfo"]["DefaultVCpus"] * MILLI,
            "memory": raw["MemoryInfo"]["SizeInMiB"] * MIB * MILLI,
        },
    )
