"""Fake nodes on a real API server. KWOK, or simulated kubelets, keep them ready.

A purchase is one ConfigMap, so that it is made once or not at all, and survives a crash. It records which of its
instances have joined, and which are gone. `run` makes a Node and a GpuNodeStatus of each instance when it has booted,
and reports its GPUs from then on.

Parameters of a pool: `bootSeconds`, `gpuSeconds` (from being a node to having GPUs), both 0 by default; `capacity`,
the number of instances that exist.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from ullage.clock import Clock, Instant
from ullage.cloud.api import CreateRequest, CreateResult, NoCapacity, PoolRef, QuotaReached, RequestRejected
from ullage.cloud.faults import CloudFaults
from ullage.cloud.kube_errors import as_cloud_errors
from ullage.cloud.kwok.nodes import KwokMachine, KwokNodeJoiner
from ullage.errors import AlreadyExists, ApiError, NotFound
from ullage.kube.client.api import KubeApi, ListSelector
from ullage.kube.client.edit import edit
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import CONFIG_MAPS, NAMESPACES
from ullage.model.instance import Instance, InstanceState
from ullage.model.provisioner import PROVISIONER_LABEL, NodeTemplate

RECORD_LABEL = "gpu.scheduling/kwok-purchase"
RECORDS = ListSelector(labels=RECORD_LABEL)
REPORT_EVERY = 30.0
"""Seconds between two reports of a node's GPUs."""
LOOK_AGAIN_AFTER = 1.0
"""Seconds until purchases of another process are observed."""


