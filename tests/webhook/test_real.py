"""The webhook as a program on the real control plane: what a user meets, and what a container sees."""

import asyncio
import json
from contextlib import suppress
from typing import Any
from zlib import crc32

import pytest

from tests.contract.expect import eventually, refused
from tests.control.scheduling.fleet import add_nodes
from tests.control.scheduling.programs import Programs
from tests.webhook.kubelet import containers_of, env_of
from tests.webhook.programs import KubectlFailed, Site, WebhookProgram
from ullage.clock import WallClock
from ullage.errors import ApiError, Forbidden, Invalid, ServerFailure
from ullage.kube.admission.webhook_configs import MUTATING_NAME
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import DELETE_NOW, Binding, JsonPatch, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import GPU_CLAIMS, LEASES, MUTATING_WEBHOOKS, NAMESPACES, NODES, PODS
from ullage.model.allocation import ALLOCATED, CLAIM, CLAIM_TEMPLATE, VISIBLE_DEVICES, VISIBLE_INDICES, parse_allocation
from ullage.testing.builders import GPU, a_container, a_namespace, a_node, a_pod

pytestmark = pytest.mark.real

WHOLE = PODS.whole()
BINDINGS = Resource[JsonObject]("", "v1", "bindings", "Binding", True, dict)


@pytest.fixture
async def namespace(api: KubeApi, request: pytest.FixtureRequest) -> str:
    name = f"team-{crc32(request.node.name.encode()):08x}"
    await api.create(NAMESPACES, a_namespace(name))
    return name


async def claim(api: KubeApi, namespace: str, name: str, count: int = 1, **devices: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"devices": {"count": count, **devices}}}
    await api.create(GPU_CLAIMS, body, namespace)


@pytest.mark.usefixtures("webhook")
async def test_a_container_sees_exactly_the_gpus_leased_to_its_pod(
    site: Site, api: KubeApi, namespace: str, tmp_path: Any
) -> None:
    """kubectl creates claim and pod; webhook and scheduler do the rest; env is resolved as kubelet does."""
    node = f"node-{namespace}"
    await add_nodes(api, [node], WallClock())
    own = {"name": "CUDA_VISIBLE_DEVICES", "value": "0,1,2,3,4,5,6,7"}
    app = a_container("app") | {"env": [{"name": "SEEN", "value": "gpus=$(CUDA_VISIBLE_DEVICES)"}, own]}
    inits = [a_container("init"), a_container("sidecar") | {"restartPolicy": "Always", "env": [own]}]
    pod = a_pod("train", annotations={CLAIM: "four"}, containers=[app, a_container("second")], initContainers=inits)
    wanted = {"metadata": {"name": "four"}, "spec": {"devices": {"count": 4}, "topology": {"mode": "Required"}}}
    documents = [
        {"apiVersion": "gpu.scheduling/v1", "kind": "GpuClaim", **wanted},
        {"apiVersion": "v1", "kind": "Pod", **pod},
    ]
    with Programs(tmp_path) as programs:
        programs.scheduler(site.scheduler, "--no-leader-election")
        site.kubectl("apply", "-n", namespace, "-f", "-", stdin="\n---\n".join(map(json.dumps, documents)))

        async def stored() -> JsonObject:
            return await api.get(WHOLE, "train", namespace)

        bound = await eventually(stored, until=lambda pod: bool(pod["spec"].get("nodeName")), seconds=30)
    assert bound["spec"]["schedulerName"] == "gpu-scheduler"
    assert bound["spec"]["containers"][0]["resources"]["limits"] == {GPU: "4"}
    allocation = parse_allocation(bound["metadata"]["annotations"][ALLOCATED])
    uuids = ",".join(f"GPU-{node}-{gpu}" for gpu in allocation.devices)
    assert allocation.node == node
    assert len(allocation.devices) == 4
    for container in containers_of(bound):
        env = env_of(bound, container)
        assert (env["NVIDIA_VISIBLE_DEVICES"], env["CUDA_VISIBLE_DEVICES"]) == (uuids, uuids), container["name"]
    assert env_of(bound, bound["spec"]["containers"][0])["SEEN"] == f"gpus={uuids}"
    held = [one.metadata.name for one in (await api.list(LEASES, "ullage-system")).items
            if one.spec.holder_identity == bound["metadata"]["uid"]]  # fmt: skip
    assert sorted(held) == sorted(f"gpu-{node}-{gpu}" for gpu in allocation.devices)
    await api.delete(NODES, node)


