"""Our kinds on a real API server: definitions are accepted, bad objects are refused by name, kubectl shows them."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.expect import eventually
from tests.kube.crds.bad_objects import CLAIMS, NODES, QUOTAS, Bad, devices
from ullage.errors import Invalid, Unreadable, UserError
from ullage.kube.access import Access
from ullage.kube.api import JsonPatch, KubeApi, MergePatch
from ullage.kube.connect import find_access, open_api
from ullage.kube.crds.catalog import GPU_CLAIM, OURS, POD_GROUP
from ullage.kube.crds.check import violations
from ullage.kube.crds.definition import Definition
from ullage.kube.crds.install import install
from ullage.kube.encoding import to_json
from ullage.kube.gpu_read import read_claim
from ullage.kube.objects.gpu import GpuClaim
from ullage.kube.resource import JsonObject, Resource
from ullage.kube.resources import CRDS, GPU_CLAIMS, GPU_NODE_STATUSES, GPU_QUOTAS, NAMESPACES
from ullage.testing.builders import a_crd
from ullage.testing.controlplane import ControlPlane, Program
from ullage.testing.controlplane.binaries import find

pytestmark = pytest.mark.real

CLAIM = GPU_CLAIMS.whole()
LEFT_OUT = object()


@pytest.fixture(scope="module")
def access(control_plane: ControlPlane) -> Access:
    """The way into a server that knows our kinds."""
    found = find_access(control_plane.kubeconfig)

    async def prepare() -> None:
        api = open_api(found, seed=0)
        try:
            await install(api, (*OURS, POD_GROUP))
        finally:
            await api.close()

    asyncio.run(prepare())
    return found


@pytest.fixture
async def api(access: Access) -> AsyncIterator[KubeApi]:
    opened = open_api(access, seed=0)
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
async def ns(api: KubeApi) -> str:
    made = await api.create(NAMESPACES, {"metadata": {"generateName": "kinds-"}})
    return made.metadata.name


async def kubectl(plane: ControlPlane, *arguments: str) -> str:
    command = [str(find(Program.KUBECTL)), "--kubeconfig", str(plane.kubeconfig), *arguments]
    # No cache: what was discovered before our kinds were installed must not be believed.
    environment = {"KUBECACHEDIR": str(plane.kubeconfig.with_name("kubectl-cache")), "PATH": ""}
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("definition", [*OURS, POD_GROUP], ids=lambda definition: definition.resource.kind)
async def test_definitions_are_accepted_and_structural(api: KubeApi, definition: Definition) -> None:
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
            "gclaim.spec.devices", ["count\t<integer>", "How many GPUs", "enum: contiguous, spread"], id="claim"
        ),
        pytest.param("gclaim.spec.devices.memory", ["such as 40Gi"], id="memory-of-a-claim"),
        pytest.param("gns.status.devices", ["uuid\t<string> -required-", "NVLink island"], id="device"),
        pytest.param("gq.spec", ["byModel\t<map[string]integer>", "Whole GPUs of each model."], id="quota"),
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
    definition = Definition(resource=twin, short_names=(), columns=())
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


SOUND = st.fixed_dictionaries(
    {
        "count": st.integers(1, 3),
        "exclusivity": st.sampled_from(["Exclusive", "Shared", "MIG"]),
        "memory": st.sampled_from(["1Gi", "0.5Gi", "10e3", "1E", "5.", ".5k", 1]),
    },
    optional={
        "policy": st.sampled_from(["contiguous", "spread"]),
        "tflops": st.integers(1, 3),
        "model": st.just("A 1"),
    },
)
"""What may be asked of devices."""

ODD: dict[str, list[Any]] = {
    "devices.count": [0, 2, 16, 17],
    "devices.policy": ["preferIds", "none"],
    "devices.preferIds": [[], [0], [0, 1], [1, 1], [2, 1, 0], [-1], [16]],
    "devices.exclusivity": ["Shared", "MIG", "shared"],
    "devices.memory": [LEFT_OUT, LEFT_OUT, "0", "0.0Gi", "1Zi", "-1", "1e3m", "1e100", "0e9", 0, "9" * 33],
    "devices.tflops": [0, LEFT_OUT],
    "devices": [LEFT_OUT],
    "selector.matchLabels": [
        {"zone": ""},
        {"a.b/Zone_1": "A.b"},
        {"-zone": "a"},
        {"": "a"},
        {"zone": "-"},
        {"a/b/c": "d"},
    ],
    "topology.mode": ["Required", "any"],
    "topology.minBandwidthGBps": [0, -1],
    "gangRef": ["g", "a.b", "A"],
    "gangMinMember": [0, 1],
    "pool": ["p", "p.", "x" * 253, "x" * 254],
}
"""What may be put in place of it: much of it wrong, some of it only together with something else."""


@st.composite
def specs(draw: st.DrawFn) -> JsonObject:
    """A sound claim with up to three oddities."""
    spec: JsonObject = {"devices": draw(SOUND)}
    for path in draw(st.lists(st.sampled_from(sorted(ODD)), max_size=3, unique=True)):
        *parents, last = path.split(".")
        place = spec
        for parent in parents:
            place = place.setdefault(parent, {})
        value = draw(st.sampled_from(ODD[path]))
        if value is LEFT_OUT:
            place.pop(last, None)
        else:
            place[last] = value
    return spec


@given(specs())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_our_judgement_of_a_claim_is_the_servers(api: KubeApi, spec: JsonObject) -> None:
    """And what it accepts comes back through our structs as it was, defaults filled in."""
    body = {"metadata": {"name": "a"}, "spec": spec}
    ours = msgspec.convert(body, GpuClaim)
    try:
        stored = await api.create(CLAIM, body, "default", dry_run=True)
    except Invalid as invalid:
        theirs = {cause.field.partition("[")[0] for cause in invalid.causes}
        found = {violation.field.partition("[")[0] for violation in violations(ours.spec, "spec")}
        # With a word outside a closed list the server does not come to check rules, and says so with "<nil>".
        assert found == theirs if "<nil>" not in theirs else theirs - {"<nil>"} <= found
        with pytest.raises(Unreadable):
            read_claim(ours)
        return
    back = msgspec.convert(stored, GpuClaim)
    assert back.spec == ours.spec
    assert read_claim(back).ask == read_claim(ours).ask
    again = await api.create(CLAIM, {"metadata": {"name": "a"}, "spec": to_json(back.spec)}, "default", dry_run=True)
    assert msgspec.convert(again, GpuClaim).spec == back.spec
