"""Writing how a claim stands: only changes, only on that very claim, and beside what others say."""

import asyncio
from typing import Any

import pytest

from ullage.act.claims import ClaimStatusWriter
from ullage.clock import Instant
from ullage.errors import Unreachable
from ullage.kube.client.api import JsonPatch, KubeApi
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS
from ullage.kube.crds.install import install
from ullage.kube.objects.gpu import GpuClaim
from ullage.model.claim import ClaimPhase
from ullage.model.claim_status import ClaimStatus
from ullage.model.fact_event import ObjectKey
from ullage.model.outcomes import StatusNotWritten, StatusWriteFailure, StatusWritten
from ullage.model.units import Steady

STATUS = "/status/conditions"


class Watch:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.moment = 1_700_000_000.0

    def now(self) -> Instant:
        return Instant(self.moment)

    def steady(self) -> Steady:
        return Steady(self.moment)

    async def charge(self, cpu_seconds: float) -> None:
        self.moment += cpu_seconds


@pytest.fixture
async def claim(api: KubeApi, ns: str) -> GpuClaim:
    await install(api)
    return await api.create(GPU_CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": {"count": 2}}}, ns)


def bound(claim: GpuClaim, **changes: Any) -> ClaimStatus:
    meta = claim.metadata
    facts: dict[str, Any] = {
        "claim": ObjectKey(meta.namespace, meta.name),
        "uid": meta.uid,
        "generation": meta.generation,
        "phase": ClaimPhase.BOUND,
        "word": "Bound",
        "message": "pod p is on node-a",
        "node": "node-a",
        "gpu_ids": (0, 1),
    }
    return ClaimStatus(**(facts | changes))


def unused(claim: GpuClaim) -> ClaimStatus:
    return bound(claim, phase=ClaimPhase.PENDING, word="Unused", message="no pod uses it", node="", gpu_ids=())


async def status_of(api: KubeApi, claim: GpuClaim) -> JsonObject:
    found = await api.get(GPU_CLAIMS.whole(), claim.metadata.name, claim.metadata.namespace)
    return dict(found["status"])


async def test_a_bound_claim_names_its_gpus(api: KubeApi, claim: GpuClaim) -> None:
    standing = bound(claim)
    assert await ClaimStatusWriter(api, Watch()).record(standing) == StatusWritten(standing, written=True)
    assert await status_of(api, claim) == {
        "phase": "Bound",
        "nodeName": "node-a",
        "gpuIds": [0, 1],
        "allocated": "node-a:0,1",
        "message": "pod p is on node-a",
        "observedGeneration": 1,
        "conditions": [
            {
                "type": "Allocated",
                "status": "True",
                "reason": "Bound",
                "message": "pod p is on node-a",
                "observedGeneration": 1,
                "lastTransitionTime": "2023-11-14T22:13:20Z",
            }
        ],
    }


async def test_what_it_says_already_is_not_written_again(api: KubeApi, ns: str, claim: GpuClaim) -> None:
    watch, standing = Watch(), bound(claim)
    await ClaimStatusWriter(api, watch).record(standing)
    before = await api.get(GPU_CLAIMS.whole(), "c", ns)
    watch.moment += 60
    assert await ClaimStatusWriter(api, watch).record(standing) == StatusWritten(standing, written=False)
    assert await api.get(GPU_CLAIMS.whole(), "c", ns) == before


async def test_a_claim_whose_pod_is_gone_names_no_gpus(api: KubeApi, claim: GpuClaim) -> None:
    watch = Watch()
    await ClaimStatusWriter(api, watch).record(bound(claim))
    watch.moment += 60
    await ClaimStatusWriter(api, watch).record(unused(claim))
    status = await status_of(api, claim)
    assert status.keys() == {"phase", "message", "observedGeneration", "conditions"}
    assert status["phase"] == "Pending"
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "Unused")
    assert condition["lastTransitionTime"] == "2023-11-14T22:14:20Z"


