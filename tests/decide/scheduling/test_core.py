"""SchedulerCore: what it decides when, told in words; time is an argument, and writes end as the story says."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.preemption.fleets import NOW, a_node, a_pod, leased
from ullage.decide.scheduling.core import BELIEVED_FOR, RELEASED_WITHIN, TAKEN_FOR, SchedulerCore
from ullage.decide.scheduling.decisions import Decision, PodsUnschedulable, PreemptionSearch, SearchDeferred
from ullage.model.claim import Claim, DeviceRequest
from ullage.model.fact_event import Added, Deleted, ObjectKey, Updated
from ullage.model.gang import PodGroup
from ullage.model.intents import BindGang, BindPod, EvictGang, Preempt, VolumeAssignment
from ullage.model.lease import GpuLease, LeaseHold
from ullage.model.node import Taint
from ullage.model.outcomes import BindFailure, PodBound, PodNotBound, PreemptOutcome
from ullage.model.pod import Phase, Pod
from ullage.model.quota import Quota, QuotaLimits
from ullage.model.shape import Shape, interned
from ullage.model.shape_terms import ClaimUse, Toleration
from ullage.model.units import Instant, Milli, Seconds
from ullage.model.verdict import ClusterEvent
from ullage.model.volume import NO_PROVISIONER, PersistentVolume, PersistentVolumeClaim, StorageClass

OURS = "gpu-scheduler"


def key(name: str) -> ObjectKey:
    return ObjectKey("n", name)


def wanting(name: str, gpus: int = 1, **facts: Any) -> Pod:
    """A pod that waits for us."""
    return a_pod(name, gpus=gpus, scheduler=OURS, **facts)


def a_claim(name: str, count: int = 1, **facts: Any) -> Claim:
    return Claim(key=key(name), uid=f"uid-{name}", generation=1, ask=DeviceRequest(count=count), **facts)


class Sitting:
    """A desk at which somebody sits: hears facts, decides, and writes."""

    def __init__(self, *facts: Any) -> None:
        self.core = SchedulerCore({OURS: "fragmentation", "spreader": "spread"})
        self.now = NOW
        self.hear(*facts)

    def hear(self, *facts: Any) -> None:
        for fact in facts:
            if isinstance(fact, tuple | list):
                self.hear(*fact)
                continue
            at = ObjectKey("", fact.node) if not hasattr(fact, "key") and hasattr(fact, "node") else None
            at = at or getattr(fact, "key", None) or ObjectKey("", fact.name)
            known = self.core.snapshot.state.pods.get(at) if isinstance(fact, Pod) else None
            event = Added(at, fact) if known is None else Updated(at, known, fact)
            self.core.apply(event, now=self.now)

    def gone(self, *facts: Any) -> None:
        for fact in facts:
            known = self.core.snapshot.state.pods.get(fact.key, fact) if isinstance(fact, Pod) else fact
            self.core.apply(Deleted(known.key, known), now=self.now)

    def decide(self, *, fail: BindFailure | None = None, unheard: Iterable[str] = ()) -> list[str]:
        """All there is to decide now. Writes succeed and are heard back, unless they are to fail or not to be heard."""
        said: list[str] = []
        while (decision := self.core.next_decision(now=self.now)) is not None:
            said += spoken(decision)
            for place in places(decision):
                self._written(place, fail, place.pod.name in unheard)
            for action in decision.preempts if isinstance(decision, PodsUnschedulable) else ():
                self.core.settle_preemption(PreemptOutcome(action, evicted=action.victims), now=self.now)
        return said

    def after(self, seconds: float, **how: Any) -> list[str]:
        """That much later; nodes have gone on reporting."""
        self.now = Instant(self.now + seconds)
        for old in list(self.core.snapshot.state.inventories.values()):
            new = replace(old, reported_at=self.now)
            self.core.apply(Updated(ObjectKey("", old.node), old, new), now=self.now)
        return self.decide(**how)

    def pod(self, name: str) -> Pod:
        return self.core.snapshot.state.pods[key(name)]

    def _written(self, place: BindPod, fail: BindFailure | None, unheard: bool) -> None:
        if fail is not None:
            self.core.settle(PodNotBound(place, fail, "as the story says"), now=self.now)
            return
        self.core.settle(PodBound(place), now=self.now)
        if not unheard:
            self.hear(replace(self.core.snapshot.state.pods[place.pod], node=place.node, gpu_ids=place.devices))


def places(decision: Decision) -> tuple[BindPod, ...]:
    if isinstance(decision, BindGang):
        return decision.places
    return (decision,) if isinstance(decision, BindPod) else ()


def spoken(decision: Decision) -> list[str]:
    match decision:
        case BindPod(pod=pod, node=node, devices=ids):
            return [f"{pod.name} on {node}:{','.join(map(str, ids))}"]
        case BindGang(gang=gang, places=several):
            return [f"gang {gang.name}: {' '.join(f'{one.pod.name}@{one.node}' for one in several)}"]
        case EvictGang(gang=gang, victims=victims):
            return [f"evict {gang.name}: {' '.join(victim.pod.name for victim in victims)}"]
        case PodsUnschedulable(pods=pods, why=why, preempts=preempts):
            return [f"no {' '.join(pod.key.name for pod in pods)}: {why.word}", *map(preemption, preempts)]
        case PreemptionSearch(pods=pods):
            return [f"search for {' '.join(pod.key.name for pod in pods)}"]
        case SearchDeferred(pod=pod):
            return [f"later {pod.name}"]


def preemption(action: Preempt) -> str:
    return f"{action.pod.name} gets {action.node} from {' '.join(victim.pod.name for victim in action.victims)}"


def a_gang(*names: str, count: int = 4, gang: str = "g", **facts: Any) -> list[Any]:
    """Claims and pods of one gang."""
    claims: list[Any] = [a_claim(name, count, gang=gang, **facts) for name in names]
    return claims + [wanting(name, 0, claim=name) for name in names]


def test_whoever_is_more_important_is_decided_on_first_and_then_whoever_waited_longest() -> None:
    sitting = Sitting(leased("a", 4), wanting("late", 2), wanting("vip", 2, priority=10), wanting("later", 1))
    assert sitting.decide() == ["vip on a:0,1", "late on a:2,3", "no later: TooFewGpus"]


def test_pods_of_other_schedulers_gated_ones_and_those_that_are_over_are_left_alone() -> None:
    others = (a_pod("theirs", gpus=1), wanting("gated", gated=True), wanting("over", phase=Phase.FAILED))
    sitting = Sitting(leased("a", 4), others)
    assert sitting.decide() == []
    sitting.hear(wanting("gated"))
    assert sitting.decide() == ["gated on a:0"]


def test_each_profile_packs_by_its_own_policy() -> None:
    spreading = (a_pod(f"s{n}", gpus=1, scheduler="spreader") for n in range(2))
    sitting = Sitting(leased("a", 4), leased("b", 4), *spreading, wanting("p0"), wanting("p1"))
    said = sitting.decide()
    assert {line.split(":")[0] for line in said if line[0] == "s"} == {"s0 on a", "s1 on b"}
    assert len({line.split(" on ")[1][0] for line in said if line[0] == "p"}) == 1


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param([wanting("p", 0, claim="c")], "no p: ClaimMissing", id="claim-missing"),
        pytest.param([wanting("p", 0, claim="m/c"), a_claim("c")], "no p: ClaimMissing", id="of-another-namespace"),
        pytest.param([wanting("p", 0, claim="c"), a_claim("c", 64)], "no p: NodeTooSmall", id="above-any-node"),
        pytest.param(
            [a_pod("first", on="a", gpus=[0], claim="c"), a_claim("c"), wanting("p", 0, claim="c")],
            "no p: ClaimInUse",
            id="used-already",
        ),
        pytest.param(
            [wanting("p", 0, claim="c"), a_claim("c", gang="g")], "no p: GangSizeUnknown", id="gang-of-nobody"
        ),
        pytest.param([wanting("p", 3, claim="c"), a_claim("c", 2)], "p on a:0,1,2", id="claim-and-request-the-larger"),
        pytest.param(
            [wanting("p", 2), Quota(key=key("q"), uid="q", generation=1, limits=QuotaLimits(gpus=1))],
            "no p: QuotaExceeded",
            id="quota",
        ),
    ],
)
def test_what_a_pod_asks_for_may_be_impossible(facts: list[Any], expected: str) -> None:
    assert Sitting(leased("a", 4), *facts).decide() == [expected]


def test_a_missing_claim_that_comes_is_news_and_its_status_is_not() -> None:
    sitting = Sitting(leased("a", 4), wanting("p", 0, claim="c"))
    assert sitting.decide() == ["no p: ClaimMissing"]
    claim = a_claim("c", 2)
    sitting.hear(claim)
    assert sitting.after(1.0) == ["p on a:0,1"]
    sitting.hear(wanting("q", 9))
    assert sitting.decide() == ["no q: NodeTooSmall"]
    sitting.core.apply(Updated(claim.key, claim, replace(claim, node="a")), now=sitting.now)
    assert sitting.after(60.0) == []


def test_a_claim_that_asks_for_less_is_news_for_its_pod() -> None:
    large = a_claim("c", 9)
    sitting = Sitting(leased("a", 4), large, wanting("p", 0, claim="c"))
    assert sitting.decide() == ["no p: NodeTooSmall"]
    small = replace(large, generation=2, ask=DeviceRequest(count=2))
    sitting.core.apply(Updated(large.key, large, small), now=sitting.now)
    assert sitting.after(1.0) == ["p on a:0,1"]


def test_what_is_wrong_for_good_is_told_however_many_nodes_say_otherwise() -> None:
    cordoned = [leased(name, 4, unschedulable=True) for name in ("b", "c")]
    sitting = Sitting(leased("a", 4), *cordoned, wanting("p", 9))
    assert sitting.decide() == ["no p: NodeTooSmall"]


def test_a_raised_quota_wakes_those_it_refused() -> None:
    small = Quota(key=key("q"), uid="q", generation=1, limits=QuotaLimits(gpus=1))
    sitting = Sitting(leased("a", 4), small, wanting("p", 2))
    assert sitting.decide() == ["no p: QuotaExceeded"]
    large = replace(small, generation=2, limits=QuotaLimits(gpus=2))
    sitting.core.apply(Updated(small.key, small, large), now=sitting.now)
    assert sitting.after(1.0) == ["p on a:0,1"]


def test_a_write_that_failed_gives_its_room_back_and_is_tried_again() -> None:
    sitting = Sitting(leased("a", 2), wanting("p", 2), wanting("q", 2))
    assert sitting.decide(fail=BindFailure.POD_CHANGED) == ["p on a:0,1", "q on a:0,1"]
    assert sitting.after(1.0) == ["p on a:0,1", "no q: TooFewGpus"]


def test_a_gpu_that_was_taken_is_not_offered_again_before_its_lease_is_heard_of() -> None:
    sitting = Sitting(leased("a", 2), wanting("p"))
    place = sitting.core.next_decision(now=NOW)
    assert isinstance(place, BindPod)
    sitting.core.settle(PodNotBound(place, BindFailure.GPU_TAKEN, "", device=place.devices[0]), now=NOW)
    assert sitting.after(1.0) == ["p on a:1"]


def test_a_gpu_that_was_taken_by_a_lease_nothing_is_heard_of_is_offered_again_after_a_while() -> None:
    sitting = Sitting(leased("a", 1), wanting("p"))
    place = sitting.core.next_decision(now=NOW)
    assert isinstance(place, BindPod)
    sitting.core.settle(PodNotBound(place, BindFailure.GPU_TAKEN, "", device=0), now=NOW)
    assert sitting.after(1.0) == ["no p: TooFewGpus"]
    assert sitting.after(TAKEN_FOR - 1.0) == ["p on a:0"]


def test_a_pod_may_have_the_gpus_its_own_leases_name_after_a_restart() -> None:
    hold = LeaseHold(uid=wanting("p").uid, milli=Milli(1000))
    leases = [
        GpuLease(name=f"l{gpu}", node="a", device=gpu, holds=(hold,), shared=False, renewed=NOW, resource_version="1")
        for gpu in range(2)
    ]
    sitting = Sitting(leased("a", 2), wanting("p", 2), wanting("q", 1))
    for lease in leases:
        sitting.core.apply(Added(ObjectKey("l", lease.name), lease), now=NOW)
    assert sitting.decide() == ["p on a:0,1", "no q: TooFewGpus"]


def test_an_answered_bind_that_is_never_heard_of_is_not_believed_for_ever() -> None:
    sitting = Sitting(leased("a", 2), wanting("p", 2), wanting("q", 2))
    assert sitting.decide(unheard=["p"]) == ["p on a:0,1", "no q: TooFewGpus"]
    assert sitting.core.next_deadline() == NOW + BELIEVED_FOR
    said = sitting.after(BELIEVED_FOR)
    assert said[0] in ("p on a:0,1", "q on a:0,1")


def test_a_gang_is_placed_whole_with_the_last_of_its_members() -> None:
    group = PodGroup(key=key("g"), min_member=3)
    sitting = Sitting(leased("a", 4, 4), leased("b", 4, 4), group, a_gang("x", "y"))
    assert sitting.decide() == ["no x y: GangIncomplete"]
    sitting.hear(*a_gang("z"))
    assert sitting.decide() == ["gang g: x@a y@a z@b"]
    assert sitting.after(3600.0) == []


def test_a_gang_that_does_not_fit_holds_nothing_and_smaller_work_goes_on() -> None:
    sitting = Sitting(leased("a", 4), PodGroup(key=key("g"), min_member=2), a_gang("x", "y"), wanting("small", 3))
    assert sitting.decide() == ["no x y: TooFewGpus", "small on a:0,1,2"]


def test_after_its_timeout_a_gang_stands_back_and_then_tries_again() -> None:
    group = PodGroup(key=key("g"), min_member=2, timeout=Seconds(60.0))
    sitting = Sitting(leased("a", 4), group, a_gang("x", "y"))
    assert sitting.decide() == ["no x y: TooFewGpus"]
    assert sitting.core.next_deadline() == NOW + 60.0
    assert sitting.after(60.0) == ["no x y: GangIncomplete"]
    sitting.hear(leased("b", 4))
    assert sitting.after(9.0) == []
    assert sitting.after(1.0) == ["gang g: x@a y@b"]


def test_a_gang_that_is_there_in_part_is_evicted_whole_after_its_timeout() -> None:
    group = PodGroup(key=key("g"), min_member=2, timeout=Seconds(60.0))
    sitting = Sitting(leased("a", 4, 4), group, a_gang("x", "y"))
    assert sitting.decide() == ["gang g: x@a y@a"]
    sitting.gone(sitting.pod("x"))
    assert sitting.decide() == []
    assert sitting.after(59.0) == []
    assert sitting.after(1.0) == ["evict g: y"]


def test_a_gang_whose_members_finish_one_after_another_is_left_alone() -> None:
    group = PodGroup(key=key("g"), min_member=2, timeout=Seconds(60.0))
    sitting = Sitting(leased("a", 4, 4), group, a_gang("x", "y"))
    sitting.decide()
    sitting.hear(replace(sitting.pod("x"), phase=Phase.SUCCEEDED))
    assert sitting.after(600.0) == []


def test_a_member_that_was_lost_is_placed_again_beside_the_others() -> None:
    group = PodGroup(key=key("g"), min_member=2, timeout=Seconds(60.0))
    sitting = Sitting(leased("a", 4, 4), leased("b", 4, 4), group, a_gang("x", "y"))
    sitting.decide()
    sitting.gone(sitting.pod("x"))
    assert sitting.after(30.0) == []
    sitting.hear(replace(wanting("x", 0, claim="x"), uid="again"))
    assert sitting.decide() == ["gang g: x@a"]
    assert sitting.after(600.0) == []


def test_a_gang_sized_by_its_claims_needs_no_group() -> None:
    sitting = Sitting(leased("a", 4, 4), a_gang("x", "y", gang_min_member=2))
    assert sitting.decide() == ["gang g: x@a y@a"]


def test_a_gang_whose_write_fails_in_part_is_completed() -> None:
    group = PodGroup(key=key("g"), min_member=2)
    sitting = Sitting(leased("a", 4, 4), group, a_gang("x", "y"))
    decision = sitting.core.next_decision(now=NOW)
    assert isinstance(decision, BindGang)
    first, second = decision.places
    sitting.core.settle(PodNotBound(first, BindFailure.API_FAILED, "lost"), now=NOW)
    sitting.core.settle(PodBound(second), now=NOW)
    sitting.hear(replace(sitting.pod("y"), node=second.node, gpu_ids=second.devices))
    assert sitting.after(1.0) == ["gang g: x@a"]


def test_the_least_important_leave_for_a_pod_and_its_node_is_kept_for_it() -> None:
    low, lower = a_pod("low", on="a", gpus=[0, 1], priority=5), a_pod("lower", on="b", gpus=[0, 1])
    sitting = Sitting(leased("a", 2), leased("b", 2), low, lower, wanting("vip", 2, priority=10))
    assert sitting.decide() == ["no vip: TooFewGpus", "vip gets b from lower"]
    assert sitting.after(1.0) == []
    sitting.gone(lower)
    sitting.hear(wanting("thief", 2))
    assert sitting.after(1.0) == ["vip on b:0,1", "no thief: TooFewGpus"]


def test_nobody_takes_what_is_being_made_free_for_another() -> None:
    first, last = a_pod("first", on="a", gpus=[0]), a_pod("last", on="a", gpus=[1])
    sitting = Sitting(leased("a", 2), first, last, wanting("vip", 2, priority=10))
    sitting.decide()
    sitting.gone(first)
    sitting.hear(wanting("thief", 1))
    assert sitting.decide() == ["no thief: InsufficientResources"]
    sitting.gone(last)
    assert sitting.decide() == ["vip on a:0,1"]


def test_what_becomes_free_goes_to_who_waited_longest_though_it_backs_off() -> None:
    runs = a_pod("runs", on="a", gpus=[0])
    sitting = Sitting(leased("a", 1), runs, wanting("old", 1), wanting("next", 1))
    assert sitting.decide() == ["no old: TooFewGpus", "no next: TooFewGpus"]
    for _ in range(4):  # others come and go, and its back-off grows to ten seconds
        sitting.hear(a_pod("other", on="a"))
        sitting.gone(a_pod("other", on="a"))
        sitting.after(11.0)
    sitting.gone(a_pod("other", on="a"))
    sitting.hear(wanting("newcomer", 1))
    sitting.gone(runs)
    assert sitting.decide() == ["old on a:0", "no newcomer: TooFewGpus"]


def test_a_toleration_that_is_added_counts_at_once_however_often_the_pod_was_refused() -> None:
    """As Karpenter's hand-over adds it: the pod must not wait out a back-off of what it asked for before."""
    closed = (Taint("gpu.scheduling/handover", "r1", "NoSchedule"),)
    waits = wanting("p", 1)
    sitting = Sitting(waits)
    assert sitting.decide() == ["no p: NoNodes"]
    for name in "zyxw":  # each closed node that comes is a try in vain, and the back-off grows
        sitting.hear(leased(name, 1, taints=closed))
        assert sitting.after(11.0) == ["no p: TaintNotTolerated"]
    sitting.hear(leased("a", 1, taints=closed))
    assert sitting.after(0.1) == []
    ours = Toleration(key="gpu.scheduling/handover", value="r1", effect="NoSchedule")
    shape = interned(replace(waits.shape, tolerations=(*waits.shape.tolerations, ours)))
    sitting.hear(replace(sitting.pod("p"), shape=shape))
    assert [one.split()[:2] for one in sitting.decide()] == [["p", "on"]]


