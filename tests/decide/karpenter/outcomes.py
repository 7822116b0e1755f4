"""Outcomes of capacity requests in a cluster of facts, for the tests of failure modes."""

from tests.decide.karpenter.cluster import Cluster
from ullage.decide.karpenter.retry import read_failure
from ullage.model.intents import CreateSmartPod, DeleteSmartPod
from ullage.model.karpenter_failure import RecordedFailure
from ullage.model.lifecycles import SmartPodState as S


def failure_of(cluster: Cluster, name: str = "a") -> RecordedFailure:
    """Failure recorded on a waiting pod."""
    found = read_failure(cluster.waiting(name).capacity_failure)
    assert found is not None, f"{name} says nothing"
    return found


def ends_of(cluster: Cluster) -> list[S]:
    return [one.end for one in cluster.performed if isinstance(one, DeleteSmartPod)]


def created(cluster: Cluster) -> list[CreateSmartPod]:
    return [one for one in cluster.performed if isinstance(one, CreateSmartPod)]


def node_is_there(cluster: Cluster, gpus: int = 8) -> None:
    """The node is there, the smart pod on it, its GPUs not reported yet."""
    cluster.karpenter_claims("Launched", "Registered")
    cluster.node_joins(gpus=gpus)
    cluster.smart_pod_binds()


def hand_over(cluster: Cluster) -> None:
    cluster.ask()
    node_is_there(cluster)
    cluster.agent_reports()
    cluster.settle()


def serve_from_a_new_node(cluster: Cluster) -> None:
    """The node comes, the smart pod is bound to it, its agent reports: the hand-over ends, by steps of the table."""
    cluster.node_joins()
    cluster.smart_pod_binds()
    cluster.agent_reports()
    cluster.settle()
    assert ends_of(cluster) == [S.HANDED_OVER]
    assert not any(one.jump for one in cluster.core.transitions.drain())