@pytest.mark.usefixtures("webhook")
async def test_an_allocation_of_ones_own_is_stripped_at_create_and_refused_at_update(
    site: Site, alice: KubeApi, namespace: str
) -> None:
    notes = {ALLOCATED: "n:0,1", VISIBLE_DEVICES: "GPU-x", "mine": "stays"}
    await alice.create(PODS, a_pod("p", annotations=notes), namespace)
    stored = await alice.get(PODS, "p", namespace)
    assert stored.metadata.annotations == {"mine": "stays"}
    with pytest.raises(KubectlFailed, match=r"only the scheduler writes gpu\.scheduling/allocated"):
        site.kubectl("annotate", "-n", namespace, "pod", "p", f"{ALLOCATED}=n:0")
    change = MergePatch({"metadata": {"annotations": {ALLOCATED: "n:0"}}})
    with refused(Forbidden, reason="Forbidden", says="ForeignOutput"):
        await alice.patch(PODS, "p", change, namespace)
    with refused(Forbidden, reason="Forbidden", says="ForeignOutput"):
        await alice.patch(PODS, "p", change, namespace, subresource="status")
    assert (await alice.get(PODS, "p", namespace)).metadata.annotations == {"mine": "stays"}


async def test_a_binding_cannot_smuggle_an_allocation_in(
    alice: KubeApi, scheduler: KubeApi, webhook: WebhookProgram, namespace: str
) -> None:
    node = f"bind-{namespace}"
    await alice.create(NODES, a_node(node))
    await alice.create(PODS, a_pod("p", schedulerName="nobody"), namespace)
    smuggled = Binding(node, annotations={ALLOCATED: f"{node}:0"})
    with refused(Forbidden, reason="Forbidden", says="ForeignOutput"):
        await alice.bind("p", namespace, smuggled)
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    legacy = {"metadata": {"name": "p", "annotations": dict(smuggled.annotations)}, "target": target}
    with refused(Forbidden, reason="Forbidden", says="ForeignOutput"):
        await alice.create(BINDINGS, legacy, namespace)
    before = webhook.reviews()
    await scheduler.bind("p", namespace, smuggled)
    assert (await alice.get(PODS, "p", namespace)).metadata.annotations == smuggled.annotations
    assert webhook.reviews() == before, "the scheduler's own binds are not asked about"
    change = MergePatch({"metadata": {"annotations": {ALLOCATED: None}}})
    with refused(Forbidden, reason="Forbidden", says="ForeignOutput"):
        await alice.patch(PODS, "p", change, namespace)


@pytest.mark.usefixtures("webhook")
async def test_no_part_of_a_pod_lets_an_allocation_in(site: Site, alice: KubeApi, namespace: str) -> None:
    """Whatever parts of pods this API server lets anybody write to."""
    served = json.loads(site.kubectl("get", "--raw", "/api/v1"))["resources"]
    parts = [one["name"].partition("/")[2] for one in served if one["name"].startswith("pods/")]
    writable = [one for one in parts if "patch" in next(r["verbs"] for r in served if r["name"] == f"pods/{one}")]
    assert {"status", "ephemeralcontainers"} <= set(writable)
    await alice.create(PODS, a_pod("p", annotations={CLAIM: "c"}), namespace)
    for part in ["", *writable]:
        for key, value in ((ALLOCATED, "n:0"), (CLAIM, "other")):
            with suppress(ApiError):
                change = MergePatch({"metadata": {"annotations": {key: value}}})
                await alice.patch(PODS, "p", change, namespace, subresource=part)
            assert (await alice.get(PODS, "p", namespace)).metadata.annotations == {CLAIM: "c"}, part


