"""Simulated Karpenter: batches pending pods, creates NodeClaims and their Nodes, and removes empty nodes.

Times are those measured on a real Karpenter with its kwok provider. It uses nothing of this project but the API.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ullage.clock import Clock
from ullage.errors import AlreadyExists, ApiError, Conflict, NotFound
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import EVENTS, NODE_CLAIMS, NODE_POOLS, NODES, PODS
from ullage.kube.read import read_node, read_pod
from ullage.kube.read.karpenter import read_node_claim, read_node_pool
from ullage.kube.timestamps import write_micro_time, write_time
from ullage.kube.write.smart_pod import written_amount
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.karpenter import (
    DISRUPTED_TAINT,
    DO_NOT_DISRUPT,
    INITIALIZED_LABEL,
    INSTANCE_TYPE_LABEL,
    KARPENTER,
    NODE_POOL_LABEL,
    NodeClaim,
    NodePool,
)
from ullage.model.node import Node, Taint
from ullage.model.pod import Pod
from ullage.model.provisioner import HOST_LABEL, ZONE_LABEL
from ullage.model.resources import total
from ullage.model.selector import Operator
from ullage.sim.karpenter.solver import PODS as POD_SLOTS
from ullage.sim.karpenter.solver import InstanceType, Planned, Room, Solution, solve
from ullage.watch.informer import Informer, InformerSpec, run_all, wait_all_synced

FINALIZER = "karpenter.sh/termination"
REGISTERED_LABEL = "karpenter.sh/registered"
UNSCHEDULABLE = "Unschedulable"


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterTimings:
    """Durations of Karpenter's steps, in seconds."""

    batch_idle: float = 1.0
    batch_max: float = 10.0
    requeue: float = 10.0
    """Interval between two attempts for a pod that stays pending."""
    launch: float = 0.06
    no_capacity: float = 1.4
    """From creation to deletion of a NodeClaim for which the cloud has no capacity."""
    registration: float = 5.0
    """From launch to a Node: the boot time of an instance."""
    initialisation: float = 1.0
    disruption_poll: float = 10.0
    validation: float = 15.0
    termination: float = 5.0
    pod_event_dedup: float = 10.0


@dataclass(slots=True)
class _Life:
    """Simulator's state of one NodeClaim beside its object."""

    kind: InstanceType
    launched_at: float
    initialised_at: float | None = None
    last_pod_event: float | None = None
    condemned_at: float | None = None


