"""Our kinds on a real API server: definitions are accepted, bad objects are refused by name, kubectl shows them."""

import asyncio
import subprocess

import pytest

from tests.contract.expect import eventually
from tests.kube.crds.bad_objects import CLAIMS, NODES, QUOTAS, Bad, devices
from ullage.errors import Invalid, UserError
from ullage.kube.client.api import JsonPatch, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import CRDS, GPU_CLAIMS, GPU_NODE_STATUSES, GPU_QUOTAS
from ullage.kube.crds.catalog import GPU_CLAIM, OURS, POD_GROUP
from ullage.kube.crds.definition import CrdDefinition
from ullage.kube.crds.install import install
from ullage.kube.objects.gpu import GpuClaim
from ullage.testing.builders import a_crd
from ullage.testing.controlplane import ControlPlane, GoProgram
from ullage.testing.controlplane.binaries import find

pytestmark = pytest.mark.real

CLAIM = GPU_CLAIMS.whole()


async def kubectl(plane: ControlPlane, *arguments: str) -> str:
    command = [str(find(GoProgram.KUBECTL)), "--kubeconfig", str(plane.kubeconfig), *arguments]
    # No cache: what was discovered before our kinds were installed must not be believed.
    environment = {"KUBECACHEDIR": str(plane.kubeconfig.with_name("kubectl-cache")), "PATH": ""}
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("definition", [*OURS, POD_GROUP], ids=lambda definition: definition.resource.kind)
async def test_definitions_are_accepted_and_structural(api: KubeApi, definition: CrdDefinition) -> None:
    crd = await api.get(CRDS, definition.resource.id)
    conditions = {one["type"]: one["status"] for one in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}, "NonStructuralSchema would be here"
    assert crd["spec"]["names"]["shortNames"] == list(definition.short_names)
    assert crd["spec"]["names"]["categories"] == ["ullage"]


@pytest.mark.parametrize("bad", [*CLAIMS, *QUOTAS, *NODES])
async def test_a_bad_object_is_refused_and_the_field_is_named(api: KubeApi, bad: Bad) -> None:
    namespace = "default" if bad.resource.namespaced else ""
    with pytest.raises(Invalid) as caught:
        await api.create(bad.resource.whole(), bad.body("x"), namespace, dry_run=True)
    assert bad.says in caught.value.message
    assert any(cause.field.startswith(bad.field) for cause in caught.value.causes), caught.value.causes


async def test_a_claim_cannot_change_while_it_holds_gpus(api: KubeApi, ns: str) -> None:
    await api.create(CLAIM, {"metadata": {"name": "a"}, "spec": {}}, ns)
    await api.patch(CLAIM, "a", MergePatch({"spec": devices(count=2)}), ns)
    for phase in ("Reserved", "Bound"):
        await api.patch(CLAIM, "a", MergePatch({"status": {"phase": phase}}), ns, subresource="status")
        with pytest.raises(Invalid, match="cannot change while the claim holds GPUs") as caught:
            await api.patch(CLAIM, "a", MergePatch({"spec": devices(count=3)}), ns)
        assert [cause.field for cause in caught.value.causes] == ["spec"]
        await api.patch(CLAIM, "a", MergePatch({"metadata": {"labels": {"phase": phase}}}), ns)
    await api.patch(CLAIM, "a", MergePatch({"status": {"phase": "Pending"}}), ns, subresource="status")
    changed = await api.patch(CLAIM, "a", MergePatch({"spec": devices(count=3)}), ns)
    assert changed["spec"]["devices"]["count"] == 3


A_DEVICE = {"id": 0, "uuid": "GPU-0", "model": "H100", "memory": "80Gi", "health": "Healthy"}


@pytest.mark.parametrize(
    ("status", "field", "says"),
    [
        pytest.param({"total": 17}, "status.total", "less than or equal to 16", id="more-gpus-than-a-node-has"),
        pytest.param({"kind": "Rented"}, "status.kind", "Unsupported value", id="unknown-kind"),
        pytest.param({"observedAt": "today"}, "status.observedAt", "must be of type date-time", id="no-time"),
        pytest.param(
            {"devices": [A_DEVICE, A_DEVICE]}, "status.devices[1]", "Duplicate value", id="two-gpus-of-one-id"
        ),
        pytest.param(
            {"devices": [{"id": 1}]}, "status.devices[0].uuid", "Required value", id="a-gpu-nobody-knows-anything-of"
        ),
        pytest.param(
            {"devices": [A_DEVICE | {"health": "Ill"}]}, "status.devices[0].health", "Unsupported", id="unknown-health"
        ),
        pytest.param(
            {
                "conditions": [
                    {"type": "Ready", "status": "Yes", "reason": "A", "lastTransitionTime": "2030-01-01T00:00:00Z"}
                ]
            },
            "status.conditions[0].status",
            "Unsupported value",
            id="condition-that-is-neither-true-nor-false",
        ),
    ],
)
async def test_a_bad_report_is_refused_and_the_field_is_named(
    api: KubeApi, ns: str, status: JsonObject, field: str, says: str
) -> None:
    whole, name = GPU_NODE_STATUSES.whole(), f"{ns}-node"
    await api.create(whole, {"metadata": {"name": name}, "spec": {"nodeName": name}})
    with pytest.raises(Invalid) as caught:
        await api.patch(whole, name, MergePatch({"status": status}), subresource="status")
    assert says in caught.value.message
    assert field in {cause.field for cause in caught.value.causes}


