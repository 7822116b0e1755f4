"""Fake nodes on a real API server. KWOK, or simulated kubelets, keep them ready.

A purchase is one ConfigMap, so that it is made once or not at all, and is still there after a crash: which of its
machines have joined, and which are gone, is written in it. `run` makes a Node and a GpuNodeStatus of each machine when
it has booted, and reports their GPUs from then on.

Parameters of a pool: `bootSeconds`, `gpuSeconds` (from being a node to having GPUs), both 0 unless said; `capacity`,
the number of machines there are.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from ullage.clock import Clock, Instant
from ullage.cloud.api import Created, CreateRequest, NoCapacity, PoolRef, QuotaReached, Refused
from ullage.cloud.faults import Faults
from ullage.cloud.kube_errors import as_cloud_errors
from ullage.cloud.kwok_nodes import FakeMachine, Joining
from ullage.errors import AlreadyExists, ApiError, NotFound
from ullage.kube.api import KubeApi, Selection
from ullage.kube.edit import edit
from ullage.kube.resource import JsonObject
from ullage.kube.resources import CONFIG_MAPS, NAMESPACES
from ullage.model.instance import Instance, InstanceState
from ullage.model.provisioner import PROVISIONER_LABEL, NodeTemplate

RECORD_LABEL = "gpu.scheduling/kwok-purchase"
RECORDS = Selection(labels=RECORD_LABEL)
REPORT_EVERY = 30.0
"""Seconds between two reports of a node's GPUs."""
LOOK_AGAIN_AFTER = 1.0
"""Seconds until purchases of another process are seen."""


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A purchase, as its ConfigMap keeps it."""

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
    """How many there were when it was asked for; fewer than `count` if there were no more."""
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
    """Keeps its books in one namespace, where it may write ConfigMaps; it also writes Nodes and GpuNodeStatuses."""

    name = "kwok"
    staleness = 0.0

    def __init__(self, api: KubeApi, clock: Clock, *, namespace: str = "ullage-kwok") -> None:
        self.faults = Faults()
        self.quota: int | None = None
        """Machines there may be in all."""
        self._api = api
        self._clock = clock
        self._namespace = namespace
        self._joining = Joining(api, clock)
        self._changed = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        """A machine must not join while it is being deleted."""

    async def create(self, request: CreateRequest) -> Created:
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
        """Of those asked for before: it makes whatever is asked of it."""
        records = [record for record in await self._records() if record.pool == pool.name]
        return [record.template for record in records[-1:]]

    async def run(self) -> None:
        """Machines become nodes when they have booted; nodes report their GPUs."""
        while True:
            self._changed.clear()
            try:
                async with self._one_at_a_time:
                    next_at = await self._tend()
            except ApiError:
                next_at = None  # the API server is away: nodes cannot come now, and will be looked at again
            delay = LOOK_AGAIN_AFTER if next_at is None else min(LOOK_AGAIN_AFTER, next_at - self._clock.now())
            try:
                async with asyncio.timeout(max(0.0, delay)):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def close(self) -> None:
        """The connection is its owner's."""

    async def _create(self, request: CreateRequest) -> Created:
        record = Record(
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
            raise Refused(f"token {record.token} was used for another purchase")
        instances = tuple(self._instances(known))
        return Created(instances, _no_more(known.pool) if known.made < known.count else None)

    async def _write(self, request: CreateRequest, record: Record) -> Record:
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
        """How many can be made. Raises where that is of no use."""
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
        """Do what is due; returns when something is next."""
        moments: list[float] = []
        for record in await self._records():
            joined = frozenset(record.joined)
            for place in record.present:
                if place in record.never_join:
                    continue
                due = record.since + record.boot
                if due > self._clock.now():
                    moments.append(due)
                    continue
                moments.append(await self._joining.tend(_machine(record, place), again=place in record.joined))
                joined |= {place}
            if joined != record.joined:
                await self._edit(record.digest, _with_joined(joined))
        return min(moments, default=None)

    async def _records(self) -> Sequence[Record]:
        page = await self._api.list(CONFIG_MAPS, self._namespace, selection=RECORDS)
        return sorted((_decoded(one) for one in page.items), key=lambda record: (record.since, record.token))

    async def _read(self, name: str) -> Record:
        return _decoded(await self._api.get(CONFIG_MAPS, name, self._namespace))

    async def _edit(self, digest: str, change: Callable[[Record], Record]) -> None:
        def rewritten(raw: JsonObject) -> JsonObject:
            return raw | {"data": {"record": msgspec.json.encode(change(_decoded(raw))).decode()}}

        await edit(self._api, CONFIG_MAPS, _name(digest), self._namespace, rewritten)

    def _instances(self, record: Record) -> Iterable[Instance]:
        up = record.since + record.boot <= self._clock.now()
        for place in record.present:
            name = _machine(record, place).name
            yield Instance(
                id=name,
                pool=record.pool,
                since=record.since,
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


def _machine(record: Record, place: int) -> FakeMachine:
    return FakeMachine(
        name=f"{record.pool}-{record.digest}-{place}",
        template=record.template,
        labels=record.labels,
        zone=record.zone,
        gpus_at=Instant(record.since + record.boot + record.gpus_after),
        report_every=REPORT_EVERY,
    )


def _with_joined(joined: frozenset[int]) -> Callable[[Record], Record]:
    return lambda record: msgspec.structs.replace(record, joined=record.joined | joined)


def _decoded(raw: JsonObject) -> Record:
    try:
        return msgspec.json.decode(raw["data"]["record"], type=Record)
    except (KeyError, TypeError, msgspec.DecodeError) as error:
        raise Refused(f"ConfigMap {raw['metadata'].get('name')} is no record of a purchase: {error}") from error