@pytest.mark.usefixtures("webhook")
async def test_a_claim_cannot_come_late_nor_be_passed_by(alice: KubeApi, namespace: str) -> None:
    await alice.create(PODS, a_pod("plain"), namespace)
    with refused(Invalid, reason="Invalid", says="ClaimFixed"):
        await alice.patch(PODS, "plain", MergePatch({"metadata": {"annotations": {CLAIM: "c"}}}), namespace)
    with refused(Invalid, reason="Invalid", says="NodeChosen"):
        await alice.create(PODS, a_pod("p", annotations={CLAIM: "c"}, nodeName="n"), namespace)
    with refused(Invalid, reason="Invalid", says="TwoClaims"):
        await alice.create(PODS, a_pod("p", annotations={CLAIM: "c", CLAIM_TEMPLATE: "t"}), namespace)


async def test_a_pod_without_our_annotations_never_calls(
    alice: KubeApi, webhook: WebhookProgram, namespace: str
) -> None:
    before = webhook.reviews()
    await alice.create(PODS, a_pod("plain", annotations={"mine": "x"}, gpus=1), namespace)
    await alice.patch(PODS, "plain", MergePatch({"metadata": {"annotations": {"mine": "y"}}}), namespace)
    status = MergePatch({"status": {"message": "changed"}})
    await alice.patch(PODS, "plain", status, namespace, subresource="status")
    await alice.delete(PODS, "plain", namespace, how=DELETE_NOW)
    assert webhook.reviews() == before
    await alice.create(PODS, a_pod("ours", annotations={CLAIM: "c"}), namespace)
    assert webhook.reviews() == before + 2
    await alice.patch(PODS, "ours", status, namespace, subresource="status")
    assert webhook.reviews() == before + 2, "status updates that touch none of our annotations are not asked about"


async def test_while_it_is_down_only_claim_pods_wait(
    alice: KubeApi, scheduler: KubeApi, webhook: WebhookProgram, namespace: str
) -> None:
    node = f"down-{namespace}"
    await alice.create(NODES, a_node(node))
    await alice.create(PODS, a_pod("before", annotations={CLAIM: "c"}), namespace)
    assert await asyncio.to_thread(webhook.terminate) == 0
    assert webhook.said().endswith("stopped\n")
    await alice.create(PODS, a_pod("plain", gpus=1), namespace)
    with pytest.raises(ServerFailure, match="failed calling webhook"):
        await alice.create(PODS, a_pod("ours", annotations={CLAIM: "c"}), namespace)
    with pytest.raises(ApiError, match="failed calling webhook"):
        await alice.patch(PODS, "plain", MergePatch({"metadata": {"annotations": {ALLOCATED: "n:0"}}}), namespace)
    with pytest.raises(ApiError, match="failed calling webhook"):
        await claim(alice, namespace, "mine")
    await scheduler.bind("before", namespace, Binding(node, annotations={ALLOCATED: f"{node}:0"}))
    await claim(scheduler, namespace, "copy-of-a-template")
    await asyncio.to_thread(webhook.start)
    await alice.create(PODS, a_pod("ours", annotations={CLAIM: "c"}), namespace)


@pytest.mark.usefixtures("webhook")
async def test_a_claim_created_a_moment_ago_counts(alice: KubeApi, namespace: str) -> None:
    for number in range(10):
        await claim(alice, namespace, f"c{number}", count=number + 1)
        pod = await alice.create(WHOLE, a_pod(f"p{number}", annotations={CLAIM: f"c{number}"}), namespace)
        assert pod["spec"]["containers"][0]["resources"]["requests"] == {GPU: str(number + 1)}


@pytest.mark.usefixtures("webhook")
async def test_parts_of_gpus_request_none(alice: KubeApi, namespace: str) -> None:
    await claim(alice, namespace, "part", exclusivity="Shared", memory="10Gi")
    pod = await alice.create(WHOLE, a_pod("p", annotations={CLAIM: "part"}), namespace)
    assert "limits" not in pod["spec"]["containers"][0]["resources"]