class SimulatedKarpenter:
    """Simulated Karpenter of one API server. `run` until cancelled."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        types: Sequence[InstanceType],
        *,
        timings: KarpenterTimings = KarpenterTimings(),  # noqa: B008 - frozen
        seed: int = 0,
        on_node: Callable[[str, InstanceType], None] = lambda _name, _kind: None,
    ) -> None:
        self.types = list(types)
        self._api = api
        self._clock = clock
        self._timings = timings
        self._rng = random.Random(seed)
        self._on_node = on_node
        """Called for every node that registers; the caller starts its agent."""
        self._pods: dict[ObjectKey, Pod] = {}
        self._nodes: dict[str, Node] = {}
        self._kept: set[str] = set()
        self._claims: dict[str, NodeClaim] = {}
        self._pools: dict[str, NodePool] = {}
        self._consolidate: dict[str, float | None] = {}
        self._lives: dict[str, _Life] = {}
        self._wanted = asyncio.Event()
        self._said: dict[tuple[str, str], float] = {}
        self._events = 0
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run until cancelled."""
        sources: list[InformerSpec[Any, Any]] = [
            InformerSpec(PODS, read_pod),
            InformerSpec(NODES.whole(), lambda raw: raw),
            InformerSpec(NODE_CLAIMS, read_node_claim),
            InformerSpec(NODE_POOLS.whole(), lambda raw: raw),
        ]
        informers = [Informer(self._api, one, self._observe, rng=self._rng, clock=self._clock) for one in sources]
        async with asyncio.TaskGroup() as self._group:
            self._group.create_task(run_all(*informers), name="karpenter informers")
            await wait_all_synced(*informers)
            self._group.create_task(self._provision(), name="karpenter provisioner")
            self._group.create_task(self._disrupt(), name="karpenter disruption")

    # What is observed.

    def _observe(self, event: FactEvent[Any]) -> None:
        match event:
            case Added(key=key, new=new) | Updated(key=key, new=new):
                self._put(key, new)
            case Deleted(key=key, old=old):
                self._drop(key, old)
            case _:
                pass

    def _put(self, key: ObjectKey, fact: Any) -> None:
        if isinstance(fact, Pod):
            before = self._pods.get(key)
            self._pods[key] = fact
            self._note_pod(before, fact)
            if _is_provisionable(fact) and not (before is not None and _is_provisionable(before)):
                self._wanted.set()
        elif isinstance(fact, NodeClaim):
            self._claims[key.name] = fact
            if fact.deleting and self._group is not None:
                self._group.create_task(self._terminate(key.name), name=f"terminate {key.name}")
        elif fact["kind"] == "Node":
            self._nodes[key.name] = read_node(msgspec.convert(fact, NODES.reads_as))
            (self._kept.add if _kept(fact) else self._kept.discard)(key.name)
        else:
            self._pools[key.name] = read_node_pool(msgspec.convert(fact, NODE_POOLS.reads_as))
            after = fact["spec"].get("disruption", {}).get("consolidateAfter", "0s")
            self._consolidate[key.name] = None if after == "Never" else float(after.removesuffix("s"))

    def _drop(self, key: ObjectKey, fact: Any) -> None:
        if isinstance(fact, Pod):
            self._pods.pop(key, None)
            self._note_pod(fact, None)
        elif isinstance(fact, NodeClaim):
            self._claims.pop(key.name, None)
            self._lives.pop(key.name, None)
        elif fact["kind"] == "Node":
            self._nodes.pop(key.name, None)
        else:
            self._pools.pop(key.name, None)

    def _note_pod(self, before: Pod | None, now: Pod | None) -> None:
        """Restart the node's consolidation delay when a pod is bound or ends, once per `pod_event_dedup` seconds."""
        bound = now is not None and now.node and not (before is not None and before.node)
        ended = before is not None and before.node and (now is None or now.deleting or now.phase.over)
        one = now if now is not None else before
        if one is None or not (bound or ended) or (one.owner is not None and one.owner.kind == "DaemonSet"):
            return
        claim = next((name for name, claim in self._claims.items() if claim.node == one.node), "")
        life = self._lives.get(claim)
        if life is not None:
            last, moment = life.last_pod_event, self._clock.now()
            if last is None or moment - last >= self._timings.pod_event_dedup:
                life.last_pod_event = moment

    # Pending pods to NodeClaims.

    async def _provision(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._timings.requeue):
                    await self._wanted.wait()
            except TimeoutError:
                if not any(map(_is_provisionable, self._pods.values())):
                    continue
            await self._batch()
            await self._solve()

    async def _batch(self) -> None:
        ends = self._clock.now() + self._timings.batch_max
        while self._clock.now() < ends:
            self._wanted.clear()
            try:
                async with asyncio.timeout(min(self._timings.batch_idle, ends - self._clock.now())):
                    await self._wanted.wait()
            except TimeoutError:
                return

    async def _solve(self) -> None:
        pods = [pod for pod in self._pods.values() if _is_provisionable(pod)]
        pools = [pool for pool in self._pools.values() if not pool.deleting]
        found = solve(pods, self._rooms(), [self._counted(pool) for pool in pools], self.types)
        await self._tell(found)
        for planned in found.planned:
            await self._create(planned)

    def _rooms(self) -> list[Room]:
        """Nodes and upcoming NodeClaims, with the resources that their pods leave free."""
        rooms = []
        for name, claim in sorted(self._claims.items()):
            life, node = self._lives.get(name), self._nodes.get(claim.node)
            if life is None or claim.deleting:
                continue
            here = [pod.requests for pod in self._pods.values() if claim.node and pod.node == claim.node]
            used = total((*here, {POD_SLOTS: 1000 * len(here)}))
            free = {key: amount - used.get(key, 0) for key, amount in life.kind.resources.items()}
            pool = self._pools.get(claim.node_pool)
            taints = pool.taints if pool is not None else ()
            labels = claim.labels if node is None else node.labels
            rooms.append(Room(claim.node or name, labels, taints, free))
        return rooms

    def _counted(self, pool: NodePool) -> NodePool:
        mine = [
            self._lives[name].kind
            for name, claim in self._claims.items()
            if claim.node_pool == pool.name and name in self._lives
        ]
        usage = total((*(kind.resources for kind in mine), {"nodes": 1000 * len(mine)}))
        return msgspec.structs.replace(pool, usage=usage)

    async def _create(self, planned: Planned) -> None:
        name = f"{planned.pool.name}-{self._rng.getrandbits(24):05x}"
        kind = min(planned.types, key=lambda one: (one.price, one.name))
        # A key that must exist, and that no pod gave a value, gets a random number.
        exists = (one.key for one in planned.pool.requirements if one.operator is Operator.EXISTS)
        filled = {key: str(self._rng.getrandbits(62)) for key in exists if key not in planned.labels}
        labels = {**planned.labels, **filled, INSTANCE_TYPE_LABEL: kind.name, ZONE_LABEL: kind.zone}
        body = {
            "apiVersion": NODE_CLAIMS.api_version,
            "kind": NODE_CLAIMS.kind,
            "metadata": {
                "name": name,
                "labels": labels,
                "finalizers": [FINALIZER],
                "ownerReferences": [_owner(planned.pool)],
            },
            "spec": {
                "resources": {"requests": _written(planned.requests)},
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            },
        }
        self._lives[name] = _Life(kind, self._clock.now() + self._timings.launch)
        await self._api.create(NODE_CLAIMS, body)
        for pod in planned.pods:
            await self._event("Pod", pod.key, pod.uid, "Nominated", f"Pod should schedule on: nodeclaim/{name}")
        if self._group is not None:
            self._group.create_task(self._live(name, planned.pool, labels, kind), name=f"nodeclaim {name}")

    async def _tell(self, found: Solution) -> None:
        for room, pods in found.on_existing.items():
            for pod in pods:
                await self._event("Pod", pod.key, pod.uid, "Nominated", f"Pod should schedule on: {room}", every=120.0)
        for pod, error in found.errors:
            note = f"Failed to schedule pod, {error}"
            await self._event("Pod", pod.key, pod.uid, "FailedScheduling", note, every=300.0)

    # A NodeClaim becomes a Node.

    async def _live(self, name: str, pool: NodePool, labels: dict[str, str], kind: InstanceType) -> None:
        try:
            if not kind.available:
                await self._no_capacity(name)
                return
            await asyncio.sleep(self._timings.launch)
            await self._conditions(name, {"Launched": "True", "Registered": "Unknown", "Initialized": "Unknown"})
            await asyncio.sleep(self._timings.registration)
            node = f"kwok-{name}"
            if self._claims.get(name) is None or self._claims[name].deleting:
                return
            await self._api.create(NODES, _node(node, name, pool, labels, kind))
            self._on_node(node, kind)
            await self._conditions(name, {"Launched": "True", "Registered": "True", "Initialized": "Unknown"}, node)
            await asyncio.sleep(self._timings.initialisation)
            await self._initialise(name, node, pool)
        except (NotFound, Conflict, AlreadyExists):
            return  # it was deleted meanwhile

    async def _no_capacity(self, name: str) -> None:
        note = f"NodeClaim {name} event: insufficient capacity"
        await self._event("NodeClaim", ObjectKey("", name), "", "InsufficientCapacityError", note)
        await asyncio.sleep(self._timings.no_capacity)
        await self._api.delete(NODE_CLAIMS, name)

    async def _initialise(self, name: str, node: str, pool: NodePool) -> None:
        """Wait until the node is Ready and has no startup taint, then mark node and NodeClaim as initialised."""
        startup = {taint.key for taint in pool.startup_taints}
        while True:
            there = self._nodes.get(node)
            if there is not None and there.ready and not any(taint.key in startup for taint in there.taints):
                break
            await asyncio.sleep(self._timings.initialisation)
            if name not in self._claims:
                return
        await self._api.patch(NODES, node, MergePatch({"metadata": {"labels": {INITIALIZED_LABEL: "true"}}}))
        life = self._lives.get(name)
        if life is not None:
            life.initialised_at = self._clock.now()
        done = dict.fromkeys(("Launched", "Registered", "Initialized", "Ready"), "True")
        await self._conditions(name, done, node)

    async def _conditions(self, name: str, said: dict[str, str], node: str = "") -> None:
        now = write_time(self._clock.now())
        written = [
            {"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": now}
            for kind, status in said.items()
        ]
        status: JsonObject = {"conditions": written} | ({"nodeName": node} if node else {})
        await self._api.patch(NODE_CLAIMS, name, MergePatch({"status": status}), subresource="status")

    # Empty nodes.

    async def _disrupt(self) -> None:
        while True:
            await asyncio.sleep(self._timings.disruption_poll)
            for name in sorted(self._lives):
                life, claim = self._lives.get(name), self._claims.get(name)
                if life is None or claim is None or claim.deleting or life.condemned_at is not None:
                    continue
                if self._is_empty(claim, life):
                    life.condemned_at = self._clock.now()
                    if self._group is not None:
                        self._group.create_task(self._validate(name), name=f"validate {name}")

    def _is_empty(self, claim: NodeClaim, life: _Life) -> bool:
        after = self._consolidate.get(claim.node_pool)
        if after is None or life.initialised_at is None or claim.node in self._kept:
            return False
        since = max(life.initialised_at, life.last_pod_event or 0.0)
        return self._clock.now() - since >= after and not any(self._reschedulable(claim.node))

    def _reschedulable(self, node: str) -> Iterable[Pod]:
        for pod in self._pods.values():
            daemon = pod.owner is not None and pod.owner.kind in ("DaemonSet", "Node")
            if pod.node == node and not daemon and not pod.phase.over and not pod.deleting:
                yield pod

    async def _validate(self, name: str) -> None:
        await asyncio.sleep(self._timings.validation)
        life, claim = self._lives.get(name), self._claims.get(name)
        if life is None or claim is None:
            return
        if not self._is_empty(claim, life):
            life.condemned_at = None
            return
        try:
            await self._taint(claim.node, Taint(DISRUPTED_TAINT, "", "NoSchedule"))
            await self._api.delete(NODE_CLAIMS, name)
        except ApiError:
            life.condemned_at = None

    async def _taint(self, node: str, taint: Taint) -> None:
        there = await self._api.get(NODES.whole(), node)
        taints = [*there["spec"].get("taints", []), {"key": taint.key, "effect": taint.effect}]
        await self._api.patch(NODES, node, MergePatch({"spec": {"taints": taints}}))

    async def _terminate(self, name: str) -> None:
        claim = self._claims.get(name)
        if claim is None:
            return
        if claim.node:
            await asyncio.sleep(self._timings.termination)
        try:
            if claim.node:
                await self._api.delete(NODES, claim.node)
        except NotFound:
            pass
        try:
            await self._api.patch(NODE_CLAIMS, name, MergePatch({"metadata": {"finalizers": None}}))
        except (NotFound, Conflict):
            return

    async def _event(self, kind: str, key: ObjectKey, uid: str, reason: str, note: str, *, every: float = 0.0) -> None:
        now = self._clock.now()
        if every and now - self._said.get((uid, reason), -every) < every:
            return
        self._said[uid, reason] = now
        self._events += 1
        about = {"kind": kind, "namespace": key.namespace, "name": key.name, "uid": uid}
        body = {
            "metadata": {"name": f"{key.name}.{self._events:x}", "namespace": key.namespace or "default"},
            "regarding": about,
            "reason": reason,
            "note": note,
            "type": "Warning" if reason != "Nominated" else "Normal",
            "action": "Provisioning",
            "eventTime": write_micro_time(now),
            "reportingController": KARPENTER,
            "reportingInstance": KARPENTER,
        }
        try:
            await self._api.create(EVENTS, body, key.namespace or "default")
        except ApiError:
            return  # an Event is never worth stopping for


