"""Each rule that must always hold, broken by somebody who bears the name of one of ours: it is noticed at once."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.sim.world.making import arrives, claim, pod, pool, template, world
from ullage.cloud.api import CreateRequest, PoolRef
from ullage.errors import UserError
from ullage.kube.client.resources import PODS
from ullage.kube.client.transport import Request
from ullage.model.claim import PROTECTION
from ullage.model.provisioner import DELETION_TAINT
from ullage.sim.virtual_time import run_virtual
from ullage.sim.world.admin_client import AdminClient
from ullage.sim.world.run import simulate
from ullage.sim.world.spec import DRAINING, PROVISIONING, SCHEDULER, WorldSpec
from ullage.sim.world.violation import InvariantViolation, is_replay, load_replay, violation_file
from ullage.sim.world.world import World, started_world

pytestmark = pytest.mark.story

SELECTED_NODE = "volume.kubernetes.io/selected-node"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/ullage-system/leases"


def broken_by(deed: Callable[[World], Awaitable[None]], spec: WorldSpec | None = None) -> InvariantViolation | None:
    """What is found broken after somebody did this; the loops do not mend it."""

    async def live() -> InvariantViolation | None:
        async with started_world(spec or world(loops=())) as made:
            await deed(made)
            await asyncio.sleep(1)
            made.check_the_end()
            return made.violation

    return run_virtual(live())


def ask(made: World, user: str, method: str, path: str, body: Any = None) -> None:
    content = "application/merge-patch+json" if method == "PATCH" else "application/json"
    sent = None if body is None else msgspec.json.encode(body)
    response = made.server.handle(Request(method, path, body=sent, content_type=content), user)
    assert response.status < 300, response.body


def bind(made: World, name: str, node: str, gpus: str = "", user: str = SCHEDULER, sees: str = "") -> None:
    said = {"gpu.scheduling/allocated": f"{node}:{gpus}"} if gpus else {}
    said |= {"gpu.scheduling/visible-devices": sees} if sees else {}
    said |= {"gpu.scheduling/share-milli": "0"} if sees.startswith("MIG-") else {}
    notes = {"annotations": said} if said else {}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **notes}, "target": {"name": node}}
    ask(made, user, "POST", f"/api/v1/namespaces/default/pods/{name}/binding", body)


async def lease(made: World, name: str, node: str, gpu: int, instance: str = "") -> None:
    uid = (await made.api.get(PODS, name, "default")).metadata.uid
    notes = {"gpu.scheduling/node": node, "gpu.scheduling/device": str(gpu)}
    notes |= {"gpu.scheduling/instances": f'{{"{instance}":"{uid}"}}'} if instance else {}
    meta = {"name": f"gpu-{node}-{gpu}", "labels": {"gpu.scheduling/managed": "true"}, "annotations": notes}
    spec = {"holderIdentity": "shared" if instance else uid}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
    ask(made, SCHEDULER, "POST", LEASES, body)


async def one_gpu_twice(made: World) -> None:
    made.submit(arrives(0, pod("a"), pod("b")))
    await lease(made, "a", "gpu-0", 0)
    bind(made, "a", "gpu-0", "0")
    bind(made, "b", "gpu-0", "0")


async def bound_without_a_lease(made: World) -> None:
    made.submit(arrives(0, pod("a")))
    bind(made, "a", "gpu-0", "3")


async def lease_taken_away(made: World) -> None:
    made.submit(arrives(0, pod("a")))
    await lease(made, "a", "gpu-0", 0)
    bind(made, "a", "gpu-0", "0")
    ask(made, SCHEDULER, "DELETE", f"{LEASES}/gpu-gpu-0-0")


async def lease_deleted_by_a_user(made: World) -> None:
    made.submit(arrives(0, pod("a")))
    await lease(made, "a", "gpu-0", 0)
    bind(made, "a", "gpu-0", "0")
    ask(made, "user", "DELETE", f"{LEASES}/gpu-gpu-0-0")
    await asyncio.sleep(90)


async def one_instance_twice(made: World) -> None:
    made.submit(arrives(0, pod("a"), pod("b")))
    await lease(made, "a", "gpu-0", 0, "MIG-1")
    bind(made, "a", "gpu-0", "0", sees="MIG-1")
    bind(made, "b", "gpu-0", "0", sees="MIG-1")


async def a_strangers_gpu(made: World) -> None:
    stranger = pod("a", 0, nodeName="gpu-0")
    stranger["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-1"}]
    made.submit(arrives(0, stranger, pod("b")))
    await asyncio.sleep(90)
    await lease(made, "b", "gpu-0", 0)
    bind(made, "b", "gpu-0", "0", sees="GPU-1")


async def lease_left_behind(made: World) -> None:
    made.submit(arrives(0, pod("a")))
    await lease(made, "a", "gpu-0", 0)
    bind(made, "a", "gpu-0", "0")
    made.hand.delete(pod("a"))
    await asyncio.sleep(400)


async def bound_in_spite_of_a_taint(made: World) -> None:
    taint = {"spec": {"taints": [{"key": "kept", "value": "", "effect": "NoSchedule"}]}}
    ask(made, "user", "PATCH", "/api/v1/nodes/gpu-0", taint)
    await asyncio.sleep(60)
    made.submit(arrives(0, pod("a", 0)))
    bind(made, "a", "gpu-0")


async def more_than_a_node_has(made: World) -> None:
    for name in ("a", "b"):
        made.submit(arrives(0, pod(name, 8)))
        bind(made, name, "gpu-0")


def protected(name: str, **spec: Any) -> dict[str, Any]:
    """A claim with the finalizer that our scheduler sets before a bind."""
    made = claim(name, **spec)
    made["metadata"]["finalizers"] = [PROTECTION]
    return made


async def bound_by_a_claim_without_protection(made: World) -> None:
    made.submit(arrives(0, claim("a"), pod("a", claim="a")))
    await lease(made, "a", "gpu-0", 0)
    bind(made, "a", "gpu-0", "0")


async def gang_begun_too_early(made: World) -> None:
    for name in ("a", "b"):
        made.submit(arrives(0, protected(name, gangRef="g", gangMinMember=2), pod(name, claim=name)))
    await lease(made, "a", "gpu-0", 0)
    bind(made, "a", "gpu-0", "0")


async def gang_left_in_part(made: World) -> None:
    for number, name in enumerate(("a", "b")):
        made.submit(arrives(0, protected(name, gangRef="g", gangMinMember=2), pod(name, claim=name)))
        await lease(made, name, "gpu-0", number)
    bind(made, "a", "gpu-0", "0")
    await asyncio.sleep(600)


async def node_deleted_with_a_pod(made: World) -> None:
    made.submit(arrives(0, pod("a", 0)))
    bind(made, "a", "gpu-0")
    await asyncio.sleep(5)
    ask(made, "controller", "DELETE", "/api/v1/nodes/gpu-0")


async def node_deleted_with_a_pod_to_come(made: World) -> None:
    made.submit(arrives(0, pod("a")))
    await lease(made, "a", "gpu-0", 0)
    await asyncio.sleep(20)
    ask(made, "controller", "DELETE", "/api/v1/nodes/gpu-0")


async def node_deleted_with_a_holder_not_heard_of(made: World) -> None:
    made.submit(arrives(0, pod("a")))
    await lease(made, "a", "gpu-0", 0)
    await asyncio.sleep(1)
    taint = {"spec": {"taints": [{"key": DELETION_TAINT, "value": "1", "effect": "NoSchedule"}]}}
    ask(made, "controller", "PATCH", "/api/v1/nodes/gpu-0", taint)
    await asyncio.sleep(3)
    ask(made, "controller", "DELETE", "/api/v1/nodes/gpu-0")


async def budget_gone_around(made: World) -> None:
    guarded = pod("a", 0)
    guarded["metadata"]["labels"] = {"app": "a"}
    selector = {"matchLabels": {"app": "a"}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": selector},
    }
    made.submit(arrives(0, budget, guarded))
    bind(made, "a", "gpu-0")
    await asyncio.sleep(5)
    ask(made, "controller", "DELETE", "/api/v1/namespaces/default/pods/a")


async def written_about_again_and_again(made: World) -> None:
    made.submit(arrives(0, pod("a")))
    regarding = {"kind": "Pod", "name": "a", "namespace": "default"}
    regarding["uid"] = (await made.api.get(PODS, "a", "default")).metadata.uid
    for number in range(40):
        await asyncio.sleep(10)
        said = {
            "metadata": {"name": f"a.{number}"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "ullage.dev/scheduler",
            "reportingInstance": "one",
            "action": "Scheduling",
            "reason": "FailedScheduling",
            "type": "Warning",
            "note": f"0/{number} nodes fit",
            "regarding": regarding,
        }
        ask(made, SCHEDULER, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", said)


def disk(node: str, claimed_by: str = "") -> dict[str, Any]:
    """A volume on a node's own disk, reserved for a claim of the same namespace."""
    on_it = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    reserved = {"claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": claimed_by}}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_it]}]}},
    }
    meta = {"name": f"disk-{node}"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": meta,
        "spec": spec | (reserved if claimed_by else {}),
    }