@pytest.mark.usefixtures("webhook")
async def test_ephemeral_containers_see_the_same(alice: KubeApi, scheduler: KubeApi, namespace: str) -> None:
    node = f"debug-{namespace}"
    await alice.create(NODES, a_node(node))
    await alice.create(PODS, a_pod("p", annotations={CLAIM: "c"}), namespace)
    await scheduler.bind("p", namespace, Binding(node, annotations={ALLOCATED: f"{node}:1", VISIBLE_DEVICES: "GPU-1"}))
    for number in range(2):
        debug = {"name": f"debug-{number}", "image": "example.com/debug:1"}
        pod = await alice.get(WHOLE, "p", namespace)
        known = pod["spec"].get("ephemeralContainers", [])
        pod["spec"]["ephemeralContainers"] = [*known, debug]
        await alice.replace(WHOLE, pod, subresource="ephemeralcontainers")
    stored = await alice.get(WHOLE, "p", namespace)
    seen = [env_of(stored, container)["CUDA_VISIBLE_DEVICES"] for container in containers_of(stored)]
    assert seen == ["GPU-1"] * 3


@pytest.mark.usefixtures("webhook")
async def test_a_claim_in_use_and_an_impossible_one(alice: KubeApi, scheduler: KubeApi, namespace: str) -> None:
    node = f"held-{namespace}"
    await alice.create(NODES, a_node(node))
    await claim(alice, namespace, "c", count=2)
    more = MergePatch({"spec": {"devices": {"count": 3}}})
    await alice.patch(GPU_CLAIMS, "c", MergePatch({"spec": {"devices": {"count": 1}}}), namespace)
    await alice.create(PODS, a_pod("p", annotations={CLAIM: "c"}), namespace)
    await scheduler.bind("p", namespace, Binding(node, annotations={ALLOCATED: f"{node}:0"}))
    with refused(Invalid, reason="Invalid", says="while a pod holds GPUs by it"):
        await alice.patch(GPU_CLAIMS, "c", more, namespace)
    labels = MergePatch({"metadata": {"labels": {"a": "b"}}})
    await alice.patch(GPU_CLAIMS, "c", labels, namespace)
    await alice.delete(PODS, "p", namespace, how=DELETE_NOW)
    await alice.patch(GPU_CLAIMS, "c", more, namespace)
    with pytest.raises(Invalid, match="16"):
        await claim(alice, namespace, "huge", count=17)


@pytest.mark.usefixtures("webhook")
async def test_what_the_scheduler_allocated_before_becomes_literal(scheduler: KubeApi, namespace: str) -> None:
    notes = {CLAIM: "c", ALLOCATED: "n:0,1", VISIBLE_DEVICES: "GPU-a,GPU-b"}
    pod = await scheduler.create(WHOLE, a_pod("p", annotations=notes), namespace)
    assert pod["metadata"]["annotations"] == notes
    values = [entry["value"] for entry in pod["spec"]["containers"][0]["env"]]
    assert values == ["GPU-a,GPU-b", "GPU-a,GPU-b"]


@pytest.mark.full
async def test_by_index_the_hosts_numbers_are_seen(
    site: Site, alice: KubeApi, scheduler: KubeApi, webhook: WebhookProgram, namespace: str, tmp_path: Any
) -> None:
    node = f"index-{namespace}"
    await alice.create(NODES, a_node(node))
    await asyncio.to_thread(webhook.terminate)
    with WebhookProgram(site, tmp_path, "--visible-devices", "index"):
        await alice.create(PODS, a_pod("p", annotations={CLAIM: "c"}), namespace)
    await asyncio.to_thread(webhook.start)
    notes = {ALLOCATED: f"{node}:2,3", VISIBLE_DEVICES: "GPU-2,GPU-3", VISIBLE_INDICES: "2,3"}
    await scheduler.bind("p", namespace, Binding(node, annotations=notes))
    stored = await alice.get(WHOLE, "p", namespace)
    assert env_of(stored, stored["spec"]["containers"][0]) == {
        "NVIDIA_VISIBLE_DEVICES": "all",
        "CUDA_VISIBLE_DEVICES": "2,3",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


EVERYTHING = [{"operator": "Exists"}]
ALL_GPUS = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}


