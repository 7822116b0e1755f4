"""Holding GPUs by Leases: all or none, adopted by a write, let go only when it is safe."""

import asyncio

import pytest

from ullage.act.leases import DeviceTaken, HeldLease, LeaseClient, LeaseHolder, LeaseRequest, LeasesAcquired
from ullage.clock import WallClock
from ullage.errors import Conflict, NotFound
from ullage.kube.client.api import DELETE_NOW, Binding, KubeApi
from ullage.kube.client.resources import LEASES, PODS
from ullage.kube.objects.policy import Lease
from ullage.kube.read.leases import SHARED_HOLDER, parts_of
from ullage.model.allocation import ALLOCATED, SHARE, VISIBLE_DEVICES, lease_name
from ullage.model.fact_event import ObjectKey
from ullage.testing.builders import a_pod

NODE = "node-a"


@pytest.fixture
def book(api: KubeApi, ns: str) -> LeaseClient:
    return LeaseClient(api, ns, WallClock())


async def a_holder(api: KubeApi, ns: str, name: str) -> LeaseHolder:
    pod = await api.create(PODS, a_pod(name), ns)
    return LeaseHolder(ObjectKey(ns, name), pod.metadata.uid)


async def lease_of(api: KubeApi, ns: str, device: int) -> Lease | None:
    try:
        return await api.get(LEASES, lease_name(NODE, device), ns)
    except NotFound:
        return None


def read_shares(lease: Lease) -> dict[str, int]:
    return {hold.uid: hold.milli for hold in parts_of(lease)}


async def holders(api: KubeApi, ns: str) -> dict[str, str | None]:
    return {lease.metadata.name: lease.spec.holder_identity for lease in (await api.list(LEASES, ns)).items}


async def held(book: LeaseClient, holder: LeaseHolder, *devices: int) -> tuple[HeldLease, ...]:
    result = await book.reserve(holder, LeaseRequest(NODE, devices))
    assert isinstance(result, LeasesAcquired)
    return result.holdings


async def test_all_are_held_by_the_pods_uid(api: KubeApi, ns: str, book: LeaseClient) -> None:
    holder = await a_holder(api, ns, "p")
    await held(book, holder, 0, 1)
    assert await holders(api, ns) == {"gpu-node-a-0": holder.uid, "gpu-node-a-1": holder.uid}


async def test_one_taken_device_leaves_none_held(api: KubeApi, ns: str, book: LeaseClient) -> None:
    first, second = await a_holder(api, ns, "p"), await a_holder(api, ns, "q")
    await held(book, first, 2)
    assert await book.reserve(second, LeaseRequest(NODE, (0, 1, 2, 3))) == DeviceTaken(2, first.uid)
    assert await holders(api, ns) == {"gpu-node-a-2": first.uid}


async def test_what_the_pod_holds_already_is_adopted_by_a_write(api: KubeApi, ns: str, book: LeaseClient) -> None:
    holder = await a_holder(api, ns, "p")
    (before,) = await held(book, holder, 0)
    (after,) = await held(book, holder, 0)
    lease = await lease_of(api, ns, 0)
    assert lease is not None
    assert lease.spec.lease_transitions == 1
    assert after.resource_version == lease.metadata.resource_version != before.resource_version


async def test_whoever_held_it_before_adoption_cannot_let_it_go(api: KubeApi, ns: str, book: LeaseClient) -> None:
    holder = await a_holder(api, ns, "p")
    (old,) = await held(book, holder, 0)
    (new,) = await held(book, holder, 0)
    assert await book.release(holder, [old]) == (old,)
    assert await lease_of(api, ns, 0) is not None
    assert await book.release(holder, [new]) == ()
    assert await lease_of(api, ns, 0) is None


async def test_who_held_it_before_adoption_cannot_bind_to_it_once_it_was_let_go(
    api: KubeApi, ns: str, book: LeaseClient
) -> None:
    holder = await a_holder(api, ns, "p")
    decided_on = (await api.get(PODS, "p", ns)).metadata.resource_version
    await held(book, holder, 0)
    adopted = await held(book, holder, 0)
    assert await book.release(holder, adopted) == ()
    late = Binding(NODE, uid=holder.uid, resource_version=decided_on, annotations={ALLOCATED: f"{NODE}:0"})
    with pytest.raises(Conflict):
        await api.bind("p", ns, late)


