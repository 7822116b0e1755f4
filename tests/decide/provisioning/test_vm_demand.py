"""Demand of VMs: nodes for VMs that need one, in pools that are meant for VMs, and never twice."""

from typing import Any

import msgspec
import pytest

from tests.decide.placement.test_vm_pods import waiting
from tests.decide.provisioning.pools import a_provisioner
from tests.state.test_vm_room import a_guest, a_node, a_snapshot
from tests.vms import GI, a_migration, a_vm, key, node_config, size, vm_config
from ullage.decide.provisioning.demand import FleetDemand, find_demand
from ullage.decide.provisioning.node_offers import Pool, ScaleUpBlocked
from ullage.decide.provisioning.pool_nodes import pool_nodes
from ullage.decide.provisioning.vm_demand import moved_from, vms_in_need
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.instance import Instance
from ullage.model.provisioner import PROVISIONER_LABEL, Provisioner
from ullage.model.units import Instant
from ullage.model.verdict import Reason
from ullage.model.vm import Vm, VmAmounts, VmMarks
from ullage.model.vm_config import VmConfig
from ullage.state.snapshot import ClusterSnapshot

NOW = Instant(1000.0)
FOR_VMS = msgspec.structs.replace(vm_config(node_config(watermark=0.8)), node_selector=((PROVISIONER_LABEL, "pool"),))
"""Nodes of 16 cores: the watermark is at 12."""


def a_pool(name: str = "pool", cores: int = 16, **said: Any) -> Provisioner:
    return a_provisioner(name, resources={"cpu": cores * 1000, "memory": cores * 4 * GI * 1000}, **said)


def in_need(name: str, use: VmAmounts, since: float | None = 900.0) -> Vm:
    return msgspec.structs.replace(a_vm(name, use), needs_node=None if since is None else Instant(since))


def a_full_cluster(*more: Any, config: VmConfig = FOR_VMS) -> ClusterSnapshot:
    """VM a uses 8 cores and b 6 on one node; b needs another one."""
    vms = a_vm("a", size(8, 32)), in_need("b", size(6, 24))
    pods = a_guest("a", size(8, 32)), a_guest("b", size(6, 24))
    return a_snapshot(a_node(), *vms, *pods, *more, config=config)


def demand(snapshot: ClusterSnapshot, *provisioners: Provisioner, instances: tuple[Instance, ...] = ()) -> FleetDemand:
    pools = [Pool(provisioner=one, nodes=pool_nodes(one, instances, snapshot, now=NOW)) for one in provisioners]
    return find_demand(PodAssigner(snapshot).engine, pools, list(vms_in_need(snapshot)), now=NOW)


def bought(found: FleetDemand) -> dict[str, int]:
    return {name: wanted.count for name, wanted in found.wanted.items()}


def test_a_vm_that_needs_a_node_is_bought_one() -> None:
    found = demand(a_full_cluster(), a_pool())
    assert bought(found) == {"pool": 1}
    assert [moved_from(pod) for pod in found.chosen] == [key("b")]
    assert found.wanted["pool"].oldest == 900.0


def test_a_node_that_is_coming_serves_it_and_is_kept_for_it() -> None:
    coming = (Instance(id="i-1", pool="pool", since=NOW),)
    found = demand(a_full_cluster(), a_pool(), instances=coming)
    assert bought(found) == {}
    assert found.assumed["i-1"].pods == 1


@pytest.mark.parametrize(
    ("used", "buys"),
    [
        pytest.param(6, {}, id="room-below-the-watermark"),
        pytest.param(7, {"pool": 1}, id="room-above-it-alone"),
    ],
)
def test_a_node_with_room_below_its_watermark_serves_it(used: int, buys: dict[str, int]) -> None:
    other = a_node("other"), a_vm("c", size(used, 8)), a_guest("c", size(used, 8), node="other")
    assert bought(demand(a_full_cluster(*other), a_pool())) == buys


def test_what_the_vm_may_use_counts_and_not_what_it_uses() -> None:
    snapshot = a_full_cluster(a_vm("d", size(1, 4)), a_guest("d", size(1, 4)))
    snapshot.vms.ledger.put_vm(in_need("b", size(6, 24), None))
    snapshot.vms.ledger.put_pod(msgspec.structs.replace(snapshot.vms.ledger.pods_of(key("d"))[0], approved=size(14, 4)))
    snapshot.vms.ledger.put_vm(in_need("d", size(1, 4)))
    assert bought(demand(snapshot, a_pool())) == {}, "14 cores fit below no watermark of 12"
    assert bought(demand(snapshot, a_pool(cores=32))) == {"pool": 1}


def test_several_vms_share_a_new_node() -> None:
    more = in_need("c", size(5, 8), 950.0), a_guest("c", size(5, 8))
    assert bought(demand(a_full_cluster(*more), a_pool())) == {"pool": 1}
    more = in_need("c", size(7, 8), 950.0), a_guest("c", size(7, 8))
    assert bought(demand(a_full_cluster(*more), a_pool())) == {"pool": 2}


def test_a_pool_that_is_not_meant_for_vms_buys_nothing() -> None:
    found = demand(a_full_cluster(config=vm_config(node_config(watermark=0.8))), a_pool())
    assert bought(found) == {}
    (why,) = found.unmet.values()
    assert why == {"pool": ScaleUpBlocked.NOT_FOR_VMS}
    assert bought(demand(a_full_cluster(), a_pool("others"))) == {}


def test_a_vm_too_large_for_new_nodes_buys_nothing() -> None:
    found = demand(a_full_cluster(), a_pool(cores=8))
    assert bought(found) == {}
    (why,) = found.unmet.values()
    assert why == {"pool": Reason.VM_INSUFFICIENT_ROOM}


def test_a_vm_on_its_way_needs_no_node() -> None:
    assert list(vms_in_need(a_full_cluster(a_migration("b")))) == []
    assert list(vms_in_need(ClusterSnapshot())) == []


def test_a_target_that_waits_is_demand_of_its_own() -> None:
    """A VM pod that is pending counts like any pod."""
    snapshot = a_full_cluster(a_vm("new", size(4, 16)), waiting("new"))
    pod = PodAssigner(snapshot).entitled(snapshot.state.pods[key("new")])
    engine = PodAssigner(snapshot).engine
    pool = Pool(provisioner=a_pool(), nodes=())
    assert bought(find_demand(engine, [pool], [pod], now=NOW)) == {"pool": 1}  # type: ignore[list-item]
    assert VmMarks(name="new").approved is None
