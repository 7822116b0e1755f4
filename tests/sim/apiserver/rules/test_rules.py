"""Small pure rules: quantities, names, and what a typed decoder does to objects."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.apiserver.asking import MAPS, Client
from ullage.model.quantity import quantity
from ullage.sim.apiserver.kinds.registry import KindRegistry
from ullage.sim.apiserver.request import names
from ullage.sim.apiserver.rules.builtin import builtin_kinds
from ullage.sim.apiserver.types.object_schemas import object_schema
from ullage.sim.apiserver.types.quantities import canonical
from ullage.sim.apiserver.types.shapes import WrongType
from ullage.testing.controlplane.versions import KUBERNETES_RELEASES


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("2000m", "2"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("100000000", "100M"),
        ("1500", "1500"),
        ("8", "8"),
        ("0", "0"),
        ("1e3", "1e3"),
        ("12e6", "12e6"),
        ("1Ki", "1Ki"),
        ("512", "512"),
        ("0.1", "100m"),
        ("3920m", "3920m"),
        ("1000Ki", "1000Ki"),
        ("1Ei", "1Ei"),
    ],
)
def test_quantities_have_one_form(written: str, stored: str) -> None:
    assert canonical(written) == stored


@given(st.integers(0, 10**15), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi"]))
def test_the_one_form_is_the_same_amount(number: int, suffix: str) -> None:
    assert quantity(canonical(f"{number}{suffix}")) == quantity(f"{number}{suffix}")
    assert canonical(canonical(f"{number}{suffix}")) == canonical(f"{number}{suffix}")


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (names.dns_label, ["a", "a-1", "0"], ["", "A", "-a", "a-", "a.b", "x" * 64]),
        (names.dns_subdomain, ["a.b", "a", "0.0"], ["", "A", ".a", "a..b", "x" * 254]),
        (names.qualified_name, ["a", "A_b", "x.y/z"], ["", "/a", "a/", "a/b/c", "a b", "X!/a", "x" * 64]),
        (names.label_value, ["", "a", "1.2_3-4"], ["-a", "a b", "x" * 64, "2026-01-01T00:00:00Z"]),
        (names.config_key, ["a.b", "A_B", "..".join("ab")], ["", ".", "..", "..a", "a b", "x" * 254]),
    ],
    ids=["label", "subdomain", "qualified", "label-value", "config-key"],
)
def test_names(rule: Any, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if rule(text)] == []
    assert [text for text in bad if not rule(text)] == []


POD = object_schema("core.v1.Pod")


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        pytest.param(
            {"nodeName": "", "hostNetwork": False, "nodeSelector": {}, "tolerations": []}, {}, id="empty-values-go"
        ),
        pytest.param(
            {"priority": 0, "securityContext": {}}, {"priority": 0, "securityContext": {}}, id="what-can-be-unset-stays"
        ),
        pytest.param(
            {"zz": 1, "tolerations": [{"key": "a", "zz": 2}]}, {"tolerations": [{"key": "a"}]}, id="unknown-fields-go"
        ),
        pytest.param(
            {"containers": [{"image": "", "name": ""}]},
            {"containers": [{"name": ""}]},
            id="what-go-always-writes-stays",
        ),
    ],
)
def test_a_typed_decoder_forgets(sent: dict[str, Any], kept: dict[str, Any]) -> None:
    assert POD.typed({"kind": "Pod", "spec": sent, "unknown": 1}, "Pod") == {"kind": "Pod", "spec": kept}


def test_fields_are_written_in_the_order_of_their_declaration() -> None:
    typed = POD.typed({"spec": {"nodeName": "n", "containers": [], "volumes": [{"name": "v"}]}}, "Pod")
    assert list(typed["spec"]) == ["volumes", "nodeName"]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"nodeName": 1}, "json: cannot unmarshal number into Go struct field Pod.spec.nodeName of type string"),
        ({"volumes": {}}, "json: cannot unmarshal object into Go struct field Pod.spec.volumes of type []object"),
        (
            {"nodeSelector": {"k": 1}},
            "json: cannot unmarshal number into Go struct field Pod.spec.nodeSelector of type string",
        ),
        ({"priority": True}, "json: cannot unmarshal bool into Go struct field Pod.spec.priority of type int32"),
        ("text", "json: cannot unmarshal string into Go struct field Pod.spec of type object"),
    ],
)
def test_a_typed_decoder_refuses(spec: Any, says: str) -> None:
    with pytest.raises(WrongType) as refused:
        POD.typed({"spec": spec}, "Pod")
    assert str(refused.value) == says


def test_versions_are_preferred_as_kubernetes_does() -> None:
    registry = KindRegistry(builtin_kinds())
    kind = registry.find("apps", "v1", "deployments")
    assert kind is not None
    for version in ("v1alpha1", "v1beta2", "v2", "v10", "v1beta1", "nonsense"):
        registry.add(kind.in_version(version))
    assert registry.groups()["apps"] == ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "nonsense"]


def test_all_kinds_are_discovered_with_their_parts(client: Client) -> None:
    listed = {resource["name"]: resource for resource in client.get("/api/v1").body["resources"]}
    assert {"pods", "pods/binding", "pods/eviction", "pods/status", "nodes", "namespaces/finalize"} <= listed.keys()
    assert listed["pods"]["shortNames"] == ["po"]
    assert listed["pods/eviction"]["group"] == "policy"
    assert client.get("/version").body["gitVersion"].startswith(next(iter(KUBERNETES_RELEASES.values())))
    for path in ("/readyz", "/healthz", "/livez"):
        assert client.get(path).body == "ok"


@pytest.mark.parametrize(
    ("metadata", "causes"),
    [
        ({"name": "B_"}, [("metadata.name", "FieldValueInvalid")]),
        ({}, [("metadata.name", "FieldValueRequired")]),
        ({"name": "a", "labels": {"a b": "x"}}, [("metadata.labels", "FieldValueInvalid")]),
        ({"name": "a", "finalizers": ["plain"]}, [("metadata.finalizers[0]", "FieldValueInvalid")]),
        ({"name": "a", "ownerReferences": [{"kind": "Pod", "apiVersion": "v1", "uid": "u"}]},
         [("metadata.ownerReferences[0].name", "FieldValueRequired")]),
    ],
)  # fmt: skip
def test_metadata_is_judged_by_field(client: Client, metadata: Any, causes: list[tuple[str, str]]) -> None:
    answer = client.post(MAPS, {"metadata": metadata})
    assert (answer.status, answer.causes) == (422, causes)