def _is_provisionable(pod: Pod) -> bool:
    """True if Karpenter would provision for the pod. As in Karpenter, phase and deletion are ignored."""
    daemon = pod.owner is not None and pod.owner.kind in ("DaemonSet", "Node")
    return pod.unplaced == UNSCHEDULABLE and not pod.node and not pod.nominated and not daemon


def _kept(raw: JsonObject) -> bool:
    return (raw["metadata"].get("annotations") or {}).get(DO_NOT_DISRUPT) == "true"


def _written(amounts: dict[str, int]) -> dict[str, str]:
    return {name: written_amount(amount) for name, amount in sorted(amounts.items())}


def _owner(pool: NodePool) -> JsonObject:
    names = {"apiVersion": NODE_POOLS.api_version, "kind": NODE_POOLS.kind, "name": pool.name, "uid": pool.uid}
    return names | {"blockOwnerDeletion": True}


def _node(node: str, claim: str, pool: NodePool, labels: dict[str, str], kind: InstanceType) -> JsonObject:
    room = _written(dict(kind.resources))
    taints = [
        {"key": one.key, "value": one.value, "effect": one.effect} for one in (*pool.taints, *pool.startup_taints)
    ]
    return {
        "metadata": {
            "name": node,
            "labels": {**labels, HOST_LABEL: claim, NODE_POOL_LABEL: pool.name, REGISTERED_LABEL: "true"},
        },
        "spec": {"providerID": f"kwok://{node}", "taints": taints},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
