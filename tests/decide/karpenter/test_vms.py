"""Capacity requests of VMs: in the name of the pod the VM runs in, for a node with room below its watermark."""

import pytest

from tests.decide.placement.test_vm_pods import waiting
from tests.decide.provisioning.test_vm_demand import a_full_cluster
from tests.vms import GI, a_migration, a_vm, key, node_config, size, vm_config
from ullage.decide.karpenter.demand import capacity_requests, request_of
from ullage.decide.karpenter.facts import KarpenterFacts
from ullage.decide.karpenter.node_pool_mapping import Chosen, choose
from ullage.decide.karpenter.policy import KarpenterPolicy
from ullage.decide.karpenter.progress import ProgressReader
from ullage.decide.provisioning.vm_demand import vms_in_need
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.claim import DeviceRequest
from ullage.model.karpenter import REQUEST_LABEL, CapacityRequest, NodePool, NodePoolMapping, WaitingPod
from ullage.model.karpenter_failure import RequestFailure
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.model.vm_config import ResourceConfig, node_capacity, node_size

MAPPING = NodePoolMapping(name="vms", node_pool="pool", gpu_model="none")


def the_request(assigner: PodAssigner) -> CapacityRequest:
    (moved,) = vms_in_need(assigner.snapshot)
    (request,) = capacity_requests(assigner, [moved], {moved.key})
    return request


def test_a_vm_in_need_asks_for_a_node_with_room_below_the_watermark() -> None:
    request = the_request(PodAssigner(a_full_cluster()))
    assert request.pod == WaitingPod(key("b"), "pod-b"), "the pod it runs in, not the supposed one"
    assert request.ask == DeviceRequest(count=0)
    assert dict(request.requests) == {"cpu": 8500, "memory": 31 * GI * 1000}, "6 cores are 80 % of 8, and 500m is kept"
    assert request.vm_nodes == ((PROVISIONER_LABEL, "pool"),)


def test_a_vm_pod_that_waits_asks_for_itself() -> None:
    snapshot = a_full_cluster(a_vm("new", size(6, 24)), waiting("new"))
    request = request_of(PodAssigner(snapshot), snapshot.state.pods[key("new")])
    assert request is not None
    assert request.pod.key == key("new")


def test_where_no_nodes_are_meant_for_vms_nothing_is_asked() -> None:
    snapshot = a_full_cluster(config=vm_config(node_config(watermark=0.8)))
    assert request_of(PodAssigner(snapshot), snapshot.state.pods[key("b")]) is None


@pytest.mark.parametrize(
    ("labels", "suits"),
    [
        pytest.param({PROVISIONER_LABEL: "pool"}, True, id="meant-for-vms"),
        pytest.param({}, False, id="not-meant-for-them"),
    ],
)
def test_a_node_pool_has_to_be_meant_for_vms(labels: dict[str, str], suits: bool) -> None:
    pool = NodePool(name="pool", uid="u", generation=1, deleting=False, labels={REQUEST_LABEL: "x", **labels})
    answer = choose(the_request(PodAssigner(a_full_cluster())), [MAPPING], {"pool": pool})
    assert isinstance(answer, Chosen if suits else RequestFailure)


def test_a_request_waits_as_long_as_its_vm_does() -> None:
    for more, waits in (((), 1), ((a_migration("b"),), 0)):
        snapshot = a_full_cluster(*more)
        reader = ProgressReader(PodAssigner(snapshot), KarpenterFacts(), KarpenterPolicy())
        assert len(reader.waiting([WaitingPod(key("b"), "pod-b")])) == waits
        assert not reader.waiting([WaitingPod(key("b"), "another")])
        assert not reader.waiting([WaitingPod(key("a"), "pod-a")]), "it runs, and needs no other node"


@pytest.mark.parametrize("amount", [1, 7, 8, 13, 100])
@pytest.mark.parametrize("watermark", [300_000, 700_000, 1_000_000])
def test_the_node_that_is_asked_for_has_room_below_its_watermark(amount: int, watermark: int) -> None:
    config = ResourceConfig(watermark, 3)
    needed = node_size(amount, config, 8)
    assert node_capacity(needed, config, 8).watermark >= amount
