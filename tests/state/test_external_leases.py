"""GPUs held by somebody the picture does not account for are offered to nobody; except to their own holder."""

import msgspec
import pytest

from ullage.model.device import MigInstance
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Synced, Updated
from ullage.model.lease import GpuLease, LeaseHold
from ullage.model.pod import Phase, Pod
from ullage.model.units import Bytes, Instant, Milli
from ullage.state.cluster import Fact
from ullage.state.external_leases import NOWHERE
from ullage.state.snapshot import ClusterSnapshot
from ullage.testing.facts import device_fact, inventory_fact, lease_fact, node_fact, pod_fact

KEY = ObjectKey("default", "p")


class Scene:
    """One node with two GPUs, a pending pod, and what is held."""

    def __init__(self) -> None:
        self.snapshot = ClusterSnapshot()
        self.foreign = self.snapshot.leases
        self.pod = pod_fact(KEY.name, namespace=KEY.namespace, uid="uid-p", scheduler="s")
        node = node_fact("n", uid="uid-n")
        self.snapshot.apply(Added(ObjectKey("", "n"), node))
        self.snapshot.apply(Added(ObjectKey("", "n"), inventory_fact("n", device_fact(0), device_fact(1))))
        self.snapshot.apply(Added(KEY, self.pod))

    @property
    def free(self) -> list[int]:
        row = self.snapshot.columns.rows["n"]
        return [int(free) for free in self.snapshot.columns.gpus.free[row, :2]]

    def assume(self, gpu: int) -> None:
        self.snapshot.assume(self.pod, "n", (gpu,))

    def give_up(self) -> None:
        self.snapshot.forget(KEY)
        self.foreign.reconsider(self.pod.uid)


def appeared(lease: GpuLease) -> FactEvent[Fact]:
    return Added(ObjectKey("leases", lease.name), lease)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_what_a_stranger_holds_is_not_free_until_its_lease_is_gone(scene: Scene) -> None:
    lease = lease_fact(0, LeaseHold("stranger"))
    scene.snapshot.apply(appeared(lease))
    assert scene.free == [0, 1000]
    scene.snapshot.apply(Deleted(ObjectKey("leases", lease.name), lease))
    assert scene.free == [1000, 1000]


def test_it_is_known_whom_leases_name(scene: Scene) -> None:
    lease = lease_fact(0, LeaseHold("uid-p"))
    assert not scene.foreign.holds("uid-p")
    scene.snapshot.apply(appeared(lease))
    assert scene.foreign.holds("uid-p")
    assert not scene.foreign.holds("another")
    scene.snapshot.apply(Deleted(ObjectKey("leases", lease.name), lease))
    assert not scene.foreign.holds("uid-p")


def test_what_is_leased_to_a_pod_where_it_is_to_go_is_counted_once(scene: Scene) -> None:
    scene.assume(0)
    scene.snapshot.apply(appeared(lease_fact(0, LeaseHold("uid-p"))))
    assert scene.free == [0, 1000]


def test_a_lease_left_by_a_placement_given_up_keeps_others_off(scene: Scene) -> None:
    scene.assume(0)
    scene.snapshot.apply(appeared(lease_fact(0, LeaseHold("uid-p"))))
    scene.give_up()
    assert scene.free == [0, 1000]


def test_a_pod_is_not_kept_off_by_its_own_lease(scene: Scene) -> None:
    scene.snapshot.apply(appeared(lease_fact(0, LeaseHold("uid-p"))))
    scene.snapshot.apply(appeared(lease_fact(1, LeaseHold("stranger"))))
    assert scene.free == [0, 0]
    with scene.foreign.lifted(("uid-p",)):
        assert scene.free == [1000, 0]
        scene.assume(0)
    assert scene.free == [0, 0]


def test_a_pod_that_goes_elsewhere_still_keeps_others_off_what_it_was_leased(scene: Scene) -> None:
    scene.snapshot.apply(appeared(lease_fact(0, LeaseHold("uid-p"))))
    with scene.foreign.lifted(("uid-p",)):
        scene.assume(1)
    assert scene.free == [0, 0]


def test_setting_its_own_share_aside_leaves_those_of_others(scene: Scene) -> None:
    scene.snapshot.apply(
        appeared(lease_fact(0, LeaseHold("stranger", Milli(300)), LeaseHold("uid-p", Milli(200)), shared=True))
    )
    assert scene.free == [500, 1000]
    with scene.foreign.lifted(("uid-p",)):
        assert scene.free == [700, 1000]
    assert scene.free == [500, 1000]


def test_a_device_found_taken_is_believed_until_its_lease_is_heard_of(scene: Scene) -> None:
    scene.foreign.taken("n", 0, "gpu-n-0", until=Instant(30.0))
    assert scene.free == [0, 1000]
    lease = lease_fact(0, LeaseHold("stranger", Milli(400)), shared=True)
    scene.snapshot.apply(appeared(lease))
    assert scene.free == [600, 1000]
    more = msgspec.structs.replace(lease, holds=(LeaseHold("stranger", Milli(900)),))
    scene.snapshot.apply(Updated(ObjectKey("leases", lease.name), lease, more))
    assert scene.free == [100, 1000]