class KwokPurchase(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Purchase, as its ConfigMap keeps it."""

    pool: str
    token: str
    count: int
    since: float
    template: NodeTemplate
    labels: dict[str, str] = {}
    zone: str = ""
    boot: float = 0.0
    gpus_after: float = 0.0
    made: int = 0
    """Number available when it was requested; fewer than `count` if capacity was short."""
    never_join: frozenset[int] = frozenset()
    joined: frozenset[int] = frozenset()
    gone: frozenset[int] = frozenset()

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.token.encode()).hexdigest()[:10]

    @property
    def present(self) -> list[int]:
        return [place for place in range(self.made) if place not in self.gone]


class KwokProvider:
    """Provider of fake nodes. Keeps its records as ConfigMaps of one namespace; writes Nodes and GpuNodeStatuses."""

    name = "kwok"
    staleness = 0.0

    def __init__(self, api: KubeApi, clock: Clock, *, namespace: str = "ullage-kwok") -> None:
        self.faults = CloudFaults()
        self.quota: int | None = None
        """Largest number of instances in all."""
        self._api = api
        self._clock = clock
        self._namespace = namespace
        self._joining = KwokNodeJoiner(api, clock)
        self._changed = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        """An instance must not join while it is being deleted."""

    async def create(self, request: CreateRequest) -> CreateResult:
        fault = self.faults.before("create")
        with as_cloud_errors(f"create {request.count} nodes of {request.pool.name}"):
            created = await self._create(request)
        self._changed.set()
        self.faults.after(fault)
        return created

    async def delete(self, ids: Sequence[str]) -> None:
        fault = self.faults.before("delete")
        with as_cloud_errors(f"delete {', '.join(ids)}"):
            for one in ids:
                async with self._one_at_a_time:
                    await self._delete(one)
        self.faults.after(fault)

    async def list(self, pools: Sequence[PoolRef]) -> Sequence[Instance]:  # noqa: ARG002 - it sees all of them
        fault = self.faults.before("list")
        with as_cloud_errors("list purchases"):
            records = await self._records()
        self.faults.after(fault)
        return [instance for record in records for instance in self._instances(record)]

    async def templates(self, pool: PoolRef) -> Sequence[NodeTemplate]:
        """Template of the pool's last purchase: this provider makes every template it is asked for."""
        records = [record for record in await self._records() if record.pool == pool.name]
        return [record.template for record in records[-1:]]

    async def run(self) -> None:
        """Turn booted instances into nodes, and report the GPUs of nodes."""
        while True:
            self._changed.clear()
            try:
                async with self._one_at_a_time:
                    next_at = await self._tend()
            except ApiError:
                next_at = None  # the API server does not answer: tried again later
            delay = LOOK_AGAIN_AFTER if next_at is None else min(LOOK_AGAIN_AFTER, next_at - self._clock.now())
            try:
                async with asyncio.timeout(max(0.0, delay)):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def close(self) -> None:
        """Nothing to close: the caller owns the connection."""

    async def _create(self, request: CreateRequest) -> CreateResult:
        record = KwokPurchase(
            pool=request.pool.name,
            token=request.token,
            count=request.count,
            since=self._clock.now(),
            template=request.template,
            labels=dict(request.labels),
            zone=request.zone,
            boot=float(request.pool.parameters.get("bootSeconds", 0)),
            gpus_after=float(request.pool.parameters.get("gpuSeconds", 0)),
        )
        try:
            known = await self._read(_name(record.digest))
        except NotFound:
            known = await self._write(request, record)
        if (known.token, known.count, known.pool) != (record.token, record.count, record.pool):
            raise RequestRejected(f"token {record.token} was used for another purchase")
        instances = tuple(self._instances(known))
        return CreateResult(instances, _no_more(known.pool) if known.made < known.count else None)

    async def _write(self, request: CreateRequest, record: KwokPurchase) -> KwokPurchase:
        made = await self._possible(request)
        fated = frozenset(place for place in range(made) if not self.faults.joins())
        record = msgspec.structs.replace(record, made=made, never_join=fated)
        body = {
            "metadata": {
                "name": _name(record.digest),
                "labels": {RECORD_LABEL: "", PROVISIONER_LABEL: record.pool},
            },
            "data": {"record": msgspec.json.encode(record).decode()},
        }
        try:
            try:
                await self._api.create(CONFIG_MAPS, body, self._namespace)
            except NotFound:
                await self._make_namespace()
                await self._api.create(CONFIG_MAPS, body, self._namespace)
        except AlreadyExists:
            return await self._read(_name(record.digest))
        return record

    async def _possible(self, request: CreateRequest) -> int:
        """Number of instances that can be made. Raises NoCapacity below `least`, QuotaReached beyond the quota."""
        records = await self._records()
        count, error = request.count, None
        if "capacity" in request.pool.parameters:
            taken = sum(len(record.present) for record in records if record.pool == request.pool.name)
            left = int(request.pool.parameters["capacity"]) - taken
            count, error = (left, _no_more(request.pool.name)) if left < count else (count, None)
        if self.quota is not None and (left := self.quota - sum(len(record.present) for record in records)) < count:
            raise QuotaReached(f"there may be {self.quota} machines in all")
        if error is not None and count < max(1, request.least):
            raise error
        return count

    async def _make_namespace(self) -> None:
        with suppress(AlreadyExists):
            await self._api.create(NAMESPACES, {"metadata": {"name": self._namespace}})

    async def _delete(self, one: str) -> None:
        rest, _, place = one.rpartition("-")
        _, _, digest = rest.rpartition("-")
        if not place.isdecimal() or not digest:
            return
        await self._joining.remove(one)
        try:
            await self._edit(digest, lambda record: msgspec.structs.replace(record, gone=record.gone | {int(place)}))
        except NotFound:
            return

    async def _tend(self) -> float | None:
        """Do the work due. Returns the instant of the next."""
        instants: list[float] = []
        for record in await self._records():
            joined = frozenset(record.joined)
            for place in record.present:
                if place in record.never_join:
                    continue
                due = record.since + record.boot
                if due > self._clock.now():
                    instants.append(due)
                    continue
                instants.append(await self._joining.tend(_machine(record, place), again=place in record.joined))
                joined |= {place}
            if joined != record.joined:
                await self._edit(record.digest, _with_joined(joined))
        return min(instants, default=None)

    async def _records(self) -> Sequence[KwokPurchase]:
        page = await self._api.list(CONFIG_MAPS, self._namespace, selection=RECORDS)
        return sorted((_decoded(one) for one in page.items), key=lambda record: (record.since, record.token))

    async def _read(self, name: str) -> KwokPurchase:
        return _decoded(await self._api.get(CONFIG_MAPS, name, self._namespace))

    async def _edit(self, digest: str, change: Callable[[KwokPurchase], KwokPurchase]) -> None:
        def rewritten(raw: JsonObject) -> JsonObject:
            return raw | {"data": {"record": msgspec.json.encode(change(_decoded(raw))).decode()}}

        await edit(self._api, CONFIG_MAPS, _name(digest), self._namespace, rewritten)

    def _instances(self, record: KwokPurchase) -> Iterable[Instance]:
        up = record.since + record.boot <= self._clock.now()
        for place in record.present:
            name = _machine(record, place).name
            yield Instance(
                id=name,
                pool=record.pool,
                since=Instant(record.since),
                state=InstanceState.RUNNING if up else InstanceState.PENDING,
                token=record.token,
                node=name if place in record.joined else "",
                provider_id=f"kwok:///{name}",
                zone=record.zone,
            )


def _name(digest: str) -> str:
    return f"kwok-purchase-{digest}"


def _no_more(pool: str) -> NoCapacity:
    return NoCapacity(f"there are no more machines of {pool}")


def _machine(record: KwokPurchase, place: int) -> KwokMachine:
    return KwokMachine(
        name=f"{record.pool}-{record.digest}-{place}",
        template=record.template,
        labels=record.labels,
        zone=record.zone,
        gpus_at=Instant(record.since + record.boot + record.gpus_after),
        report_every=REPORT_EVERY,
    )


def _with_joined(joined: frozenset[int]) -> Callable[[KwokPurchase], KwokPurchase]:
    return lambda record: msgspec.structs.replace(record, joined=record.joined | joined)


def _decoded(raw: JsonObject) -> KwokPurchase:
    try:
        return msgspec.json.decode(raw["data"]["record"], type=KwokPurchase)
    except (KeyError, TypeError, msgspec.DecodeError) as error:
        raise RequestRejected(f"ConfigMap {raw['metadata'].get('name')} is no record of a purchase: {error}") from error
