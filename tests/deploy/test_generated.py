"""Files under `deploy/` are as the declaration says, and the declaration makes sense."""

from pathlib import Path

import pytest

from ullage.cli.install import COMPONENT_NAMES, FEATURE_NAMES
from ullage.cli.main import VERBS, run
from ullage.deploy.__main__ import main, wanted
from ullage.deploy.component import Component, ComponentSpec, Feature, RbacRule
from ullage.deploy.components import COMPONENTS

DEPLOY = Path(__file__).parents[2] / "deploy"
SPECS = [pytest.param(spec, id=str(name)) for name, spec in COMPONENTS.items()]


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(DEPLOY))) for path in wanted(DEPLOY)])
def test_a_generated_file_is_as_the_code_says(path: Path) -> None:
    assert path.read_text() == wanted(DEPLOY)[path], "run `make format`"


def test_a_difference_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", str(tmp_path)]) == 1
    assert "agent/rbac.yaml is not as the code says" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0


def test_the_command_knows_all_components_and_features() -> None:
    assert tuple(Component) == COMPONENT_NAMES
    assert tuple(Feature) == FEATURE_NAMES


@pytest.mark.parametrize("spec", SPECS)
def test_a_component_is_a_verb_of_the_program(spec: ComponentSpec) -> None:
    assert spec.arguments[0] in VERBS


@pytest.mark.parametrize("spec", SPECS)
def test_a_verb_is_granted_once(spec: ComponentSpec) -> None:
    """A verb that two rules grant could be taken from one of them, and no test would see it."""
    seen: dict[tuple[str, str, str, str, tuple[str, ...]], RbacRule] = {}
    for rule in spec.rules:
        for resource in rule.resources:
            for verb in rule.verbs:
                key = (rule.group, resource, verb, rule.scope.value, rule.names)
                other = seen.setdefault(key, rule)
                both_optional = other.feature is not rule.feature and None not in (other.feature, rule.feature)
                assert other is rule or both_optional, f"{key}: {other.why} / {rule.why}"


@pytest.mark.parametrize("spec", SPECS)
def test_no_rule_is_a_wildcard(spec: ComponentSpec) -> None:
    for rule in spec.rules:
        assert "*" not in (rule.group, *rule.resources, *rule.verbs), rule
        assert "impersonate" not in rule.verbs
        assert not {"escalate", "bind"} & set(rule.verbs)


def test_leases_are_written_only_in_the_namespace_of_the_installation() -> None:
    for spec in COMPONENTS.values():
        for rule in spec.rules:
            assert "leases" not in rule.resources or rule.scope.value == "namespace", spec.name


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(("--only", "schedular"), "schedular", id="unknown-component"),
        pytest.param(("--definitions-only", "--only", "agent"), "leave --only out", id="both"),
        pytest.param(("--settings", "/no/such/file"), "/no/such/file", id="no-settings"),
    ],
)
def test_wrong_options_are_named(arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["install", *arguments]) != 0
    assert says in capsys.readouterr().err