async def test_letting_go_of_what_nobody_else_held_does_not_touch_the_pod(
    api: KubeApi, ns: str, book: LeaseClient
) -> None:
    holder = await a_holder(api, ns, "p")
    before = await api.get(PODS, "p", ns)
    await book.release(holder, await held(book, holder, 0))
    assert await api.get(PODS, "p", ns) == before


async def test_what_a_bound_pod_was_given_is_never_let_go(api: KubeApi, ns: str, book: LeaseClient) -> None:
    holder = await a_holder(api, ns, "p")
    holdings = await held(book, holder, 0, 1)
    binding = Binding(NODE, uid=holder.uid, annotations={ALLOCATED: f"{NODE}:0"})
    await api.bind("p", ns, binding)
    assert await book.release(holder, holdings) == holdings[:1]
    assert list(await holders(api, ns)) == ["gpu-node-a-0"]


async def test_leases_of_a_replaced_pod_are_let_go(api: KubeApi, ns: str, book: LeaseClient) -> None:
    old = await a_holder(api, ns, "p")
    holdings = await held(book, old, 0)
    await api.delete(PODS, "p", ns, how=DELETE_NOW)
    new = await a_holder(api, ns, "p")
    await api.bind("p", ns, Binding(NODE, uid=new.uid, annotations={ALLOCATED: f"{NODE}:0"}))
    assert await book.release(old, holdings) == ()


async def test_release_twice_is_release_once(api: KubeApi, ns: str, book: LeaseClient) -> None:
    holder = await a_holder(api, ns, "p")
    holdings = await held(book, holder, 0, 1)
    assert await book.release(holder, holdings) == ()
    assert await book.release(holder, holdings) == ()


async def test_of_many_who_want_the_same_device_one_gets_it(api: KubeApi, ns: str, book: LeaseClient) -> None:
    rivals = [await a_holder(api, ns, f"p{number}") for number in range(8)]
    results = await asyncio.gather(*(book.reserve(rival, LeaseRequest(NODE, (0, 1))) for rival in rivals))
    winners = [rival.uid for rival, result in zip(rivals, results, strict=True) if isinstance(result, LeasesAcquired)]
    assert len(winners) <= 1
    assert set((await holders(api, ns)).values()) <= set(winners)


async def test_shares_of_one_device_never_exceed_it(api: KubeApi, ns: str, book: LeaseClient) -> None:
    rivals = [await a_holder(api, ns, f"p{number}") for number in range(5)]
    results = await asyncio.gather(*(book.reserve(rival, LeaseRequest(NODE, (0,), milli=300)) for rival in rivals))
    lucky = {rival.uid for rival, result in zip(rivals, results, strict=True) if isinstance(result, LeasesAcquired)}
    assert len(lucky) == 3
    lease = await lease_of(api, ns, 0)
    assert lease is not None
    assert lease.spec.holder_identity == SHARED_HOLDER
    assert read_shares(lease) == dict.fromkeys(lucky, 300)


async def test_whoever_held_a_share_before_adoption_cannot_let_it_go(api: KubeApi, ns: str, book: LeaseClient) -> None:
    holder, neighbour = await a_holder(api, ns, "p"), await a_holder(api, ns, "q")
    old = await book.reserve(holder, LeaseRequest(NODE, (0,), milli=300))
    new = await book.reserve(holder, LeaseRequest(NODE, (0,), milli=300))
    await book.reserve(neighbour, LeaseRequest(NODE, (0,), milli=300))
    assert isinstance(old, LeasesAcquired)
    assert isinstance(new, LeasesAcquired)
    assert await book.release(holder, old.holdings) == old.holdings
    lease = await lease_of(api, ns, 0)
    assert lease is not None
    assert read_shares(lease) == {holder.uid: 300, neighbour.uid: 300}
    assert await book.release(holder, new.holdings) == ()


async def test_the_last_share_out_deletes_the_lease(api: KubeApi, ns: str, book: LeaseClient) -> None:
    first, second = await a_holder(api, ns, "p"), await a_holder(api, ns, "q")
    one = await book.reserve(first, LeaseRequest(NODE, (0,), milli=500))
    other = await book.reserve(second, LeaseRequest(NODE, (0,), milli=500))
    assert isinstance(one, LeasesAcquired)
    assert isinstance(other, LeasesAcquired)
    assert await book.release(first, one.holdings) == ()
    lease = await lease_of(api, ns, 0)
    assert lease is not None
    assert read_shares(lease) == {second.uid: 500}
    assert await book.release(second, other.holdings) == ()
    assert await lease_of(api, ns, 0) is None


