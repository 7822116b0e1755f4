"""Tables and laws: choice of a NodePool, groups, names, words of Karpenter."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.decide.karpenter.cluster import A100, mapping, node_pool
from ullage.decide.karpenter.batching import grouped, need_of, request_id
from ullage.decide.karpenter.failures import classify
from ullage.decide.karpenter.node_pool_mapping import Chosen, choose, is_protected, mark_node_pools
from ullage.decide.karpenter.policy import DEFAULT_DEADLINES, TIMEOUTS, KarpenterPolicy
from ullage.decide.karpenter.smart_pod import create_smart_pod, pod_name
from ullage.model.claim import DeviceRequest, Exclusivity
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import (
    HANDOVER,
    REQUEST_LABEL,
    CapacityRequest,
    NodePool,
    NodePoolMapping,
    ObservedCondition,
    Tristate,
    WaitingPod,
)
from ullage.model.karpenter_failure import FAILURE_KINDS, FailureReason, RequestFailure
from ullage.model.lifecycles import IN_FLIGHT, SmartPodState, SmartPodStatus, status_of
from ullage.model.node import Taint
from ullage.model.provisioner import ZONE_LABEL
from ullage.model.resources import GPU
from ullage.model.selector import Operator, Requirement
from ullage.model.shape_terms import NodeTerm, Toleration
from ullage.model.units import Milli

GIB = 1 << 30
A = mapping("a100", gpu_model=A100, price_per_gpu=3_000_000)
H = mapping("h100")
T4 = mapping("t4", gpu_model="Tesla T4", gpu_memory=16 * GIB, price_per_gpu=500_000, gpus_per_node=4)
UNPRICED = mapping("free", gpu_model="Tesla T4", gpu_memory=16 * GIB, price_per_gpu=0)
POOLS = {one.node_pool: node_pool(one.node_pool) for one in (A, H, T4, UNPRICED)}


def request(name: str = "a", **ask: Any) -> CapacityRequest:
    more = {key: ask.pop(key) for key in list(ask) if key in CapacityRequest.__struct_fields__}
    said: dict[str, Any] = {"shareable": True} | more
    return CapacityRequest(pod=WaitingPod(ObjectKey("team", name), f"uid-{name}"), ask=DeviceRequest(**ask), **said)


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        pytest.param({}, "t4", id="no model: the cheapest"),
        pytest.param({"model": "H100"}, "h100", id="a model: its mapping"),
        pytest.param({"model": "A100"}, "a100", id="a model by one of its words"),
        pytest.param({"memory": 40 * GIB}, "a100", id="memory: the cheapest that has it"),
        pytest.param({"tflops": 500}, "h100", id="TFLOPs: what is known of the model"),
        pytest.param({"count": 8}, "a100", id="count: the cheapest with nodes that large"),
    ],
)
def test_the_cheapest_mapping_that_satisfies(ask: dict[str, Any], expected: str) -> None:
    answer = choose(request(**ask), (H, A, UNPRICED, T4), POOLS)
    assert isinstance(answer, Chosen)
    assert answer.mapping.name == expected


@pytest.mark.parametrize(
    ("mappings", "ask", "reason", "words"),
    [
        ((), {}, FailureReason.NO_MAPPING, "karpenter.nodePools"),
        ((T4,), {"model": "B200"}, FailureReason.NO_MAPPING, "karpenter.nodePools.t4.gpuModel"),
        ((T4,), {"memory": 40 * GIB}, FailureReason.NO_MAPPING, "karpenter.nodePools.t4.gpuMemory"),
        ((T4,), {"tflops": 900}, FailureReason.NO_MAPPING, "karpenter.nodePools.t4.tflops"),
        ((T4,), {"count": 5}, FailureReason.LARGER_THAN_ANY_NODE, "karpenter.nodePools.t4.gpusPerNode"),
        ((T4, H), {"count": 9}, FailureReason.LARGER_THAN_ANY_NODE, "gpusPerNode"),
        ((mapping("x", node_pool="typo"),), {}, FailureReason.NODE_POOL_NOT_FOUND, "karpenter.nodePools.x.nodePool"),
    ],
)
def test_a_refusal_names_the_field(
    mappings: tuple[NodePoolMapping, ...], ask: dict[str, Any], reason: FailureReason, words: str
) -> None:
    answer = choose(request(**ask), mappings, POOLS)
    assert isinstance(answer, RequestFailure)
    assert (answer.reason, words in answer.message) == (reason, True), answer


def test_unknown_prices_come_last() -> None:
    answer = choose(request(), (UNPRICED, T4), POOLS)
    assert isinstance(answer, Chosen)
    assert answer.mapping is T4


@pytest.mark.parametrize(
    ("pool", "protected"),
    [
        (node_pool(), True),
        (node_pool(startup_taints=()), False),
        (node_pool(startup_taints=(), taints=(Taint("gpu.scheduling/leased", "true", "NoSchedule"),)), True),
        (node_pool(startup_taints=(), taints=(Taint("nvidia.com/gpu", "", "NoSchedule"),)), False),
    ],
)
def test_a_node_pool_is_protected_by_a_taint_rivals_do_not_tolerate(pool: NodePool, protected: bool) -> None:
    assert is_protected(pool) is protected


def test_an_unprotected_node_pool_gets_the_condition_and_loses_it_again() -> None:
    told = ObservedCondition(Tristate.TRUE, "NoHandoverTaint", "")
    opened, protected = node_pool(H.node_pool, startup_taints=()), node_pool(H.node_pool)

    def marks(pool: NodePool) -> list[bool]:
        return [one.unprotected for one in mark_node_pools((H,), {pool.name: pool, "another": opened})]

    assert marks(opened) == [True]
    assert marks(replace(opened, unprotected=told)) == []
    assert marks(replace(protected, unprotected=told)) == [False]
    assert marks(protected) == marks(replace(opened, deleting=True)) == []


def _chosen(requests: list[CapacityRequest]) -> list[tuple[CapacityRequest, Chosen]]:
    found = []
    for one in requests:
        answer = choose(one, (A, H, T4), POOLS)
        assert isinstance(answer, Chosen)
        found.append((one, answer))
    return found


def _in_zones(*zones: str) -> tuple[NodeTerm, ...]:
    return (NodeTerm(labels=(Requirement(ZONE_LABEL, Operator.IN, zones),)),)


asks = st.lists(
    st.builds(
        lambda n, gib, shared, share, zone: request(
            f"p{n}",
            exclusivity=Exclusivity.SHARED if shared else Exclusivity.EXCLUSIVE,
            memory=gib * GIB,
            shareable=share,
            node_affinity=zone,
        ),
        st.integers(0, 10_000),
        st.integers(1, 80),
        st.booleans(),
        st.booleans(),
        st.sampled_from([None, _in_zones("z1"), _in_zones("z2")]),
    ),
    max_size=30,
    unique_by=lambda one: one.pod,
)


@given(asks)
def test_groups_are_a_partition_within_one_gpu_of_requests_that_may_share(requests: list[CapacityRequest]) -> None:
    groups = grouped(_chosen(requests))
    assert sorted(one.pod.key for group in groups for one in group.requests) == sorted(one.pod.key for one in requests)
    assert len({group.id for group in groups}) == len(groups)
    for group in groups:
        if len(group.requests) == 1:
            continue
        assert group.gpus == 1
        assert all(one.shareable and one.ask.exclusivity is Exclusivity.SHARED for one in group.requests)
        assert len({one.node_affinity for one in group.requests}) == 1
        memory = sum(-(-1000 * one.ask.memory // group.mapping.gpu_memory) for one in group.requests)
        assert memory <= 1000


@given(asks)
def test_ids_do_not_depend_on_the_order(requests: list[CapacityRequest]) -> None:
    assert request_id(requests) == request_id(requests[::-1])
    assert need_of(requests) == need_of(requests[::-1])


def test_members_of_a_gang_are_never_aggregated() -> None:
    gang = ObjectKey("team", "g")
    shares = [request(f"p{n}", exclusivity=Exclusivity.SHARED, memory=GIB, gang=gang, gang_size=2) for n in range(2)]
    assert len(grouped(_chosen(shares))) == 2


def test_a_smart_pod_of_a_gang_may_run_until_the_last_node_of_the_gang_is_there() -> None:
    gang = ObjectKey("team", "g")
    for one, seconds in ((request(), 600), (request(gang=gang, gang_size=2), 600 + 300 + 1200 + 60)):
        (group,) = grouped(_chosen([one]))
        assert create_smart_pod(group, KarpenterPolicy(), why="").active_deadline == seconds


def test_the_smart_pod_asks_for_what_the_waiting_pod_needs() -> None:
    one = request(
        count=4,
        model="A100",
        requests=(("cpu", 50), ("ephemeral-storage", 7), ("memory", 9), (GPU, 4000)),
        node_selector=(("team", "x"),),
        node_affinity=_in_zones("z1", "z2"),
        tolerations=(Toleration(key="mine", exists=True),),
    )
    (group,) = grouped(_chosen([one]))
    create = create_smart_pod(group, KarpenterPolicy(), why="because")
    assert dict(create.requests) == {"cpu": 100, "memory": 9, "ephemeral-storage": 7, GPU: 4000}
    assert dict(create.node_selector) == {
        "team": "x",
        "karpenter.sh/nodepool": "gpu-a100",
        REQUEST_LABEL: group.id,
    }
    assert create.node_affinity == one.node_affinity
    assert {t.key for t in create.tolerations} == {"mine", "nvidia.com/gpu", HANDOVER, "gpu.scheduling/leased"}
    assert create.key.name.startswith("smart-gpu-scheduler-a100-")
    assert dict(create.labels)["tensor-fusion.ai/component"] == "smart-scheduler"
    assert dict(create.annotations)["tensor-fusion.ai/cleanup-after"] == "node-ready"


def test_instance_types_and_memory_from_vram_are_off_unless_said() -> None:
    said = mapping("a100", gpu_model=A100, instance_types=("p4d.24xlarge",), memory_from_vram=True)
    answer = choose(request(count=2), (said,), POOLS)
    assert isinstance(answer, Chosen)
    (group,) = grouped([(request(count=2), answer)])
    create = create_smart_pod(group, KarpenterPolicy(), why="")
    assert dict(create.requests)["memory"] == 2 * 80 * GIB * 1000
    assert create.node_affinity is not None
    assert create.node_affinity[0].labels[0].values == ("p4d.24xlarge",)


@given(st.text(max_size=300), st.text("0123456789abcdef", min_size=16, max_size=16))
def test_names_are_dns_labels(model: str, request_hash: str) -> None:
    name = pod_name(model, request_hash)
    assert len(name) <= 63
    assert name.isascii()
    assert all(part.isalnum() for part in name.split("-"))


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ("Failed to schedule pod, no instance type has enough resources", FailureReason.NO_INSTANCE_TYPE),
        (
            "no instance type which had enough resources and the required offering met the scheduling requirements",
            FailureReason.NO_INSTANCE_TYPE,
        ),
        (
            "no instance type which met the scheduling requirements and had enough resources, had a required offering",
            FailureReason.NO_OFFERING,
        ),
        ("no instance type has the required offering", FailureReason.NO_OFFERING),
        ("node limits have been exhausted for nodepool (NodePool=gpu-a100)", FailureReason.NODE_POOL_LIMIT),
        ("Dynamic Resource Allocation requirements that are not yet supported", FailureReason.DRA_UNSUPPORTED),
        ("something Karpenter says next year", None),
    ],
)
def test_words_of_karpenter(note: str, expected: FailureReason | None) -> None:
    failure = classify(note)
    assert (None if failure is None else failure.reason) is expected


def test_of_several_node_pools_the_one_asked_decides() -> None:
    note = (
        "all available instance types exceed limits for nodepool (NodePool=other); "
        'incompatible requirements, label "x" does not have known values (NodePool=gpu-a100)'
    )
    failure = classify(note, "gpu-a100")
    assert failure is not None
    assert failure.reason is FailureReason.INCOMPATIBLE


def test_every_reason_has_a_kind_and_every_state_a_deadline_and_a_status() -> None:
    assert set(FAILURE_KINDS) == set(FailureReason)
    assert set(DEFAULT_DEADLINES) == set(TIMEOUTS) == {*IN_FLIGHT, SmartPodState.HANDED_OVER}
    assert {status_of(state, bound=True) for state in SmartPodState} == set(SmartPodStatus)
    assert status_of(SmartPodState.REGISTERED, bound=False) is SmartPodStatus.PENDING


def test_backoff_doubles_to_its_longest() -> None:
    policy = KarpenterPolicy()
    assert [policy.backoff(n) for n in (1, 2, 3, 6, 99)] == [10.0, 20.0, 40.0, 300.0, 300.0]


KIND = "gpu.scheduling/node-kind"
LEASED = Requirement(KIND, Operator.IN, ("leased",))
SSD = Requirement("disk", Operator.IN, ("ssd",))


@pytest.mark.parametrize(
    ("terms", "kept"),
    [
        pytest.param(None, None, id="no-affinity"),
        pytest.param((NodeTerm(labels=(LEASED,)),), None, id="nothing-else"),
        pytest.param((NodeTerm(labels=(LEASED, SSD)),), (NodeTerm(labels=(SSD,)),), id="beside-another"),
        pytest.param((NodeTerm(labels=(SSD,)), NodeTerm(labels=(LEASED,))), None, id="one-of-two-admits-all"),
    ],
)
def test_the_kind_of_a_node_is_not_asked_of_karpenter(
    terms: tuple[NodeTerm, ...] | None, kept: tuple[NodeTerm, ...] | None
) -> None:
    """The node's agent writes the label: Karpenter refuses a label that no NodePool has."""
    one = request(node_selector=((KIND, "leased"), ("zone", "a")), node_affinity=terms)
    (group,) = grouped([(one, Chosen(H, 1, Milli(1000)))])
    made = create_smart_pod(group, KarpenterPolicy(mappings=(H,)), why="")
    assert KIND not in dict(made.node_selector)
    assert dict(made.node_selector)["zone"] == "a"
    assert made.node_affinity == kept


def test_a_pod_that_would_not_tolerate_the_node_buys_none() -> None:
    """The smart pod tolerates the taint, and would buy the node in vain."""
    tainted = node_pool(H.node_pool, taints=(Taint(GPU, "", "NoSchedule"),))
    answer = choose(request(), (H,), {H.node_pool: tainted})
    assert isinstance(answer, RequestFailure)
    assert answer.reason is FailureReason.TAINT_NOT_TOLERATED
    assert "nvidia.com/gpu:NoSchedule of NodePool gpu-h100" in answer.message
    tolerant = request(tolerations=(Toleration(key=GPU, exists=True),))
    assert isinstance(choose(tolerant, (H,), {H.node_pool: tainted}), Chosen)


def test_a_pool_that_makes_the_other_kind_is_passed_over() -> None:
    counted = node_pool(H.node_pool, labels={KIND: "counted"})
    answer = choose(request(node_selector=((KIND, "leased"),)), (H,), {H.node_pool: counted})
    assert isinstance(answer, RequestFailure)
    assert answer.reason is FailureReason.INCOMPATIBLE
    assert isinstance(choose(request(node_selector=((KIND, "Counted"),)), (H,), {H.node_pool: counted}), Chosen)