def volume_claim(name: str, volume: str = "", made_for: str = "") -> dict[str, Any]:
    notes = {"annotations": {SELECTED_NODE: made_for}} if made_for else {}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "local",
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", **notes},
        "spec": spec | ({"volumeName": volume} if volume else {}),
    }


def mounting(name: str, claim_name: str) -> dict[str, Any]:
    return pod(name, 0, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}])


async def sharers_of_a_disk_apart(made: World) -> None:
    made.submit(arrives(0, disk("gpu-0", "data"), volume_claim("data", "disk-gpu-0")))
    made.submit(arrives(0, mounting("a", "data"), mounting("b", "data")))
    bind(made, "a", "gpu-0")
    bind(made, "b", "gpu-1")


async def bound_before_there_is_a_volume(made: World) -> None:
    made.submit(arrives(0, volume_claim("data"), mounting("a", "data")))
    bind(made, "a", "gpu-0")


async def one_disk_for_two_claims(made: World) -> None:
    made.submit(arrives(0, disk("gpu-0", "first"), volume_claim("first"), volume_claim("second")))
    other = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "second"}
    ask(made, SCHEDULER, "PATCH", "/api/v1/persistentvolumes/disk-gpu-0", {"spec": {"claimRef": other}})


async def volume_asked_for_on_two_nodes(made: World) -> None:
    made.submit(arrives(0, volume_claim("data", made_for="gpu-0")))
    path = "/api/v1/namespaces/default/persistentvolumeclaims/data"
    ask(made, SCHEDULER, "PATCH", path, {"metadata": {"annotations": {SELECTED_NODE: "gpu-1"}}})


