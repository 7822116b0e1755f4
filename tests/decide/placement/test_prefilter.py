"""What a pod may ask for through its claim, and when it may not ask at all."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.decide.scenes import Scene, claim, leased, pod
from ullage.decide.placement.prefilter import claim_of, last_user_of, owner_of, with_claim
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS
from ullage.kube.write.gpu import claim_copy
from ullage.model.claim import copy_key
from ullage.model.fact_event import Added, Deleted, ObjectKey, Updated
from ullage.model.pod import Phase, Pod, age_order
from ullage.model.resources import GPU
from ullage.model.verdict import Reason, Verdict
from ullage.state.snapshot import ClusterSnapshot
from ullage.testing.builders import of_kind

EARLY, LATE = "2030-01-01T00:00:00Z", "2030-01-01T00:00:01Z"


def asked(scene: Scene, name: str = "waits") -> Pod | Verdict:
    return with_claim(scene.pod(name), scene.snapshot, scene.known.unreadable_claims)


@pytest.mark.parametrize(
    ("objects", "reason", "said"),
    [
        pytest.param([pod("waits", claim="c")], Reason.CLAIM_MISSING, "GpuClaim team/c is not there", id="missing"),
        pytest.param(
            [claim("c", namespace="other"), pod("waits", claim="c")],
            Reason.CLAIM_MISSING,
            "GpuClaim team/c is not there",
            id="in-another-namespace",
        ),
        pytest.param(
            [claim("c", namespace="other"), pod("waits", claim="other/c")],
            Reason.CLAIM_MISSING,
            "claims of its own namespace, team",
            id="reaching-into-another-namespace",
        ),
        pytest.param(
            [claim("c", 2, devices={"policy": "preferIds", "preferIds": [1]}), pod("waits", claim="c")],
            Reason.CLAIM_INVALID,
            "spec.devices.preferIds: must name exactly as many GPUs as count",
            id="breaks-a-rule",
        ),
        pytest.param(
            [claim("c", devices={"policy": "preferIds", "preferIds": [1]}), pod("waits", 2, claim="c")],
            Reason.CLAIM_INVALID,
            "requests 2 nvidia.com/gpu, and spec.devices.preferIds of team/c names 1",
            id="names-fewer-than-the-pod-requests",
        ),
        pytest.param(
            [claim("c"), pod("waits", claim="c", template="c")],
            Reason.CLAIM_INVALID,
            "a claim and a claim template",
            id="both-annotations",
        ),
        pytest.param(
            [claim("c"), pod("waits", claim="c"), pod("runs", claim="c", on="a", held="0")],
            Reason.CLAIM_IN_USE,
            "belongs to pod team/runs",
            id="another-pod-has-it",
        ),
        pytest.param(
            [claim("c"), pod("waits", claim="c", created=LATE), pod("older", claim="c", created=EARLY)],
            Reason.CLAIM_IN_USE,
            "belongs to pod team/older",
            id="an-older-pod-names-it",
        ),
    ],
)
def test_claims_that_let_nobody_in(objects: list[dict[str, object]], reason: Reason, said: str) -> None:
    verdict = asked(Scene(leased("a"), objects))
    assert isinstance(verdict, Verdict)
    assert verdict.reason is reason
    assert said in verdict.detail


@pytest.mark.parametrize(
    ("requested", "count", "needed"),
    [
        pytest.param(0, 2, 2, id="only-the-claim"),
        pytest.param(3, 2, 3, id="the-pod-asks-for-more"),
        pytest.param(1, 2, 2, id="the-claim-asks-for-more"),
    ],
)
def test_the_larger_of_claim_and_request_counts(requested: int, count: int, needed: int) -> None:
    found = asked(Scene(claim("c", count), pod("waits", requested, claim="c")))
    assert isinstance(found, Pod)
    assert found.requests[GPU] == needed * 1000
    assert found.shape.devices is not None
    assert found.shape.devices.count == needed


def test_a_part_of_a_gpu_is_not_counted_as_a_whole_one() -> None:
    found = asked(Scene(claim("c", devices={"exclusivity": "Shared", "memory": "1Gi"}), pod("waits", claim="c")))
    assert isinstance(found, Pod)
    assert GPU not in found.requests


def test_labels_and_pool_of_a_claim_select_nodes() -> None:
    wanted = claim("c", selector={"matchLabels": {"zone": "east"}}, pool="big")
    found = asked(Scene(wanted, pod("waits", claim="c")))
    assert isinstance(found, Pod)
    assert found.shape.node_selector == (("gpu.scheduling/provisioner", "big"), ("zone", "east"))


@pytest.mark.parametrize(
    ("pods", "owner"),
    [
        pytest.param([], None, id="nobody"),
        pytest.param([pod("b", claim="c"), pod("a", claim="c")], "a", id="first-by-name"),
        pytest.param([pod("b", claim="c", created=EARLY), pod("a", claim="c")], "b", id="made-before-not-yet-made"),
        pytest.param([pod("b", claim="c", on="x"), pod("a", claim="c", created=EARLY)], "b", id="who-holds-it"),
        pytest.param([pod("a", template="c")], None, id="a-template-belongs-to-nobody"),
    ],
)
def test_whom_a_claim_belongs_to(pods: list[dict[str, object]], owner: str | None) -> None:
    found = owner_of(ObjectKey("team", "c"), Scene(claim("c"), pods).snapshot)
    assert (found.key.name if found else None) == owner


def test_a_finished_pod_lets_its_claim_go() -> None:
    done = pod("done", claim="c", created=EARLY, on="a") | {"status": {"phase": "Succeeded"}}
    assert isinstance(asked(Scene(claim("c"), done, pod("waits", claim="c"))), Pod)


def test_a_deleted_pod_lets_its_claim_go() -> None:
    scene = Scene(claim("c"), pod("older", claim="c", created=EARLY), pod("waits", claim="c"))
    older = scene.pod("older")
    scene.snapshot.apply(Deleted(older.key, older))
    assert isinstance(asked(scene), Pod)


def copied(name: str, count: int, uid: str = "") -> JsonObject:
    """The copy of template `t` that was made for a pod, or for one of its name with another uid."""
    made = claim_copy("t", {"devices": {"count": count}}, ObjectKey("team", name), uid or f"uid-{name}")
    return of_kind(GPU_CLAIMS, made)


@pytest.mark.parametrize(
    ("objects", "count"),
    [
        pytest.param([claim("t", 2)], 2, id="the-template-until-there-is-a-copy"),
        pytest.param([claim("t", 2), copied("waits", 3)], 3, id="its-copy-goes-first"),
        pytest.param([copied("waits", 3)], 3, id="its-copy-outlives-the-template"),
        pytest.param([claim("t", 2), copied("waits", 3, "uid-wait-before")], 2, id="the-copy-of-an-earlier-pod"),
        pytest.param([claim("t", 2), claim("waits-uid-wait", 3)], 2, id="a-claim-that-happens-to-have-the-name"),
    ],
)
def test_what_a_pod_with_a_template_asks_for(objects: list[JsonObject], count: int) -> None:
    found = asked(Scene(objects, pod("waits", template="t")))
    assert isinstance(found, Pod)
    assert found.shape.devices is not None
    assert found.shape.devices.count == count


def test_a_copy_is_its_pods_and_no_others() -> None:
    mine, key = pod("a", template="t"), copy_key(ObjectKey("team", "a"), "uid-a")
    thief = pod("thief", claim=key.name, created=EARLY)
    scene = Scene(claim("t"), copied("a", 1), mine, thief)
    owner = owner_of(key, scene.snapshot)
    assert owner is not None
    assert owner.key.name == "a"
    verdict = asked(scene, "thief")
    assert isinstance(verdict, Verdict)
    assert verdict.reason is Reason.CLAIM_IN_USE


def test_a_pod_with_claim_and_template_has_no_copy() -> None:
    scene = Scene(claim("t"), claim("c", 5), copied("waits", 3), pod("waits", claim="c", template="t"))
    found = claim_of(scene.pod("waits"), scene.snapshot.state)
    assert found is not None
    assert found.key.name == "c"


@pytest.mark.parametrize(
    ("name", "uid", "expected"),
    [
        pytest.param("train-0", "5f3c9a1e-0000-4000-8000-000000000000", "train-0-5f3c9a1e", id="plain"),
        pytest.param("x" * 253, "5f3c9a1e-0000", "x" * 244 + "-5f3c9a1e", id="cut-to-fit"),
        pytest.param("x" * 243 + ".y", "5f3c9a1e-0000", "x" * 243 + "-5f3c9a1e", id="cut-at-a-dot"),
    ],
)
def test_the_name_of_a_copy(name: str, uid: str, expected: str) -> None:
    assert copy_key(ObjectKey("team", name), uid) == ObjectKey("team", expected)


def finished(name: str, created: str) -> JsonObject:
    return pod(name, claim="c", created=created, on="a") | {"status": {"phase": "Succeeded"}}


@pytest.mark.parametrize(
    ("pods", "user"),
    [
        pytest.param([], None, id="nobody"),
        pytest.param([finished("a", EARLY), finished("b", LATE)], "b", id="the-latest-that-finished"),
        pytest.param([finished("a", LATE), pod("b", claim="c", created=EARLY)], "b", id="who-has-it-now"),
    ],
)
def test_who_used_a_claim_last(pods: list[JsonObject], user: str | None) -> None:
    found = last_user_of(ObjectKey("team", "c"), Scene(claim("c"), pods).snapshot)
    assert (found.key.name if found else None) == user


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_the_owner_is_who_a_search_finds(seed: int) -> None:
    """Pods that name one claim come, are placed, are tried elsewhere, finish and go; the oldest is always known."""
    rng, snapshot = Random(seed), Scene(leased("a"), claim("c"), pod("waits", claim="c")).snapshot
    like = snapshot.state.pods[ObjectKey("team", "waits")]
    for _ in range(40):
        at = ObjectKey("team", rng.choice("pqrst"))
        known = snapshot.state.pods.get(at)
        facts = {"created": float(ord(at.name) % 3), "deleting": rng.random() < 0.2, "node": rng.choice(("", "", "a"))}
        new = replace(like, key=at, uid=at.name, phase=rng.choice((Phase.PENDING, Phase.FAILED)), **facts)
        if known is None:
            snapshot.apply(Added(at, new))
        else:
            snapshot.apply(Deleted(at, known) if rng.random() < 0.3 else Updated(at, known, new))
        with snapshot.what_if() as trial:
            for waiting in [one for one in snapshot.state.pods.values() if one.key not in snapshot.pods]:
                if not waiting.phase.over and rng.random() < 0.2:
                    snapshot.assume(waiting, "a")
                    if rng.random() < 0.5:
                        trial.keep()
            assert (owner_of(CLAIM, snapshot), last_user_of(CLAIM, snapshot)) == searched(snapshot)
        assert (owner_of(CLAIM, snapshot), last_user_of(CLAIM, snapshot)) == searched(snapshot)


CLAIM = ObjectKey("team", "c")


def searched(snapshot: ClusterSnapshot) -> tuple[Pod | None, Pod | None]:
    """Owner and last user, as the page about claims defines them."""
    naming = snapshot.state.pods_naming(CLAIM)
    live = [one for one in naming if not one.phase.over]
    holding = [one for one in live if one.key in snapshot.pods]
    owner = min(holding or [one for one in live if not one.deleting], key=age_order, default=None)
    over = [one for one in naming if one.phase.over]
    return owner, owner or max(over, key=age_order, default=None)