def held_by(pod: Pod, *gpus: int) -> list[GpuLease]:
    hold = LeaseHold(uid=pod.uid)
    return [
        GpuLease(name=f"l{gpu}", node="a", device=gpu, holds=(hold,), shared=False, renewed=NOW, resource_version="1")
        for gpu in gpus
    ]


def released(sitting: Sitting, lease: GpuLease) -> list[str]:
    sitting.core.apply(Deleted(ObjectKey("l", lease.name), lease), now=sitting.now)
    return sitting.decide()


def test_gpus_that_are_released_one_by_one_go_to_the_large_pod_that_waits_for_them_all() -> None:
    runs = a_pod("runs", on="a", gpus=[0, 1, 2, 3])
    leases = held_by(runs, 0, 1, 2, 3)
    sitting = Sitting(leased("a", 4), runs, leases, wanting("large", 4))
    assert sitting.decide() == ["no large: TooFewGpus"]
    sitting.hear(wanting("small", 1))
    assert sitting.decide() == ["no small: TooFewGpus"]
    sitting.gone(runs)
    assert sitting.decide() == []
    for lease in leases[:3]:
        assert released(sitting, lease) == []
    assert released(sitting, leases[3]) == ["large on a:0,1,2,3"]


def test_a_gpu_is_used_although_another_of_its_holder_is_never_released() -> None:
    runs = a_pod("runs", on="a", gpus=[0, 1])
    leases = held_by(runs, 0, 1)
    sitting = Sitting(leased("a", 2), runs, leases, wanting("w", 1))
    assert sitting.decide() == ["no w: TooFewGpus"]
    sitting.gone(runs)
    assert sitting.decide() == []
    assert released(sitting, leases[0]) == []
    assert sitting.core.next_deadline() == sitting.now + RELEASED_WITHIN
    assert sitting.after(RELEASED_WITHIN) == ["w on a:0"]


