"""What the watch says about held GPUs: the same whichever way it was told, and nothing is kept of what is gone."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.pod import KubePod, PodSpec, PodStatus
from ullage.kube.read import read_pod
from ullage.model.device import Inventory
from ullage.model.fact_event import Added, Deleted, ObjectKey, Updated
from ullage.model.lease import GpuLease, LeaseHold
from ullage.model.pod import Pod
from ullage.model.units import Instant, Milli
from ullage.state.lease_index import LeaseIndex
from ullage.testing.facts import device_fact, inventory_fact, lease_fact, node_fact

UIDS = ("u1", "u2", "u3")
NODES = ("node-a", "node-b")


def a_lease(node: str, device: int, uids: tuple[str, ...], version: int = 1) -> GpuLease:
    holds = (LeaseHold(uid, Milli(1000 // len(uids))) for uid in uids)
    return lease_fact(device, *holds, node=node, shared=len(uids) > 1, resource_version=str(version))


def a_pod(uid: str, node: str = "", phase: str = "Pending") -> Pod:
    meta = ObjectMeta(namespace="default", name=f"pod-{uid}", uid=uid)
    return read_pod(KubePod(metadata=meta, spec=PodSpec(node_name=node), status=PodStatus(phase=phase)))


def an_inventory(node: str, reported_at: float = 0.0) -> Inventory:
    return inventory_fact(node, device_fact(), reported_at=reported_at)


def key_of(fact: Any) -> ObjectKey:
    match fact:
        case Pod():
            return fact.key
        case Inventory():
            return ObjectKey("gns", fact.node)
        case _:
            return ObjectKey("", fact.name)


FACTS = st.one_of(
    st.builds(
        a_lease,
        st.sampled_from(NODES),
        st.integers(0, 1),
        st.lists(st.sampled_from(UIDS), min_size=1, unique=True).map(tuple),
        st.integers(1, 9),
    ),
    st.builds(a_pod, st.sampled_from(UIDS), st.sampled_from(("", *NODES)), st.sampled_from(("Pending", "Failed"))),
    st.builds(node_fact, st.sampled_from(NODES)),
    st.builds(an_inventory, st.sampled_from(NODES), st.integers(0, 9).map(float)),
)


def told(book: LeaseIndex, steps: list[tuple[bool, Any]]) -> dict[ObjectKey, Any]:
    """Tell a history of things coming, changing and going. Returns what is there in the end."""
    there: dict[ObjectKey, Any] = {}
    for goes, fact in steps:
        key = key_of(fact)
        if goes and key in there:
            book.apply(Deleted(key, there.pop(key)), now=Instant(1.0))
        elif not goes:
            book.apply(Updated(key, there[key], fact) if key in there else Added(key, fact), now=Instant(1.0))
            there[key] = fact
    return there


STEPS = st.lists(st.tuples(st.booleans(), FACTS), max_size=30)


@given(steps=STEPS)
def test_any_history_ends_in_the_same_knowledge(steps: list[tuple[bool, Any]]) -> None:
    book, plain = LeaseIndex(), LeaseIndex()
    for key, fact in told(book, steps).items():
        plain.apply(Added(key, fact), now=Instant(1.0))
    names = [f"gpu-{node}-{device}" for node in NODES for device in (0, 1)]
    assert [book.lease(name) for name in names] == [plain.lease(name) for name in names]
    assert [book.holder(uid) for uid in UIDS] == [plain.holder(uid) for uid in UIDS]
    assert [book.has_node(node) for node in NODES] == [plain.has_node(node) for node in NODES]
    assert [book.inventory(node) for node in NODES] == [plain.inventory(node) for node in NODES]
    assert len(book) == len(plain)
    assert set(book.take_touched()) <= set(names)


@given(steps=STEPS)
def test_nothing_is_kept_of_what_is_gone(steps: list[tuple[bool, Any]]) -> None:
    book = LeaseIndex()
    for key, fact in told(book, steps).items():
        book.apply(Deleted(key, fact), now=Instant(2.0))
    memory = [getattr(book, name) for name in vars(book) if name.startswith("_")]
    assert memory == [type(part)() for part in memory]


def test_a_holder_that_is_gone_is_remembered_where_it_was() -> None:
    book, lease, pod = LeaseIndex(), a_lease("node-a", 0, ("u1",)), a_pod("u1", "node-a")
    book.apply(Added(pod.key, pod), now=Instant(0.0))
    book.apply(Added(key_of(lease), lease), now=Instant(0.0))
    book.apply(Deleted(pod.key, pod), now=Instant(1.0))
    assert book.holder("u1") is None
    assert book.place_of("u1") == pod.key


def test_every_event_touches_the_leases_it_is_about_and_no_others() -> None:
    book = LeaseIndex()
    first, second = a_lease("node-a", 0, ("u1",)), a_lease("node-b", 0, ("u2",))
    for lease in (first, second):
        book.apply(Added(key_of(lease), lease), now=Instant(0.0))
    assert book.take_touched() == [first.name, second.name]
    for fact in (a_pod("u1"), node_fact("node-a")):
        book.apply(Added(key_of(fact), fact), now=Instant(0.0))
        assert book.take_touched() == [first.name]
    report = an_inventory("node-a")
    book.apply(Added(key_of(report), report), now=Instant(0.0))
    assert book.take_touched() == [], "a report says nothing about the hold of a living pod"
    book.apply(Deleted(key_of(a_pod("u1")), a_pod("u1")), now=Instant(0.0))
    assert book.take_touched() == [first.name]
    book.apply(Updated(key_of(report), report, an_inventory("node-a", 1.0)), now=Instant(0.0))
    assert book.take_touched() == [first.name]