def test_a_lease_nobody_ever_hears_of_is_believed_until_all_have_been_heard(scene: Scene) -> None:
    scene.foreign.taken("n", 0, "gpu-n-0", until=Instant(30.0))
    scene.snapshot.apply(appeared(lease_fact(1, LeaseHold("stranger"))))
    scene.snapshot.apply(Synced("leases"))
    assert scene.free == [1000, 0]


def test_a_lease_that_was_gone_before_we_were_told_is_not_believed_for_ever(scene: Scene) -> None:
    scene.foreign.taken("n", 0, "gpu-n-0", until=Instant(30.0))
    assert not scene.foreign.doubt(now=Instant(29.0))
    assert scene.foreign.next_doubt() == 30.0
    assert scene.foreign.doubt(now=Instant(30.0))
    assert scene.free == [1000, 1000]


def test_a_pod_that_is_gone_no_longer_accounts_for_its_lease(scene: Scene) -> None:
    scene.assume(0)
    scene.snapshot.apply(appeared(lease_fact(0, LeaseHold("uid-p"))))
    scene.snapshot.apply(Deleted(KEY, scene.pod))
    assert scene.free == [0, 1000]


def pseudo_pod(scene: Scene) -> Pod:
    (found,) = (pod for key, pod in scene.snapshot.pods.items() if key.namespace == NOWHERE)
    return found


@pytest.mark.parametrize(
    ("node", "phase", "soon"),
    [
        pytest.param("", Phase.PENDING, False, id="pending-it-may-be-bound-to-it-any-moment"),
        pytest.param("m", Phase.RUNNING, True, id="bound-elsewhere"),
        pytest.param("n", Phase.SUCCEEDED, True, id="over"),
    ],
)
def test_what_its_holder_has_no_use_for_counts_as_leaving(scene: Scene, node: str, phase: Phase, soon: bool) -> None:
    heard = msgspec.structs.replace(scene.pod, node=node, phase=phase)
    scene.snapshot.apply(Updated(KEY, scene.pod, heard))
    scene.snapshot.apply(appeared(lease_fact(0, LeaseHold("uid-p"))))
    assert pseudo_pod(scene).deleting is soon


def test_what_the_dead_hold_counts_as_leaving(scene: Scene) -> None:
    scene.snapshot.apply(appeared(lease_fact(0, LeaseHold("uid-p"))))
    assert not pseudo_pod(scene).deleting
    scene.snapshot.apply(Deleted(KEY, scene.pod))
    assert pseudo_pod(scene).deleting


def mig_board(scene: Scene, *, gpu: int = 0) -> None:
    """The GPU is split in two from now on."""
    before = scene.snapshot.state.inventories["n"]
    parts = tuple(MigInstance(f"MIG-{part}", "1g", Bytes(1)) for part in "ab")
    devices = tuple(msgspec.structs.replace(one, mig=parts if one.id == gpu else ()) for one in before.devices)
    after = msgspec.structs.replace(before, devices=devices)
    scene.snapshot.apply(Updated(ObjectKey("", "n"), before, after))


def test_a_strangers_mig_instance_is_held_and_its_neighbour_is_not(scene: Scene) -> None:
    mig_board(scene)
    scene.snapshot.apply(appeared(lease_fact(0, LeaseHold("stranger", Milli(0), "MIG-a"), shared=True)))
    assert pseudo_pod(scene).gpu_instances == ("MIG-a",)
    assert pseudo_pod(scene).gpu_share == 0


def test_a_pod_accounts_for_its_own_instance_and_for_no_other(scene: Scene) -> None:
    mig_board(scene)
    mine = msgspec.structs.replace(scene.pod, gpu_instances=("MIG-a",))
    scene.snapshot.assume(mine, "n", (0,), Milli(0))
    lease = lease_fact(0, LeaseHold("uid-p", Milli(0), "MIG-a"), LeaseHold("uid-p", Milli(0), "MIG-b"), shared=True)
    scene.snapshot.apply(appeared(lease))
    assert pseudo_pod(scene).gpu_instances == ("MIG-b",)


def test_a_gpu_of_which_an_instance_is_leased_is_not_free_when_it_is_split_no_longer(scene: Scene) -> None:
    scene.snapshot.apply(appeared(lease_fact(0, LeaseHold("stranger", Milli(0), "MIG-a"), shared=True)))
    assert scene.free == [0, 1000]


def test_a_lease_that_names_nobody_keeps_everybody_off_until_it_is_swept(scene: Scene) -> None:
    lease = lease_fact(0, shared=True)
    scene.snapshot.apply(appeared(lease))
    assert scene.free == [0, 1000]
    assert pseudo_pod(scene).deleting
    scene.snapshot.apply(Deleted(ObjectKey("leases", lease.name), lease))
    assert scene.free == [1000, 1000]