async def test_kubectl_shows_claims(api: KubeApi, control_plane: ControlPlane, ns: str) -> None:
    spec = {"devices": {"count": 2, "model": "H100", "memory": "40Gi"}, "gangRef": "g", "pool": "p"}
    await api.create(CLAIM, {"metadata": {"name": "a"}, "spec": spec}, ns)
    status = {"phase": "Bound", "nodeName": "node-a", "gpuIds": [1, 3], "message": "placed"}
    await api.patch(CLAIM, "a", MergePatch({"status": status}), ns, subresource="status")
    head, row = (await kubectl(control_plane, "get", "gclaim", "-n", ns)).splitlines()
    assert head.split() == ["NAME", "PHASE", "NODE", "GPUS", "COUNT", "MODEL", "GANG", "AGE"]
    assert row.split()[:-1] == ["a", "Bound", "node-a", "[1,3]", "2", "H100", "g"]
    _, wide = (await kubectl(control_plane, "get", "gclaim", "-n", ns, "-o", "wide")).splitlines()
    assert wide.split()[7:-1] == ["contiguous", "Exclusive", "40Gi", "p", "placed"]
    chosen = await kubectl(
        control_plane, "get", "gclaim", "-n", ns, "-o", "name", "--field-selector", "status.phase=Bound"
    )
    assert chosen == "gpuclaim.gpu.scheduling/a\n"
    others = await kubectl(control_plane, "get", "gclaim", "-n", ns, "-o", "name", "--field-selector", "spec.gangRef=h")
    assert others == ""


async def test_kubectl_shows_nodes_and_quotas(api: KubeApi, control_plane: ControlPlane, ns: str) -> None:
    node, whole = f"{ns}-node", GPU_NODE_STATUSES.whole()
    await api.create(whole, {"metadata": {"name": node}, "spec": {"nodeName": node}})
    observed = {"total": 8, "healthy": 7, "kind": "Leased", "observedAt": "2020-01-01T00:00:00Z", "devices": [A_DEVICE]}
    await api.patch(whole, node, MergePatch({"status": observed}), subresource="status")
    head, row = (await kubectl(control_plane, "get", "gns", node)).splitlines()
    assert head.split() == ["NAME", "TOTAL", "HEALTHY", "KIND", "MODEL", "UPDATED", "AGE"]
    assert row.split()[:5] == [node, "8", "7", "Leased", "H100"]
    assert "y" in row.split()[5], "years ago"

    await api.create(GPU_QUOTAS.whole(), {"metadata": {"name": "q"}, "spec": {"gpus": 8}}, ns)
    used = MergePatch({"status": {"used": {"gpus": 3}}})
    await api.patch(GPU_QUOTAS.whole(), "q", used, ns, subresource="status")
    head, row = (await kubectl(control_plane, "get", "gq", "-n", ns)).splitlines()
    assert head.split() == ["NAME", "GPUS", "USED", "AGE"]
    assert row.split()[:3] == ["q", "8", "3"]
    assert "gpuquota.gpu.scheduling/q" in await kubectl(control_plane, "get", "ullage", "-n", ns, "-o", "name")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param(
            "gclaim.spec.devices", ["count\t<integer>", "Number of GPUs", "enum: contiguous, spread"], id="claim"
        ),
        pytest.param("gclaim.spec.devices.memory", ["such as 40Gi"], id="memory-of-a-claim"),
        pytest.param("gns.status.devices", ["uuid\t<string> -required-", "NVLink island"], id="device"),
        pytest.param("gq.spec", ["byModel\t<map[string]integer>", "Whole GPUs by model"], id="quota"),
    ],
)
@pytest.mark.usefixtures("api")
async def test_kubectl_explains_our_fields(control_plane: ControlPlane, path: str, words: list[str]) -> None:
    async def explain() -> str:
        return await kubectl(control_plane, "explain", path)

    # The OpenAPI document follows a new definition within a second or so.
    said = await eventually(explain, until=lambda text: "FIELD" in text, seconds=30)
    assert [word for word in words if word not in said] == []


async def test_kubectl_refuses_a_misspelt_field(control_plane: ControlPlane, api: KubeApi, ns: str) -> None:
    body = GPU_CLAIM.resource.api_version
    claim = f'{{"apiVersion":"{body}","kind":"GpuClaim","metadata":{{"name":"a"}},"spec":{{"device":{{"count":2}}}}}}'
    manifest = control_plane.kubeconfig.with_name("misspelt.json")
    manifest.write_text(claim)
    said = await kubectl(control_plane, "create", "-n", ns, "-f", str(manifest))
    assert 'unknown field "spec.device"' in said
    assert (await api.list(CLAIM, ns)).items == []


async def test_a_name_taken_by_another_kind_is_said(api: KubeApi) -> None:
    rival = Resource[JsonObject]("rival.ullage.dev", "v1", "gadgets", "RivalGadget", True, dict)
    await api.create(CRDS, a_crd(rival, {}))
    twin = Resource("rival.ullage.dev", "v1", "others", "RivalGadget", True, GpuClaim)
    definition = CrdDefinition(resource=twin, short_names=(), columns=())
    try:
        with pytest.raises(UserError, match=r"others\.rival\.ullage\.dev: .* already in use"):
            await install(api, (definition,), seconds=30)
    finally:
        for resource in (rival, twin):
            await api.delete(CRDS, resource.id)


async def test_an_installed_definition_is_brought_up_to_date(api: KubeApi) -> None:
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/pool/maxLength"
    await api.patch(CRDS, GPU_CLAIMS.id, JsonPatch([{"op": "replace", "path": path, "value": 5}]))
    await install(api)
    crd = await api.get(CRDS, GPU_CLAIMS.id)
    assert crd["spec"]["versions"] == GPU_CLAIM.written()["spec"]["versions"]
