"""The settings file: what is right is taken, and what is wrong is named by file, line, setting and what is allowed."""

from pathlib import Path

import pytest

from ullage.config.declaration import declared, sections
from ullage.config.docs import as_yaml, settings_page
from ullage.config.loading import all_paths, load_settings, override, read_settings
from ullage.config.reload import changes
from ullage.config.settings import Settings
from ullage.config.yaml_document import SettingsError


def problems(text: str) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        read_settings(text, "policy.yaml")
    return [str(problem) for problem in raised.value.problems]


@pytest.mark.parametrize("text", ["", "# nothing\n", "scheduling:\n", "scheduling: {}\n"])
def test_what_a_file_does_not_say_is_as_by_default(text: str) -> None:
    assert read_settings(text, "policy.yaml") == Settings()


def test_defaults_as_they_are_printed_read_back_the_same() -> None:
    assert read_settings(as_yaml(Settings()), "printed") == Settings()


def test_a_file_is_taken() -> None:
    settings = read_settings(
        "scheduling:\n  policy: packing\n  profiles: {batch: spread}\n  maxUnschedulableDuration: 1h30m\n"
        "provisioning:\n  maxGpus: 64\n  maxPricePerHour: 98.32\n  providers: {aws: {cluster: prod}}\n"
        "draining: {utilizationThreshold: 0.25}\n"
        "simulation:\n  loops: [provisioning, scheduler]\n",
        "policy.yaml",
    )
    assert settings.scheduling.policies() == {"gpu-scheduler": "packing", "batch": "spread"}
    assert settings.scheduling.max_unschedulable_duration == 5400.0
    assert (settings.provisioning.max_gpus, settings.provisioning.max_price_per_hour) == (64, 98_320_000)
    assert settings.provisioning.providers == {"aws": {"cluster": "prod"}}
    assert settings.draining.utilization_threshold == 0.25
    assert settings.simulation.loops == ("scheduler", "provisioning"), "in the order of the list"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "scheduling:\n  policy: packng\n",
            "policy.yaml:2: scheduling.policy: is 'packng'; allowed: fragmentation, best-fit, packing, spread, random; "
            "did you mean packing?",
            id="a-word-of-a-list-misspelled",
        ),
        pytest.param(
            "\n\nschedulng: {}\n",
            "policy.yaml:3: schedulng: there is no such section; allowed: scheduling, provisioning, draining, "
            "karpenter, vmagent, vms, dashboard, simulation; did you mean scheduling?",
            id="an-unknown-section",
        ),
        pytest.param(
            "scheduling: {releaseLeases: 'yes'}\n",
            "policy.yaml:1: scheduling.releaseLeases: is 'yes'; allowed: true or false",
            id="a-text-for-a-switch",
        ),
        pytest.param(
            "scheduling: {maxBindParallelism: 0}\n",
            "policy.yaml:1: scheduling.maxBindParallelism: is 0; allowed: a whole number, from 1 to 1024",
            id="below-the-least",
        ),
        pytest.param(
            "scheduling: {maxBindParallelism: 1.5}\n",
            "policy.yaml:1: scheduling.maxBindParallelism: is 1.5; allowed: a whole number, from 1 to 1024",
            id="a-part-of-a-whole-number",
        ),
        pytest.param(
            "scheduling: {initialBackoff: soon}\n",
            "policy.yaml:1: scheduling.initialBackoff: is 'soon'; allowed: a time such as 30s, 10m or 1h30m, or a "
            "number of seconds",
            id="not-a-time",
        ),
        pytest.param(
            "draining: {utilizationThreshold: 50}\n",
            "policy.yaml:1: draining.utilizationThreshold: is 50; allowed: a number from 0 to 1",
            id="a-percentage-for-a-share",
        ),
        pytest.param(
            "provisioning: {maxPricePerHour: cheap}\n",
            "policy.yaml:1: provisioning.maxPricePerHour: is 'cheap'; allowed: a price such as 1500 or 98.32, or null "
            "for no limit",
            id="not-a-price",
        ),
        pytest.param(
            "scheduling:\n  profiles:\n    batch: sprad\n",
            "policy.yaml:2: scheduling.profiles: batch: is 'sprad'; allowed: fragmentation, best-fit, packing, spread, "
            "random; did you mean spread?, or null for a scheduler that is not served",
            id="inside-a-mapping",
        ),
        pytest.param(
            "simulation: {loops: [scheduler, drain]}\n",
            "policy.yaml:1: simulation.loops: has 'drain'; allowed: a list of scheduler, provisioning, draining; did "
            "you mean draining?",
            id="inside-a-list",
        ),
        pytest.param(
            "draining:\n  maxScaleDownParallelism: 5\n  maxDrainParallelism: 6\n",
            "policy.yaml:3: draining.maxDrainParallelism: is 6; allowed: at most draining.maxScaleDownParallelism (5)",
            id="a-law-between-two",
        ),
        pytest.param("scheduling: 3\n", "policy.yaml:1: scheduling: is 3 and not a section", id="no-section"),
        pytest.param(
            "scheduling:\n  policy: spread\n  policy: packing\n",
            "policy.yaml:3: scheduling.policy: is given twice; keep one",
            id="twice",
        ),
        pytest.param(
            "- 1\n",
            "policy.yaml:1: is a list; give scheduling, provisioning, draining, karpenter, vmagent, vms, dashboard, "
            "simulation",
            id="list",
        ),
        pytest.param(
            "a: [\n", "policy.yaml:2: is not YAML: expected the node content, but found '<stream end>'", id="no-yaml"
        ),
        pytest.param("{}\n---\n{}\n", "policy.yaml:3: has a second document; give one", id="two-documents"),
        pytest.param("a: &a [*a]\n", "policy.yaml: is nested too deep, or within itself", id="within-itself"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    assert problems(text) == [said]


def test_all_that_is_wrong_is_said_at_once_in_the_order_of_lines() -> None:
    said = problems("simulation: {load: 0}\nscheduling:\n  polcy: x\n  releaseLeases: 1\n")
    assert [line.split(": ")[1] for line in said] == ["simulation.load", "scheduling.polcy", "scheduling.releaseLeases"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.yaml: no such file"):
        load_settings(tmp_path / "nowhere.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="not UTF-8"):
        load_settings(tmp_path / "binary.yaml")


def test_one_setting_changed_by_its_path() -> None:
    changed = override(Settings(), "scheduling.policy", "spread", "--sweep")
    assert changed.scheduling.policy == "spread"
    with pytest.raises(SettingsError, match=r"--sweep: scheduling\.policy: is 'sprad'; .* did you mean spread\?"):
        override(Settings(), "scheduling.policy", "sprad", "--sweep")
    with pytest.raises(SettingsError, match=r"--sweep: scheduling\.polcy: there is no such setting; .* mean policy\?"):
        override(Settings(), "scheduling.polcy", "spread", "--sweep")
    with pytest.raises(SettingsError, match=r"--sweep: polcy: there is no such setting"):
        override(Settings(), "polcy", "spread", "--sweep")
    with pytest.raises(SettingsError, match="maxDrainParallelism"):
        override(Settings(), "draining.maxDrainParallelism", "101", "--sweep")


def test_a_reload_is_what_differs() -> None:
    assert changes(Settings(), Settings()) == ()
    new = override(Settings(), "scheduling.leaseNamespace", "gpus", "")
    new = override(override(new, "scheduling.policy", "packing", ""), "draining.unremovableRecheckTimeout", "1m", "")
    assert list(map(str, changes(Settings(), new))) == [
        "scheduling.policy: fragmentation -> packing",
        "scheduling.leaseNamespace: ullage-system -> gpus (needs a restart)",
        "draining.unremovableRecheckTimeout: 5m -> 1m",
    ]


def test_every_setting_is_documented() -> None:
    page = settings_page()
    for path in all_paths():
        assert f"| `{path}`" in page
    for _, section in sections(Settings):
        assert all(one.doc.endswith(".") and one.values.allowed for one in declared(section))
