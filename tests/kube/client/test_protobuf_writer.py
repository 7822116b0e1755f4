"""The binary form of what a scheduler writes: the real API server reads from it what it would read from JSON."""

from typing import Any

import pytest

from ullage.errors import AlreadyExists, Invalid
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import Binding
from ullage.kube.client.protobuf_writer import compact
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import EVENTS, LEASES, NAMESPACES, PODS
from ullage.testing.builders import a_pod
from ullage.testing.controlplane import ControlPlane

LEASE = {
    "metadata": {"name": "a", "labels": {"x": "y", "z": ""}, "annotations": {"gpu": "0,1", "note": "ü" * 200}},
    "spec": {
        "holderIdentity": "uid",
        "leaseDurationSeconds": 300,
        "acquireTime": "2026-01-02T03:04:05.000006Z",
        "renewTime": "2026-01-02T03:04:05.999999Z",
        "leaseTransitions": 0,
    },
}
POD = {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p", "uid": "u"}
EVENT = {
    "metadata": {"name": "a"},
    "eventTime": "2026-01-02T03:04:05.000006Z",
    "reportingController": "ullage.dev/scheduler",
    "reportingInstance": "one",
    "action": "Binding",
    "reason": "Scheduled",
    "type": "Normal",
    "regarding": POD,
    "related": {**POD, "name": "q"},
    "note": "assigned",
    "series": {"count": 3, "lastObservedTime": "2026-01-02T03:04:06.000000Z"},
}


@pytest.mark.real
@pytest.mark.parametrize(("resource", "body"), [(LEASES, LEASE), (EVENTS, EVENT)], ids=["Lease", "Event"])
async def test_it_is_read_as_json_is(control_plane: ControlPlane, resource: Resource[Any], body: JsonObject) -> None:
    whole = resource.whole()
    named = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    assert compact(named) is not None
    api = connect(control_plane.kubeconfig)
    try:
        binary = await api.create(whole, _named(body, "binary"), "default")
        # A field the binary form does not know makes it go as JSON.
        written = await api.create(whole, _named(body, "json", finalizers=[]), "default")
        with pytest.raises(AlreadyExists, match="binary"):
            await api.create(whole, _named(body, "binary"), "default")
        with pytest.raises(Invalid, match="Not A Name"):
            await api.create(whole, _named(body, "Not A Name"), "default")
    finally:
        await api.close()
    assert _said(binary) == _said(written)
    assert binary["metadata"]["name"] == "binary"


@pytest.mark.real
async def test_a_bind_carries_its_annotations_and_preconditions(control_plane: ControlPlane) -> None:
    api = connect(control_plane.kubeconfig)
    try:
        await api.create(NAMESPACES, {"metadata": {"name": "compact"}})
        made = await api.create(PODS, a_pod("p"), "compact")
        meta = made.metadata
        asked = Binding("n1", uid=meta.uid, resource_version=meta.resource_version, annotations={"a": "b"})
        await api.bind("p", "compact", asked)
        bound = await api.get(PODS, "p", "compact")
    finally:
        await api.close()
    assert (bound.spec.node_name, bound.metadata.annotations) == ("n1", {"a": "b"})


@pytest.mark.parametrize(
    "written",
    [
        pytest.param({"apiVersion": "v1", "kind": "Pod"}, id="another-kind"),
        pytest.param({"apiVersion": "v1", "kind": "Binding", "spec": {}}, id="another-field"),
        pytest.param({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": 5}}, id="another-type"),
        pytest.param({"apiVersion": "v1", "kind": "Binding", "metadata": None}, id="nothing"),
        pytest.param(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"renewTime": "soon"}}, id="no-moment"
        ),
        pytest.param(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"renewTime": "2026-01-02T03:04:05Z"}},
            id="whole-seconds",
        ),
        pytest.param(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"leaseTransitions": True}},
            id="no-number",
        ),
        pytest.param(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"leaseTransitions": 1 << 31}},
            id="too-large-a-number",
        ),
    ],
)
def test_what_has_no_binary_form_goes_as_json(written: JsonObject) -> None:
    assert compact(written) is None


def _named(body: JsonObject, name: str, **more: Any) -> JsonObject:
    return {**body, "metadata": {**body["metadata"], "name": name, **more}}


def _said(thing: JsonObject) -> JsonObject:
    """Everything but what the server adds to each object."""
    own = ("labels", "annotations", "finalizers")
    return {**thing, "metadata": {key: value for key, value in thing["metadata"].items() if key in own}}
