"""Findings of `ullage check`, from facts alone."""

import pytest

from ullage import __version__
from ullage.deploy.findings import ClusterFacts, FindingCode, GpuNodeFacts, findings

C = FindingCode
HEALTHY = {"scheduler": "", "webhook": "", "agent": "", "controller": ""}
NODE = GpuNodeFacts(name="n1", reported=True, ahead=-3.0)


def facts(**more: object) -> ClusterFacts:
    """A healthy cluster, but for what is said."""
    usual: dict[str, object] = {
        "components": HEALTHY,
        "versions": dict.fromkeys(HEALTHY, __version__),
        "gpu_nodes": [NODE],
    }
    return ClusterFacts(**(usual | more))  # type: ignore[arg-type]


BARE = {"missing_kinds": ["GpuClaim"], "components": {}, "versions": {}, "namespace_exists": False}


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        pytest.param({}, [], id="healthy"),
        pytest.param(
            BARE | {"gpu_nodes": (), "webhook_registered": False},
            [C.DEFINITIONS_MISSING, C.NAMESPACE_MISSING, C.COMPONENT_MISSING, C.COMPONENT_MISSING, C.NO_GPUS],
            id="bare",
        ),
        pytest.param({"server_version": "v1.33.2"}, [C.SERVER_TOO_OLD], id="old-server"),
        pytest.param({"server_version": "v1.38.0"}, [C.SERVER_UNTRIED], id="new-server"),
        pytest.param({"server_version": "v1.34.2-gke.100"}, [], id="a-vendors-version"),
        pytest.param({"forbidden": ["create clusterroles"]}, [C.MAY_NOT_INSTALL], id="no-admin"),
        pytest.param(
            {"components": HEALTHY | {"scheduler": "0 of 2 pods are available"}}, [C.COMPONENT_NOT_READY], id="half"
        ),
        pytest.param(
            {"missing_rights": {"scheduler": ["get pods"], "agent": []}}, [C.RIGHTS_MISSING], id="edited-role"
        ),
        pytest.param({"versions": {"agent": "0.0.9"}}, [C.OTHER_VERSION], id="another-version"),
        pytest.param({"webhook_registered": False}, [C.WEBHOOK_UNREGISTERED], id="unregistered"),
        pytest.param({"webhook_trouble": "connection refused"}, [C.WEBHOOK_UNREACHABLE], id="unreachable"),
        pytest.param({"policy_exists": False}, [C.POLICY_MISSING], id="no-policy"),
        pytest.param({"gpu_nodes": [NODE, GpuNodeFacts(name="n2")]}, [C.NODES_WITHOUT_AGENT], id="no-agent"),
        pytest.param(
            {"gpu_nodes": [GpuNodeFacts(name="n1", reported=True, ahead=-600.0)]}, [C.REPORTS_STALE], id="silent-agent"
        ),
        pytest.param(
            {"gpu_nodes": [GpuNodeFacts(name="n1", reported=True, ahead=120.0)]}, [C.CLOCK_SKEW], id="clock-ahead"
        ),
        pytest.param({"workloads": ["volcano-scheduler"]}, [C.OTHER_SCHEDULER], id="volcano"),
        pytest.param({"workloads": ["karpenter"]}, [C.OTHER_AUTOSCALER], id="karpenter"),
        pytest.param(
            {"workloads": ["karpenter"], "karpenter_enabled": True, "karpenter_served": True},
            [],
            id="karpenter-as-feature",
        ),
        pytest.param({"karpenter_enabled": True}, [C.KARPENTER_NOT_INSTALLED], id="karpenter-is-missing"),
        pytest.param({"unprotected_node_pools": ["gpu"]}, [C.HANDOVER_UNPROTECTED], id="an-open-node-pool"),
        pytest.param({"workloads": ["aws-cluster-autoscaler"]}, [C.OTHER_AUTOSCALER], id="cluster-autoscaler"),
        pytest.param({"workloads": ["kueue-controller-manager"]}, [], id="kueue-is-no-rival"),
    ],
)
def test_findings(given: dict[str, object], codes: list[FindingCode]) -> None:
    found = findings(facts(**given))
    assert [one.code for one in found] == codes
    assert all(one.says.endswith(".") and one.next_step.endswith(".") for one in found)


def test_a_node_without_the_label_that_agents_go_by_is_told_how_to_get_it() -> None:
    nodes = [NODE, GpuNodeFacts(name="n2", labelled=False), GpuNodeFacts(name="n3")]
    (found,) = findings(facts(gpu_nodes=nodes))
    assert found.says.startswith("No agent reports n2, n3:")
    assert "`kubectl label node n2 nvidia.com/gpu.present=true`" in found.next_step
    assert "GPUs of n2, and" in found.next_step


def test_problems_come_first_and_long_lists_are_cut() -> None:
    nodes = [GpuNodeFacts(name=f"n{number}") for number in range(9)]
    found = findings(facts(gpu_nodes=nodes, policy_exists=False))
    assert [one.weight for one in found] == ["problem", "warning"]
    assert "n0, n1, n2, n3, n4 and 4 more" in found[1].says