async def test_a_new_message_is_no_transition(api: KubeApi, claim: GpuClaim) -> None:
    watch = Watch()
    await ClaimStatusWriter(api, watch).record(bound(claim))
    watch.moment += 60
    await ClaimStatusWriter(api, watch).record(bound(claim, message="pod p is still there"))
    (condition,) = (await status_of(api, claim))["conditions"]
    assert condition["message"] == "pod p is still there"
    assert condition["lastTransitionTime"] == "2023-11-14T22:13:20Z"


async def test_a_claim_placed_by_count_names_its_node_only(api: KubeApi, claim: GpuClaim) -> None:
    await ClaimStatusWriter(api, Watch()).record(bound(claim, gpu_ids=()))
    status = await status_of(api, claim)
    assert status["nodeName"] == "node-a"
    assert "allocated" not in status
    assert "gpuIds" not in status


async def test_conditions_of_others_are_kept(api: KubeApi, ns: str, claim: GpuClaim) -> None:
    theirs = {
        "type": "Audited",
        "status": "True",
        "reason": "Seen",
        "message": "",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    await ClaimStatusWriter(api, Watch()).record(bound(claim))
    await api.patch(
        GPU_CLAIMS, "c", JsonPatch([{"op": "add", "path": f"{STATUS}/-", "value": theirs}]), ns, subresource="status"
    )
    await ClaimStatusWriter(api, Watch()).record(unused(claim))
    assert [one["type"] for one in (await status_of(api, claim))["conditions"]] == ["Allocated", "Audited"]


async def test_a_claim_at_hand_that_is_out_of_date_is_read_again(api: KubeApi, claim: GpuClaim) -> None:
    await ClaimStatusWriter(api, Watch()).record(bound(claim))
    standing = unused(claim)
    assert await ClaimStatusWriter(api, Watch()).record(standing, known=claim) == StatusWritten(standing, written=True)
    assert (await status_of(api, claim))["phase"] == "Pending"


async def test_of_many_writers_none_is_lost(api: KubeApi, claim: GpuClaim) -> None:
    recorder = ClaimStatusWriter(api, Watch())
    standings = [bound(claim, message=f"word {number}") for number in range(4)]
    outcomes = await asyncio.gather(*(recorder.record(standing) for standing in standings))
    assert outcomes == [StatusWritten(standing, written=True) for standing in standings]


async def gone(api: KubeApi, claim: GpuClaim) -> None:
    await api.delete(GPU_CLAIMS, claim.metadata.name, claim.metadata.namespace)


async def replaced(api: KubeApi, claim: GpuClaim) -> None:
    await gone(api, claim)
    await api.create(GPU_CLAIMS, {"metadata": {"name": "c"}, "spec": {}}, claim.metadata.namespace)


@pytest.mark.parametrize("meanwhile", [pytest.param(gone, id="gone"), pytest.param(replaced, id="replaced")])
@pytest.mark.parametrize("at_hand", [False, True])
async def test_another_claim_is_left_alone(api: KubeApi, claim: GpuClaim, meanwhile: Any, at_hand: bool) -> None:
    await meanwhile(api, claim)
    outcome = await ClaimStatusWriter(api, Watch()).record(bound(claim), known=claim if at_hand else None)
    assert isinstance(outcome, StatusNotWritten)
    assert outcome.setback is StatusWriteFailure.CLAIM_GONE
    assert all(not found.status.phase for found in (await api.list(GPU_CLAIMS, claim.metadata.namespace)).items)


async def test_no_answer_is_an_outcome(claim: GpuClaim) -> None:
    silent: Any = Silent()
    standing = bound(claim)
    outcome = await ClaimStatusWriter(silent, Watch()).record(standing)
    assert outcome == StatusNotWritten(standing, StatusWriteFailure.API_FAILED, "nobody there")


class Silent:
    """An API that is not there."""

    async def get(self, *_: object) -> None:
        raise Unreachable("nobody there")