def test_news_are_worth_a_few_tries_and_no_words() -> None:
    """A hundred of one kind in back-off: one of them stands for all, and nothing is written about any."""
    runs = [a_pod(f"runs{gpu}", on="a", gpus=[gpu]) for gpu in range(2)]
    waiting = [wanting(f"w{number:03}", 2) for number in range(100)]
    sitting = Sitting(leased("a", 2), runs, waiting)
    assert len(sitting.decide()) == 100
    tried: list[str] = []
    place_overtaken = sitting.core._cycle.place_overtaken  # counted on the way through

    def counted(pod: Pod, *, now: float) -> BindPod | frozenset[ClusterEvent] | None:
        tried.append(pod.key.name)
        return place_overtaken(pod, now=Instant(now))

    sitting.core._cycle.place_overtaken = counted  # type: ignore[method-assign]
    sitting.gone(runs[0])
    assert sitting.decide() == []
    assert tried == ["w000"]
    sitting.gone(runs[1])
    assert sitting.decide() == ["w000 on a:0,1"]
    assert tried == ["w000", "w000", "w001"]


def test_a_new_node_whose_gpus_are_reported_last_is_used_at_once() -> None:
    """The pod is in back-off. The node's GPUs are counted first, which does not help yet, and then reported."""
    counted, inventory = leased("b", 2)
    node = replace(counted, labels={**counted.labels, "gpu.scheduling/node-kind": "leased"})
    sitting = Sitting(leased("a", 2), a_pod("runs", on="a", gpus=[0, 1]), wanting("w", 1))
    assert sitting.decide() == ["no w: TooFewGpus"]
    assert sitting.after(0.1) == []
    sitting.hear(node)
    assert sitting.decide() == []
    sitting.hear(inventory)
    assert sitting.decide() == ["w on b:0"]


