"""Leases: who holds what; changed only by those who saw the last change."""

import asyncio

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import LEASE
from tests.contract.steps import version
from ullage.errors import BadRequest, Conflict, Invalid
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import LEASES
from ullage.testing.builders import a_lease, with_meta

INVALID = "FieldValueInvalid"
TIME = "2030-01-02T03:04:05.678901Z"


async def test_lease_is_kept_as_written(api: KubeApi, ns: str) -> None:
    spec = {"leaseDurationSeconds": 15, "leaseTransitions": 2, "acquireTime": TIME, "renewTime": TIME}
    made = await api.create(LEASE, a_lease("a", "me", **spec), ns)
    assert made["spec"] == {"holderIdentity": "me"} | spec


async def test_lease_of_nobody_is_a_lease(api: KubeApi, ns: str) -> None:
    made = await api.create(LEASES, a_lease("a"), ns)
    assert made.spec.holder_identity is None


@pytest.mark.parametrize("text", ["2030-01-01T00:00:00Z", "yesterday"], ids=["whole-seconds", "no-time-at-all"])
async def test_times_have_microseconds(api: KubeApi, ns: str, text: str) -> None:
    with refused(BadRequest, reason="BadRequest", says=f'parsing time "{text}"'):
        await api.create(LEASE, a_lease("a", "me", renewTime=text), ns)


@pytest.mark.parametrize(
    ("spec", "field", "says"),
    [
        pytest.param(
            {"leaseDurationSeconds": 0}, "spec.leaseDurationSeconds", "must be greater than 0", id="no-duration"
        ),
        pytest.param(
            {"leaseTransitions": -1},
            "spec.leaseTransitions",
            "must be greater than or equal to 0",
            id="negative-transitions",
        ),
    ],
)
async def test_bad_numbers_are_refused(api: KubeApi, ns: str, spec: JsonObject, field: str, says: str) -> None:
    with refused(Invalid, reason="Invalid", says=says, causes=[(field, INVALID)]):
        await api.create(LEASE, a_lease("a", "me", **spec), ns)


async def test_renewal_is_a_change(api: KubeApi, ns: str) -> None:
    made = await api.create(LEASE, a_lease("a", "me", renewTime=TIME), ns)
    later = "2030-01-02T03:04:15.678901Z"
    renewed = await api.replace(LEASE, made | {"spec": made["spec"] | {"renewTime": later}})
    assert renewed["spec"]["renewTime"] == later
    assert int(version(renewed)) > int(version(made))


async def test_only_one_candidate_takes_a_free_lease(api: KubeApi, ns: str) -> None:
    free = await api.create(LEASE, a_lease("a"), ns)

    async def take(who: str) -> bool:
        try:
            await api.replace(LEASE, free | {"spec": {"holderIdentity": who}})
        except Conflict:
            return False
        return True

    assert sorted(await asyncio.gather(*(take(f"candidate-{i}") for i in range(5)))) == [False] * 4 + [True]


async def test_adopting_again_makes_older_knowledge_stale(api: KubeApi, ns: str) -> None:
    seen = await api.create(LEASE, a_lease("a", "me", leaseTransitions=0), ns)
    adopted = await api.replace(LEASE, seen | {"spec": seen["spec"] | {"leaseTransitions": 1}})
    with refused(Conflict, reason="Conflict", says='Operation cannot be fulfilled on leases.coordination.k8s.io "a"'):
        await api.replace(LEASE, seen | {"spec": {}})
    assert (await api.get(LEASE, "a", ns)) == adopted


async def test_annotations_of_a_lease_are_swapped_by_comparing(api: KubeApi, ns: str) -> None:
    seen = await api.create(LEASE, with_meta(a_lease("a", "me"), annotations={"shares": "1"}), ns)

    def shares(text: str) -> MergePatch:
        return MergePatch({"metadata": {"resourceVersion": version(seen), "annotations": {"shares": text}}})

    await api.patch(LEASE, "a", shares("2"), ns)
    with refused(Conflict, reason="Conflict"):
        await api.patch(LEASE, "a", shares("3"), ns)
    assert (await api.get(LEASES, "a", ns)).metadata.annotations == {"shares": "2"}
