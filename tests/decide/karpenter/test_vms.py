"""Capacity requests of VMs: in the name of the pod the VM runs in, for a node with room below its watermark."""

import msgspec
import pytest

from tests.decide.karpenter.cluster import Cluster, claim_pod, mapping, node_pool
from tests.decide.karpenter.outcomes import failure_of
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
from ullage.model.resources import GPU
from ullage.model.shape import interned
from ullage.model.units import Micros
from ullage.model.vm import VmAmounts
from ullage.model.vm_config import ResourceConfig, node_capacity, node_size

MAPPING = NodePoolMapping(name="vms", node_pool="pool", gpus_per_node=0)


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


def test_a_vm_takes_nodes_without_gpus_before_those_with_them() -> None:
    gpus = NodePoolMapping(name="h100", node_pool="gpus", gpu_model="H100", price_per_gpu=Micros(1))
    labels = {REQUEST_LABEL: "x", PROVISIONER_LABEL: "pool"}
    pools = {
        name: NodePool(name=name, uid=name, generation=1, deleting=False, labels=labels) for name in ("pool", "gpus")
    }
    request = the_request(PodAssigner(a_full_cluster()))
    answer = choose(request, [gpus, MAPPING], pools)
    assert isinstance(answer, Chosen)
    assert answer.mapping == MAPPING


@pytest.mark.parametrize("model", ["", "H100"])
def test_a_node_pool_without_gpus_is_not_asked_for_a_claim(model: str) -> None:
    mappings = (mapping("cpu-vms", gpu_model="", gpus_per_node=0, price_per_gpu=0), mapping(price_per_gpu=0))
    both = [node_pool("gpu-cpu-vms"), node_pool()]
    cluster = Cluster(claim_pod("a", model=model), policy=KarpenterPolicy(mappings=mappings), pools=both)
    cluster.ask()
    assert cluster.smart_pod.original is not None
    assert cluster.smart_pod.original.mapping == "h100"


def test_where_all_node_pools_are_without_gpus_a_claim_is_told() -> None:
    mappings = (mapping("cpu-vms", gpu_model="", gpus_per_node=0),)
    cluster = Cluster(claim_pod("a"), policy=KarpenterPolicy(mappings=mappings), pools=[node_pool("gpu-cpu-vms")])
    cluster.ask()
    assert not cluster.smart_pods
    assert "karpenter.nodePools.cpu-vms.gpusPerNode is 0" in failure_of(cluster).message


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


@pytest.mark.parametrize(
    ("own", "asked"),
    [
        pytest.param(size(1, 1), {"cpu": 8500, "memory": 31 * GI * 1000}, id="the-vm-needs-more-than-its-pod-says"),
        pytest.param(size(32, 1), {"cpu": 32_000, "memory": 31 * GI * 1000}, id="the-pod-says-more-cpu"),
    ],
)
def test_a_waiting_vm_with_a_gpu_asks_for_a_node_with_room_for_the_vm(own: VmAmounts, asked: dict[str, int]) -> None:
    pod = waiting("new")
    requests = (("cpu", own.cpu), ("memory", own.memory * 1000), (GPU, 1000))
    pod = msgspec.structs.replace(pod, shape=interned(msgspec.structs.replace(pod.shape, requests=requests)))
    snapshot = a_full_cluster(a_vm("new", size(6, 24)), pod)
    request = request_of(PodAssigner(snapshot), snapshot.state.pods[key("new")])
    assert request is not None
    assert request.ask.count == 1
    assert {name: amount for name, amount in request.requests if name != GPU} == asked
    assert request.vm_nodes is None, "its GPUs choose the NodePool, and its node is handed over"
