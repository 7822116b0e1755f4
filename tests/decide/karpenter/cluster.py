"""A cluster of facts around a KarpenterCore: writes are seen at once, and Karpenter moves when it is told to."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from tests.decide.scenes import claim, pod, read, report
from ullage.decide.karpenter.core import KarpenterCore
from ullage.decide.karpenter.demand import capacity_requests
from ullage.decide.karpenter.policy import KarpenterPolicy
from ullage.decide.provisioning.demand import find_demand
from ullage.decide.provisioning.pending import buys_for, pending_pods_and_gangs
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.kube.client.resource import JsonObject
from ullage.model.fact_event import Added, Deleted, ObjectKey, Updated
from ullage.model.intents import (
    AdmitWaitingPod,
    ClearHandover,
    CreateSmartPod,
    DeleteSmartPod,
    KarpenterIntent,
    MarkNodePool,
    RecordFailure,
    RecordSmartPodState,
    ReserveNode,
)
from ullage.model.karpenter import (
    ATTEMPTS,
    NODE_CLAIM,
    NODE_POOL_LABEL,
    ORIGINAL_REQUEST,
    REQUEST_LABEL,
    UNCLAIMED,
    UNSAID,
    HandoverNode,
    KarpenterEvent,
    NodeClaim,
    NodePool,
    NodePoolMapping,
    ObservedCondition,
    OriginalRequest,
    Regarding,
    SmartPod,
    Tristate,
)
from ullage.model.lease import GpuLease, LeaseHold
from ullage.model.lifecycles import SmartPodState
from ullage.model.node import Node, Taint
from ullage.model.outcomes import IntentDone, IntentStale
from ullage.model.pod import Phase, Pod
from ullage.model.provisioner import ZONE_LABEL
from ullage.model.resources import GPU
from ullage.model.selector import Operator, Requirement
from ullage.model.shape import interned
from ullage.model.shape_terms import Toleration
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot

NOON = 1893499200.0
A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"
_GIB = 1 << 30
NOW_TRUE = ObservedCondition(Tristate.TRUE, "", "", Instant(NOON))


def mapping(name: str = "h100", **more: Any) -> NodePoolMapping:
    said: dict[str, Any] = {
        "node_pool": f"gpu-{name}",
        "gpu_model": H100,
        "gpu_memory": 80 * _GIB,
        "price_per_gpu": 4_000_000,
    } | more
    return NodePoolMapping(name=name, **said)


def node_pool(name: str = "gpu-h100", **more: Any) -> NodePool:
    said: dict[str, Any] = {
        "requirements": (Requirement(REQUEST_LABEL, Operator.EXISTS),),
        "startup_taints": (Taint("gpu.scheduling/handover", UNCLAIMED, "NoSchedule"),),
        "ready": NOW_TRUE,
    }
    return NodePool(name=name, uid=f"uid-{name}", generation=1, deleting=False, **(said | more))


def claim_pod(name: str, count: int = 1, **devices: Any) -> list[JsonObject]:
    """A pod of our scheduler with a claim of its own; `pod`: fields of its spec."""
    more = {key: devices.pop(key) for key in ("gangRef", "gangMinMember") if key in devices}
    spec = {"requests": {"cpu": "4", "memory": "16Gi"}} | devices.pop("pod", {})
    wanted = claim(name, count, devices=devices, **more)
    return [wanted, pod(name, claim=name, schedulerName="gpu-scheduler", **spec)]


class Cluster:
    """Facts, the snapshot they are in, and a core over both. `restart` forgets the core and keeps the facts."""

    def __init__(
        self,
        *objects: JsonObject | Iterable[JsonObject],
        policy: KarpenterPolicy | None = None,
        pools: Sequence[NodePool] | None = None,
    ) -> None:
        self.policy = policy or KarpenterPolicy(mappings=(mapping(),))
        self.snapshot = ClusterSnapshot(read(*objects).state)
        self.facts: dict[tuple[type, ObjectKey], Any] = {}
        self.now = NOON
        self.performed: list[KarpenterIntent] = []
        self._versions = 0
        self.restart()
        for one in (node_pool(),) if pools is None else pools:
            self.put(ObjectKey("", one.name), one)

    def restart(self) -> None:
        self.assigner = PodAssigner(self.snapshot)
        self.core = KarpenterCore(self.assigner, self.policy)
        for (_, key), fact in self.facts.items():
            self.core.apply(Added(key, fact), now=Instant(self.now))

    # What others write.

    def put(self, key: ObjectKey, fact: Any) -> None:
        old = self.facts.get((type(fact), key))
        self.facts[type(fact), key] = fact
        self.core.apply(Added(key, fact) if old is None else Updated(key, old, fact), now=Instant(self.now))

    def drop(self, kind: type, key: ObjectKey) -> None:
        old = self.facts.pop((kind, key))
        self.core.apply(Deleted(key, old), now=Instant(self.now))

    def put_pod(self, new: Pod) -> None:
        old = self.snapshot.state.pods.get(new.key)
        event: Any = Added(new.key, new) if old is None else Updated(new.key, old, new)
        self.snapshot.apply(event)
        self.core.apply(event, now=Instant(self.now))

    def drop_pod(self, key: ObjectKey) -> None:
        event: Any = Deleted(key, self.snapshot.state.pods[key])
        self.snapshot.apply(event)
        self.core.apply(event, now=Instant(self.now))

    def waiting(self, name: str) -> Pod:
        return self.snapshot.state.pods[ObjectKey("team", name)]

    def bind(self, name: str, node: str, gpus: tuple[int, ...] = ()) -> None:
        """The scheduler binds a waiting pod."""
        self.put_pod(msgspec.structs.replace(self.waiting(name), node=node, gpu_ids=gpus, phase=Phase.RUNNING))

    # Karpenter.

    @property
    def smart_pods(self) -> list[SmartPod]:
        return [one for (kind, _), one in sorted(self.facts.items(), key=lambda e: e[0][1]) if kind is SmartPod]

    @property
    def smart_pod(self) -> SmartPod:
        (one,) = self.smart_pods
        return one

    @property
    def nodes(self) -> list[HandoverNode]:
        return [one for (kind, _), one in self.facts.items() if kind is HandoverNode]

    def node(self, name: str = "n1") -> HandoverNode:
        found = self.facts[HandoverNode, ObjectKey("", name)]
        assert isinstance(found, HandoverNode)
        return found

    def karpenter_claims(
        self, *true: str, name: str = "gpu-h100-abc", gpus: int = 8, of: str = "", zones: Sequence[str] = ()
    ) -> None:
        """A NodeClaim for the smart pod, with these conditions true, for a node in one of the zones."""
        request = of or self.smart_pod.request
        self.put(
            ObjectKey("", name),
            NodeClaim(
                name=name,
                uid=f"uid-{name}",
                created=Instant(self.now),
                deleting=False,
                labels={REQUEST_LABEL: request, NODE_POOL_LABEL: "gpu-h100"},
                requests={"cpu": 4_000, "memory": 16 * _GIB * 1000, GPU: gpus * 1000},
                requirements=(Requirement(ZONE_LABEL, Operator.IN, tuple(zones)),) if zones else (),
                conditions=dict.fromkeys(true, ObservedCondition(Tristate.TRUE, "", "", Instant(self.now))),
            ),
        )

    def karpenter_says(
        self, note: str, reason: str = "FailedScheduling", about: str = "", smart: SmartPod | None = None
    ) -> None:
        smart = smart or self.smart_pod
        key = ObjectKey(smart.key.namespace, f"event-{len(self.facts)}")
        regarding = Regarding.NODE_CLAIM if about else Regarding.POD
        self.put(
            key,
            KarpenterEvent(
                key=key,
                regarding=regarding,
                about=ObjectKey("", about) if about else smart.key,
                about_uid="" if about else smart.uid,
                reason=reason,
                note=note,
                at=Instant(self.now),
            ),
        )

    def node_joins(self, name: str = "n1", *, of: str = "", gpus: int = 8, ready: bool = True) -> None:
        """The node of a NodeClaim, with its GPUs, closed as the NodePool says."""
        request = of or self.smart_pod.request
        taints = (Taint("gpu.scheduling/handover", UNCLAIMED, "NoSchedule"),)
        fact = Node(
            name=name,
            uid=f"uid-{name}",
            created=Instant(self.now),
            ready=ready,
            unschedulable=False,
            labels={REQUEST_LABEL: request, NODE_POOL_LABEL: "gpu-h100"},
            taints=taints,
            allocatable={"cpu": 64_000, "memory": 512 * _GIB * 1000, "pods": 110_000, GPU: gpus * 1000},
        )
        self.snapshot.apply(Added(ObjectKey("", name), fact))
        self.put(
            ObjectKey("", name),
            HandoverNode(
                name=name,
                uid=fact.uid,
                resource_version="1",
                request=request,
                node_pool="gpu-h100",
                ready=ready,
                initialized=True,
                gpus=gpus,
                closed_for=UNCLAIMED,
            ),
        )

    def agent_reports(self, name: str = "n1", gpus: int = 8, **said: Any) -> None:
        at = datetime.fromtimestamp(self.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        inventory = read(report(name, gpus, **({"at": at} | said))).state.inventories[name]
        key, known = ObjectKey("", name), self.snapshot.state.inventories.get(name)
        self.snapshot.apply(Added(key, inventory) if known is None else Updated(key, known, inventory))

    def smart_pod_binds(self, name: str = "n1", *, smart: SmartPod | None = None) -> None:
        bound = msgspec.structs.replace(smart or self.smart_pod, node=name)
        self.put(bound.key, bound)
        requests = {GPU: 1000 * (bound.original.gpu_count if bound.original else 1)}
        base = read(pod("x", on=name)).state.pods[ObjectKey("team", "x")]
        shape = interned(msgspec.structs.replace(base.shape, requests=tuple(requests.items())))
        self.put_pod(msgspec.structs.replace(base, key=bound.key, uid=bound.uid, shape=shape))

    # Ullage.

    def wanted(self) -> Sequence[Any]:
        counts = buys_for(("gpu-scheduler",))
        demand = find_demand(
            self.assigner.engine, (), pending_pods_and_gangs(self.assigner, counts), now=Instant(self.now)
        )
        return capacity_requests(self.assigner, pending_pods_and_gangs(self.assigner, counts), demand.unmet.keys())

    def decide(self) -> tuple[KarpenterIntent, ...]:
        self.core.request(self.wanted(), now=Instant(self.now))
        return self.core.next_intents(now=Instant(self.now))

    def turn(self, *, seconds: float = 0.0) -> tuple[KarpenterIntent, ...]:
        """Decide and perform, after so much time."""
        self.now += seconds
        intents = self.decide()
        for intent in intents:
            self.perform(intent)
        return intents

    def settle(self, *, most: int = 20) -> list[KarpenterIntent]:
        """Turns until nothing is left to do now."""
        done: list[KarpenterIntent] = []
        for _ in range(most):
            intents = self.turn()
            if not intents:
                return done
            done += intents
        raise AssertionError(f"still busy: {intents}")

    def ask(self) -> None:
        """Let the batch window pass."""
        self.settle()
        self.now += self.policy.batch_window
        self.settle()

    def perform(self, intent: KarpenterIntent) -> None:
        self.performed.append(intent)
        self._means_what_is_there(intent)
        if isinstance(intent, ClearHandover) and (HandoverNode, ObjectKey("", intent.node)) not in self.facts:
            self.core.settle(IntentStale(intent, "gone"), now=Instant(self.now))
        else:
            self.core.settle(IntentDone(intent), now=Instant(self.now))
            self.written(intent)

    def _means_what_is_there(self, intent: KarpenterIntent) -> None:
        """An API server refuses a write that names another object, and hits any object if it names none."""
        match intent:
            case RecordSmartPodState() | DeleteSmartPod():
                known = self.facts.get((SmartPod, intent.key))
            case ReserveNode() | ClearHandover():
                known = self.facts.get((HandoverNode, ObjectKey("", intent.node)))
            case MarkNodePool():
                known = self.facts.get((NodePool, ObjectKey("", intent.node_pool)))
            case _:
                return
        assert known is None or intent.uid == known.uid, intent

    def written(self, intent: KarpenterIntent) -> None:
        match intent:
            case CreateSmartPod():
                self.observe_creation(intent)
            case RecordSmartPodState():
                known = self.facts[SmartPod, intent.key]
                self.put(
                    intent.key,
                    msgspec.structs.replace(
                        known,
                        state=intent.state.value,
                        state_since=intent.since,
                        attempts=intent.attempts,
                        node_claim=intent.node_claim,
                    ),
                )
            case ReserveNode():
                self._reserve(intent)
            case DeleteSmartPod():
                self.drop(SmartPod, intent.key)
                if intent.key in self.snapshot.state.pods:
                    self.drop_pod(intent.key)
            case AdmitWaitingPod():
                known_pod = self.snapshot.state.pods[intent.pod.key]
                ours = Toleration(key="gpu.scheduling/handover", value=intent.request, effect="NoSchedule")
                shape = known_pod.shape
                wider = interned(msgspec.structs.replace(shape, tolerations=(*shape.tolerations, ours)))
                self.put_pod(msgspec.structs.replace(known_pod, shape=wider))
            case ClearHandover():
                self._mark_node(intent.node, closed_for=None, handover=None, kept=False)
            case MarkNodePool():
                known_pool = self.facts[NodePool, ObjectKey("", intent.node_pool)]
                said = ObservedCondition(Tristate.TRUE, "NoHandoverTaint", intent.why) if intent.unprotected else UNSAID
                self.put(ObjectKey("", intent.node_pool), msgspec.structs.replace(known_pool, unprotected=said))
            case RecordFailure():
                text = "" if intent.failure is None else msgspec.json.encode(intent.failure).decode()
                one = self.snapshot.state.pods[intent.pod.key]
                self.put_pod(msgspec.structs.replace(one, capacity_failure=text))

    def observe_creation(self, intent: CreateSmartPod) -> None:
        notes = dict(intent.annotations)
        self.put(
            intent.key,
            SmartPod(
                key=intent.key,
                uid=f"uid-{intent.key.name}-{len(self.performed)}",
                created=Instant(self.now),
                request=intent.request,
                original=msgspec.json.decode(notes[ORIGINAL_REQUEST], type=OriginalRequest),
                state=SmartPodState.PENDING.value,
                attempts=int(notes[ATTEMPTS]),
                node_claim=notes.get(NODE_CLAIM, ""),
            ),
        )

    def _reserve(self, intent: ReserveNode) -> None:
        self._mark_node(intent.node, closed_for=intent.handover.request, handover=intent.handover, kept=True)
        for one in intent.leases:
            for device in one.devices:
                name = f"gpu-{intent.node}-{device}"
                self.put(
                    ObjectKey("", name),
                    GpuLease(
                        name=name,
                        node=intent.node,
                        device=device,
                        holds=(LeaseHold(one.pod.uid, one.milli),),
                        shared=False,
                        renewed=Instant(self.now),
                        resource_version="1",
                    ),
                )

    def _mark_node(self, name: str, **changed: Any) -> None:
        """The hand-over's marks, on the node the core sees and on the one placement sees."""
        self._versions += 1
        known = self.node(name)
        self.put(
            ObjectKey("", name),
            msgspec.structs.replace(known, resource_version=f"v{self._versions}", **changed),
        )
        value = changed["closed_for"]
        fact = self.snapshot.state.nodes[name]
        taints = () if value is None else (Taint("gpu.scheduling/handover", value, "NoSchedule"),)
        self.snapshot.apply(Updated(ObjectKey("", name), fact, msgspec.structs.replace(fact, taints=taints)))

    def state(self) -> SmartPodState:
        """Of the only request there is."""
        self.decide()
        (state,) = self.core.transitions.states().values()
        return state