def test_a_nomination_made_before_a_restart_counts() -> None:
    leaving = a_pod("leaving", on="a", gpus=[0, 1], deleting=True)
    sitting = Sitting(leased("a", 2), leaving, wanting("vip", 2, priority=10, nominated="a"), wanting("thief", 1))
    assert sitting.decide() == ["no vip: TooFewGpus", "no thief: TooFewGpus"]
    sitting.gone(leaving)
    assert sitting.after(300.0) == ["vip on a:0,1", "no thief: TooFewGpus"]


def test_a_gang_takes_no_room_that_is_kept_for_a_more_important_pod() -> None:
    leaving = a_pod("leaving", on="a", gpus=[0], deleting=True)
    kept = Sitting(leased("a", 2), leaving, wanting("vip", 2, priority=10, nominated="a"))
    kept.hear(PodGroup(key=key("g"), min_member=1), *a_gang("x", count=1))
    assert kept.decide() == ["no vip: TooFewGpus", "no x: InsufficientResources"]
    free = Sitting(leased("a", 2), leaving)
    free.hear(PodGroup(key=key("g"), min_member=1), *a_gang("x", count=1))
    assert free.decide() == ["gang g: x@a"], "without that pod there is room"


def test_a_bind_names_the_pod_as_it_was_decided_on() -> None:
    """Whoever writes it finds out whether the pod has changed since."""
    group = PodGroup(key=key("g"), min_member=1)
    (claim, member), alone = a_gang("x", count=1), wanting("alone", resource_version="41")
    sitting = Sitting(leased("a", 2), group, claim, replace(member, resource_version="42"), alone)
    decided = [sitting.core.next_decision(now=NOW) for _ in range(2)]
    found = {one.pod.name: (one.uid, one.resource_version) for it in decided if it is not None for one in places(it)}
    assert found == {"alone": (alone.uid, "41"), "x": (member.uid, "42")}


