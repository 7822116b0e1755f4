"""Our own kinds: defined, completed with defaults, judged by their schema, their status apart from their spec.

What the rules between fields refuse is tested on the real API server alone: `tests/kube/crds`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import CRD
from tests.contract.steps import condition, version
from ullage.clock import Instant
from ullage.errors import Conflict, Invalid, NotFound
from ullage.kube.client.api import Apply, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import GPU_CLAIMS, GPU_NODE_STATUSES, GPU_QUOTAS, POD_GROUPS
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.kube.crds.install import install
from ullage.kube.objects.gpu import GpuClaim, GpuClaimStatus
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.read.gpu import read_claim, read_inventory
from ullage.kube.write.gpu import (
    ClaimStatusFields,
    ConditionSpec,
    apply_node,
    apply_status,
    claim_status,
    node_report,
    patch_status,
    with_aspect,
)
from ullage.model.claim import ClaimPhase
from ullage.model.device import DeviceHealth, Inventory
from ullage.testing.facts import device_fact, inventory_fact

CLAIM, NODE, QUOTA = GPU_CLAIMS.whole(), GPU_NODE_STATUSES.whole(), GPU_QUOTAS.whole()
NOW = Instant(60.0)
BOUND = ClaimStatusFields(phase=ClaimPhase.BOUND, node="node-a", gpu_ids=(1, 3))


@pytest.fixture
async def served(api: KubeApi) -> KubeApi:
    """An API server that knows our kinds."""
    await install(api)
    return api


def a_claim(name: str, **spec: Any) -> JsonObject:
    return {"metadata": {"name": name}, "spec": spec}


def an_inventory(node: str, *healths: DeviceHealth) -> Inventory:
    devices = (device_fact(gpu, health=health) for gpu, health in enumerate(healths))
    return inventory_fact(node, *devices, reported_at=60.0, dated=Instant(60.0))


@contextmanager
def objected(field: str, reason: str) -> Iterator[None]:
    """The block ends in an objection to this field. A server with rules may add that it did not come to check them."""
    with pytest.raises(Invalid) as caught:
        yield
    assert (field, reason) in [(cause.field, cause.reason) for cause in caught.value.causes], caught.value.message


async def test_installing_again_changes_nothing(served: KubeApi) -> None:
    before = [await served.get(CRD, definition.resource.id) for definition in OURS]
    await install(served)
    after = [await served.get(CRD, definition.resource.id) for definition in OURS]
    assert [version(crd) for crd in after] == [version(crd) for crd in before]
    assert all(condition(crd, "Established")["status"] == "True" for crd in after)


async def test_installed_kinds_are_discovered(served: KubeApi) -> None:
    found = await served.discover()
    assert all(definition.resource in found for definition in OURS)


async def test_a_claim_is_completed_with_defaults(served: KubeApi, ns: str) -> None:
    made = await served.create(CLAIM, a_claim("a"), ns)
    assert made["spec"] == {
        "devices": {"count": 1, "policy": "contiguous", "exclusivity": "Exclusive"},
        "topology": {"mode": "Preferred"},
    }
    assert read_claim(await served.get(GPU_CLAIMS, "a", ns)).ask.count == 1


async def test_defaults_do_not_replace_what_was_said(served: KubeApi, ns: str) -> None:
    devices = {"count": 2, "policy": "spread", "exclusivity": "Shared", "memory": 1024, "model": "H100"}
    made = await served.create(CLAIM, a_claim("a", devices=devices, topology={"minBandwidthGBps": 3}), ns)
    assert made["spec"] == {"devices": devices, "topology": {"mode": "Preferred", "minBandwidthGBps": 3}}


async def test_fields_nobody_defined_are_dropped(served: KubeApi, ns: str) -> None:
    made = await served.create(CLAIM, a_claim("a", devices={"speed": 9}, colour="red"), ns)
    assert "colour" not in made["spec"]
    assert "speed" not in made["spec"]["devices"]


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        pytest.param({"devices": {"count": 0}}, "spec.devices.count", "FieldValueInvalid", id="too-few"),
        pytest.param(
            {"devices": {"policy": "any"}}, "spec.devices.policy", "FieldValueNotSupported", id="unknown-word"
        ),
        pytest.param(
            {"devices": {"count": 2, "policy": "preferIds", "preferIds": [1, 1]}},
            "spec.devices.preferIds[1]",
            "FieldValueDuplicate",
            id="twice-the-same-id",
        ),
        pytest.param({"devices": {"memory": "lots"}}, "spec.devices.memory", "FieldValueInvalid", id="no-quantity"),
        pytest.param({"gangRef": "A B"}, "spec.gangRef", "FieldValueInvalid", id="no-name"),
    ],
)
async def test_a_claim_against_the_schema_is_refused(
    served: KubeApi, ns: str, spec: JsonObject, field: str, reason: str
) -> None:
    with objected(field, reason):
        await served.create(CLAIM, a_claim("a", **spec), ns)
    with pytest.raises(NotFound):
        await served.get(CLAIM, "a", ns)


async def test_status_and_spec_are_written_apart(served: KubeApi, ns: str) -> None:
    made = await served.create(CLAIM, a_claim("a") | {"status": {"phase": "Bound"}}, ns)
    assert "status" not in made, "nobody but the scheduler says what is held"
    assert made["metadata"]["generation"] == 1
    both = MergePatch({"spec": {"pool": "p"}, "status": {"phase": "Failed"}})
    told = await served.patch(CLAIM, "a", both, ns, subresource="status")
    assert ("pool" not in told["spec"], told["status"], told["metadata"]["generation"]) == (
        True,
        {"phase": "Failed"},
        1,
    )
    changed = await served.patch(CLAIM, "a", MergePatch({"spec": {"pool": "q"}, "status": {"phase": "Pending"}}), ns)
    assert (changed["spec"]["pool"], changed["status"], changed["metadata"]["generation"]) == (
        "q",
        {"phase": "Failed"},
        2,
    )


async def test_a_status_outside_the_schema_is_refused(served: KubeApi, ns: str) -> None:
    await served.create(CLAIM, a_claim("a"), ns)
    with objected("status.phase", "FieldValueNotSupported"):
        await served.patch(CLAIM, "a", MergePatch({"status": {"phase": "Bond"}}), ns, subresource="status")


async def bound_claim(api: KubeApi, ns: str) -> GpuClaim:
    made = await api.create(GPU_CLAIMS, a_claim("a"), ns)
    status = claim_status(made.status, BOUND, generation=made.metadata.generation, now=NOW)
    patch = patch_status(made.metadata, made.status, status)
    assert patch is not None
    return await api.patch(GPU_CLAIMS, "a", patch, ns, subresource="status")


async def test_a_claims_status_is_true_while_it_holds_and_after(served: KubeApi, ns: str) -> None:
    held = await bound_claim(served, ns)
    facts = read_claim(held)
    assert (facts.phase, facts.node, facts.gpu_ids) == (ClaimPhase.BOUND, "node-a", (1, 3))
    freed = claim_status(
        held.status, ClaimStatusFields(phase=ClaimPhase.PENDING, reason="PodGone"), generation=1, now=NOW
    )
    patch = patch_status(held.metadata, held.status, freed)
    assert patch is not None
    after = await served.patch(CLAIM, "a", patch, ns, subresource="status")
    assert set(after["status"]) == {"phase", "conditions", "observedGeneration"}
    assert condition(after, "Allocated")["reason"] == "PodGone"


async def test_a_status_applied_without_a_field_loses_it(served: KubeApi, ns: str) -> None:
    await served.create(GPU_CLAIMS, a_claim("a"), ns)
    held, meta = claim_status(GpuClaimStatus(), BOUND, generation=1, now=NOW), ObjectMeta(name="a", namespace=ns)
    told = await served.patch(CLAIM, "a", apply_status(meta, held, "scheduler"), ns, subresource="status")
    assert told["status"]["allocated"] == "node-a:1,3"
    freed = claim_status(held, ClaimStatusFields(phase=ClaimPhase.PENDING), generation=1, now=NOW)
    told = await served.patch(CLAIM, "a", apply_status(meta, freed, "scheduler"), ns, subresource="status")
    assert set(told["status"]) == {"phase", "conditions", "observedGeneration"}


async def test_a_status_meant_for_an_earlier_claim_of_that_name_is_refused(served: KubeApi, ns: str) -> None:
    gone = await bound_claim(served, ns)
    await served.delete(GPU_CLAIMS, "a", ns)
    fresh = await served.create(CLAIM, a_claim("a"), ns)
    failed = claim_status(gone.status, ClaimStatusFields(phase=ClaimPhase.FAILED), generation=1, now=NOW)
    for patch in (
        patch_status(gone.metadata, gone.status, failed),
        apply_status(gone.metadata, failed, "scheduler"),
    ):
        assert patch is not None
        with refused(Conflict, reason="Conflict"):
            await served.patch(CLAIM, "a", patch, ns, subresource="status")
    assert await served.get(CLAIM, "a", ns) == fresh


async def test_a_status_written_on_old_knowledge_is_refused(served: KubeApi, ns: str) -> None:
    made = await served.create(GPU_CLAIMS, a_claim("a"), ns)
    await served.patch(CLAIM, "a", MergePatch({"spec": {"pool": "p"}}), ns)
    status = claim_status(made.status, BOUND, generation=1, now=NOW)
    patch = patch_status(made.metadata, made.status, status)
    assert patch is not None
    with refused(Conflict, reason="Conflict"):
        await served.patch(CLAIM, "a", patch, ns, subresource="status")


async def test_an_agent_and_another_manager_share_a_nodes_status(served: KubeApi, ns: str) -> None:
    name = f"{ns}-node"
    meta = ObjectMeta(name=name)
    await served.patch(NODE, name, apply_node(name, "agent"))
    ready = with_aspect((), ConditionSpec("Ready", True, "Read"), generation=1, now=NOW)
    report = node_report(an_inventory(name, DeviceHealth.HEALTHY, DeviceHealth.UNHEALTHY), conditions=ready)
    await served.patch(NODE, name, apply_status(meta, report, "agent"), subresource="status")

    stale = with_aspect((), ConditionSpec("Stale", False, "Fresh"), generation=1, now=NOW)
    beside = Apply({"metadata": {"name": name}, "status": {"conditions": list(stale)}}, "controller")
    told = await served.patch(NODE, name, beside, subresource="status")
    assert {one["type"] for one in told["status"]["conditions"]} == {"Ready", "Stale"}
    assert (told["status"]["total"], told["status"]["healthy"]) == (2, 1)

    less = node_report(an_inventory(name, DeviceHealth.HEALTHY), conditions=ready)
    told = await served.patch(NODE, name, apply_status(meta, less, "agent"), subresource="status")
    assert [device["id"] for device in told["status"]["devices"]] == [0], "a GPU the agent no longer sees is gone"
    assert {one["type"] for one in told["status"]["conditions"]} == {"Ready", "Stale"}, "others' conditions stay"
    assert read_inventory(await served.get(GPU_NODE_STATUSES, name)) == an_inventory(name, DeviceHealth.HEALTHY)


async def test_another_managers_device_is_not_taken_without_force(served: KubeApi, ns: str) -> None:
    name = f"{ns}-node"
    await served.patch(NODE, name, apply_node(name, "agent"))
    report = node_report(an_inventory(name, DeviceHealth.HEALTHY))
    await served.patch(NODE, name, apply_status(ObjectMeta(name=name), report, "agent"), subresource="status")
    device = {"id": 0, "uuid": "GPU-0", "model": "H100", "memory": "80Gi", "health": "Unhealthy"}
    rival = Apply({"metadata": {"name": name}, "status": {"devices": [device]}}, "rival", force=False)
    with refused(Conflict, reason="Conflict", says="health"):
        await served.patch(NODE, name, rival, subresource="status")


async def test_a_quota_of_nothing_is_a_quota(served: KubeApi, ns: str) -> None:
    made = await served.create(QUOTA, {"metadata": {"name": "q"}, "spec": {"gpus": 0, "byModel": {"H100": 0}}}, ns)
    assert made["spec"] == {"gpus": 0, "byModel": {"H100": 0}}


async def test_a_pod_group_keeps_the_fields_of_its_own_makers(api: KubeApi, ns: str) -> None:
    await install(api, (POD_GROUP,))
    resource: Resource[JsonObject] = POD_GROUPS.whole()
    spec = {"minMember": 4, "minResources": {"cpu": "4"}}
    made = await api.create(resource, {"metadata": {"name": "g"}, "spec": spec}, ns)
    assert made["spec"] == spec
    group = await api.get(POD_GROUPS, "g", ns)
    assert (group.spec.min_member, group.spec.schedule_timeout_seconds) == (4, None)
