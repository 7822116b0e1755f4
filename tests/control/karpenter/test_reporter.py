"""What is reported of requests: metrics that alerts are made of, Events that people read."""

from prometheus_client import CollectorRegistry

from tests.decide.karpenter.cluster import Cluster, claim_pod, node_pool
from ullage.control.karpenter.reporter import TRIES_BEFORE_REPORT, KarpenterReporter
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import DeleteSmartPod
from ullage.model.karpenter import NodeClaimEvent, NodeClaimEventType
from ullage.model.lifecycles import SmartPodState
from ullage.model.outcomes import IntentDone, IntentFailed
from ullage.model.units import Instant
from ullage.observe.events import EventMessage, EventReason
from ullage.observe.karpenter_metrics import KARPENTER_METRICS, KarpenterMetrics


class Heard:
    """Everything that was told."""

    def __init__(self) -> None:
        self.told: list[EventMessage] = []

    def record(self, announcement: EventMessage) -> None:
        self.told.append(announcement)


def reported(cluster: Cluster) -> tuple[Heard, CollectorRegistry, KarpenterReporter]:
    """Of all that a cluster has performed."""
    heard, registry = Heard(), CollectorRegistry()
    reporter = KarpenterReporter(heard, KarpenterMetrics(registry))
    for intent in cluster.performed:
        reporter.outcome(IntentDone(intent), 0)
    reporter.transitions(cluster.core.transitions.drain())
    return heard, registry, reporter


def test_a_request_that_is_served_is_a_success() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.karpenter_claims("Launched", "Registered")
    cluster.node_joins()
    cluster.smart_pod_binds()
    cluster.agent_reports()
    cluster.settle()
    cluster.bind("a", "n1", (0,))
    cluster.settle()
    heard, registry, _ = reported(cluster)
    assert [(one.reason, one.about.key) for one in heard.told] == [
        (EventReason.SCALE_UP_TRIGGERED, ObjectKey("team", "a")),
        (EventReason.NODE_HANDED_OVER, ObjectKey("team", "a")),
    ]
    assert "insufficient GPU resources in pool h100, auto-scaling triggered" in heard.told[0].note
    assert registry.get_sample_value("tensor_fusion_smart_pods_created_total", {"pool": "h100"}) == 1
    assert registry.get_sample_value("tensor_fusion_scaling_success_rate") == 1
    ended = {"result": "HandedOver", "reason": ""}
    assert registry.get_sample_value("tensor_fusion_scaling_requests_total", ended) == 1


def test_a_failure_is_told_with_its_reason_and_lowers_the_rate() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.karpenter_says("no instance type has enough resources")
    cluster.settle()
    heard, registry, _ = reported(cluster)
    (failed,) = [one for one in heard.told if one.reason is EventReason.SCALE_UP_FAILED]
    assert failed.note.startswith("NoInstanceType")
    assert registry.get_sample_value("tensor_fusion_scaling_success_rate") == 0
    ended = {"result": "Failed", "reason": "NoInstanceType"}
    assert registry.get_sample_value("tensor_fusion_scaling_requests_total", ended) == 1


def test_29_a_cleanup_failure_is_counted_after_three_tries() -> None:
    _, registry, reporter = reported(Cluster())
    delete = DeleteSmartPod(key=ObjectKey("x", "y"), uid="u", grace_seconds=0, end=SmartPodState.CANCELLED, why="")
    for tries in range(1, TRIES_BEFORE_REPORT + 2):
        reporter.outcome(IntentFailed(delete, "503"), tries)
    assert registry.get_sample_value("tensor_fusion_cleanup_failures_total") == 2


def test_provisioning_times_are_those_of_our_claims() -> None:
    _, registry, reporter = reported(Cluster())
    for name in ("ours", "theirs"):
        created = NodeClaimEvent(type=NodeClaimEventType.CREATED, node_claim=name, node="", timestamp=Instant(10.0))
        reporter.claim_events([created, _ready(created, 52.0)], ours=["ours"])
    assert registry.get_sample_value("tensor_fusion_nodeclaim_provision_duration_count") == 1
    assert registry.get_sample_value("tensor_fusion_nodeclaim_provision_duration_sum") == 42


def test_a_claim_that_is_gone_by_the_time_of_the_report_counts_as_failed() -> None:
    _, registry, reporter = reported(Cluster())
    created = NodeClaimEvent(type=NodeClaimEventType.CREATED, node_claim="a", node="", timestamp=Instant(10.0))
    reporter.claim_events([created], ours=["a"])
    failed = NodeClaimEvent(type=NodeClaimEventType.FAILED, node_claim="a", node="", timestamp=Instant(12.0))
    reporter.claim_events([failed, failed], ours=[])
    assert registry.get_sample_value("tensor_fusion_nodeclaim_events_total", {"type": "Failed"}) == 1


def test_steps_before_the_start_were_counted_by_an_earlier_process() -> None:
    registry = CollectorRegistry()
    reporter = KarpenterReporter(Heard(), KarpenterMetrics(registry), started=50.0)
    created = NodeClaimEvent(type=NodeClaimEventType.CREATED, node_claim="a", node="", timestamp=Instant(10.0))
    reporter.claim_events([created, _ready(created, 40.0)], ours=["a"])
    assert registry.get_sample_value("tensor_fusion_nodeclaim_provision_duration_count") == 0
    again = NodeClaimEvent(type=NodeClaimEventType.CREATED, node_claim="b", node="", timestamp=Instant(20.0))
    reporter.claim_events([again, _ready(again, 62.0)], ours=["b"])
    assert registry.get_sample_value("tensor_fusion_nodeclaim_provision_duration_sum") == 42, "it became Ready now"


def _ready(created: NodeClaimEvent, at: float) -> NodeClaimEvent:
    return NodeClaimEvent(type=NodeClaimEventType.READY, node_claim=created.node_claim, node="n", timestamp=Instant(at))


def test_an_unprotected_node_pool_is_told_once() -> None:
    heard, registry, reporter = reported(Cluster())
    pools = {"gpu-h100": node_pool(startup_taints=())}
    for _ in range(3):
        reporter.node_pools(pools, ["gpu-h100", "absent"])
    assert [one.reason for one in heard.told] == [EventReason.HANDOVER_UNPROTECTED]
    name = "tensor_fusion_nodepool_handover_unprotected"
    assert registry.get_sample_value(name, {"nodepool": "gpu-h100"}) == 1


def test_every_metric_has_one_name_and_its_help() -> None:
    names = [one.name for one in KARPENTER_METRICS]
    assert len(set(names)) == len(names)
    assert all(one.name.startswith("tensor_fusion_") and one.help.endswith(".") for one in KARPENTER_METRICS)
