"""Sources of a setting: default < file < environment < flag, and a mistake in any of them is named."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ullage.cli.controller import command
from ullage.cli.setting_options import read_options
from ullage.config.declaration import declared, sections, variable
from ullage.config.environment import environment_settings
from ullage.config.settings import Settings
from ullage.config.yaml_document import SettingsError
from ullage.errors import UserError

FILE = "draining: {scanInterval: 2s, candidateLabels: {a: file, b: file}}\n"
VARIABLES = {"ULLAGE_DRAINING_SCAN_INTERVAL": "3s", "ULLAGE_DRAINING_CANDIDATE_LABELS": "a=variable"}
FLAGS = ("--scan-interval=4s", "--drain-candidate-label=c=flag")


def read(folder: Path, text: str, variables: Mapping[str, str], *flags: str) -> Settings:
    file = folder / "settings.yaml"
    file.write_text(text)
    with command.make_context("controller", ["--settings", str(file), *flags]) as context:
        return read_options(context.params, variables)


@pytest.mark.parametrize(
    ("text", "variables", "flags", "interval", "labels"),
    [
        pytest.param("", {}, (), 5.0, {}, id="default"),
        pytest.param(FILE, {}, (), 2.0, {"a": "file", "b": "file"}, id="file-over-default"),
        pytest.param(FILE, VARIABLES, (), 3.0, {"a": "variable", "b": "file"}, id="environment-over-file"),
        pytest.param(
            FILE, VARIABLES, FLAGS, 4.0, {"a": "variable", "b": "file", "c": "flag"}, id="flag-over-environment"
        ),
        pytest.param(FILE, {}, FLAGS, 4.0, {"a": "file", "b": "file", "c": "flag"}, id="flag-over-file"),
    ],
)
def test_the_stronger_source_counts_and_mappings_add_up(
    tmp_path: Path,
    text: str,
    variables: Mapping[str, str],
    flags: tuple[str, ...],
    interval: float,
    labels: Mapping[str, str],
) -> None:
    draining = read(tmp_path, text, variables, *flags).draining
    assert (draining.scan_interval, draining.candidate_labels) == (interval, labels)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        pytest.param(
            {"ULLAGE_DRAINING_SCAN_INTERVAL": "soon"},
            "ULLAGE_DRAINING_SCAN_INTERVAL: is 'soon'; allowed: a time such as 30s, 10m or 1h30m, or a number of "
            "seconds",
            id="a-bad-value",
        ),
        pytest.param(
            {"ULLAGE_DRAINING_SCAN_INTERVALL": "5s"},
            "ULLAGE_DRAINING_SCAN_INTERVALL: there is no such setting; did you mean ULLAGE_DRAINING_SCAN_INTERVAL?",
            id="misspelled",
        ),
        pytest.param(
            {"ULLAGE_KARPENTER_NODE_POOLS": '{"x": {"gpuModel": "T4"}}'},
            "ULLAGE_KARPENTER_NODE_POOLS: x.nodePool: is missing",
            id="inside-of-json",
        ),
        pytest.param(
            {"ULLAGE_SCHEDULING_POLICY": "sprad"},
            "ULLAGE_SCHEDULING_POLICY: is 'sprad'; allowed: fragmentation, best-fit, packing, spread, random; "
            "did you mean spread?",
            id="a-word-misspelled",
        ),
    ],
)
def test_a_mistake_in_the_environment_is_named(variables: Mapping[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        environment_settings(variables)
    assert str(raised.value) == said


@pytest.mark.parametrize(
    "name", ["ULLAGE_SCHEDULING_SERVICE_HOST", "ULLAGE_SCHEDULING_PORT_443_TCP_ADDR", "ULLAGE_CONTROLPLANE_BIN", "PATH"]
)
def test_variables_of_others_are_left_alone(name: str) -> None:
    assert environment_settings({name: "x"}) == ()


def test_a_law_names_the_source_that_broke_it(tmp_path: Path) -> None:
    text = "draining: {maxScaleDownParallelism: 5}\n"
    with pytest.raises(UserError, match=r"^--max-drain-parallelism: is 6; allowed: at most .*\(5\)$"):
        read(tmp_path, text, {}, "--max-drain-parallelism=6")
    with pytest.raises(UserError, match=r"^ULLAGE_DRAINING_MAX_DRAIN_PARALLELISM: is 6"):
        read(tmp_path, text, {"ULLAGE_DRAINING_MAX_DRAIN_PARALLELISM": "6"})


def test_no_two_settings_share_a_flag_or_a_variable() -> None:
    every = [(name, one) for name, section in sections(Settings) for one in declared(section) if name != "simulation"]
    flags = [flag for _, one in every for flag in (one.flag, *one.old_flags) if flag]
    assert sorted(flags) == sorted(set(flags))
    variables = [variable(name, one) for name, one in every]
    assert sorted(variables) == sorted(set(variables))


def test_every_default_is_a_value_its_type_allows() -> None:
    for name, section in sections(Settings):
        for one in declared(section):
            assert one.values.read(one.values.write(one.default)) == one.default, f"{name}.{one.name}"
