"""What a pod may ask for through its claim, and when it may not ask at all."""

import pytest

from tests.decide.scenes import Scene, claim, leased, pod
from ullage.decide.claiming import owner_of, with_claim
from ullage.model.event import ObjectKey, Vanished
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.verdict import CURES, Reason, Verdict

EARLY, LATE = "2030-01-01T00:00:00Z", "2030-01-01T00:00:01Z"


def asked(scene: Scene, name: str = "waits") -> Pod | Verdict:
    return with_claim(scene.pod(name), scene.placements, scene.known.unreadable_claims)


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
    found = owner_of(ObjectKey("team", "c"), Scene(claim("c"), pods).placements)
    assert (found.key.name if found else None) == owner


def test_a_finished_pod_lets_its_claim_go() -> None:
    done = pod("done", claim="c", created=EARLY, on="a") | {"status": {"phase": "Succeeded"}}
    assert isinstance(asked(Scene(claim("c"), done, pod("waits", claim="c"))), Pod)


def test_a_deleted_pod_lets_its_claim_go() -> None:
    scene = Scene(claim("c"), pod("older", claim="c", created=EARLY), pod("waits", claim="c"))
    older = scene.pod("older")
    scene.placements.apply(Vanished(older.key, older))
    assert isinstance(asked(scene), Pod)


def test_every_reason_says_what_could_cure_it() -> None:
    assert set(CURES) == set(Reason) - {Reason.FITS}