@pytest.mark.usefixtures("webhook")
async def test_pods_without_a_claim_do_not_come_to_leased_gpus(alice: KubeApi, api: KubeApi, namespace: str) -> None:
    """Whoever tolerates everything and wants to see all GPUs, by whatever scheduler; and whoever runs everywhere."""
    greedy = a_pod("greedy", containers=[a_container() | {"env": [ALL_GPUS]}], tolerations=EVERYTHING)
    plain = a_pod("plain", gpus=1, tolerations=EVERYTHING, schedulerName="gpu-scheduler")
    for body in (greedy, plain):
        stored = await alice.create(WHOLE, body, namespace)
        required = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        unwanted = {"key": "gpu.scheduling/node-kind", "operator": "NotIn", "values": ["leased"]}
        assert required["nodeSelectorTerms"] == [{"matchExpressions": [unwanted]}]
    logs = await alice.create(WHOLE, a_pod("logs", tolerations=EVERYTHING), namespace)
    assert logs["spec"]["containers"][0]["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    assert "affinity" not in logs["spec"]
    quiet = await alice.create(WHOLE, a_pod("quiet", gpus=1), namespace)
    assert "affinity" not in quiet["spec"]
    with refused(Forbidden, reason="Forbidden", says="LeasedTolerated: "):
        late = {"op": "add", "path": "/spec/tolerations/-", "value": EVERYTHING[0]}
        await alice.patch(PODS, "quiet", JsonPatch([late]), namespace)
    await api.patch(NAMESPACES, namespace, MergePatch({"metadata": {"labels": {"gpu.scheduling/unconfined": "true"}}}))

    async def let_in() -> JsonObject:
        with suppress(ApiError):
            await alice.delete(PODS, "exporter", namespace, how=DELETE_NOW)
        return await alice.create(WHOLE, a_pod("exporter", **greedy["spec"]), namespace)

    exporter = await eventually(let_in, until=lambda pod: "affinity" not in pod["spec"], seconds=60)
    assert exporter["spec"]["containers"][0]["env"] == [ALL_GPUS]


@pytest.mark.usefixtures("webhook")
async def test_a_claim_that_changes_after_the_pod_came_brings_it_to_no_other_kind_of_node(
    alice: KubeApi, namespace: str
) -> None:
    counted = {"selector": {"matchLabels": {"gpu.scheduling/node-kind": "counted"}}}
    await alice.create(GPU_CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": {"count": 1}, **counted}}, namespace)
    pod = a_pod("p", annotations={CLAIM: "c"}, containers=[a_container() | {"env": [ALL_GPUS]}])
    stored = await alice.create(WHOLE, pod, namespace)
    await alice.patch(GPU_CLAIMS, "c", MergePatch({"spec": {"selector": None}}), namespace)
    assert stored["spec"]["nodeSelector"] == {"gpu.scheduling/node-kind": "counted"}
    assert not any(one["key"] == "gpu.scheduling/leased" for one in stored["spec"]["tolerations"])


@pytest.mark.usefixtures("webhook")
async def test_ways_around_the_env_are_refused(alice: KubeApi, namespace: str) -> None:
    await claim(alice, namespace, "c")
    privileged = a_container() | {"securityContext": {"privileged": True}}
    with refused(Forbidden, reason="Forbidden", says="Unconfined: "):
        await alice.create(PODS, a_pod("p", annotations={CLAIM: "c"}, containers=[privileged]), namespace)


async def test_the_webhooks_own_role_is_to_rotate_what_is_trusted(webhook: WebhookProgram, site: Site) -> None:
    assert webhook.reviews() >= 0
    own = connect(site.webhook)
    try:
        body = {"metadata": {"name": "more"}, "webhooks": []}
        with pytest.raises(Forbidden):
            await own.create(MUTATING_WEBHOOKS, body)
        with pytest.raises(Forbidden):
            await own.delete(MUTATING_WEBHOOKS, MUTATING_NAME)
        with pytest.raises(Forbidden):
            await own.patch(PODS, "p", MergePatch({}), "default")
        there = await own.get(MUTATING_WEBHOOKS, MUTATING_NAME)
        assert all(hook["clientConfig"]["caBundle"] for hook in there["webhooks"])
    finally:
        await own.close()
