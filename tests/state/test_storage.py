"""Volumes and claims as they will be: promised as soon as a pod is placed, free again when it is not."""

from ullage.model.fact_event import Added, ObjectKey
from ullage.model.volume import PersistentVolume, PersistentVolumeClaim
from ullage.state.cluster import ClusterState
from ullage.state.storage import AssumedVolume, Storage

POD, OTHER, CLAIM, MADE = (ObjectKey("team", name) for name in ("pod", "other", "claim", "made"))
DISK = PersistentVolume(name="disk", labels={}, available=True)
GETS = (AssumedVolume(CLAIM, "n1", "disk"), AssumedVolume(MADE, "n1"))


def storage() -> Storage:
    state = ClusterState()
    claims = [PersistentVolumeClaim(key=key, uid=key.name) for key in (CLAIM, MADE)]
    state.apply(Added(ObjectKey("", "disk"), DISK))
    for claim in claims:
        state.apply(Added(claim.key, claim))
    return Storage(state)


def promised(found: Storage) -> tuple[ObjectKey | None, str]:
    """Claim that the volume is promised to, and node that the other claim's volume is made for."""
    volume, claim = found.volume("disk"), found.claim(MADE)
    assert volume is not None
    assert claim is not None
    return volume.claim_ref, claim.selected_node


def test_what_a_placed_pod_gets_is_promised_until_it_is_placed_no_longer() -> None:
    found = storage()
    assert promised(found) == (None, "")
    assert found.assume(POD, GETS)
    assert not found.assume(POD, GETS), "nothing new"
    assert promised(found) == (CLAIM, "n1")
    assert found.of(POD) == GETS
    assert found.assume(POD, ())
    assert not found.assume(POD, ()), "nothing new"
    assert promised(found) == (None, "")


def test_of_two_pods_of_one_claim_the_first_decides_and_the_second_keeps_the_promise() -> None:
    found = storage()
    found.assume(POD, GETS)
    found.assume(OTHER, (AssumedVolume(CLAIM, "n2", "disk"), AssumedVolume(MADE, "n2")))
    assert promised(found) == (CLAIM, "n1")
    found.assume(POD, ())
    assert promised(found) == (CLAIM, "n2")