def test_a_gang_preempts_for_all_of_its_members_or_for_nobody() -> None:
    group = PodGroup(key=key("g"), min_member=2)
    members: list[Any] = [
        replace(one, priority=10) if isinstance(one, Pod) else one for one in a_gang("x", "y", count=2)
    ]
    low = [a_pod(name, on=name[-1], gpus=[0, 1]) for name in ("on-a", "on-b")]
    sitting = Sitting(leased("a", 2), leased("b", 2), *low, group, *members)
    assert sitting.decide() == ["no x y: TooFewGpus", "x gets a from on-a", "y gets b from on-b"]
    sitting.gone(*low)
    assert sitting.after(2.0) == ["gang g: x@a y@b"]
    alone = Sitting(leased("a", 2), low[0], group, *members)
    assert alone.decide() == ["no x y: TooFewGpus"]


def test_nobody_is_evicted_for_a_quota() -> None:
    quota = Quota(key=key("q"), uid="q", generation=1, limits=QuotaLimits(gpus=2))
    low = a_pod("low", on="a", gpus=[0, 1])
    sitting = Sitting(leased("a", 2), quota, low, wanting("vip", 2, priority=10))
    assert sitting.decide() == ["no vip: TooFewGpus"]


def test_pods_without_gpus_are_placed_too() -> None:
    sitting = Sitting(a_node("cpu", 0), leased("gpu", 4), wanting("web", 0, cpu=1000))
    assert sitting.decide() == ["web on cpu:"]