CASES = {
    "one GPU, two pods": (one_gpu_twice, "no GPU twice", "GPU 0 of gpu-0 was given to default/a and default/b"),
    "bound without a lease": (bound_without_a_lease, "a bound pod's GPUs are leased to it", "leased to nobody"),
    "lease taken away": (lease_taken_away, "a bound pod's GPUs are leased to it", "was taken from default/a"),
    "lease a user deleted": (lease_deleted_by_a_user, "a bound pod's GPUs are leased to it", "not leased to default/a"),
    "one MIG instance, two pods": (one_instance_twice, "no GPU is seen twice", "MIG-1 of gpu-0 is seen by containers"),
    "a stranger's GPU": (a_strangers_gpu, "no GPU is seen twice", "containers of default/a and default/b"),
    "lease left behind": (lease_left_behind, "leases of pods that are gone disappear", "gpu-gpu-0-0 still names"),
    "taint not tolerated": (bound_in_spite_of_a_taint, "no pod where the rules refuse it", "TaintNotTolerated"),
    "overcommitted": (more_than_a_node_has, "no node is promised twice", "rejected it: OutOf"),
    "claim not protected": (
        bound_by_a_claim_without_protection,
        "a claim in use outlives its deletion",
        "which is not protected",
    ),
    "gang too early": (gang_begun_too_early, "a gang holds all its leases before its first bind", "1 of 2 members"),
    "gang in part": (gang_left_in_part, "a gang is never left in part", "1 of 2 members bound for too long"),
    "node with a pod": (node_deleted_with_a_pod, "a node goes only empty", "by controller with default/a on it"),
    "node with a pod to come": (
        node_deleted_with_a_pod_to_come,
        "a node goes only when nobody is about to come",
        "though default/a had held GPU 0 of it for 20.0 s",
    ),
    "node with a holder not heard of": (
        node_deleted_with_a_holder_not_heard_of,
        "a node goes only when nobody is about to come",
        "though default/a had held GPU 0 of it for 4.0 s",
    ),
    "sharers of a disk apart": (
        sharers_of_a_disk_apart,
        "a pod goes where its volumes are",
        "default/b was bound to gpu-1, and volume disk-gpu-0 of claim data is not to be had there",
    ),
    "no volume yet": (
        bound_before_there_is_a_volume,
        "a pod goes where its volumes are",
        "default/a was bound to gpu-0, and claim data has no volume",
    ),
    "one disk, two claims": (
        one_disk_for_two_claims,
        "a volume serves one claim",
        "volume disk-gpu-0 of claim default/first was given to claim default/second",
    ),
    "one volume, two nodes": (
        volume_asked_for_on_two_nodes,
        "a claim's volume is made for one node",
        "is being made for gpu-0, and was asked for on gpu-1",
    ),
    "told again and again": (
        written_about_again_and_again,
        "a pod that waits is not written about again and again",
        "31 writes about default/a in 600 s",
    ),
    "budget": (budget_gone_around, "a budget is never violated", "default/a was not asked"),
}


@pytest.mark.parametrize(("deed", "rule", "words"), CASES.values(), ids=CASES)
def test_a_broken_rule_is_noticed(deed: Callable[[World], Awaitable[None]], rule: str, words: str) -> None:
    found = broken_by(deed)

    assert found is not None
    assert found.rule == rule
    assert words in found.breach


