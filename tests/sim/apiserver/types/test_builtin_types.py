"""The table of built-in types is what the published Go types say, and schemas are derived from it."""

import shutil

import pytest

from ullage.sim.apiserver.merge.merge_schema import MergeKind, MergeSchema
from ullage.sim.apiserver.merge.type_merging import merge_schema_of
from ullage.sim.apiserver.release import RELEASE
from ullage.sim.apiserver.types.catalog import base_type, catalog
from ullage.sim.apiserver.types.generate import PACKAGES, ROOTS, TABLE, table
from ullage.testing.controlplane.versions import KUBERNETES_RELEASES


@pytest.mark.full
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go, which reads the types")
def test_the_table_is_what_the_go_types_say() -> None:
    assert table() == TABLE.read_text(encoding="utf-8")


def test_the_types_are_those_of_the_usual_api_server() -> None:
    assert f"v{RELEASE}" == next(iter(KUBERNETES_RELEASES.values()))


def test_every_type_a_field_names_is_in_the_table() -> None:
    known = catalog()
    for kind in known.values():
        for one in kind.fields.values():
            base = base_type(one.type)
            assert "." not in base or base in known, f"{kind.name}.{one.name}"
    assert {f"{package}.{kind}" for package, kinds in ROOTS.items() for kind in kinds.split()} <= known.keys()
    assert {name.rpartition(".")[0] for name in known} == PACKAGES.keys()


def at(kind: str, path: str) -> MergeSchema:
    schema = merge_schema_of(kind)
    for name in path.split("."):
        schema = schema.rest if name == "*" and schema.rest is not None else schema.member(name)
    return schema


@pytest.mark.parametrize(
    ("path", "kind", "keys", "patch_key"),
    [
        ("spec.containers", MergeKind.KEYED, ("name",), "name"),
        ("spec.containers.*.ports", MergeKind.KEYED, ("containerPort", "protocol"), "containerPort"),
        ("spec.containers.*.args", MergeKind.ATOMIC, (), ""),
        ("spec.nodeSelector", MergeKind.ATOMIC, (), ""),
        ("spec.topologySpreadConstraints", MergeKind.KEYED, ("topologyKey", "whenUnsatisfiable"), "topologyKey"),
        ("metadata.finalizers", MergeKind.SET, (), ""),
        ("metadata.ownerReferences", MergeKind.KEYED, ("uid",), "uid"),
        ("metadata.ownerReferences.*", MergeKind.ATOMIC, (), ""),
        ("metadata.labels", MergeKind.MEMBERS, (), ""),
        ("status.hostIPs", MergeKind.ATOMIC, (), "ip"),
    ],
)
def test_merge_schemas(path: str, kind: MergeKind, keys: tuple[str, ...], patch_key: str) -> None:
    found = at("core.v1.Pod", path)
    assert (found.shape, found.keys, found.patch_key) == (kind, keys, patch_key)


def test_a_key_that_may_be_left_out_has_its_default() -> None:
    assert at("core.v1.Pod", "spec.containers.*.ports").key_defaults == {"protocol": "TCP"}