async def test_whole_and_shared_do_not_mix(api: KubeApi, ns: str, book: LeaseClient) -> None:
    first, second = await a_holder(api, ns, "p"), await a_holder(api, ns, "q")
    await held(book, first, 0)
    assert await book.reserve(second, LeaseRequest(NODE, (0,), milli=100)) == DeviceTaken(0, first.uid)
    await book.reserve(second, LeaseRequest(NODE, (1,), milli=100))
    assert await book.reserve(first, LeaseRequest(NODE, (1,))) == DeviceTaken(1, SHARED_HOLDER)


def instances(*uuids: str, device: int = 0) -> LeaseRequest:
    return LeaseRequest(NODE, (device,) * len(uuids), 0, uuids)


async def holds(api: KubeApi, ns: str, device: int = 0) -> dict[str, str]:
    """Who holds which MIG instance."""
    lease = await lease_of(api, ns, device)
    return {} if lease is None else {hold.instance: hold.uid for hold in parts_of(lease)}


async def test_of_many_who_want_one_mig_instance_one_gets_it(api: KubeApi, ns: str, book: LeaseClient) -> None:
    rivals = [await a_holder(api, ns, f"p{number}") for number in range(5)]
    results = await asyncio.gather(*(book.reserve(rival, instances("MIG-a")) for rival in rivals))
    winners = [rival.uid for rival, result in zip(rivals, results, strict=True) if isinstance(result, LeasesAcquired)]
    assert len(winners) == 1
    assert await holds(api, ns) == {"MIG-a": winners[0]}


async def test_neighbours_on_one_gpu_each_have_their_own_instances(api: KubeApi, ns: str, book: LeaseClient) -> None:
    first, second = await a_holder(api, ns, "p"), await a_holder(api, ns, "q")
    one = await book.reserve(first, instances("MIG-a", "MIG-b"))
    other = await book.reserve(second, instances("MIG-c"))
    assert isinstance(one, LeasesAcquired)
    assert isinstance(other, LeasesAcquired)
    assert await book.reserve(second, instances("MIG-b")) == DeviceTaken(0, first.uid)
    assert await book.release(first, one.holdings) == ()
    assert await holds(api, ns) == {"MIG-c": second.uid}
    assert await book.release(second, other.holdings) == ()
    assert await lease_of(api, ns, 0) is None


async def test_instances_do_not_mix_with_whole_gpus_and_shares(api: KubeApi, ns: str, book: LeaseClient) -> None:
    first, second = await a_holder(api, ns, "p"), await a_holder(api, ns, "q")
    await book.reserve(first, instances("MIG-a"))
    assert await book.reserve(second, LeaseRequest(NODE, (0,))) == DeviceTaken(0, SHARED_HOLDER)
    assert await book.reserve(second, LeaseRequest(NODE, (0,), milli=100)) == DeviceTaken(0, SHARED_HOLDER)
    await book.reserve(second, LeaseRequest(NODE, (1,), milli=100))
    assert await book.reserve(first, instances("MIG-b", device=1)) == DeviceTaken(1, second.uid)
    await held(book, second, 2)
    assert await book.reserve(first, instances("MIG-c", device=2)) == DeviceTaken(2, second.uid)


async def test_of_the_instances_of_a_bound_pod_only_others_are_let_go(api: KubeApi, ns: str, book: LeaseClient) -> None:
    holder = await a_holder(api, ns, "p")
    given = await book.reserve(holder, instances("MIG-a"))
    other = await book.reserve(holder, instances("MIG-b"))
    assert isinstance(given, LeasesAcquired)
    assert isinstance(other, LeasesAcquired)
    notes = {ALLOCATED: f"{NODE}:0", VISIBLE_DEVICES: "MIG-a", SHARE: "0"}
    await api.bind("p", ns, Binding(NODE, uid=holder.uid, annotations=notes))
    assert await book.release(holder, (*given.holdings, *other.holdings)) == given.holdings
    assert await holds(api, ns) == {"MIG-a": holder.uid}


@pytest.mark.parametrize("written", ["nonsense", "node-a:", "node-a:x", f"node-a:{'9' * 5000}", "elsewhere:0"])
async def test_an_allocation_that_makes_no_sense_keeps_what_it_may_name(
    api: KubeApi, ns: str, book: LeaseClient, written: str
) -> None:
    holder = await a_holder(api, ns, "p")
    holdings = await held(book, holder, 0)
    await api.bind("p", ns, Binding(NODE, uid=holder.uid, annotations={ALLOCATED: written}))
    assert await book.release(holder, holdings) == holdings
    assert await lease_of(api, ns, 0) is not None