def test_its_story_says_who_did_what_and_when() -> None:
    found = broken_by(one_gpu_twice)

    assert found is not None
    story = "\n".join(found.story)
    assert "user         pod default/a: made, phase Pending" in story
    assert "scheduler    pod default/a: node gpu-0, GPUs 0" in story
    assert "scheduler    pod default/b: node gpu-0, GPUs 0" in story
    assert "lease gpu-gpu-0-0: made, held by" in story


async def bought(made: World, count: int) -> None:
    await asyncio.sleep(600)
    ref = PoolRef(name="pool")
    await made.cloud.create(CreateRequest(pool=ref, count=count, token="sabotage", template=template()))


async def bought_too_many(made: World) -> None:
    made.submit(arrives(0, pod("waits", 16)))
    await bought(made, 4)


async def bought_for_nobody(made: World) -> None:
    await bought(made, 1)


async def given_back_too_many(made: World) -> None:
    await asyncio.sleep(600)
    await made.cloud.delete([one.id for one in await made.cloud.list([])][:1])


POOL_CASES = {
    "beyond its maximum": (bought_too_many, "pools stay within their bounds", "has 6 machines and may have 5"),
    "for nobody": (bought_for_nobody, "nothing is bought for nobody", "and no pod waits"),
    "below its minimum": (given_back_too_many, "pools stay within their bounds", "has 1 machines left of 2"),
}


@pytest.mark.parametrize(("deed", "rule", "words"), POOL_CASES.values(), ids=POOL_CASES)
def test_a_pool_that_is_not_as_it_must_be_is_noticed(
    deed: Callable[[World], Awaitable[None]], rule: str, words: str
) -> None:
    spec = world(nodes=0, objects=(pool(least=2, most=5),), loops=(PROVISIONING, DRAINING))

    found = broken_by(deed, spec)

    assert found is not None
    assert found.rule == rule
    assert words in found.breach


def test_users_may_do_what_we_may_not() -> None:
    async def by_users(made: World) -> None:
        made.submit(arrives(0, pod("a", 0)))
        bind(made, "a", "gpu-0", user="kubelet")
        await asyncio.sleep(5)
        ask(made, "user", "DELETE", "/api/v1/nodes/gpu-0")

    assert broken_by(by_users) is None


def test_sharers_of_a_disk_are_fine_on_its_node_and_users_may_reserve_it_anew() -> None:
    async def as_it_should_be(made: World) -> None:
        made.submit(arrives(0, disk("gpu-0", "data"), volume_claim("data", "disk-gpu-0")))
        made.submit(arrives(0, mounting("a", "data"), mounting("b", "data")))
        bind(made, "a", "gpu-0")
        bind(made, "b", "gpu-0")
        other = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "second"}
        ask(made, "user", "PATCH", "/api/v1/persistentvolumes/disk-gpu-0", {"spec": {"claimRef": other}})

    assert broken_by(as_it_should_be) is None


def test_nothing_is_checked_where_that_is_off() -> None:
    assert broken_by(one_gpu_twice, world(loops=(), invariants=False)) is None


def test_a_violation_ends_the_run_and_can_be_had_again_from_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A saboteur deletes a lease under a pod, in the name of the scheduler."""
    honest = AdminClient.create

    def sabotaged(self: AdminClient, manifest: dict[str, Any]) -> None:
        honest(self, manifest)
        if manifest["metadata"]["name"] == "signal":
            self._server.handle(Request("DELETE", f"{LEASES}/gpu-gpu-0-0"), SCHEDULER)

    monkeypatch.setattr(AdminClient, "create", sabotaged)
    spec = replace(world(nodes=1), seed=7)
    arrivals = (arrives(0, pod("victim", 8)), arrives(100, pod("signal", 0)), arrives(200, pod("later", 0)))

    result = simulate(spec, arrivals)

    assert result.violation is not None
    assert result.ended_at == pytest.approx(100)
    assert "victim" in result.violation.breach
    written = violation_file(spec, arrivals, result.violation)
    assert is_replay(written)
    again_spec, again_arrivals = load_replay(written)
    assert again_spec == spec
    assert again_arrivals == arrivals[:2]
    assert simulate(again_spec, again_arrivals).violation == result.violation


@pytest.mark.parametrize(
    ("text", "words"),
    [(b"{}", "'format'"), (b"nonsense", "malformed"), (b'{"format": "other"}', "format is other")],
    ids=["no format", "no JSON", "another format"],
)
def test_what_is_no_replay_file_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(UserError, match=words):
        load_replay(text)