def mounting(name: str, claim: str) -> Pod:
    return a_pod(name, scheduler=OURS, shape=Shape(claims=(ClaimUse(claim=key(claim)),)))


@pytest.mark.parametrize("failed", [True, False], ids=["the-write-failed", "the-pod-is-gone"])
def test_a_disk_that_was_given_away_is_given_again_when_it_was_not_taken(failed: bool) -> None:
    local = StorageClass(name="local", provisioner=NO_PROVISIONER, waits_for_consumer=True)
    disk = PersistentVolume(name="disk", labels={}, storage_class="local", available=True)
    claims = [PersistentVolumeClaim(key=key(name), uid=name, storage_class="local") for name in ("x", "y")]
    sitting = Sitting(a_node("a"), local, disk, claims, mounting("one", "x"), mounting("two", "y"))
    first = sitting.core.next_decision(now=NOW)
    assert isinstance(first, BindPod)
    assert (first.pod.name, first.volumes, first.volume_assignments) == (
        "one",
        ("x",),
        (VolumeAssignment("x", "disk"),),
    )
    assert sitting.decide() == ["no two: VolumeElsewhere"]
    if failed:
        sitting.core.settle(PodNotBound(first, BindFailure.REFUSED, "as the story says"), now=NOW)
    else:
        sitting.gone(sitting.pod("one"))
    assert sitting.decide() == ["two on a:"]
