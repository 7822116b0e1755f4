"""VMs in the snapshot: counted once all is known, undone with a trial, never made older by a watch that is behind."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vms import GI, a_migration, a_vm, key, node_config, size, vm_config
from ullage.decide.vms.reserve import room_for_ordinary
from ullage.kube.client.resources import CONFIG_MAPS_READ, VIRTUAL_MACHINES
from ullage.model.fact_event import Added, Deleted, ObjectKey, Synced, Updated
from ullage.model.node import Node
from ullage.model.pod import Phase, Pod
from ullage.model.shape import Shape, interned
from ullage.model.vm import VmAmounts, VmMarks
from ullage.model.vm_config import (
    DEFAULT_VM_CONFIG,
    VM_SOURCES,
    ConfigRefusal,
    NodeOverride,
    VmConfig,
    VmNodesDocument,
    unchangeable,
)
from ullage.state.snapshot import ClusterSnapshot
from ullage.state.vm_room import UNLIMITED
from ullage.testing.facts import node_fact, pod_fact

DOCUMENT = ObjectKey("ullage-system", "vm-nodes")


def a_node(name: str = "n", cpu: int = 16_000, memory: int = 64, **labels: str) -> Node:
    return node_fact(
        name, uid=f"node-{name}", labels=labels, allocatable={"cpu": cpu, "memory": memory * GI * 1000, "pods": 110_000}
    )


def a_pod(name: str, node: str = "n", amounts: VmAmounts | None = None, marks: VmMarks | None = None) -> Pod:
    asked = amounts or size(1, 1)
    return pod_fact(
        key(name).name,
        namespace=key(name).namespace,
        uid=f"pod-{name}",
        node=node,
        phase=Phase.RUNNING,
        shape=interned(Shape(requests=(("cpu", asked.cpu), ("memory", asked.memory * 1000)))),
        vm=marks,
    )


def a_guest(name: str, approved: VmAmounts | None, version: str = "", node: str = "n") -> Pod:
    pod = a_pod(name, node, marks=VmMarks(name=name, approved=approved))
    return msgspec.structs.replace(pod, resource_version=version)


def a_snapshot(*facts: Any, config: VmConfig | None = None) -> ClusterSnapshot:
    """All sources are synced."""
    snapshot = ClusterSnapshot()
    document = VmNodesDocument(key=DOCUMENT, config=config or vm_config())
    for fact in (document, *facts):
        snapshot.apply(Added(ObjectKey("", fact.name) if isinstance(fact, Node) else fact.key, fact))
    for source in VM_SOURCES:
        snapshot.apply(Synced(source))
    return snapshot


def test_the_sources_are_those_of_the_kinds() -> None:
    assert {VIRTUAL_MACHINES.id, CONFIG_MAPS_READ.id} == VM_SOURCES


@pytest.mark.parametrize("missing", sorted(VM_SOURCES))
def test_nothing_counts_before_vms_and_configuration_are_known(missing: str) -> None:
    snapshot = ClusterSnapshot()
    snapshot.apply(Added(ObjectKey("", "n"), a_node()))
    snapshot.apply(Added(key("v"), a_guest("v", size(4, 16))))
    snapshot.apply(Added(key("web"), a_pod("web")))
    for source in VM_SOURCES - {missing}:
        snapshot.apply(Synced(source))
    assert not snapshot.vms.active
    assert list(snapshot.vms.ledger.nodes()) == []
    snapshot.apply(Added(DOCUMENT, VmNodesDocument(key=DOCUMENT, config=vm_config())))
    snapshot.apply(Synced(missing))
    assert snapshot.vms.ledger.ledger("n").reserved == size(5, 17)


def test_a_snapshot_of_a_known_state_counts_the_same() -> None:
    heard = a_snapshot(a_node(), a_vm("v", size(2, 8)), a_guest("v", size(4, 16)), a_pod("web"), a_migration("v"))
    read = ClusterSnapshot(heard.state)
    assert read.vms.active
    assert read.vms.ledger.ledger("n") == heard.vms.ledger.ledger("n")
    assert read.vms.ledger.migrations() == heard.vms.ledger.migrations()


@pytest.mark.parametrize(
    ("version", "cores"),
    [
        pytest.param("9", 6, id="older"),
        pytest.param("10", 4, id="the-same"),
        pytest.param("11", 4, id="newer"),
        pytest.param("opaque", 4, id="not-comparable"),
    ],
)
def test_a_watch_that_is_behind_takes_no_approval_back(version: str, cores: int) -> None:
    first = a_guest("v", size(1, 8), "8")
    snapshot = a_snapshot(a_node(), a_vm("v", size(1, 8)), first)
    written = snapshot.vms.ledger.pod(key("v"))
    assert written is not None
    snapshot.vms.ledger.put_pod(msgspec.structs.replace(written, approved=size(6, 8), resource_version="10"))
    snapshot.apply(Updated(key("v"), first, a_guest("v", size(4, 8), version)))
    assert snapshot.vms.ledger.account(key("v")).reserved == size(cores, 8)


def test_a_trial_is_undone_to_the_newest_approval() -> None:
    pod = a_guest("v", size(1, 8), "8")
    snapshot = a_snapshot(a_node("n"), a_node("m"), a_vm("v", size(1, 8)), pod)
    ledger = snapshot.vms.ledger
    written = ledger.pod(key("v"))
    assert written is not None
    ledger.put_pod(msgspec.structs.replace(written, approved=size(6, 8), resource_version="10"))
    ledger.report(key("v"))
    before = ledger.ledger("n"), ledger.ledger("m")
    with snapshot.what_if():
        snapshot.forget(key("v"))
        assert not ledger.ledger("n").reserved
        snapshot.assume(pod, "m")
        assert ledger.ledger("m").reserved == size(6, 8)
    assert (ledger.ledger("n"), ledger.ledger("m")) == before


def test_a_pod_that_is_gone_leaves_nothing() -> None:
    pod = a_guest("v", size(4, 8), "8")
    snapshot = a_snapshot(a_node(), a_vm("v", size(1, 8)), pod)
    snapshot.apply(Deleted(key("v"), pod))
    assert not snapshot.vms.ledger.ledger("n").reserved
    assert snapshot.vms.ledger.pod(key("v")) is None
    again = a_guest("v", size(2, 8), "7")
    snapshot.apply(Added(key("v"), again))
    assert snapshot.vms.ledger.account(key("v")).reserved == size(2, 8)


def test_an_older_virtual_machine_changes_nothing() -> None:
    snapshot = a_snapshot(a_node())
    ledger = snapshot.vms.ledger
    ledger.put_vm(msgspec.structs.replace(a_vm("v", size(2, 8)), resource_version="10"))
    ledger.put_vm(msgspec.structs.replace(a_vm("v", size(6, 8)), resource_version="8"))
    known = ledger.vm(key("v"))
    assert known is not None
    assert known.use == size(2, 8)
    ledger.put_vm(msgspec.structs.replace(a_vm("v", size(6, 8)), uid="another", resource_version="3"))
    assert ledger.vm(key("v")) != known


def test_a_wrong_configuration_leaves_the_old_one_in_force() -> None:
    good = vm_config(node_config(watermark=0.5))
    snapshot = a_snapshot(a_node(), config=good)
    wrong = VmNodesDocument(key=DOCUMENT, refusal=ConfigRefusal("nodeDefaults.cpu.watermark", "must be above 0"))
    before = VmNodesDocument(key=DOCUMENT, config=good)
    snapshot.apply(Updated(DOCUMENT, before, wrong))
    assert snapshot.vms.config == good
    assert str(snapshot.vms.refusal) == "Invalid config at nodeDefaults.cpu.watermark: must be above 0"
    larger = msgspec.structs.replace(good, slot=size(1, 2))
    snapshot.apply(Updated(DOCUMENT, wrong, VmNodesDocument(key=DOCUMENT, config=larger)))
    assert snapshot.vms.config == good
    assert snapshot.vms.refusal == unchangeable(good, larger)
    snapshot.apply(Deleted(DOCUMENT, before))
    assert snapshot.vms.config == good
    better = vm_config(node_config(watermark=0.6))
    snapshot.apply(Added(DOCUMENT, VmNodesDocument(key=DOCUMENT, config=better)))
    assert snapshot.vms.config == better
    assert snapshot.vms.refusal is None


def test_without_a_config_map_the_defaults_are_in_force() -> None:
    snapshot = ClusterSnapshot()
    for source in VM_SOURCES:
        snapshot.apply(Synced(source))
    assert snapshot.vms.config == DEFAULT_VM_CONFIG


def test_ordinary_pods_are_limited_on_vm_nodes_alone() -> None:
    config = vm_config(node_config(), NodeOverride(("named",), node_config()))
    snapshot = a_snapshot(
        a_node("n"), a_node("named"), a_node("plain"), a_vm("v", size(1, 8)), a_guest("v", size(4, 8)), config=config
    )
    rows, left = snapshot.columns.rows, snapshot.vms.ordinary_free()
    assert left[0, rows["plain"]] == UNLIMITED
    assert left[0, rows["n"]] == 11_000
    assert left[0, rows["named"]] == 15_000
    assert [bool(snapshot.vms.named()[rows[name]]) for name in ("n", "named", "plain")] == [False, True, False]
    assert snapshot.vms.free()[:, rows["plain"]].tolist() == [15_000, 63 * GI]


AMOUNTS = st.builds(size, st.integers(0, 80).map(lambda n: n / 10), st.integers(0, 60).map(lambda n: n / 4))


@settings(max_examples=150, deadline=None)
@given(
    st.integers(100, 20_000), st.integers(1, 64), st.lists(AMOUNTS, max_size=4), st.lists(AMOUNTS, max_size=3), AMOUNTS
)
def test_the_room_for_ordinary_pods_equals_the_rule(
    cpu: int, memory: int, ordinary: list[VmAmounts], guests: list[VmAmounts], more: VmAmounts
) -> None:
    pods = [a_pod(f"web-{index}", amounts=one) for index, one in enumerate(ordinary)]
    vms = [a_vm(f"v{index}", size(0, 0)) for index in range(len(guests))]
    placed = [a_guest(f"v{index}", one) for index, one in enumerate(guests)]
    snapshot = a_snapshot(a_node(cpu=cpu, memory=memory), *vms, *pods, *placed)
    assert more.within(snapshot.vms.ordinary_left("n")) == room_for_ordinary(snapshot.vms.ledger, "n", more)
