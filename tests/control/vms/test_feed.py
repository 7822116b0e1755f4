"""Facts from informers into the ledger: what is older than what is known changes nothing."""

import msgspec
import pytest

from tests.vms import a_migration, a_vm, a_vm_pod, an_ordinary_pod, key, size, vm_config
from ullage.control.vms.feed import VmFeed
from ullage.decide.vms.core import VmCore, VmRules
from ullage.model.fact_event import Added, Deleted, ObjectKey, Updated
from ullage.model.node import Node
from ullage.model.vm import Vm, VmPod
from ullage.state.vm_ledger import VmLedger


@pytest.fixture
def core() -> VmCore:
    return VmCore(VmLedger(vm_config()), VmRules())


@pytest.fixture
def woken() -> list[str]:
    return []


@pytest.fixture
def feed(core: VmCore, woken: list[str]) -> VmFeed:
    return VmFeed(core, lambda: woken.append("wake"))


def pod(version: str, cores: int) -> VmPod:
    return msgspec.structs.replace(a_vm_pod("v", "n", size(cores, 8)), resource_version=version)


def vm(version: str, cores: int) -> Vm:
    return msgspec.structs.replace(a_vm("v", size(cores, 8)), resource_version=version)


@pytest.mark.parametrize(
    ("version", "cores"),
    [
        pytest.param("9", 6, id="older"),
        pytest.param("10", 4, id="the-same"),
        pytest.param("11", 4, id="newer"),
        pytest.param("opaque", 4, id="not-comparable"),
    ],
)
def test_a_watch_that_is_behind_takes_no_approval_back(core: VmCore, feed: VmFeed, version: str, cores: int) -> None:
    core.ledger.put_vm(vm("1", 1))
    core.ledger.put_pod(pod("10", 6))
    feed.apply_pod(Updated(key("v"), pod("8", 1), pod(version, 4)))
    assert core.ledger.account(key("v")).reserved == size(cores, 8)


def test_a_virtual_machine_read_afresh_is_not_made_older(core: VmCore, feed: VmFeed) -> None:
    core.ledger.put_vm(vm("10", 2))
    feed.apply_vm(Updated(key("v"), vm("7", 6), vm("8", 6)))
    assert core.ledger.vm(key("v")) == vm("10", 2)
    feed.apply_vm(Added(key("v"), msgspec.structs.replace(vm("3", 5), uid="another")))
    assert core.ledger.vm(key("v")) == msgspec.structs.replace(vm("3", 5), uid="another")
    feed.apply_vm(Deleted(key("v"), vm("3", 5)))
    assert core.ledger.vm(key("v")) is None


def test_nodes_are_counted_in_thousandths_of_cores_and_bytes(core: VmCore, feed: VmFeed, woken: list[str]) -> None:
    node = Node(
        name="n",
        uid="u",
        created=0.0,
        ready=True,
        unschedulable=False,
        labels={},
        taints=(),
        allocatable={"cpu": 8000, "memory": 32 * (1 << 30) * 1000},
    )
    feed.apply_node(Added(ObjectKey("", "n"), node))
    assert core.ledger.ledger("n").memory.total == 32 << 30
    assert core.ledger.ledger("n").cpu.total == 8000
    feed.apply_node(Deleted(ObjectKey("", "n"), node))
    assert list(core.ledger.nodes()) == []
    assert woken == ["wake", "wake"]


def test_a_pod_counts_as_what_it_is_now(core: VmCore, feed: VmFeed) -> None:
    ordinary = an_ordinary_pod("v", "n", size(1, 1))
    feed.apply_pod(Added(key("v"), None))
    assert not core.ledger.is_ordinary(key("v"))
    feed.apply_pod(Updated(key("v"), None, ordinary))
    assert core.ledger.is_ordinary(key("v"))
    feed.apply_pod(Updated(key("v"), ordinary, pod("2", 4)))
    assert not core.ledger.is_ordinary(key("v"))
    assert core.ledger.pod(key("v")) == pod("2", 4)
    feed.apply_pod(Updated(key("v"), pod("2", 4), None))
    assert core.ledger.pod(key("v")) is None
    feed.apply_pod(Added(key("v"), ordinary))
    feed.apply_pod(Deleted(key("v"), ordinary))
    assert not core.ledger.is_ordinary(key("v"))


def test_migrations_come_and_go(core: VmCore, feed: VmFeed) -> None:
    migration = a_migration("v")
    feed.apply_migration(Added(migration.key, migration))
    assert core.ledger.migrations() == (migration,)
    feed.apply_migration(Deleted(migration.key, migration))
    assert core.ledger.migrations() == ()
